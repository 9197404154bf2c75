// One class against another, for all pairs of classes: the points are packed once, a class's own
// matrix is computed once, and small problems are shared out among the threads.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <limits>
#include <numeric>
#include <stdexcept>

#include "smo.hpp"
#include "threads.hpp"

namespace mercer {
namespace {

constexpr Index alone_from = 8192;  // points of a pair that is worth all threads

// k on the points of two classes, one after the other.
template <class T>
class PairRows final : public Rows<T> {
 public:
  // `first_matrix` and `second_matrix` are K of either class, or empty; `origin` is which of the
  // originals the points are.
  PairRows(const Recipe& recipe, const Points<T>& first, const Points<T>& second,
           std::span<const T> first_matrix, std::span<const T> second_matrix, Poll poll,
           const Originals* originals, std::vector<Index> origin)
      : recipe_(recipe), first_(first), second_(second), first_matrix_(first_matrix),
        second_matrix_(second_matrix), poll_(std::move(poll)), originals_(originals),
        origin_(std::move(origin)),
        diagonal_(static_cast<std::size_t>(first.n + second.n)) {
    diag(recipe, first, diagonal_.data());
    diag(recipe, second, diagonal_.data() + first.n);
  }
  Index size() const override { return first_.n + second_.n; }
  std::span<const T> diagonal() const override { return diagonal_; }
  double cost() const override {
    return VectorRows<T>::cost_on(first_.n > second_.n ? first_ : second_);
  }

  bool sum_in_double(std::span<const Index> which, std::span<const double> factor, bool themselves,
                     std::span<const Index> others, double* sums) override {
    if (originals_) {
      auto take = [&](std::span<const Index> some) {
        std::vector<Index> places;
        for (Index i : some) places.push_back(origin_[i]);
        return originals_->take(places);
      };
      mercer::sum_in_double(recipe_, take(which), factor, themselves, take(others), sums, poll_);
    } else if constexpr (sizeof(T) == 8) {
      mercer::sum_in_double(recipe_, Points<T>::take(first_, second_, which), factor, themselves,
                            Points<T>::take(first_, second_, others), sums, poll_);
    } else {
      return false;
    }
    return true;
  }
  double typical_error() const override {
    double terms = std::sqrt(cost()), largest = std::max(first_.largest, second_.largest);
    return entry_error(recipe_, terms, largest, direct(recipe_, first_, second_));
  }

  void add(std::span<const Index> which, std::span<const double> factor, std::span<T* const> keep,
           double* sums) override {
    if (which.empty()) return;
    bool only_rows = by_products(recipe_, first_, second_);
    Points<T> X = Points<T>::take(first_, second_, which, only_rows);
    std::vector<Index> own;
    std::vector<T> value;
    std::vector<T*> out(keep.begin(), keep.end());
    for (Index i : which) {
      own.push_back(i < first_.n ? i : -1);
      value.push_back(diagonal_[i]);
    }
    add_rows_of<T>(recipe_, X, first_, {factor, out, own, value}, sums, poll_);
    for (std::size_t r = 0; r < which.size(); ++r) {
      own[r] = which[r] - first_.n;
      if (out[r]) out[r] += first_.n;
    }
    add_rows_of<T>(recipe_, X, second_, {factor, out, own, value}, sums + first_.n, poll_);
  }

  void among(std::span<const Index> which, std::span<T> out) override {
    if (first_matrix_.empty() || static_cast<Index>(which.size()) < size()) {
      block(recipe_, Points<T>::take(first_, second_, which), out.data(), poll_);
      return;
    }
    // All of them: the classes' own matrices are there.
    Index n = first_.n, m = second_.n, across = n + m;
    block_both_ways(recipe_, first_, second_, out.data() + n, out.data() + n * across, across, poll_);
    for (Index i = 0; i < n; ++i) {
      std::copy_n(first_matrix_.data() + i * n, n, out.data() + i * across);
    }
    for (Index j = 0; j < m; ++j) {
      std::copy_n(second_matrix_.data() + j * m, m, out.data() + (n + j) * across + n);
    }
  }

