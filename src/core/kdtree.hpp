// A k-d tree: the nearest of many points in few dimensions, most of them never looked at.
#pragma once

#include <vector>

#include "nearest.hpp"

namespace mercer {

// Bentley, Communications of the ACM 18 (1975): each node halves its points at the median of the
// coordinate in which they are widest, and knows the box they fill.
class KdTree {
 public:
  template <class T>  // float or double; finite numbers
  explicit KdTree(const DenseArray<T>& points, const Poll& = {});

  Index size() const { return n_; }
  Index dimension() const { return d_; }
  std::size_t bytes() const;

  // The keys and indices of `nearest` for the part square or absolute, number for number. Returns
  // how many nodes and blocks of points were looked at, in all.
  template <class T>
  Index nearest(Part part, const DenseArray<T>& X, Index count, const Index* own, double* key,
                Index* index, const Poll& = {}) const;

 private:
  friend struct Descent;

  Index leaves() const { return Index{1} << levels_; }
  Index leaf_of(const double* x) const;

  Index n_, d_, levels_ = 0, width_ = 0;  // width: room for the points of a leaf
  std::vector<Index> number_;             // of a point, by its place in the tree
  std::vector<Index> start_;              // (leaves + 1,): the places of their points
  std::vector<double> value_;             // (leaves, d, width)
  std::vector<double> box_;               // (nodes, 2, d): least and largest coordinates
  std::vector<Index> least_;              // (nodes,): the least number of its points
  std::vector<Index> axis_;               // (inner nodes,): where they are split,
  std::vector<double> split_;             // and the least coordinate of the upper half
};

}  // namespace mercer
