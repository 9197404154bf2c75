#include "matrix_sum.hpp"

#include <algorithm>
#include <cmath>

#include "rows.hpp"
#include "threads.hpp"

namespace mercer {
namespace {

constexpr Index strip = 8;     // rows of a sum that are made together
constexpr double alone = 2e5;  // numbers that one thread reads in no time

}  // namespace

MatrixSum::MatrixSum(std::vector<const double*> matrices, Index n)
    : matrices_(std::move(matrices)),
      n_(n),
      missing_(static_cast<std::size_t>(n), 1),
      beta_(static_cast<std::size_t>(n), 0.0),
      images_(static_cast<std::size_t>(n) * matrices_.size(), 0.0),
      all_weights_(matrices_.size(), 0.0) {}

void MatrixSum::weigh(std::span<const double> weights) {
  all_weights_.assign(weights.begin(), weights.end());
  used_.clear();
  weights_.clear();
  for (std::size_t m = 0; m < weights.size(); ++m) {
    if (weights[m] == 0) continue;
    used_.push_back(matrices_[m]);
    weights_.push_back(weights[m]);
  }
  std::fill(missing_.begin(), missing_.end(), std::uint8_t{1});
}

std::vector<double> MatrixSum::diagonal() const {
  std::vector<double> values(static_cast<std::size_t>(n_), 0.0);
  for (std::size_t m = 0; m < used_.size(); ++m) {
    for (Index i = 0; i < n_; ++i) values[i] += weights_[m] * used_[m][i * n_ + i];
  }
  return values;
}

void MatrixSum::write(Index i, double* to) const {
  std::vector<const double*> rows;
  for (const double* matrix : used_) rows.push_back(matrix + i * n_);
  std::fill_n(to, n_, 0.0);
  loops<double>().add_rows(to, rows.data(), weights_.data(), static_cast<Index>(rows.size()), 0,
                           n_);
}

void MatrixSum::make(Index i, double* all) {
  write(i, all + i * n_);
  missing_[i] = 0;
}

void MatrixSum::make_all(double* all, const Poll& poll) {
  Index strips = (n_ + strip - 1) / strip;
  auto work = [&](Index number, int) {
    Index first = number * strip, last = std::min(n_, first + strip);
    std::vector<const double*> rows(used_.size());
    for (Index i = first; i < last; ++i) {
      for (std::size_t m = 0; m < used_.size(); ++m) rows[m] = used_[m] + i * n_;
      std::fill(all + i * n_ + first, all + (i + 1) * n_, 0.0);
      loops<double>().add_rows(all + i * n_, rows.data(), weights_.data(),
                               static_cast<Index>(rows.size()), first, n_);
    }
    // A cache line of each row below is written at once.
    for (Index j = first; j < n_; ++j) {
      for (Index i = first; i < std::min(last, j); ++i) all[j * n_ + i] = all[i * n_ + j];
    }
  };
  double size = static_cast<double>(n_) * static_cast<double>(n_ * count());
  parallel(strips, size < alone ? 1 : threads(), work, poll);
  std::fill(missing_.begin(), missing_.end(), std::uint8_t{0});
}

MatrixSum::Change MatrixSum::change_to(std::span<const double> beta) const {
  Change change;
  for (Index i = 0; i < n_; ++i) {
    if (beta[i] == beta_[i]) continue;
    change.points.push_back(i);
    change.factor.push_back(beta[i] - beta_[i]);
  }
  return change;
}

std::vector<double> MatrixSum::sum(std::span<const double> beta, double* all, double* sums) {
  std::fill_n(sums, n_, 0.0);
  for (Index m = 0; m < count(); ++m) {
    const double *from = images_.data() + m * n_, weight = all_weights_[m];
    for (Index j = 0; weight != 0 && j < n_; ++j) sums[j] += weight * from[j];
  }
  Change change = change_to(beta);
  std::vector<const double*> rows;
  for (Index i : change.points) {
    if (missing_[i]) make(i, all);
    rows.push_back(all + i * n_);
  }
  add_all<double>(rows, change.factor, n_, sums);
  return change.factor;
}

void MatrixSum::among(std::span<const Index> points, double* all, double* out) {
  for (Index i : points) {
    if (missing_[i]) make(i, all);
    const double* row = all + i * n_;
    for (Index j : points) *out++ = row[j];
  }
}

void MatrixSum::move(std::span<const double> beta, const Poll& poll) {
  Change change = change_to(beta);
  if (change.points.empty()) return;
  auto work = [&](Index m, int) {
    std::vector<const double*> rows;
    for (Index i : change.points) rows.push_back(matrices_[m] + i * n_);
    loops<double>().add_rows(images_.data() + m * n_, rows.data(), change.factor.data(),
                             static_cast<Index>(rows.size()), 0, n_);
  };
  double size = static_cast<double>(n_) * static_cast<double>(count()) *
                static_cast<double>(change.points.size());
  parallel(count(), size < alone ? 1 : threads(), work, poll);
  for (double by : change.factor) moved_ += std::abs(by);
  additions_ += static_cast<Index>(change.points.size());
  beta_.assign(beta.begin(), beta.end());
}

RowsOfSum::RowsOfSum(MatrixSum& sum)
    : Rows<double>(sum.diagonal(), RowFacts<double>{}), sum_(sum) {}

void RowsOfSum::add(std::span<const Index> which, std::span<const double> factor,
                    std::span<double* const> keep, double* sums) {
  std::vector<double> row(static_cast<std::size_t>(size()));
  for (std::size_t r = 0; r < which.size(); ++r) {
    sum_.write(which[r], row.data());
    for (std::size_t j = 0; j < row.size(); ++j) sums[j] += factor[r] * row[j];
    if (keep[r]) std::copy(row.begin(), row.end(), keep[r]);
  }
}

void RowsOfSum::among(std::span<const Index> which, std::span<double> out) {
  std::vector<double> row(static_cast<std::size_t>(size()));
  double* to = out.data();
  for (Index i : which) {
    sum_.write(i, row.data());
    for (Index j : which) *to++ = row[j];
  }
}

}  // namespace mercer