 private:
  Recipe recipe_;
  const Points<T>&first_, &second_;
  std::span<const T> first_matrix_, second_matrix_;
  Poll poll_;
  const Originals* originals_;
  std::vector<Index> origin_;
  std::vector<T> diagonal_;
};

// What rounding took off a bound is put back: a hair of the bound, or at 0 of the other one.
void snap(std::span<double> beta, std::span<const double> lower, std::span<const double> upper) {
  constexpr double hair = 1e-13;
  double largest = 0;
  for (double b : beta) largest = std::max(largest, std::abs(b));
  for (std::size_t t = 0; t < beta.size(); ++t) {
    double far = std::max(std::abs(lower[t]), std::abs(upper[t]));
    if (std::abs(beta[t]) <= hair * std::min(far, largest)) beta[t] = 0;
    for (double bound : {lower[t], upper[t]}) {
      if (bound != 0 && std::abs(beta[t] - bound) <= hair * std::abs(bound)) beta[t] = bound;
    }
  }
}

// Makes Σβ = 0 without an error: what rounding left over is taken off the smallest free variable,
// whose last digit is finer than that of the sum.
void balance(std::span<double> beta, std::span<const double> lower, std::span<const double> upper) {
  for (int tries = 0; tries < 4; ++tries) {
    // Twice the digits of a double: the rounding errors of the sum are summed themselves.
    double sum = 0, rest = 0;
    std::size_t least = beta.size();
    for (std::size_t t = 0; t < beta.size(); ++t) {
      double before = sum, by = beta[t];
      sum += by;
      double took = sum - before;
      rest += (before - (sum - took)) + (by - took);
      bool free = by > lower[t] && by < upper[t] && by != 0;
      if (free && (least == beta.size() || std::abs(by) < std::abs(beta[least]))) least = t;
    }
    double excess = sum + rest;
    if (excess == 0 || least == beta.size()) return;
    double moved = beta[least] - excess;
    if (!(moved > lower[least] && moved < upper[least])) return;
    beta[least] = moved;
  }
}

void conclude(Duel& duel, const Program& p) {
  auto& beta = duel.result.value;
  const auto& F = duel.result.function;
  snap(beta, p.lower, p.upper);
  balance(beta, p.lower, p.upper);
  constexpr double infinity = std::numeric_limits<double>::infinity();
  double sum = 0, down = -infinity, up = infinity, linear = 0;
  for (std::size_t t = 0; t < beta.size(); ++t) {
    double gradient = F[t] - p.target[t];
    bool can_fall = beta[t] > p.lower[t], can_rise = beta[t] < p.upper[t];
    if (can_fall && can_rise) {
      sum += gradient;
      ++duel.free;
    }
    if (can_fall) down = std::max(down, gradient);
    if (can_rise) up = std::min(up, gradient);
    duel.bound += beta[t] != 0 && !(can_fall && can_rise);
    duel.square += beta[t] * F[t];
    duel.weight += std::abs(beta[t]);
    linear += p.target[t] * beta[t];
  }
  if (duel.free > 0) {
    duel.level = sum / static_cast<double>(duel.free);
  } else {
    duel.level = std::isinf(down) ? up : std::isinf(up) ? down : (down + up) / 2;
  }
  duel.dual = linear - duel.square / 2;
  duel.primal = duel.square / 2;
  for (std::size_t t = 0; t < beta.size(); ++t) {
    double surplus = p.target[t] - F[t] + duel.level;
    double loss = std::max(surplus * p.lower[t], surplus * p.upper[t]);
    if (!(loss > 0)) continue;
    duel.primal += loss;
    duel.weight += p.upper[t] - p.lower[t];
  }
}

template <class T>
Duel one(const Duels<T>& duels, Index number, const std::vector<Buffer<T>>& own, Scratch<T>& scratch,
         const Options& options, const Poll& poll) {
  auto begin = std::chrono::steady_clock::now();
  auto [a, b] = duels.pairs[number];
  const Points<T>&first = *duels.classes[a], &second = *duels.classes[b];
  std::size_t n = static_cast<std::size_t>(first.n), all = n + static_cast<std::size_t>(second.n);
  std::vector<double> target(all, 1.0), lower(all, 0.0), upper(all, 0.0), start(all, 0.0);
  std::copy(duels.upper[a].begin(), duels.upper[a].end(), upper.begin());
  for (std::size_t j = n; j < all; ++j) {
    target[j] = -1;
    lower[j] = -duels.upper[b][j - n];
  }
  bool shared = !own.empty();
  std::vector<Index> origin;
  if (duels.originals) {
    origin.assign(duels.origin[a].begin(), duels.origin[a].end());
    origin.insert(origin.end(), duels.origin[b].begin(), duels.origin[b].end());
  }
  PairRows<T> rows(duels.recipe, first, second, shared ? std::span<const T>(own[a]) : std::span<const T>(),
                   shared ? std::span<const T>(own[b]) : std::span<const T>(), poll,
                   duels.originals, std::move(origin));
  Program program{target, lower, upper, {}, {}, {}};
  Duel duel;
  duel.result = solve<T>(rows, program, options, start, {}, poll, scratch);
  conclude(duel, program);
  duel.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return duel;
}

}  // namespace

template <class T>
std::vector<Duel> solve(const Duels<T>& duels, const Poll& poll) {
  Index count = static_cast<Index>(duels.pairs.size());
  std::vector<Duel> found(static_cast<std::size_t>(count));
  auto points = [&](Index k) {
    return duels.classes[duels.pairs[k].first]->n + duels.classes[duels.pairs[k].second]->n;
  };
  // Waking another thread takes as long as solving a few tiny ones.
  double entries = 0;
  for (Index k = 0; k < count; ++k) {
    entries += static_cast<double>(points(k)) * static_cast<double>(points(k));
  }
  int workers = entries < 1e5 ? 1 : static_cast<int>(std::min<Index>(threads(), count));
  // Large ones first, so that no thread is left alone with one at the end.
  std::vector<Index> order(static_cast<std::size_t>(count));
  std::iota(order.begin(), order.end(), Index{0});
  std::stable_sort(order.begin(), order.end(), [&](Index a, Index b) { return points(a) > points(b); });
  std::vector<Scratch<T>> scratch(static_cast<std::size_t>(std::max(workers, 1)));
  Index done = 0;
  for (; done < count && points(order[done]) >= alone_from; ++done) {
    found[order[done]] = one<T>(duels, order[done], {}, scratch[0], duels.options, poll);
  }
  // Every class meets all the others: where the problems are small, its own matrix is kept.
  std::vector<Buffer<T>> own;
  double room = 0;
  for (auto* points : duels.classes) room += static_cast<double>(points->n) * static_cast<double>(points->n);
  if (done == 0 && count > 1 && room * sizeof(T) <= duels.options.cache_bytes / 2 &&
      is_small(points(order[0]), VectorRows<T>::cost_on(*duels.classes[0]))) {
    own.resize(duels.classes.size());
    auto fill = [&](Index c, int) {
      const Points<T>& X = *duels.classes[c];
      own[c].resize(static_cast<std::size_t>(X.n * X.n));
      block(duels.recipe, X, own[c].data());
    };
    parallel(static_cast<Index>(own.size()), workers, fill, poll);
  }
  std::atomic<bool> stop{false};
  Options options = duels.options;
  options.cache_bytes /= workers;
  auto task = [&](Index number, int worker) {
    // Only the thread that called may ask for signals; the others hear of it.
    Poll heard = [&] {
      if (stop) throw std::runtime_error("stopped");
      if (worker == 0 && poll) poll();
    };
    Index k = order[done + number];
    try {
      found[k] = one<T>(duels, k, own, scratch[worker], options, heard);
    } catch (...) {
      stop = true;
      throw;
    }
  };
  parallel(count - done, workers, task, [&] {
    try {
      if (poll) poll();
    } catch (...) {
      stop = true;
      throw;
    }
  });
  return found;
}

template std::vector<Duel> solve(const Duels<float>&, const Poll&);
template std::vector<Duel> solve(const Duels<double>&, const Poll&);

}  // namespace mercer
