// Hsieh et al., "A dual coordinate descent method for large-scale linear SVM" (ICML 2008), with its
// shrinking; the sums are kept by multipliers, one step of them after each pass.
#include "features.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace mercer {
namespace {

constexpr Index between_polls = 1 << 22;  // entries, some milliseconds

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

}  // namespace

Descended descend(const FeatureQuadratic& problem, std::span<double> beta, std::span<double> w,
                  std::span<double> rho, std::span<std::int32_t> order, Shrunk& shrunk, double tol,
                  std::int64_t work, std::uint64_t seed, const Poll& poll) {
  const auto& [begin, column, entry] = problem.rows;
  const std::size_t n = beta.size();
  std::vector<double> excess(problem.total.size());
  for (std::size_t g = 0; g < excess.size(); ++g) excess[g] = -problem.total[g];
  auto group_of = [&](std::size_t t) { return problem.group.empty() ? 0 : problem.group[t]; };
  if (!excess.empty()) {
    for (std::size_t t = 0; t < n; ++t) excess[group_of(t)] += beta[t];
  }
  auto& [active, allowed] = shrunk;
  std::int64_t read = 0, since_poll = 0, passes = 0;
  Descended result{std::numeric_limits<double>::infinity(), false, 0};
  while (read < work) {
    double most = 0;
    const bool complete = active == static_cast<Index>(n);
    for (Index k = 0; k < active; ++k) {
      std::swap(order[k],
                order[k + static_cast<Index>(next(seed) % static_cast<std::uint64_t>(active - k))]);
    }
    for (Index k = 0; k < active;) {
      const std::int32_t t = order[k];
      const std::int32_t from = begin[t], to = begin[t + 1];
      double F = 0;
      for (std::int32_t e = from; e < to; ++e) F += entry[e] * w[column[e]];
      read += to - from + 8;
      double gradient = F - problem.target[t], curvature = problem.square[t];
      std::size_t g = 0;
      if (!excess.empty()) {
        g = group_of(t);
        gradient += problem.sigma * excess[g] - rho[g];
        curvature += problem.sigma;
      }
      const double tube = problem.tube.empty() ? 0.0 : problem.tube[t];
      const double low = problem.low[t], high = problem.high[t], b = beta[t];
      const auto [below, above] = slopes(gradient, b, low, high, tube);
      if (below <= 0 && above >= 0) {
        if (std::min(-below, above) > allowed) {
          std::swap(order[k], order[--active]);
        } else {
          ++k;
        }
        continue;
      }
      ++k;
      most = std::max(most, below > 0 ? below : -above);
      double moved;
      if (curvature > 0) {
        const double z = b - gradient / curvature, reach = tube / curvature;
        moved = z > reach ? z - reach : z < -reach ? z + reach : 0.0;
        moved = std::clamp(moved, low, high);
      } else {  // a straight line
        const double down = low < 0 && b > 0 && tube > 0 && gradient > -tube ? 0.0 : low;
        const double up = high > 0 && b < 0 && tube > 0 && gradient < tube ? 0.0 : high;
        moved = below > 0 ? down : up;
      }
      const double change = moved - b;
      if (change == 0) continue;
      beta[t] = moved;
      for (std::int32_t e = from; e < to; ++e) w[column[e]] += change * entry[e];
      if (!excess.empty()) excess[g] += change;
    }
    // Where the sums are off by more than the slopes, those that could mend it may be left out.
    bool lacking = false;
    const double slope = most;
    for (std::size_t g = 0; g < excess.size(); ++g) {
      const double off = problem.sigma * std::abs(excess[g]);
      // Multipliers that do not wait for the minimum they belong to may go in circles.
      if (passes < 32 || off > slope / 4) rho[g] -= problem.sigma * excess[g];
      lacking |= off > slope;
      most = std::max(most, off);
    }
    ++passes;
    result = {most, complete, read += 8};
    if (complete && most <= tol) break;
    if (most <= tol || lacking || active == 0) {
      active = static_cast<Index>(n);
      allowed = std::numeric_limits<double>::infinity();
    } else {
      allowed = most;
    }
    if (read - since_poll > between_polls) {
      since_poll = read;
      if (poll) poll();
    }
  }
  return result;
}

}  // namespace mercer
