// Variables at their bounds and with their sum, to the last digit.
#include "bounds.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <vector>

namespace mercer {
namespace {

constexpr std::size_t run = 256;  // numbers that are summed one after another

// A sum without an error but the last rounding: it is kept as numbers none of which has a digit in
// common with another (Shewchuk, Discrete & Computational Geometry 18, 1997). All digits of doubles
// are 2098, and each of these numbers has 53 of them.
class ExactSum {
 public:
  void add(double by) {
    std::size_t kept = 0;
    for (std::size_t k = 0; k < count_; ++k) {
      double part = parts_[k], sum = by + part, took = sum - by;
      double rest = (by - (sum - took)) + (part - took);
      if (rest != 0) parts_[kept++] = rest;
      by = sum;
    }
    parts_[kept] = by;
    count_ = kept + 1;
  }
  double value() const {  // from the smallest on
    return std::accumulate(parts_.begin(), parts_.begin() + count_, 0.0);
  }

 private:
  std::array<double, 64> parts_;
  std::size_t count_ = 0;
};

}  // namespace

void snap(std::span<double> value, std::span<const double> lower, std::span<const double> upper,
          double slack) {
  double largest = 0;
  for (double by : value) largest = std::max(largest, std::abs(by));
  auto to = [&](double& by, double bound, double other) {
    double size = bound == 0 ? std::min(std::abs(other), largest) : std::abs(bound);
    if (std::isfinite(bound) && std::abs(by - bound) <= slack * size) by = bound;
  };
  for (std::size_t t = 0; t < value.size(); ++t) {
    to(value[t], lower[t], upper[t]);
    to(value[t], upper[t], lower[t]);
  }
}

double balance(std::span<double> value, std::span<const double> lower,
               std::span<const double> upper, double total) {
  ExactSum sum;
  sum.add(-total);
  for (double by : value) sum.add(by);
  double excess = sum.value();
  if (excess == 0) return 0;
  std::map<int, std::size_t, std::greater<>> of_order;  // one of each binary order: the same digits
  for (std::size_t t = 0; t < value.size(); ++t) {
    bool free = value[t] > lower[t] && value[t] < upper[t] && value[t] != 0;
    if (free) of_order.try_emplace(std::ilogb(value[t]), t);
  }
  for (auto [order, t] : of_order) {
    double moved = value[t] - excess;
    if (!(moved > lower[t] && moved < upper[t]) || moved == 0) continue;
    sum.add(-value[t]);
    sum.add(moved);
    value[t] = moved;
    excess = sum.value();
    if (excess == 0) break;
  }
  return std::abs(excess);
}

double exact_excess(std::span<const double> values, double total) {
  ExactSum sum;
  sum.add(-total);
  for (double value : values) sum.add(value);
  return sum.value();
}

BoxEnds ends(const BoxPoint& p) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  BoxEnds found{-infinity, infinity, 0, 0};
  for (std::size_t from = 0; from < p.beta.size(); from += run) {
    double of_free = 0;
    for (std::size_t t = from; t < std::min(p.beta.size(), from + run); ++t) {
      double b = p.beta[t], gradient = p.function[t] - p.target[t];
      double tube = p.tube.empty() ? 0 : p.tube[t];
      double below = gradient + (b > 0 ? tube : -tube), above = gradient + (b < 0 ? -tube : tube);
      bool falls = b > p.lower[t], rises = b < p.upper[t];
      if (falls) found.down = std::max(found.down, below);
      if (rises) found.up = std::min(found.up, above);
      if (falls && rises && below == above && std::isfinite(below)) {
        of_free += below;
        ++found.n_free;
      }
    }
    found.of_free += of_free;
  }
  return found;
}

