// Rows of matrices that are not computed: one that is there already, some points of it, and one
// that a function makes.
#pragma once

#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "core.hpp"

namespace mercer {

// sums[j] += Σᵣ factor[r] rows[r][j] for j < n.
template <class T>
void add_all(std::span<const T* const> rows, std::span<const double> factor, Index n, double* sums);

// Of an n × n matrix, which is held by reference.
template <class T>
class DenseRows final : public Rows<T> {
 public:
  DenseRows(const T* matrix, Index n);
  void add(std::span<const Index> which, std::span<const double> factor, std::span<T* const> keep,
           double* sums) override;
  void among(std::span<const Index> which, std::span<T> out) override;

 private:
  const T* matrix_;
};

// Of the n × n matrix of k on points, which are held by reference. Values of a working set are
// computed: each would be read from another place in memory, which takes longer. Columns of a range
// that no variable is of are added once, at the end.
template <class T>
class HeldRows final : public Rows<T> {
 public:
  HeldRows(const T* matrix, const Recipe& recipe, const Points<T>& points, Poll poll,
           const Originals* originals, std::pair<Index, Index> later);
  void add(std::span<const Index> which, std::span<const double> factor, std::span<T* const> keep,
           double* sums) override;
  void among(std::span<const Index> which, std::span<T> out) override;
  void complete(double* sums) override;

 private:
  const T* matrix_;
  Recipe recipe_;
  const Points<T>& points_;
  Poll poll_;
  std::pair<Index, Index> later_;  // from this column to before that one
  std::vector<double> due_;        // factors of their rows
};

// Of some points of an n × n matrix, which is held by reference.
template <class T>
class PickedRows final : public Rows<T> {
 public:
  PickedRows(const T* matrix, Index n, std::vector<Index> points);
  void add(std::span<const Index> which, std::span<const double> factor, std::span<T* const> keep,
           double* sums) override;
  void among(std::span<const Index> which, std::span<T> out) override;

 private:
  const T* matrix_;
  Index n_;
  std::vector<Index> points_;
};

// That a function makes: fill(which, among, out) writes K[which, :] to out, or, if `among`,
// K[which, which], row after row. No sums in double: each row would be asked for once more.
template <class T>
class CallbackRows final : public Rows<T> {
 public:
  using Fill = std::function<void(std::span<const Index> which, bool among, T* out)>;
  CallbackRows(std::vector<T> diagonal, Fill fill);
  void add(std::span<const Index> which, std::span<const double> factor, std::span<T* const> keep,
           double* sums) override;
  void among(std::span<const Index> which, std::span<T> out) override;

 private:
  Fill fill_;
};

}  // namespace mercer
