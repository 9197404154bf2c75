// Variables at their bounds and with their sum, to the last digit.
#include "bounds.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <functional>
#include <map>
#include <numeric>

namespace mercer {
namespace {

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

}  // namespace mercer
