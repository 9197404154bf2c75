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

}  // namespace mercer
