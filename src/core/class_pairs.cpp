// Problems of two classes each, for many pairs of classes: points are packed once, a class's own
// matrix is computed once, and small problems are shared out among the threads.
#include "class_pairs.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <limits>
#include <numeric>
#include <stdexcept>

#include "bounds.hpp"
#include "rows.hpp"
#include "threads.hpp"

namespace mercer {
namespace {

constexpr Index alone_from = 8192;  // points of a pair that is worth all threads

template <class T>
std::vector<T> diagonal_of(const Recipe& recipe, const Points<T>& first, const Points<T>& second) {
  std::vector<T> values(static_cast<std::size_t>(first.n + second.n));
  diag(recipe, first, values.data());
  diag(recipe, second, values.data() + first.n);
  return values;
}

// `origin` is which of the originals the points are.
template <class T>
RowFacts<T> facts_of(const Recipe& recipe, const Points<T>& first, const Points<T>& second,
                     const Poll& poll, const Originals* originals, std::vector<Index> origin) {
  PointSums::Take take;
  if (originals) {
    take = [originals, origin = std::move(origin)](std::span<const Index> which) {
      std::vector<Index> places;
      for (Index i : which) places.push_back(origin[i]);
      return originals->take(places);
    };
  } else if constexpr (sizeof(T) == 8) {
    take = [&](std::span<const Index> which) { return Points<T>::take(first, second, which); };
  }
  double cost = VectorRows<T>::cost_on(first.n > second.n ? first : second);
  double largest = std::max(first.largest, second.largest);
  return {cost,
          entry_error(recipe, std::sqrt(cost), largest, direct(recipe, first, second)),
          {},
          take ? std::make_unique<PointSums>(recipe, std::move(take), poll) : nullptr};
}

// k on the points of two classes, one after the other.
template <class T>
class PairRows final : public Rows<T> {
 public:
  // `first_matrix` and `second_matrix` are K of either class, or empty; `origin` is which of the
  // originals the points are.
  PairRows(const Recipe& recipe, const Points<T>& first, const Points<T>& second,
           std::span<const T> first_matrix, std::span<const T> second_matrix, Poll poll,
           const Originals* originals, std::vector<Index> origin)
      : Rows<T>(diagonal_of(recipe, first, second),
                facts_of(recipe, first, second, poll, originals, std::move(origin))),
        recipe_(recipe),
        first_(first),
        second_(second),
        first_matrix_(first_matrix),
        second_matrix_(second_matrix),
        poll_(std::move(poll)) {}

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
      value.push_back(this->diagonal()[i]);
    }
    add_rows_of<T>(recipe_, X, first_, {factor, out, own, value}, sums, poll_);
    for (std::size_t r = 0; r < which.size(); ++r) {
      own[r] = which[r] - first_.n;
      if (out[r]) out[r] += first_.n;
    }
    add_rows_of<T>(recipe_, X, second_, {factor, out, own, value}, sums + first_.n, poll_);
  }

  void among(std::span<const Index> which, std::span<T> out) override {
    if (first_matrix_.empty() || static_cast<Index>(which.size()) < this->size()) {
      block(recipe_, Points<T>::take(first_, second_, which), out.data(), poll_);
      return;
    }
    // All of them: the classes' own matrices are there.
    Index n = first_.n, m = second_.n, across = n + m;
    block_both_ways(recipe_, first_, second_, out.data() + n, out.data() + n * across, across,
                    poll_);
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
};

// One variable after another goes to its bound until they sum to `total`.
void fill(std::span<double> beta, std::span<const double> lower, std::span<const double> upper,
          double total) {
  for (std::size_t t = 0; t < beta.size(); ++t) {
    double by = std::clamp(total, lower[t], upper[t]);
    // Rounding is not to leave it just inside the bound that it should be at.
    double bound = total > 0 ? upper[t] : lower[t];
    beta[t] = std::abs(by - bound) <= 1e-12 * std::abs(bound) ? bound : by;
    total -= by;
  }
}

}  // namespace

template <class T>
PointClasses<T>::PointClasses(const Recipe& recipe, std::vector<const Points<T>*> classes,
                              const Originals* originals,
                              std::vector<std::span<const Index>> origin)
    : recipe_(recipe),
      classes_(std::move(classes)),
      originals_(originals),
      origin_(std::move(origin)) {}

