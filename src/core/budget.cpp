// Wang, Crammer, Vucetic, JMLR 13 (2012): what leaves a full budget is merged with the term where
// that costs least, |c_a phi(a) + c_b phi(b) - c phi(z)|^2 for z on the line between a and b.
#include "budget.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

namespace mercer {
namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();
constexpr Index polled = 16;  // steps between two questions for Ctrl-C

// Four sums side by side: the compiler may not reorder one.
double dot(const double* a, const double* b, Index n) {
  double part[4] = {};
  Index t = 0;
  for (; t + 4 <= n; t += 4) {
    for (Index l = 0; l < 4; ++l) part[l] += a[t + l] * b[t + l];
  }
  for (; t < n; ++t) part[0] += a[t] * b[t];
  return (part[0] + part[1]) + (part[2] + part[3]);
}

double squared_distance(const double* a, const double* b, Index n) {
  double part[4] = {};
  Index t = 0;
  for (; t + 4 <= n; t += 4) {
    for (Index l = 0; l < 4; ++l) {
      const double gap = a[t + l] - b[t + l];
      part[l] += gap * gap;
    }
  }
  for (; t < n; ++t) part[0] += (a[t] - b[t]) * (a[t] - b[t]);
  return (part[0] + part[1]) + (part[2] + part[3]);
}

// c_a.c_a, c_a.c_b and c_b.c_b, over outputs.
struct Products {
  double aa, ab, bb;
};

// |c_a phi(a) + c_b phi(b), projected on phi(z)|^2 for z = h a + (1 - h) b: for a Gaussian kernel
// k(a, z) = k(a, b)^((1-h)^2) and k(b, z) = k(a, b)^(h^2); log is ln k(a, b).
double gain(double h, double log, const Products& c, double offset) {
  const double to_a = std::exp(log * (1 - h) * (1 - h)) + offset;
  const double to_b = std::exp(log * h * h) + offset;
  return (to_a * to_a * c.aa + 2 * to_a * to_b * c.ab + to_b * to_b * c.bb) / (1 + offset);
}

// Whether the gain grows with h.
bool grows(double h, double log, const Products& c, double offset) {
  const double near_a = std::exp(log * (1 - h) * (1 - h)), near_b = std::exp(log * h * h);
  const double to_a = near_a + offset, to_b = near_b + offset;
  const double slope_a = -(1 - h) * log * near_a, slope_b = h * log * near_b;
  return slope_a * (to_a * c.aa + to_b * c.ab) + slope_b * (to_a * c.ab + to_b * c.bb) > 0;
}

// Where on [0, 1] the gain is largest: golden sections find the hill, its slope the top.
double best_share(double log, const Products& c, double offset) {
  const double ratio = (std::sqrt(5.0) - 1) / 2;
  double low = 0, high = 1, x = high - ratio, y = low + ratio;
  double at_x = gain(x, log, c, offset), at_y = gain(y, log, c, offset);
  for (int step = 0; step < 12; ++step) {
    // Equal terms are as well off on both sides: rounding must not choose.
    if (at_x > (1 + 1e-12) * at_y) {
      high = y, y = x, at_y = at_x;
      x = high - ratio * (high - low);
      at_x = gain(x, log, c, offset);
    } else {
      low = x, x = y, at_x = at_y;
      y = low + ratio * (high - low);
      at_y = gain(y, log, c, offset);
    }
  }
  low = std::max(0.0, low - 1e-4);
  high = std::min(1.0, high + 1e-4);
  for (int step = 0; step < 44; ++step) {
    const double middle = (low + high) / 2;
    (grows(middle, log, c, offset) ? low : high) = middle;
  }
  return (low + high) / 2;
}

class BudgetWalk {
 public:
  BudgetWalk(const LossSlope& loss, BudgetVisits& visits)
      : loss_(loss), v_(visits), q_(visits.q), delta_(size(q_)), row_(size(visits.room)) {
    for (Index s = 0; s < v_.m; ++s) {
      if (v_.source[s] >= 0) slot_of_[v_.source[s]] = s;
    }
  }

  void step(Index j) {
    const double eta = v_.rate[j], shrink = std::max(0.0, 1 - 2 * v_.reg * eta);
    const double own = v_.gram[j * v_.b + j];
    double* f = v_.values + j * q_;
    weigh(v_.across + j * v_.room, f);
    if (v_.average) {
      for (Index c = 0; c < v_.m * q_; ++c) v_.total[c] += v_.coef[c];
    }
    ++v_.steps;
    bool any = false;
    for (Index c = 0; c < q_; ++c) {
      const double d = -eta * v_.weight[j] * loss_.at(v_.target[j * q_ + c], f[c]);
      double& square = v_.square[c];
      square = shrink * shrink * square + d * (2 * shrink * f[c] + d * own);
      not_below_0(square);
      delta_[size(c)] = d;
      any = any || d != 0;
    }
    if (shrink != 1) {
      for (Index c = 0; c < v_.m * q_; ++c) v_.coef[c] *= shrink;
    }
    if (any) {
      add(j);
      if (v_.m == v_.room) make_room();
    }
    project();
  }

