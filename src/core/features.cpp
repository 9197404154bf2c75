// Hsieh et al., "A dual coordinate descent method for large-scale linear SVM" (ICML 2008), with its
// shrinking; the sums are kept by multipliers, one step of them after each pass.
#include "features.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "threads.hpp"

namespace mercer {
namespace {

// splitmix64
std::uint64_t next(std::uint64_t& state) {
  std::uint64_t z = (state += 0x9e3779b97f4a7c15ull);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

struct Slopes {
  double below, above;  // what a little less and a little more costs, per unit
};

Slopes slopes(double gradient, double beta, double low, double high, double tube) {
  constexpr double inf = std::numeric_limits<double>::infinity();
  return {beta > low ? gradient + (beta > 0 ? tube : -tube) : -inf,
          beta < high ? gradient + (beta < 0 ? -tube : tube) : inf};
}

// One call of `descend`, on rows of one of the views.
template <class Rows>
class Descent {
 public:
  Descent(const Rows& rows, Index entries, const FeatureQuadratic& problem, std::span<double> beta,
          std::span<double> w, std::span<double> rho, DescentState& state)
      : rows_(rows),
        problem_(problem),
        beta_(beta),
        w_(w),
        rho_(rho),
        state_(state),
        n_(static_cast<Index>(beta.size())),
        mean_(static_cast<double>(entries) / std::max<double>(1.0, problem.square.size())),
        excess_(problem.total.size()) {
    for (std::size_t g = 0; g < excess_.size(); ++g) excess_[g] = -problem.total[g];
    if (!excess_.empty()) {
      for (Index t = 0; t < n_; ++t) excess_[group(t)] += beta[t];
    }
  }

  Descended operator()(double tol, std::int64_t work, const Poll& poll) {
    std::int64_t since_poll = 0;
    Descended result{std::numeric_limits<double>::infinity(), false, 0};
    while (read_ < work) {
      const bool complete = state_.active == n_;
      const int turn = turn_of_way();
      if (turn == 0) state_.ways = state_.since = 0;
      if (turn > 0 && state_.since == 0) set_out();
      const double slope = pass();
      const double most = std::max(slope, off());
      ++state_.passes;
      if (turn > 0) ++state_.since;
      result = {most, complete, read_ += 8};
      // Where the sums are off by more than the slopes, those that could mend it may be left out.
      const bool lacking = off() > slope || state_.active == 0;
      for (std::size_t g = 0; g < excess_.size(); ++g) {
        const double step = problem_.sigma * excess_[g];
        // Multipliers that do not wait for the minimum they belong to may go in circles.
        if (state_.passes < 32 || std::abs(step) > slope / 4) rho_[g] -= step;
      }
      if (complete || std::isinf(state_.checked)) state_.checked = most;
      if (!complete && (lacking || most <= std::max(tol / 2, state_.checked / progress))) {
        state_.checked = std::max(most, rejoin(most, poll));
        result = {state_.checked, true, read_};
      }
      if (result.complete && result.violation <= tol) break;
      if (turn > 0 && state_.since >= turn) {
        go_on();
        state_.since = 0;
      }
      state_.allowed = most;
      if (read_ - since_poll > between_polls) {
        since_poll = read_;
        if (poll) poll();
      }
    }
    return result;
  }

 private:
  static constexpr double progress = 5;  // less of a violation, and all variables are looked at
  static constexpr int most = DescentState::most_ways;
  static constexpr Index most_together = 8, columns_of_task = 4096;
  using Numbers = std::array<double, most>;

  std::size_t group(Index t) const { return problem_.group.empty() ? 0 : problem_.group[t]; }
  std::int32_t row(std::int32_t t) const { return problem_.place.empty() ? t : problem_.place[t]; }
  double tube(Index t) const { return problem_.tube.empty() ? 0.0 : problem_.tube[t]; }

  double off() const {
    double most_off = 0;
    for (const double e : excess_) most_off = std::max(most_off, problem_.sigma * std::abs(e));
    return most_off;
  }

  // Each variable that takes part to where the objective is least; the largest slope on the way.
  // They come in blocks of neighbours, which are read as quickly as memory is; the blocks, and the
  // variables in each, in any order.
  double pass() {
    const auto& order = state_.order;
    const Index active = state_.active;
    const Index side = std::clamp<Index>(active / 256, 1, most_together);
    std::vector<Index> blocks(static_cast<std::size_t>((active + side - 1) / side));
    std::iota(blocks.begin(), blocks.end(), Index{0});
    shuffle(std::span(blocks));
    leaving_.assign(static_cast<std::size_t>(active), 0);
    double largest = 0;
    std::array<Index, most_together> place;
    for (std::size_t b = 0; b < blocks.size(); ++b) {
      const Index begin = blocks[b] * side, size = std::min(side, active - begin);
      std::iota(place.begin(), place.begin() + size, begin);
      shuffle(std::span(place).first(static_cast<std::size_t>(size)));
      const Index later = b + 1 < blocks.size() ? blocks[b + 1] * side : active;
      for (Index k = 0; k < size; ++k) {
        if (later + k < active) fetch(order[later + k]);
        const double slope = move(order[place[k]]);
        leaving_[place[k]] = -slope > state_.allowed;
        largest = std::max(largest, slope);
      }
    }
    leave();
    return largest;
  }

  template <class T>
  void shuffle(std::span<T> items) {
    for (std::size_t k = 0; k < items.size(); ++k) {
      const std::uint64_t left = items.size() - k;  // below 2³²
      std::swap(items[k], items[k + (((next(state_.seed) >> 32) * left) >> 32)]);
    }
  }

  // Those that leave go behind those that stay, all in the order in which they are.
  void leave() {
    std::size_t kept = 0;
    left_.clear();
    for (std::size_t k = 0; k < leaving_.size(); ++k) {
      if (leaving_[k]) {
        left_.push_back(state_.order[k]);
      } else {
        state_.order[kept++] = state_.order[k];
      }
    }
    std::copy(left_.begin(), left_.end(), state_.order.begin() + static_cast<Index>(kept));
    state_.active = static_cast<Index>(kept);
  }

  // The slope of the objective at a variable, and how it bends.
  struct Parabola {
    double gradient, curvature;
  };
  Parabola parabola(std::int32_t t) const {
    Parabola at{rows_.product(row(t), w_.data()) - problem_.target[t], problem_.square[row(t)]};
    if (!excess_.empty()) {
      const std::size_t g = group(t);
      at.gradient += problem_.sigma * excess_[g] - rho_[g];
      at.curvature += problem_.sigma;
    }
    return at;
  }

  // How far a slope is off; at a kink, how far it is from being so, with a minus.
  static double off_by(const Slopes& at) {
    if (at.below <= 0 && at.above >= 0) return -std::min(-at.below, at.above);
    return at.below > 0 ? at.below : -at.above;
  }
  double slope_of(std::int32_t t) const {
    const double gradient = parabola(t).gradient;
    return off_by(slopes(gradient, beta_[t], problem_.low[t], problem_.high[t], tube(t)));
  }

  // Moves a variable to where the objective is least; how far its slope was off.
  double move(std::int32_t t) {
    read_ += rows_.length(row(t)) + 8;
    const auto [gradient, curvature] = parabola(t);
    const double low = problem_.low[t], high = problem_.high[t], b = beta_[t];
    const Slopes at = slopes(gradient, b, low, high, tube(t));
    const double off = off_by(at);
    if (at.below <= 0 && at.above >= 0) return off;
    double moved;
    if (curvature > 0) {
      const double z = b - gradient / curvature, reach = tube(t) / curvature;
      moved = z > reach ? z - reach : z < -reach ? z + reach : 0.0;
      moved = std::clamp(moved, low, high);
    } else {  // a straight line
      const double width = tube(t);
      const double down = low < 0 && b > 0 && width > 0 && gradient > -width ? 0.0 : low;
      const double up = high > 0 && b < 0 && width > 0 && gradient < width ? 0.0 : high;
      moved = at.below > 0 ? down : up;
    }
    const double change = moved - b;
    if (change != 0) {
      beta_[t] = moved;
      rows_.add(row(t), change, w_.data());
      if (!excess_.empty()) excess_[group(t)] += change;
    }
    return off;
  }

  // Asks for what is soon to be read.
  void fetch(std::int32_t t) const {
    __builtin_prefetch(&beta_[t]);
    __builtin_prefetch(&problem_.target[t]);
    __builtin_prefetch(&problem_.low[t]);
    __builtin_prefetch(&problem_.high[t]);
    __builtin_prefetch(&problem_.square[row(t)]);
    rows_.prefetch_row(row(t));
  }

  // Passes of a way, so that going on takes less time than they do; 0 where it takes more than any
  // number of them: with few rows in play the columns would take longer than these.
  int turn_of_way() const {
    const double entries = mean_ * static_cast<double>(state_.active);
    const auto width = static_cast<double>(w_.size());
    if (entries < width / 4) return 0;
    return static_cast<int>(
        std::clamp(std::max(64 / std::max(mean_, 1.0), 4 * width / entries), 2.0, 8.0));
  }

  // Those that were left out take part again where their slopes are off, or by no more than
  // `allowed` from being so; the largest of those that are off. None of them was moved by the ways
  // there are.
  double rejoin(double allowed, const Poll& poll) {
    for (int k = 0; k < state_.ways; ++k) {
      const bool under_way = k == 0 && state_.since > 0;
      extend(way(k), n_, under_way);
    }
    auto& order = state_.order;
    const Index out = n_ - state_.active;
    std::vector<std::uint8_t> joins(static_cast<std::size_t>(n_), 0);
    for (Index k = 0; k < state_.active; ++k) joins[order[k]] = 1;
    std::sort(order.begin() + state_.active, order.end());
    const auto step = static_cast<Index>(in_a_task / (mean_ + 8)) + 1;
    std::vector<double> largest(static_cast<std::size_t>((out + step - 1) / step), 0.0);
    parallel(
        static_cast<Index>(largest.size()), threads(),
        [&](Index task, int) {
          const Index end = std::min(n_, state_.active + (task + 1) * step);
          for (Index k = state_.active + task * step; k < end; ++k) {
            if (k + ahead < end) rows_.prefetch_row(row(order[k + ahead]));
            const double slope = slope_of(order[k]);
            largest[task] = std::max(largest[task], slope);
            joins[order[k]] = -slope <= allowed;
          }
        },
        [&] {
          if (poll) poll();
        });
    read_ += static_cast<std::int64_t>((mean_ + 8) * static_cast<double>(out));
    std::iota(order.begin(), order.end(), 0);
    const auto first = std::stable_partition(order.begin(), order.end(),
                                             [&](std::int32_t t) { return joins[t] != 0; });
    state_.active = first - order.begin();
    return *std::max_element(largest.begin(), largest.end());
  }

  DescentState::Way& way(int back) { return state_.way[(state_.latest + most - back) % most]; }

  // A way that a pass has yet to end has where β was, not how far it moved.
  void extend(DescentState::Way& way, Index reach, bool under_way = false) {
    for (; way.reach < reach; ++way.reach) {
      const std::int32_t t = state_.order[way.reach];
      way.moved[t] = under_way ? beta_[t] : 0.0;
    }
  }

  // Before a pass: where it begins.
  void set_out() {
    state_.latest = (state_.latest + 1) % most;
    state_.ways = std::min(state_.ways + 1, most);
    DescentState::Way& now = way(0);
    now.moved.resize(beta_.size());
    now.pulled.resize(w_.size());
    over_columns([&](Index begin, Index end, Index) {
      std::copy(&w_[begin], &w_[begin] + (end - begin), &now.pulled[begin]);
    });
    now.reach = state_.active;
    for (Index i = 0; i < now.reach; ++i) {
      now.moved[state_.order[i]] = beta_[state_.order[i]];
    }
  }

  // After it: on along the ways of the last passes.
  void go_on() {
    const int ways = state_.ways;
    const auto width = static_cast<Index>(w_.size());
    DescentState::Way& now = way(0);
    for (Index i = 0; i < now.reach; ++i) {
      double& moved = now.moved[state_.order[i]];
      moved = beta_[state_.order[i]] - moved;
    }
    over_columns([&](Index begin, Index end, Index) {
      for (Index j = begin; j < end; ++j) now.pulled[j] = w_[j] - now.pulled[j];
    });
    Index reach = 0;
    for (int k = 0; k < ways; ++k) reach = std::max(reach, way(k).reach);
    if (2 * reach > n_) reach = n_;
    for (int k = 0; k < ways; ++k) extend(way(k), reach);
    read_ += 2 * reach + width;
    const Numbers t = best(reach);
    if (std::all_of(t.begin(), t.end(), [](double x) { return x == 0; })) return;
    std::vector<double> sums(excess_.size());
    auto& trial = state_.trial;
    trial.resize(w_.size());
    for (const double shorter : {1.0, 0.25}) {
      // Not from what the ways moved w: t times their rounding would grow with every one.
      over_columns([&](Index begin, Index end, Index) {
        std::copy(&w_[begin], &w_[begin] + (end - begin), &trial[begin]);
      });
      double cost = 0;
      std::fill(sums.begin(), sums.end(), 0.0);
      for (Index i = 0; i < reach; ++i) {
        const std::int32_t v = variable(i, reach);
        const double b = beta_[v], moved = within(v, b, b + shorter * along(t, v));
        const double change = moved - b;
        if (change == 0) continue;
        cost += tube(v) * (std::abs(moved) - std::abs(b)) - problem_.target[v] * change;
        if (!sums.empty()) sums[group(v)] += change;
        rows_.add(row(v), change, trial.data());
        read_ += rows_.length(row(v));
      }
      std::vector<double> part(static_cast<std::size_t>(column_tasks()));
      over_columns([&](Index begin, Index end, Index task) {
        double sum = 0;
        for (Index j = begin; j < end; ++j) sum += (trial[j] - w_[j]) * (trial[j] + w_[j]);
        part[task] = sum;
      });
      for (const double sum : part) cost += sum / 2;
      for (std::size_t g = 0; g < sums.size(); ++g) {
        cost += sums[g] * (problem_.sigma * (excess_[g] + sums[g] / 2) - rho_[g]);
      }
      if (!(cost < 0)) continue;
      for (Index i = 0; i < reach; ++i) {
        const std::int32_t v = variable(i, reach);
        const double b = beta_[v], moved = within(v, b, b + shorter * along(t, v));
        now.moved[v] += moved - b;
        beta_[v] = moved;
      }
      over_columns([&](Index begin, Index end, Index) {
        for (Index j = begin; j < end; ++j) {
          now.pulled[j] += trial[j] - w_[j];
          w_[j] = trial[j];
        }
      });
      for (std::size_t g = 0; g < sums.size(); ++g) excess_[g] += sums[g];
      return;
    }
  }

  // The variables within reach; all of them in the order in which they are in memory.
  std::int32_t variable(Index i, Index reach) const {
    return reach == n_ ? static_cast<std::int32_t>(i) : state_.order[i];
  }

  double along(const Numbers& t, std::int32_t v) {
    double step = 0;
    for (int k = 0; k < state_.ways; ++k) step += t[k] * way(k).moved[v];
    return step;
  }

  // Within the bounds, and not beyond the kink at 0.
  double within(std::int32_t v, double from, double to) const {
    double low = problem_.low[v], high = problem_.high[v];
    if (tube(v) > 0) {
      if (from >= 0) low = std::max(low, 0.0);
      if (from <= 0) high = std::min(high, 0.0);
    }
    return std::clamp(to, low, high);
  }

  // The columns by all threads, a task being as many as stay near a processor; sums are those of
  // the tasks in their order, however many threads there are.
  Index column_tasks() const {
    return (static_cast<Index>(w_.size()) + columns_of_task - 1) / columns_of_task;
  }
  template <class Use>
  void over_columns(const Use& use) const {
    const auto width = static_cast<Index>(w_.size());
    parallel(column_tasks(), threads(),
             [&](Index task, int) {
               const Index begin = task * columns_of_task;
               use(begin, std::min(width, begin + columns_of_task), task);
             },
             {});
  }

  // Of what the ways moved w by, with each other and, last, with w: each is read once.
  using Products = std::array<std::array<double, most + 1>, most>;
  Products products_of_ways() {
    std::vector<Products> part(static_cast<std::size_t>(column_tasks()));
    over_columns([&](Index begin, Index end, Index task) {
      Products sums{};
      for (int k = 0; k < state_.ways; ++k) {
        const double* one = way(k).pulled.data();
        for (int l = 0; l <= k; ++l) sums[k][l] = inner(one, way(l).pulled.data(), begin, end);
        sums[k][most] = inner(one, w_.data(), begin, end);
      }
      part[task] = sums;
    });
    Products sums{};
    for (const Products& some : part) {
      for (int k = 0; k < most; ++k) {
        for (int l = 0; l <= most; ++l) sums[k][l] += some[k][l];
      }
    }
    return sums;
  }
  static double inner(const double* a, const double* b, Index begin, Index end) {
    double sum = 0;
    for (Index j = begin; j < end; ++j) sum += a[j] * b[j];
    return sum;
  }

  // How far to go along each way: the minimum of the quadratic, without bounds.
  Numbers best(Index reach) {
    const int ways = state_.ways;
    const std::size_t groups = excess_.size();
    Numbers slope{};
    std::array<Numbers, most> H{};
    std::array<std::vector<double>, most> sums;
    const Products products = products_of_ways();
    for (int k = 0; k < ways; ++k) {
      const DescentState::Way& one = way(k);
      sums[k].assign(groups, 0.0);
      for (Index i = 0; i < reach; ++i) {
        const std::int32_t v = variable(i, reach);
        const double d = one.moved[v];
        if (d == 0) continue;
        const double kink = beta_[v] > 0 ? tube(v) : beta_[v] < 0 ? -tube(v) : 0.0;
        slope[k] += (kink - problem_.target[v]) * d;
        if (groups > 0) sums[k][group(v)] += d;
      }
      slope[k] += products[k][most];
      for (std::size_t g = 0; g < groups; ++g) {
        slope[k] += sums[k][g] * (problem_.sigma * excess_[g] - rho_[g]);
      }
      for (int l = 0; l <= k; ++l) {
        double sum = products[k][l];
        for (std::size_t g = 0; g < groups; ++g) sum += problem_.sigma * sums[k][g] * sums[l][g];
        H[k][l] = H[l][k] = sum;
      }
    }
    return solved(H, slope, ways);
  }

  // -H⁻¹ slope by Cholesky's method, scaled to a diagonal of 1; ways that add nothing get 0.
  static Numbers solved(std::array<Numbers, most> H, Numbers slope, int ways) {
    Numbers scale{}, t{};
    for (int k = 0; k < ways; ++k) scale[k] = H[k][k] > 0 ? 1 / std::sqrt(H[k][k]) : 0.0;
    for (int k = 0; k < ways; ++k) {
      slope[k] *= scale[k];
      for (int l = 0; l < ways; ++l) H[k][l] *= scale[k] * scale[l];
    }
    for (int k = 0; k < ways; ++k) {
      for (int l = 0; l < k; ++l) {
        if (scale[l] == 0) continue;
        for (int i = 0; i < l; ++i) H[k][l] -= H[k][i] * H[l][i];
        H[k][l] /= H[l][l];
        H[k][k] -= H[k][l] * H[k][l];
      }
      if (!(H[k][k] > 1e-10)) {
        scale[k] = 0;
        for (int l = 0; l < most; ++l) H[k][l] = 0;
        H[k][k] = 1;
        slope[k] = 0;
        continue;
      }
      H[k][k] = std::sqrt(H[k][k]);
      for (int l = 0; l < k; ++l) slope[k] -= H[k][l] * slope[l];
      slope[k] /= H[k][k];
    }
    for (int k = ways - 1; k >= 0; --k) {
      t[k] = -slope[k];
      for (int l = k + 1; l < ways; ++l) t[k] -= H[l][k] * t[l];
      t[k] /= H[k][k];
    }
    for (int k = 0; k < ways; ++k) t[k] *= scale[k];
    return t;
  }

  const Rows& rows_;
  const FeatureQuadratic& problem_;
  std::span<double> beta_, w_, rho_;
  DescentState& state_;
  Index n_;
  double mean_;  // entries of a row
  std::vector<double> excess_;
  std::vector<std::uint8_t> leaving_;  // of those that take part
  std::vector<std::int32_t> left_;
  std::int64_t read_ = 0;
};

}  // namespace

DescentState::DescentState(Index n, std::uint64_t seed_)
    : order(static_cast<std::size_t>(n)),
      active(n),
      allowed(std::numeric_limits<double>::infinity()),
      checked(std::numeric_limits<double>::infinity()),
      seed(seed_) {
  std::iota(order.begin(), order.end(), 0);
}

Descended descend(const SparseRows& rows, const FeatureQuadratic& problem, std::span<double> beta,
                  std::span<double> w, std::span<double> rho, DescentState& state, double tol,
                  std::int64_t work, const Poll& poll) {
  return rows.visit(false, [&](const auto& view) {
    Descent run(view, rows.entries(), problem, beta, w, rho, state);
    return run(tol, work, poll);
  });
}

}  // namespace mercer