template <class T>
double PointClasses<T>::cost() const {
  return VectorRows<T>::cost_on(*classes_[0]);
}

template <class T>
void PointClasses<T>::prepare(double bytes, int workers, const Poll& poll) {
  double room = 0;
  for (auto* points : classes_)
    room += static_cast<double>(points->n) * static_cast<double>(points->n);
  if (room * sizeof(T) > bytes) return;
  own_.resize(classes_.size());
  auto make = [&](Index c, int) {
    const Points<T>& X = *classes_[c];
    own_[c].resize(static_cast<std::size_t>(X.n * X.n));
    block(recipe_, X, own_[c].data());
  };
  parallel(static_cast<Index>(own_.size()), workers, make, poll);
}

template <class T>
std::unique_ptr<Rows<T>> PointClasses<T>::rows(Index a, Index b, const Poll& poll) const {
  std::vector<Index> origin;
  if (originals_) {
    origin.assign(origin_[a].begin(), origin_[a].end());
    origin.insert(origin.end(), origin_[b].begin(), origin_[b].end());
  }
  auto own = [&](Index c) {
    return own_.empty() ? std::span<const T>() : std::span<const T>(own_[c]);
  };
  return std::make_unique<PairRows<T>>(recipe_, *classes_[a], *classes_[b], own(a), own(b), poll,
                                       originals_, std::move(origin));
}

template <class T>
std::unique_ptr<Rows<T>> MatrixClasses<T>::rows(Index a, Index b, const Poll&) const {
  std::vector<Index> points(members_[a].begin(), members_[a].end());
  points.insert(points.end(), members_[b].begin(), members_[b].end());
  return std::make_unique<PickedRows<T>>(matrix_, n_, std::move(points));
}

namespace {

// A problem of its own: where its variables are among all of them.
struct One {
  Index first, second, start;
  std::size_t size, split;
};

template <class T>
PairOutcome solve_one(const Classes<T>& classes, const PairPrograms& all, const One& one,
                      Index number, Scratch<T>& scratch, const Options& options, const Poll& poll) {
  auto begin = std::chrono::steady_clock::now();
  auto part = [&](auto span) {
    return span.subspan(static_cast<std::size_t>(one.start), one.size);
  };
  auto value = part(all.value), function = part(all.function);
  auto target = part(all.target), lower = part(all.lower), upper = part(all.upper);
  if (!options.near) std::fill(value.begin(), value.end(), 0.0);
  double totals[2] = {all.totals[2 * number], all.totals[2 * number + 1]};
  std::size_t ends[3] = {0, one.split, one.size};
  auto each_group = [&](auto&& f) {
    for (int g = 0; g < 2; ++g) {
      std::size_t from = ends[g], count = ends[g + 1] - from;
      f(value.subspan(from, count), lower.subspan(from, count), upper.subspan(from, count),
        totals[g]);
    }
  };
  std::vector<std::uint8_t> group;
  if (all.grouped) {
    group.assign(one.size, 1);
    std::fill_n(group.begin(), one.split, std::uint8_t{0});
    if (!options.near) each_group(fill);
  }
  auto rows = classes.rows(one.first, one.second, poll);
  Result result;
  if (all.bias) {
    Program program{target, lower, upper, {}, {}, group};
    result = solve<T>(*rows, program, options, value, {}, poll, scratch);
  } else {
    // A variable of no point takes up what the others sum to, at no cost.
    double room = 0;
    for (std::size_t t = 0; t < one.size; ++t)
      room += std::max(std::abs(lower[t]), std::abs(upper[t]));
    auto with = [&](auto numbers, double last) {
      std::vector<double> longer(numbers.begin(), numbers.end());
      longer.push_back(last);
      return longer;
    };
    std::vector<double> targets = with(target, 0), lowers = with(lower, -room),
                        uppers = with(upper, room),
                        start = with(value, -std::accumulate(value.begin(), value.end(), 0.0));
    std::vector<std::int32_t> point(one.size + 1);
    std::iota(point.begin(), point.end(), 0);
    Program program{targets, lowers, uppers, {}, point, group};
    result = solve<T>(*rows, program, options, start, {}, poll, scratch);
  }
  std::copy_n(result.value.begin(), one.size, value.begin());
  std::copy_n(result.function.begin(), one.size, function.begin());
  snap(value, lower, upper, 1e-13);
  double missed = 0;
  if (all.grouped) {
    each_group([&](auto... part) { missed += balance(part...); });
  } else if (all.bias) {
    missed = balance(value, lower, upper, totals[0]);
  }
  double tidied = 0;
  for (std::size_t t = 0; t < one.size; ++t) tidied += std::abs(value[t] - result.value[t]);
  double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return {result.indefinite,
          result.status,
          result.iterations,
          result.rows,
          result.hits,
          seconds,
          result.checked ? 0.0 : result.moved,
          tidied,
          missed};
}

}  // namespace