 private:
  static std::size_t size(Index n) { return static_cast<std::size_t>(n); }
  static void not_below_0(double& square) {
    if (square < 0) square = 0.0;  // rounding can leave -1e-17; a NaN stays one
  }
  double* coef(Index s) const { return v_.coef + s * q_; }
  double* total(Index s) const { return v_.total + s * q_; }
  double* matrix(Index s) const { return v_.matrix + s * v_.room; }

  // f where the kernel values with the slots are these.
  void weigh(const double* k, double* f) const {
    if (q_ == 1) {
      *f = dot(k, v_.coef, v_.m);
      return;
    }
    std::fill_n(f, q_, 0.0);
    for (Index s = 0; s < v_.m; ++s) {
      for (Index c = 0; c < q_; ++c) f[c] += k[s] * v_.coef[s * q_ + c];
    }
  }

  void project() {
    const double largest = v_.norm * v_.norm;
    for (Index c = 0; c < q_; ++c) {
      if (!(v_.square[c] > largest)) continue;
      const double factor = std::sqrt(largest / v_.square[c]);
      v_.square[c] = largest;
      for (Index s = 0; s < v_.m; ++s) v_.coef[s * q_ + c] *= factor;
    }
  }

  // d phi(x) to the term of this point, or to a new one.
  void add(Index j) {
    const auto known = slot_of_.find(v_.place[j]);
    Index slot = known == slot_of_.end() ? v_.m : known->second;
    if (known == slot_of_.end()) {
      for (Index s = 0; s < v_.m; ++s) {
        matrix(slot)[s] = matrix(s)[slot] = v_.across[j * v_.room + s];
      }
      matrix(slot)[slot] = v_.gram[j * v_.b + j];
      for (Index i = 0; i < v_.b; ++i) v_.across[i * v_.room + slot] = v_.gram[i * v_.b + j];
      std::fill_n(coef(slot), q_, 0.0);
      std::fill_n(total(slot), q_, 0.0);
      v_.source[slot] = v_.place[j];
      slot_of_[v_.place[j]] = slot;
      if (v_.slots) std::copy_n(v_.points + j * v_.d, v_.d, v_.slots + slot * v_.d);
      ++v_.m;
    }
    for (Index c = 0; c < q_; ++c) coef(slot)[c] += delta_[size(c)];
    v_.age[slot] = v_.steps;
  }

  // One term fewer; the newest stays.
  void make_room() {
    Index slot = v_.removal == Removal::oldest ? oldest() : smallest();
    if (v_.removal == Removal::merge) {
      Index newest = std::max_element(v_.age, v_.age + v_.m) - v_.age;
      const auto [cost, a, b] = std::min(partner(slot), partner(newest));
      if (cost < infinite) return merge(a, b);
    }
    remove(slot);
  }

  Index oldest() const { return std::min_element(v_.age, v_.age + v_.m) - v_.age; }

  // Where a term is given up, the output that loses most counts: of several classes most terms are
  // of few, and by the sum those of one class alone would go at once.
  double largeness(Index s) const {
    if (v_.removal == Removal::merge) return dot(coef(s), coef(s), q_);
    double most = 0;
    for (Index c = 0; c < q_; ++c) most = std::max(most, coef(s)[c] * coef(s)[c]);
    return most;
  }

  Index smallest() {
    double least = infinite;
    for (Index s = 0; s < v_.m; ++s) {
      row_[size(s)] = largeness(s) * matrix(s)[s];
      if (v_.age[s] < v_.steps) least = std::min(least, row_[size(s)]);
    }
    // Many are alike, but for rounding; the oldest of them goes.
    Index slot = -1;
    for (Index s = 0; s < v_.m; ++s) {
      if (v_.age[s] == v_.steps || !(row_[size(s)] <= (1 + 1e-9) * least)) continue;
      if (slot < 0 || v_.age[s] < v_.age[slot]) slot = s;
    }
    return slot < 0 ? oldest() : slot;  // where all are no numbers, which is found later
  }

  // w without a term; the last one takes its slot.
  void remove(Index slot) {
    std::vector<double> f(size(q_));
    weigh(matrix(slot), f.data());
    for (Index c = 0; c < q_; ++c) {
      const double own = coef(slot)[c];
      v_.square[c] += -2 * own * f[size(c)] + own * own * matrix(slot)[slot];
      not_below_0(v_.square[c]);
    }
    drop(slot);
  }

  void drop(Index slot) {
    const Index last = v_.m - 1;
    slot_of_.erase(v_.source[slot]);
    if (slot != last) {
      std::copy_n(coef(last), q_, coef(slot));
      std::copy_n(total(last), q_, total(slot));
      v_.age[slot] = v_.age[last];
      v_.source[slot] = v_.source[last];
      if (v_.slots) std::copy_n(v_.slots + last * v_.d, v_.d, v_.slots + slot * v_.d);
      std::copy_n(matrix(last), v_.m, matrix(slot));
      matrix(slot)[slot] = matrix(last)[last];
      for (Index s = 0; s < last; ++s) matrix(s)[slot] = matrix(slot)[s];
      for (Index i = 0; i < v_.b; ++i) {
        v_.across[i * v_.room + slot] = v_.across[i * v_.room + last];
      }
      if (v_.source[slot] >= 0) slot_of_[v_.source[slot]] = slot;
    }
    v_.m = last;
  }

