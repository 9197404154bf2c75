// Freund and Schapire, Machine Learning 37 (1999), section 3: the perceptron with a kernel.
//
// A pass over [first, last) is a pass over its first half, then the mistakes made there added to
// the scores of the second half, all at once, then a pass over the second half. Every pair of a
// mistake and a point is computed once, nearly all of them in large blocks, and the order of
// updates is that of one point after another.
#include "perceptron.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "tiles.hpp"

namespace mercer {
namespace {

// Calls back every 50 ms or so.
class Clock {
 public:
  Clock(const Look& look, const Poll& poll) : look_(look), poll_(poll) {}
  bool stop(Index seen, Index mistakes) {
    auto now = std::chrono::steady_clock::now();
    if (now - last_ < std::chrono::milliseconds(50)) return false;
    last_ = now;
    if (poll_) poll_();
    return look_ && look_(seen, mistakes);
  }

 private:
  const Look& look_;
  const Poll& poll_;
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

double checked(double score) {
  if (!std::isfinite(score)) {
    throw std::domain_error("The kernel has values that are not finite numbers.");
  }
  return score;
}

// Point i, at time t: where a perceptron is wrong, row[j], the kernel value with point j, goes into
// its scores of [from, to). Returns the mistakes.
template <class T>
Index learn(const Pass& pass, Index t, Index i, const T* row, Index from, Index to) {
  Index mistakes = 0;
  for (Index c = 0; c < pass.q; ++c) {
    double side = pass.side[t * pass.q + c], *scores = pass.scores + c * pass.n;
    if (side * checked(scores[i]) > 0) continue;
    pass.missed[t * pass.q + c] = 1;
    ++mistakes;
    for (Index j = from; j < to; ++j) {
      scores[j] += side * (static_cast<double>(row[j]) + pass.shift);
    }
  }
  return mistakes;
}

template <class T>
class Halves {
 public:
  Halves(const Recipe& recipe, const Points<T>& points, const Pass& pass, const Look& look,
         const Poll& poll)
      : recipe_(recipe),
        points_(points),
        pass_(pass),
        clock_(look, poll),
        poll_(poll),
        // Tiles of every source begin on a multiple of this.
        leaf_(std::lcm(loops<T>().width, loops<T>().sweep_width)) {}

  Index run() {
    Index leaves = (points_.n + leaf_ - 1) / leaf_;
    go(0, leaves);
    return seen_;
  }

 private:
  // Leaves first to last - 1.
  void go(Index first, Index last) {
    if (stopped_ || first == last) return;
    if (last - first == 1) return leaf(first * leaf_, std::min(points_.n, last * leaf_));
    Index middle = first + (last - first) / 2;
    go(first, middle);
    if (!stopped_) spread(first * leaf_, middle * leaf_, middle * leaf_, end(last));
    go(middle, last);
    if (!stopped_ && pass_.settle) spread(middle * leaf_, end(last), first * leaf_, middle * leaf_);
  }

  Index end(Index leaf) const { return std::min(points_.n, leaf * leaf_); }

  // Points among which kernel values are computed as they are needed, a row for a mistake; all at
  // once where the last leaf had many.
  void leaf(Index first, Index last) {
    Index before = mistakes_;
    if (any_wrong(first, last)) {
      many_ ? by_square(first, last) : by_rows(first, last);
    }
    many_ = (mistakes_ - before) * 12 > last - first;
    seen_ = last;
    stopped_ = clock_.stop(seen_, mistakes_);
  }

  void by_square(Index first, Index last) {
    std::vector<Index> which(static_cast<std::size_t>(last - first));
    std::iota(which.begin(), which.end(), first);
    square_.resize(which.size() * which.size());
    block(recipe_, points_.take(which), square_.data(), poll_);
    for (Index t = first; t < last; ++t) {
      const T* row = square_.data() + (t - first) * (last - first) - first;
      mistakes_ += learn(pass_, t, t, row, first, last);
    }
  }

  void by_rows(Index first, Index last) {
    for (Index t = first; t < last; ++t) {
      Index wrong = learn<T>(pass_, t, t, nullptr, 0, 0);
      if (wrong) spread(t, t + 1, first, last);
      mistakes_ += wrong;
    }
  }

  bool any_wrong(Index first, Index last) const {
    bool wrong = false;
    for (Index c = 0; c < pass_.q; ++c) {
      for (Index t = first; t < last; ++t) {
        wrong |= pass_.side[t * pass_.q + c] * checked(pass_.scores[c * pass_.n + t]) <= 0;
      }
    }
    return wrong;
  }