template <class T>
std::vector<PairOutcome> solve(Classes<T>& classes, const PairPrograms& all, const Options& given,
                               const Poll& poll) {
  Index count = static_cast<Index>(all.pairs.size());
  std::vector<PairOutcome> found(static_cast<std::size_t>(count));
  std::vector<One> ones;
  double entries = 0;
  Index at = 0;
  for (auto [a, b] : all.pairs) {
    Index size = classes.size(a) + classes.size(b);
    ones.push_back(
        {a, b, at, static_cast<std::size_t>(size), static_cast<std::size_t>(classes.size(a))});
    at += size;
    entries += static_cast<double>(size) * static_cast<double>(size);
  }
  auto points = [&](Index k) { return static_cast<Index>(ones[k].size); };
  // Waking another thread takes as long as solving a few tiny ones.
  int workers = entries < 1e5 ? 1 : static_cast<int>(std::min<Index>(threads(), count));
  // Large ones first, so that no thread is left alone with one at the end.
  std::vector<Index> order(static_cast<std::size_t>(count));
  std::iota(order.begin(), order.end(), Index{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](Index a, Index b) { return points(a) > points(b); });
  std::vector<Scratch<T>> scratch(static_cast<std::size_t>(std::max(workers, 1)));
  // A limit is divided by the sizes of the matrices; what one leaves is for those after it.
  auto begin = std::chrono::steady_clock::now();
  std::vector<double> rest(static_cast<std::size_t>(count) + 1, 0.0);
  for (Index i = count; i-- > 0;) {
    double size = static_cast<double>(points(order[i]));
    rest[i] = rest[i + 1] + size * size;
  }
  auto within = [&](Options options, Index i, int at_once) {
    if (!(given.time_limit > 0)) return options;
    auto spent = std::chrono::steady_clock::now() - begin;
    double left = given.time_limit - std::chrono::duration<double>(spent).count();
    double share = std::min(1.0, at_once * (rest[i] - rest[i + 1]) / rest[i]);
    options.time_limit = std::max(left * share, 1e-9);  // 0 stands for no limit
    return options;
  };
  Index done = 0;
  for (; done < count && points(order[done]) >= alone_from; ++done) {
    Index k = order[done];
    found[k] = solve_one<T>(classes, all, ones[k], k, scratch[0], within(given, done, 1), poll);
  }
  // Every class meets all the others: where the problems are small, its own matrix is kept.
  if (done == 0 && count > 1 && is_small(points(order[0]), classes.cost())) {
    classes.prepare(given.cache_bytes / 2, workers, poll);
  }
  std::atomic<bool> stop{false};
  Options options = given;
  options.cache_bytes /= std::max(workers, 1);
  auto task = [&](Index number, int worker) {
    // Only the calling thread may ask for signals; the others see that it stopped.
    Poll ask = [&] {
      if (stop) throw std::runtime_error("stopped");
      if (worker == 0 && poll) poll();
    };
    Index k = order[done + number];
    try {
      found[k] = solve_one<T>(classes, all, ones[k], k, scratch[worker],
                              within(options, done + number, workers), ask);
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

template class PointClasses<float>;
template class PointClasses<double>;
template class MatrixClasses<double>;
template std::vector<PairOutcome> solve(Classes<float>&, const PairPrograms&, const Options&,
                                        const Poll&);
template std::vector<PairOutcome> solve(Classes<double>&, const PairPrograms&, const Options&,
                                        const Poll&);

}  // namespace mercer