  double logarithm(double value) const {
    return std::log(std::clamp(value - v_.offset, 1e-304, 1.0));
  }

  Products products(Index a, Index b) const {
    return {dot(coef(a), coef(a), q_), dot(coef(a), coef(b), q_), dot(coef(b), coef(b), q_)};
  }

  bool same_signs(Index a, Index b) const {
    bool any = false;
    for (Index c = 0; c < q_; ++c) {
      const double product = coef(a)[c] * coef(b)[c];
      if (product < 0) return false;
      any = any || product > 0;
    }
    return any;
  }

  // Where a merger costs least, among the terms of the same signs, each judged at the weighted mean
  // of its two points: (cost, a, b).
  std::tuple<double, Index, Index> partner(Index slot) const {
    std::tuple<double, Index, Index> best{infinite, slot, slot};
    const double own = 1 + v_.offset, length = std::sqrt(dot(coef(slot), coef(slot), q_));
    for (Index s = 0; s < v_.m; ++s) {
      if (s == slot || !same_signs(slot, s)) continue;
      const Products c = products(slot, s);
      const double between = matrix(slot)[s];
      const double pair = own * (c.aa + c.bb) + 2 * between * c.ab;
      const double h = length / (length + std::sqrt(c.bb));
      const double cost = pair - gain(h, logarithm(between), c, v_.offset);
      if (cost < std::get<0>(best)) best = {cost, slot, s};
    }
    return best;
  }

  double kernel(const double* x, const double* y) const {
    return std::exp(-v_.gamma * squared_distance(x, y, v_.d)) + v_.offset;
  }

  // Terms a and b become one at z = h a + (1 - h) b, as near as can be.
  void merge(Index a, Index b) {
    const double h = best_share(logarithm(matrix(a)[b]), products(a, b), v_.offset);
    const double own = 1 + v_.offset, between = matrix(a)[b];
    std::vector<double> z(size(v_.d));
    for (Index t = 0; t < v_.d; ++t) {
      z[size(t)] = h * v_.slots[a * v_.d + t] + (1 - h) * v_.slots[b * v_.d + t];
    }
    for (Index s = 0; s < v_.m; ++s) row_[size(s)] = kernel(z.data(), v_.slots + s * v_.d);
    const double to_a = row_[size(a)], to_b = row_[size(b)];
    std::vector<double> at_a(size(q_)), at_b(size(q_)), at_z(size(q_));
    weigh(matrix(a), at_a.data());
    weigh(matrix(b), at_b.data());
    weigh(row_.data(), at_z.data());
    for (Index c = 0; c < q_; ++c) {
      const double x = coef(a)[c], y = coef(b)[c], made = (to_a * x + to_b * y) / own;
      // |w + u|^2 with u = made phi(z) - x phi(a) - y phi(b), all from kernel values.
      const double inner = made * at_z[size(c)] - x * at_a[size(c)] - y * at_b[size(c)];
      double length = own * made * made + own * (x * x + y * y) + 2 * between * x * y;
      length -= 2 * made * (to_a * x + to_b * y);
      v_.square[c] += 2 * inner + length;
      not_below_0(v_.square[c]);
      coef(b)[c] = made;
      total(b)[c] = (to_a * total(a)[c] + to_b * total(b)[c]) / own;
    }
    slot_of_.erase(v_.source[b]);
    v_.age[b] = std::max(v_.age[a], v_.age[b]);
    v_.source[b] = -1;
    std::copy(z.begin(), z.end(), v_.slots + b * v_.d);
    for (Index s = 0; s < v_.m; ++s) matrix(b)[s] = matrix(s)[b] = row_[size(s)];
    matrix(b)[b] = own;
    for (Index i = 0; i < v_.b; ++i) {
      v_.across[i * v_.room + b] = kernel(z.data(), v_.points + i * v_.d);
    }
    drop(a);
  }

  LossSlope loss_;
  BudgetVisits& v_;
  Index q_;
  std::unordered_map<Index, Index> slot_of_;
  std::vector<double> delta_, row_;
};

}  // namespace

Removal removal_of(std::string_view name) {
  if (name == "oldest") return Removal::oldest;
  if (name == "smallest") return Removal::smallest;
  if (name == "merge") return Removal::merge;
  throw std::invalid_argument("budget_steps does not know the removal " + std::string(name) + ".");
}

void budget_steps(const LossSlope& loss, BudgetVisits& visits, const Poll& poll) {
  BudgetWalk walk(loss, visits);
  for (Index j = 0; j < visits.b; ++j) {
    if (poll && j % polled == polled - 1) poll();
    walk.step(j);
  }
}

}  // namespace mercer