  // The mistakes of [first, last) into the scores of [from, to).
  void spread(Index first, Index last, Index from, Index to) {
    Index q = pass_.q;
    std::vector<Index> which;
    for (Index t = first; t < last; ++t) {
      const std::uint8_t* missed = pass_.missed + t * q;
      if (std::any_of(missed, missed + q, [](auto m) { return m != 0; })) which.push_back(t);
    }
    if (which.empty()) return;
    Points<T> X = points_.take(which, by_products(recipe_, points_, points_));
    int workers = workers_for(X.n, to - from, VectorRows<T>::cost_on(points_));
    auto rows = source(recipe_, X, points_, workers);
    Index columns = halved_until(
        enough_tasks(workers), std::min(rows->columns, rounded_up(to - from, rows->grain)),
        rows->grain, [&](Index size) { return pieces_of(to - from, size); });
    TileLoop<T> tiles(recipe_, *rows, X, points_, rows->band, columns, workers);
    std::vector<Missed> missed(static_cast<std::size_t>(workers));
    auto task = [&](Index number, int worker) {
      Index j = from + number * columns;
      tiles.values(worker, 0, X.n, j, std::min(to, j + columns), [&](const Tile<T>& tile) {
        for (Index c = 0; c < q; ++c) add(missed[worker], which, tile, c);
      });
    };
    parallel(pieces_of(to - from, columns), workers, task, poll_);
  }

  struct Missed {
    std::vector<const T*> row;
    std::vector<double> factor;
  };

  // The rows of the tile that perceptron c missed, into its scores.
  void add(Missed& missed, const std::vector<Index>& which, const Tile<T>& tile, Index c) const {
    missed.row.clear();
    missed.factor.clear();
    double sum = 0;
    for (Index r = 0; r < tile.height; ++r) {
      Index at = which[static_cast<std::size_t>(tile.i + r)] * pass_.q + c;
      if (!pass_.missed[at]) continue;
      missed.row.push_back(tile.row(r));
      missed.factor.push_back(pass_.side[at]);
      sum += pass_.side[at];
    }
    if (missed.row.empty()) return;
    double* scores = pass_.scores + c * pass_.n + tile.j;
    loops<T>().add_rows(scores, missed.row.data(), missed.factor.data(),
                        static_cast<Index>(missed.row.size()), 0, tile.width);
    if (pass_.shift == 0) return;
    for (Index k = 0; k < tile.width; ++k) scores[k] += sum * pass_.shift;
  }

  const Recipe& recipe_;
  const Points<T>& points_;
  const Pass& pass_;
  Clock clock_;
  const Poll& poll_;
  Index leaf_;
  Buffer<T> square_;
  Index seen_ = 0, mistakes_ = 0;
  bool many_ = true, stopped_ = false;
};

}  // namespace

template <class T>
Index pass(const Recipe& recipe, const Points<T>& points, const Pass& pass, const Look& look,
           const Poll& poll) {
  return Halves<T>(recipe, points, pass, look, poll).run();
}

template <class T>
Index pass(const T* matrix, std::span<const Index> order, const Pass& pass, const Look& look,
           const Poll& poll) {
  Clock clock(look, poll);
  Index mistakes = 0, n = pass.n;
  for (Index t = 0; t < n; ++t) {
    Index i = order[static_cast<std::size_t>(t)];
    mistakes += learn(pass, t, i, matrix + i * n, 0, n);
    if (clock.stop(t + 1, mistakes)) return t + 1;
  }
  return n;
}

template <class T, class I>
Index pass(const Vectors<T, I>& X, std::span<const Index> order, const Weights& weights,
           const Pass& pass, const Look& look, const Poll& poll) {
  Clock clock(look, poll);
  Index mistakes = 0, d = X.d;
  for (Index t = 0; t < pass.n; ++t) {
    if (t + visits_ahead < pass.n) X.prefetch(order[static_cast<std::size_t>(t + visits_ahead)]);
    const Row<T, I> x = X.row(order[static_cast<std::size_t>(t)]);
    for (Index c = 0; c < pass.q; ++c) {
      double side = pass.side[t * pass.q + c], *w = weights.w + c * (d + 1);
      double score = x.product(w) + weights.constant * w[d];
      if (side * checked(score) > 0) continue;
      pass.missed[t * pass.q + c] = 1;
      ++mistakes;
      x.add(weights.eta * side, w);
      w[d] += weights.eta * side * weights.constant;
      double *u = weights.u + c * (d + 1), late = static_cast<double>(weights.time + t);
      x.add(late * weights.eta * side, u);
      u[d] += late * weights.eta * side * weights.constant;
    }
    // Asking the time takes as long as a short row does.
    const bool asks = x.count * pass.q > 1024 || t % 64 == 63 || t + 1 == pass.n;
    if (asks && clock.stop(t + 1, mistakes)) return t + 1;
  }
  return pass.n;
}

#define MERCER_PASSES_OF(T)                                                                     \
  template Index pass(const Recipe&, const Points<T>&, const Pass&, const Look&, const Poll&);  \
  template Index pass(const T*, std::span<const Index>, const Pass&, const Look&, const Poll&); \
  template Index pass(const Vectors<T, std::int32_t>&, std::span<const Index>, const Weights&,  \
                      const Pass&, const Look&, const Poll&);                                   \
  template Index pass(const Vectors<T, std::int64_t>&, std::span<const Index>, const Weights&,  \
                      const Pass&, const Look&, const Poll&);

MERCER_PASSES_OF(float)
MERCER_PASSES_OF(double)

}  // namespace mercer