BoxSums sums(const BoxPoint& p, double level, double rounding) {
  BoxSums all;
  for (std::size_t from = 0; from < p.beta.size(); from += run) {
    BoxSums some;
    for (std::size_t t = from; t < std::min(p.beta.size(), from + run); ++t) {
      double b = p.beta[t], F = p.function[t], target = p.target[t], size = std::abs(b);
      double low = p.lower[t], high = p.upper[t], tube = p.tube.empty() ? 0 : p.tube[t];
      double surplus = target - F + level;
      double at_low = surplus * low - tube * std::abs(low);
      double at_high = surplus * high - tube * std::abs(high);
      double loss = at_low < at_high ? at_high : at_low;
      bool inside = low <= 0 && high >= 0;
      if (inside && loss < 0) loss = 0;
      // An error of F counts with β in the square, and with the bound where there is a loss, or
      // would be one if F were off by that much.
      double rising = surplus + rounding > tube || !inside ? std::abs(high) : 0;
      double falling = -surplus + rounding > tube || !inside ? std::abs(low) : 0;
      some.square += b * F;
      some.linear += target * b - tube * size;
      some.loss += loss;
      some.weight += size;
      some.losing += std::max(rising, falling);
      some.size += (std::abs(target) + std::abs(F)) * size;
      some.losses += std::abs(loss);
    }
    all.square += some.square;
    all.linear += some.linear;
    all.loss += some.loss;
    all.weight += some.weight;
    all.losing += some.losing;
    all.size += some.size;
    all.losses += some.losses;
  }
  return all;
}

namespace {

// What the dual can gain by missing the sum that is fixed: with as much more or less of a variable
// that has room for it, β is feasible.
double imbalance(const BoxPoint& p, double total) {
  double excess = exact_excess(p.beta, total), most = 0;
  double least = std::numeric_limits<double>::infinity();
  if (excess == 0) return 0;
  for (std::size_t t = 0; t < p.beta.size(); ++t) {
    double slope = std::abs(p.function[t] - p.target[t]) + (p.tube.empty() ? 0 : p.tube[t]);
    double moved = p.beta[t] - excess;
    most = std::max(most, slope);
    if (p.lower[t] <= moved && moved <= p.upper[t]) least = std::min(least, slope);
  }
  return 2 * std::abs(excess) * (std::isfinite(least) ? least : most);
}

double level_of(const BoxEnds& found) {
  if (found.n_free > 0) return found.of_free / static_cast<double>(found.n_free);
  if (std::isinf(found.down)) return found.up;
  if (std::isinf(found.up)) return found.down;
  return (found.down + found.up) / 2;
}

}  // namespace

BoxVerdict judge(std::span<double> beta, const BoxPoint& p, double total, const BoxErrors& errors) {
  constexpr double unit = std::numeric_limits<double>::epsilon() / 2, length = run;
  bool free_sum = std::isnan(total);
  std::vector<double> before(beta.begin(), beta.end());
  snap(beta, p.lower, p.upper, 1e-13);
  if (!free_sum) balance(beta, p.lower, p.upper, total);
  double off = 0, mass = 0, terms = 0, largest_target = 0;
  for (std::size_t t = 0; t < beta.size(); ++t) {
    off += std::abs(beta[t] - before[t]);
    mass += std::abs(beta[t]);
    terms += beta[t] != 0;
    largest_target = std::max(largest_target, std::abs(p.target[t]));
  }
  off *= errors.largest;
  double units = errors.entry_error + std::min(terms, length) + terms / length;
  double rounding =
      unit * (units * errors.largest * std::max(mass, errors.moved) + 2 * largest_target);
  BoxVerdict verdict{};
  verdict.settled = off <= rounding / 8;
  rounding += off;
  BoxEnds found = ends(p);
  verdict.level = free_sum ? 0 : level_of(found);
  double gain = free_sum ? std::max(found.down, -found.up) : found.down - found.up;
  verdict.violation = std::max(0.0, gain);
  BoxSums all = sums(p, verdict.level, rounding);
  double constant = free_sum ? 0 : verdict.level * total, count = static_cast<double>(beta.size());
  double losses = all.losses + std::abs(constant);
  double digits = unit * (std::min(count, length) + count / length + 4);
  double below = all.weight * rounding + digits * all.size;
  double above = below + all.losing * rounding + digits * losses;
  if (!free_sum) below += imbalance(p, total);
  verdict.primal = all.square / 2 + all.loss - constant + above;
  verdict.dual = all.linear - all.square / 2 - below;
  verdict.objective_error = 2 * (above + below);
  verdict.rounding = rounding;
  return verdict;
}

}  // namespace mercer
