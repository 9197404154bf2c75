// Σₘ dₘ Kₘ of symmetric matrices that are in memory, for one d after another.
#pragma once

#include <span>
#include <vector>

#include "core.hpp"

namespace mercer {

// For each d the sum has its rows made when they are read, and Kₘβ is kept for every m: a solve
// that begins at that β knows (Σₘ dₘ Kₘ)β for any d, and what it moves is all that has to be added.
// So the matrices are read in the rows of what moves, and nowhere else.
class MatrixSum {
 public:
  // n × n each, held by reference.
  MatrixSum(std::vector<const double*> matrices, Index n);

  Index size() const { return n_; }
  Index count() const { return static_cast<Index>(matrices_.size()); }

  // Another d: none of the rows is there any more.
  void weigh(std::span<const double> weights);
  // All rows at once, from one half of each matrix.
  void make_all(double* all, const Poll&);
  void make(Index i, double* all);
  void write(Index i, double* to) const;  // row i
  std::span<const std::uint8_t> missing() const { return missing_; }
  std::vector<double> diagonal() const;
  // sums = (Σₘ dₘ Kₘ)β. Returns by how much β is not what Kₘβ is known of.
  std::vector<double> sum(std::span<const double> beta, double* all, double* sums);
  // out = Σₘ dₘ Kₘ among different points.
  void among(std::span<const Index> points, double* all, double* out);

  // Kₘβ for every m, by the rows of what is not as it was.
  void move(std::span<const double> beta, const Poll&);
  // Kₘβ, m after m.
  std::span<const double> images() const { return images_; }

  // What the rounding of Kₘβ hangs on: Σ|Δβ| over all that was added to it, and how many were.
  double moved() const { return moved_; }
  Index additions() const { return additions_; }

 private:
  struct Change {
    std::vector<Index> points;
    std::vector<double> factor;
  };
  Change change_to(std::span<const double> beta) const;

  std::vector<const double*> matrices_;
  Index n_;
  std::vector<const double*> used_;  // those with dₘ ≠ 0
  std::vector<double> weights_;      // of these
  std::vector<std::uint8_t> missing_;
  std::vector<double> beta_, images_;
  std::vector<double> all_weights_;
  double moved_ = 0;
  Index additions_ = 0;
};

// The rows of the sum for a solver, which holds the matrix that they are made in.
class RowsOfSum final : public Rows<double>, public RowsOnDemand<double> {
 public:
  explicit RowsOfSum(MatrixSum& sum);
  RowsOnDemand<double>* on_demand() override { return this; }
  void add(std::span<const Index> which, std::span<const double> factor,
           std::span<double* const> keep, double* sums) override;
  void among(std::span<const Index> which, std::span<double> out) override;
  std::span<const std::uint8_t> missing() const override { return sum_.missing(); }
  void make(Index i, double* all) override { sum_.make(i, all); }
  std::vector<double> sum(std::span<const double> beta, double* all, double* sums) override {
    return sum_.sum(beta, all, sums);
  }

 private:
  MatrixSum& sum_;
};

}  // namespace mercer
