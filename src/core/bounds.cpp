// Variables at their bounds and with their sum, to the last digit.
#include "bounds.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <map>
#include <vector>

namespace mercer {
namespace {

// Σ value - total without an error but the last rounding: the sum is kept as numbers none of which
// has a digit in common with another (Shewchuk, Discrete & Computational Geometry 18, 1997).
double excess_over(std::span<const double> value, double total) {
  std::vector<double> parts;
  auto add = [&](double by) {
    std::size_t kept = 0;
    for (double part : parts) {
      double sum = by + part, took = sum - by;
      double rest = (by - (sum - took)) + (part - took);
      if (rest != 0) parts[kept++] = rest;
      by = sum;
    }
    parts.resize(kept);
    parts.push_back(by);
  };
  add(-total);
  for (double by : value) add(by);
  double sum = 0;  // from the smallest on
  for (double part : parts) sum += part;
  return sum;
}

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
  double excess = excess_over(value, total);
  if (excess == 0) return 0;
  std::map<int, std::size_t, std::greater<>> of_order;  // one of each binary order: the same digits
  for (std::size_t t = 0; t < value.size(); ++t) {
    bool free = value[t] > lower[t] && value[t] < upper[t] && value[t] != 0;
    if (free) of_order.try_emplace(std::ilogb(value[t]), t);
  }
  for (auto [order, t] : of_order) {
    double moved = value[t] - excess;
    if (!(moved > lower[t] && moved < upper[t]) || moved == 0) continue;
    value[t] = moved;
    excess = excess_over(value, total);
    if (excess == 0) break;
  }
  return std::abs(excess);
}

}  // namespace mercer
