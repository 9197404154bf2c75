// The problems of many pairs of classes, solved side by side.
#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "smo.hpp"

namespace mercer {

// Where the kernel values of points in classes come from.
template <class T>
struct Classes {
  virtual ~Classes() = default;
  virtual Index size(Index c) const = 0;
  virtual double cost() const = 0;
  // The rows of the points of two classes, one after the other.
  virtual std::unique_ptr<Rows<T>> rows(Index a, Index b, const Poll&) const = 0;
  // Makes what many small problems share, if it takes no more than so many bytes.
  virtual void prepare(double /*bytes*/, int /*workers*/, const Poll&) {}
};

// Of a compiled kernel, on points that are packed class by class.
template <class T>
class PointClasses final : public Classes<T> {
 public:
  // `origin` is, for each class, which of the originals its points are.
  PointClasses(const Recipe&, std::vector<const Points<T>*> classes, const Originals*,
               std::vector<std::span<const Index>> origin);
  Index size(Index c) const override { return classes_[c]->n; }
  double cost() const override;
  std::unique_ptr<Rows<T>> rows(Index a, Index b, const Poll&) const override;
  void prepare(double bytes, int workers, const Poll&) override;

 private:
  Recipe recipe_;
  std::vector<const Points<T>*> classes_;
  const Originals* originals_;
  std::vector<std::span<const Index>> origin_;
  std::vector<Buffer<T>> own_;  // K of each class, or empty
};

// From the matrix of all points, n × n; `members` are those of each class.
template <class T>
class MatrixClasses final : public Classes<T> {
 public:
  MatrixClasses(const T* matrix, Index n, std::vector<std::span<const Index>> members)
      : matrix_(matrix), n_(n), members_(std::move(members)) {}
  Index size(Index c) const override { return static_cast<Index>(members_[c].size()); }
  double cost() const override { return 1; }
  std::unique_ptr<Rows<T>> rows(Index a, Index b, const Poll&) const override;

 private:
  const T* matrix_;
  Index n_;
  std::vector<std::span<const Index>> members_;
};

// Problems of two classes each: the variables of one pair after those of another, and in a pair
// those of the second class after those of the first.
struct PairPrograms {
  std::vector<std::pair<Index, Index>> pairs;
  std::span<const double> target, lower, upper;
  std::span<const double> totals;     // two for each pair: of all its variables, or of either class
  bool grouped = false;               // whether either class has a total of its own
  bool bias = true;                   // without one there is no total
  std::span<double> value, function;  // β and Kβ, written here; β is the start, where it is near
};

struct PairOutcome {
  bool indefinite = false;
  Status status = Status::optimal;
  Index iterations = 0, rows = 0, hits = 0;
  double seconds = 0;
  double moved = 0;   // as in Result, where F was not summed afresh
  double tidied = 0;  // Σ|Δβ| of β set to a bound or balanced, which F does not know of
  double missed = 0;  // |Σβ - total|, of both groups together
};

// β within a relative 1e-13 of a bound is set to it, and the sums of β are exact: what rounding
// left is taken away.
template <class T>
std::vector<PairOutcome> solve(Classes<T>&, const PairPrograms&, const Options&, const Poll&);

}  // namespace mercer
