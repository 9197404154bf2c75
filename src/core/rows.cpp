#include "rows.hpp"

#include <algorithm>
#include <memory>

#include "threads.hpp"

namespace mercer {
namespace {

// By rows that are in double themselves.
class SumsOfRows final : public ExactSums {
 public:
  explicit SumsOfRows(Rows<double>& rows) : rows_(rows) {}
  void sum(std::span<const Index> which, std::span<const double> factor, bool themselves,
           std::span<const Index> others, double* sums) override {
    std::vector<double*> nowhere(which.size(), nullptr);
    std::vector<double> all(static_cast<std::size_t>(rows_.size()), 0.0);
    rows_.add(which, factor, nowhere, all.data());
    for (std::size_t a = 0; themselves && a < which.size(); ++a) *sums++ = all[which[a]];
    for (Index i : others) *sums++ = all[i];
  }

 private:
  Rows<double>& rows_;
};

// Of a matrix that is there: an entry costs nothing, and in double there are sums in double.
template <class T>
RowFacts<T> facts_of([[maybe_unused]] Rows<T>& rows) {
  RowFacts<T> facts;
  if constexpr (sizeof(T) == 8) facts.exact = std::make_unique<SumsOfRows>(rows);
  return facts;
}

template <class T>
RowFacts<T> held(RowFacts<T> facts) {
  facts.cost = RowFacts<T>{}.cost;
  return facts;
}

template <class T>
std::vector<T> diagonal_of(const T* matrix, Index n) {
  std::vector<T> values;
  for (Index i = 0; i < n; ++i) values.push_back(matrix[i * n + i]);
  return values;
}

template <class T>
std::vector<T> diagonal_of(const T* matrix, Index n, const std::vector<Index>& points) {
  std::vector<T> values;
  for (Index i : points) values.push_back(matrix[i * n + i]);
  return values;
}

// Sums of rows that are at hand, and copies of those that are wanted.
template <class T>
void add_and_keep(std::span<const T* const> rows, std::span<const double> factor,
                  std::span<T* const> keep, Index n, double* sums) {
  for (std::size_t r = 0; r < rows.size(); ++r) {
    if (keep[r]) std::copy_n(rows[r], n, keep[r]);
  }
  add_all<T>(rows, factor, n, sums);
}

// The same of some rows of a matrix.
template <class T>
void add_of_matrix(const T* matrix, Index n, std::span<const Index> which,
                   std::span<const double> factor, std::span<T* const> keep, double* sums) {
  std::vector<const T*> rows;
  for (Index i : which) rows.push_back(matrix + i * n);
  add_and_keep<T>(rows, factor, keep, n, sums);
}

}  // namespace

template <class T>
void add_all(std::span<const T* const> rows, std::span<const double> factor, Index n,
             double* sums) {
  if (rows.empty()) return;
  // Sums that stay in the L2 cache: rows are read faster in long runs.
  constexpr Index longest = 16384, shared = 2048;
  int workers = static_cast<double>(n) * static_cast<double>(rows.size()) < 2e5 ? 1 : threads();
  Index run = workers == 1 ? longest : shared;
  auto task = [&](Index number, int) {
    Index from = number * run;
    loops<T>().add_rows(sums, rows.data(), factor.data(), static_cast<Index>(rows.size()), from,
                        std::min(n, from + run));
  };
  parallel((n + run - 1) / run, workers, task, {});
}

template <class T>
DenseRows<T>::DenseRows(const T* matrix, Index n)
    : Rows<T>(diagonal_of(matrix, n), facts_of<T>(*this)), matrix_(matrix) {}

template <class T>
void DenseRows<T>::add(std::span<const Index> which, std::span<const double> factor,
                       std::span<T* const> keep, double* sums) {
  add_of_matrix(matrix_, this->size(), which, factor, keep, sums);
}

template <class T>
void DenseRows<T>::among(std::span<const Index> which, std::span<T> out) {
  // Rows are far from each other in memory: each pair is read once, and then turned over, square by
  // square.
  constexpr Index side = 32;
  Index q = static_cast<Index>(which.size()), n = this->size();
  T* to = out.data();
  Index same = 0;
  while (same < q && which[same] == same) ++same;
  if (same == n) {
    std::copy_n(matrix_, n * n, to);
    return;
  }
  for (Index a = 0; a < q; ++a) {
    const T* row = matrix_ + which[a] * n;
    for (Index b = a; b < q; ++b) to[a * q + b] = row[which[b]];
  }
  for (Index a0 = 0; a0 < q; a0 += side) {
    for (Index b0 = 0; b0 <= a0; b0 += side) {
      for (Index a = a0; a < std::min(q, a0 + side); ++a) {
        for (Index b = b0; b < std::min(a, b0 + side); ++b) to[a * q + b] = to[b * q + a];
      }
    }
  }
}

template <class T>
HeldRows<T>::HeldRows(const T* matrix, const Recipe& recipe, const Points<T>& points, Poll poll,
                      const Originals* originals, std::pair<Index, Index> later)
    : Rows<T>(diagonal_of(matrix, points.n), held(facts_of(recipe, points, poll, originals))),
      matrix_(matrix),
      recipe_(recipe),
      points_(points),
      poll_(std::move(poll)),
      later_(later),
      due_(static_cast<std::size_t>(points.n), 0.0) {}

template <class T>
void HeldRows<T>::add(std::span<const Index> which, std::span<const double> factor,
                      std::span<T* const> keep, double* sums) {
  Index n = this->size();
  auto [first, last] = later_;
  if (first == last) return add_of_matrix(matrix_, n, which, factor, keep, sums);
  std::vector<const T*> rows;
  for (std::size_t r = 0; r < which.size(); ++r) {
    rows.push_back(matrix_ + which[r] * n);
    due_[which[r]] += factor[r];
    if (keep[r]) std::copy_n(rows.back(), n, keep[r]);
  }
  add_all<T>(rows, factor, first, sums);
  for (auto& row : rows) row += last;
  add_all<T>(rows, factor, n - last, sums + last);
}

template <class T>
void HeldRows<T>::complete(double* sums) {
  auto [first, last] = later_;
  std::vector<const T*> rows;
  std::vector<double> factor;
  for (Index i = 0; i < this->size(); ++i) {
    if (due_[i] == 0) continue;
    rows.push_back(matrix_ + i * this->size() + first);
    factor.push_back(std::exchange(due_[i], 0.0));
  }
  add_all<T>(rows, factor, last - first, sums + first);
}

template <class T>
void HeldRows<T>::among(std::span<const Index> which, std::span<T> out) {
  block(recipe_, points_.take(which), out.data(), poll_);
}

template <class T>
PickedRows<T>::PickedRows(const T* matrix, Index n, std::vector<Index> points)
    : Rows<T>(diagonal_of(matrix, n, points), facts_of<T>(*this)),
      matrix_(matrix),
      n_(n),
      points_(std::move(points)) {}

template <class T>
void PickedRows<T>::add(std::span<const Index> which, std::span<const double> factor,
                        std::span<T* const> keep, double* sums) {
  for (std::size_t r = 0; r < which.size(); ++r) {
    const T* row = matrix_ + points_[which[r]] * n_;
    for (std::size_t j = 0; j < points_.size(); ++j) {
      sums[j] += factor[r] * static_cast<double>(row[points_[j]]);
    }
    for (std::size_t j = 0; keep[r] && j < points_.size(); ++j) keep[r][j] = row[points_[j]];
  }
}

template <class T>
void PickedRows<T>::among(std::span<const Index> which, std::span<T> out) {
  T* to = out.data();
  for (Index i : which) {
    const T* row = matrix_ + points_[i] * n_;
    for (Index j : which) *to++ = row[points_[j]];
  }
}

template <class T>
CallbackRows<T>::CallbackRows(std::vector<T> diagonal, Fill fill)
    : Rows<T>(std::move(diagonal), RowFacts<T>{1e6}), fill_(std::move(fill)) {}

template <class T>
void CallbackRows<T>::add(std::span<const Index> which, std::span<const double> factor,
                          std::span<T* const> keep, double* sums) {
  if (which.empty()) return;
  std::size_t n = static_cast<std::size_t>(this->size());
  std::vector<T> made(which.size() * n);
  fill_(which, false, made.data());
  std::vector<const T*> rows;
  for (std::size_t r = 0; r < which.size(); ++r) rows.push_back(made.data() + r * n);
  add_and_keep<T>(rows, factor, keep, this->size(), sums);
}

template <class T>
void CallbackRows<T>::among(std::span<const Index> which, std::span<T> out) {
  if (!which.empty()) fill_(which, true, out.data());
}

#define MERCER_ROWS_OF(T)                                                                    \
  template void add_all(std::span<const T* const>, std::span<const double>, Index, double*); \
  template class DenseRows<T>;                                                               \
  template class HeldRows<T>;                                                                \
  template class PickedRows<T>;                                                              \
  template class CallbackRows<T>;
MERCER_ROWS_OF(float)
MERCER_ROWS_OF(double)

}  // namespace mercer
