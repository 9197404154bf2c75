// Between bounds the problem is a system of equations: K d = level - gradient among the free
// variables, Σd = 0. Where kernel rows are nearly dependent, pairs of variables need very many
// steps to its solution; few variables are free then, and to go from one set of them to the next is
// little work. Nocedal and Wright, Numerical Optimization (2006), section 16.5; on support vector
// machines Scheinberg, JMLR 7 (2006).
#include "active_set.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace mercer {
namespace {

// A pivot below this share of its diagonal entry is made of rounding.
template <class T>
constexpr double dependent = sizeof(T) == 8 ? 1e-13 : 1e-6;

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double epsilon = std::numeric_limits<double>::epsilon();

constexpr Index most_idle = 100;  // steps of no length: rounding stands in the way

// What two variables among `size` cost in multiplications, about.
double cost_of_pair(Index size) {
  return 4 * static_cast<double>(std::max<Index>(1, size));
}

// Of one change among `free` variables.
double cost_of_change(double free, double size) {
  return 3 * free * free + free * size;
}

double dot(const double* a, const double* b, Index n) {
  double sums[4] = {0, 0, 0, 0}, rest = 0;
  Index t = 0;
  for (; t + 4 <= n; t += 4) {
    for (int l = 0; l < 4; ++l) sums[l] += a[t + l] * b[t + l];
  }
  for (; t < n; ++t) rest += a[t] * b[t];
  return (sums[0] + sums[1]) + (sums[2] + sums[3]) + rest;
}

// Makes the sum of x what it is to be. Where rows are nearly dependent, parts of a step are large
// and cancel.
void center(std::vector<double>& x, double total) {
  for (int again = 0; again < 2; ++again) {
    double rest = std::accumulate(x.begin(), x.end(), -total) / static_cast<double>(x.size());
    for (double& part : x) part -= rest;
  }
}

// Whether a variable is strictly between its bounds, and off the kink of its tube.
template <class T>
bool is_free(const WorkingSet<T>& w, Index t) {
  bool kink = w.tube[t] > 0 && w.beta[t] == 0;
  return !kink && w.beta[t] > w.lower[t] && w.beta[t] < w.upper[t];
}

}  // namespace

template <class T>
double ActiveSet<T>::price(const WorkingSet<T>& w) {
  double f = 0;
  for (Index t = 0; t < w.size; ++t) f += is_free(w, t);
  return (f * f * f / 6 + cost_of_change(f, static_cast<double>(w.size))) / cost_of_pair(w.size);
}

template <class T>
ActiveSet<T>::ActiveSet(WorkingSet<T>& set)
    : w_(set),
      per_step_(cost_of_pair(set.size)),
      gradient_(set.gradient, set.gradient + set.size),
      before_(static_cast<std::size_t>(set.size)),
      is_touched_(static_cast<std::size_t>(set.size), 0) {
  for (Index t = 0; t < w_.size; ++t) {
    double k = std::abs(static_cast<double>(w_.diagonal[t]));
    constant_ += k / static_cast<double>(w_.size);
    largest_ = std::max(largest_, k);
  }
}

template <class T>
typename ActiveSet<T>::Free ActiveSet<T>::freed(Index t, bool upwards) const {
  double tube = w_.tube[t];
  bool positive = w_.beta[t] > 0 || (w_.beta[t] == 0 && upwards);
  Free one{t, w_.lower[t], w_.upper[t], positive ? tube : -tube, 0};
  if (tube > 0 && positive) one.lowest = std::max(0.0, one.lowest);
  if (tube > 0 && !positive) one.highest = std::min(0.0, one.highest);
  one.slope = gradient_[t] + one.tube;
  return one;
}

// x becomes L⁻¹x.
template <class T>
void ActiveSet<T>::forward(std::vector<double>& x) const {
  for (Index k = 0; k < count(); ++k) x[k] = (x[k] - dot(row(k), x.data(), k)) / row(k)[k];
}

// x becomes L⁻ᵀx.
template <class T>
void ActiveSet<T>::backward(std::vector<double>& x) const {
  for (Index k = count() - 1; k >= 0; --k) {
    const double* from = row(k);
    double by = x[k] /= from[k];
    for (Index j = 0; j < k; ++j) x[j] -= by * from[j];
  }
}

// x_ becomes the row that t would have in the factor; returns its pivot. A constant is added to K,
// which no step of sum 0 sees: a dependent row then belongs to such a step.
template <class T>
double ActiveSet<T>::reduce(Index t) {
  const T* given = w_.matrix + t * w_.ld;
  x_.clear();
  for (const Free& one : free_) x_.push_back(constant_ + static_cast<double>(given[one.at]));
  forward(x_);
  double f = static_cast<double>(count());
  charge(f * f / 2);
  return constant_ + static_cast<double>(w_.diagonal[t]) - dot(x_.data(), x_.data(), count());
}

template <class T>
void ActiveSet<T>::append(const Free& one, double pivot) {
  Index f = count();
  if (f + 1 > room_) {
    Index wider = std::max<Index>(32, 2 * room_);
    std::vector<double> grown(static_cast<std::size_t>(wider * wider));
    for (Index k = 0; k < f; ++k) std::copy_n(row(k), k + 1, grown.data() + k * wider);
    factor_.swap(grown);
    room_ = wider;
  }
  std::copy_n(x_.data(), f, row(f));
  row(f)[f] = std::sqrt(pivot);
  free_.push_back(one);
}

// Takes variable k out of the factor: what its column gave the rows below is turned into theirs.
template <class T>
void ActiveSet<T>::erase(Index k) {
  Index f = count();
  turn_.resize(static_cast<std::size_t>(f));
  slant_.resize(static_cast<std::size_t>(f));
  for (Index r = k + 1; r < f; ++r) {
    const double* from = row(r);
    double* to = row(r - 1);
    double rest = from[k];
    std::copy_n(from, k, to);
    for (Index j = k + 1; j < r; ++j) {
      double value = from[j];
      to[j - 1] = turn_[j] * value + slant_[j] * rest;
      rest = turn_[j] * rest - slant_[j] * value;
    }
    double length = std::hypot(from[r], rest);
    turn_[r] = from[r] / length;
    slant_[r] = rest / length;
    to[r - 1] = length;
  }
  double below = static_cast<double>(f - k);
  charge(2 * below * below);
  free_.erase(free_.begin() + k);
}

// How far a variable can go: infinity without a bound, or without a direction.
template <class T>
double ActiveSet<T>::room(const Free& one, double direction) const {
  if (direction == 0) return infinity;
  return ((direction > 0 ? one.highest : one.lowest) - w_.beta[one.at]) / direction;
}

template <class T>
void ActiveSet<T>::move(Index t, double by, double end, bool meets) {
  double to = meets ? end : w_.beta[t] + by;
  if (!is_touched_[t]) {
    is_touched_[t] = 1;
    touched_.push_back(t);
    before_[t] = w_.beta[t];
  }
  w_.beta[t] = to;
}

template <class T>
void ActiveSet<T>::leave_at_bounds() {
  for (Index k = count() - 1; k >= 0; --k) {
    double beta = w_.beta[free_[k].at];
    if (beta == free_[k].lowest || beta == free_[k].highest) erase(k);
  }
}

// A step that changes no gradient: one variable, and those of whose rows its row is a combination,
// as far as the first bound. x_ is what `reduce` left.
template <class T>
bool ActiveSet<T>::follow(const Free& one, double sign) {
  backward(x_);
  for (double& x : x_) x = -sign * x;
  center(x_, -sign);
  double most = room(one, sign);
  for (Index k = 0; k < count(); ++k) most = std::min(most, room(free_[k], x_[k]));
  if (!(most < infinity)) return false;
  idle_ = most > 0 ? 0 : idle_ + 1;
  auto go = [&](const Free& which, double direction) {
    double end = direction > 0 ? which.highest : which.lowest;
    move(which.at, most * direction, end, room(which, direction) <= most);
  };
  for (Index k = 0; k < count(); ++k) go(free_[k], x_[k]);
  go(one, sign);
  leave_at_bounds();
  double f = static_cast<double>(count());
  charge(f * f / 2);
  return true;
}

// A variable becomes free that can go upwards, or downwards, to lower the objective.
template <class T>
bool ActiveSet<T>::enter(const Free& one, bool upwards) {
  double size = constant_ + std::abs(static_cast<double>(w_.diagonal[one.at]));
  for (Index again = 0; again <= count(); ++again) {
    double pivot = reduce(one.at);
    if (pivot > dependent<T> * size) {
      append(one, pivot);
      return true;
    }
    // K is indefinite, or the factor is no longer that of K.
    if (pivot < -std::sqrt(dependent<T>) * size) return false;
    if (!follow(one, upwards ? 1 : -1)) return false;
    double beta = w_.beta[one.at];
    if (beta == one.lowest || beta == one.highest) return true;
  }
  return false;
}

template <class T>
bool ActiveSet<T>::begin(double changes, double most) {
  std::vector<Free> others;
  double size = static_cast<double>(w_.size);
  for (Index t = 0; t < w_.size; ++t) {
    if (!is_free(w_, t)) continue;
    double pivot = reduce(t), given = constant_ + std::abs(static_cast<double>(w_.diagonal[t]));
    if (pivot > dependent<T> * given) {
      append(freed(t, true), pivot);
    } else {
      others.push_back(freed(t, true));
    }
    double f = static_cast<double>(count());
    if (spent_ + changes * cost_of_change(f, size) / per_step_ > most) return false;
  }
  for (const Free& one : others) {
    // Downhill, as far as rounding tells.
    reduce(one.at);
    std::vector<double> parts(x_);
    backward(parts);
    double slope = one.slope;
    for (Index k = 0; k < count(); ++k) slope -= parts[k] * free_[k].slope;
    if (enter(one, slope <= 0)) continue;
    finish();
    return false;
  }
  return true;
}

// Newton's step of the free variables, or as much of it as bounds allow. Whether it went all the
// way.
template <class T>
bool ActiveSet<T>::step() {
  Index f = count();
  x_.clear();
  for (const Free& one : free_) x_.push_back(one.slope);
  ones_.assign(free_.size(), 1.0);
  for (auto* of : {&x_, &ones_}) {
    forward(*of);
    backward(*of);
  }
  double level =
      std::accumulate(x_.begin(), x_.end(), 0.0) / std::accumulate(ones_.begin(), ones_.end(), 0.0);
  for (Index k = 0; k < f; ++k) x_[k] = level * ones_[k] - x_[k];
  center(x_, 0);
  double part = 1;
  for (Index k = 0; k < f; ++k) part = std::min(part, room(free_[k], x_[k]));
  part = std::max(part, 0.0);
  idle_ = part > 0 ? 0 : idle_ + 1;
  bool whole = true;
  for (Index k = 0; k < f; ++k) {
    Free& one = free_[k];
    bool meets = room(one, x_[k]) <= part;
    whole &= !meets;
    move(one.at, part * x_[k], x_[k] > 0 ? one.highest : one.lowest, meets);
    one.slope += part * (level - one.slope);
  }
  charge(2 * static_cast<double>(f) * static_cast<double>(f));
  if (!whole) leave_at_bounds();
  return whole;
}

// What rounding does to a slope.
template <class T>
double ActiveSet<T>::noise() const {
  double sum = 0;
  for (Index t = 0; t < w_.size; ++t) sum += std::abs(w_.beta[t]);
  return epsilon * (sum * largest_ + 1);
}

// Brings the gradient up to date. False where the objective would have grown: then all is as it was
// after the last time.
template <class T>
bool ActiveSet<T>::refresh() {
  if (touched_.empty()) return true;
  std::vector<const T*> rows;
  std::vector<double> factors, old(gradient_);
  for (Index t : touched_) {
    rows.push_back(w_.matrix + t * w_.ld);
    factors.push_back(w_.beta[t] - before_[t]);
  }
  Index many = static_cast<Index>(rows.size());
  loops<T>().add_rows(gradient_.data(), rows.data(), factors.data(), many, 0, w_.size);
  charge(static_cast<double>(many) * static_cast<double>(w_.size));
  double gain = 0, way = 0;
  for (Index k = 0; k < many; ++k) {
    Index t = touched_[k];
    // None has gone past the kink of its tube.
    double tube = before_[t] + w_.beta[t] >= 0 ? w_.tube[t] : -w_.tube[t];
    gain -= factors[k] * (0.5 * (old[t] + gradient_[t]) + tube);
    way += std::abs(factors[k]);
  }
  bool fell = gain >= -noise() * way;
  if (!fell) gradient_ = std::move(old);
  for (Index t : touched_) {
    if (!fell) w_.beta[t] = before_[t];
    is_touched_[t] = 0;
  }
  touched_.clear();
  for (Free& one : free_) one.slope = gradient_[one.at] + one.tube;
  return fell;
}

// Leaves the working set as it is now.
template <class T>
bool ActiveSet<T>::finish() {
  bool fell = refresh();
  for (Index t = 0; t < w_.size; ++t) w_.gradient[t] = static_cast<T>(gradient_[t]);
  return fell;
}

// Whether one more change would cost more than there is, or would be of no use.
template <class T>
bool ActiveSet<T>::ends(double most) const {
  double f = static_cast<double>(count()), size = static_cast<double>(w_.size);
  return spent_ + cost_of_change(f, size) / per_step_ > most || idle_ > most_idle;
}

// To the optimum of the free variables, some of which come to their bounds. False where rounding or
// `most` ended it before.
template <class T>
bool ActiveSet<T>::to_equal_slopes(double tol, double most) {
  for (Index again = 0; again < 3; ++again) {
    for (bool whole = count() < 2; !whole;) {
      if (ends(most)) return false;
      whole = step() || count() < 2;
    }
    if (!refresh()) return false;
    auto [least, largest] = std::minmax_element(
        free_.begin(), free_.end(), [](const Free& a, const Free& b) { return a.slope < b.slope; });
    if (free_.empty() || largest->slope - least->slope <= tol) return true;
  }
  return true;
}

template <class T>
bool ActiveSet<T>::run(double given, double most) {
  bool settled = false;
  while (!ends(most)) {
    double tol = std::max(given, 16 * noise());
    if (!to_equal_slopes(0.1 * tol, most)) break;
    // The variable that violates its condition most, and how far slopes are from each other.
    double level = 0, least = infinity, largest = -infinity;
    for (const Free& one : free_) {
      level += one.slope / static_cast<double>(count());
      least = std::min(least, one.slope);
      largest = std::max(largest, one.slope);
    }
    double up = infinity, down = -infinity;
    Index lifted = -1, lowered = -1;
    for (Index t = 0; t < w_.size; ++t) {
      double g = gradient_[t], beta = w_.beta[t], tube = w_.tube[t];
      double rise = g + (beta >= 0 ? tube : -tube), fall = g + (beta > 0 ? tube : -tube);
      if (beta < w_.upper[t] && rise < up) up = rise, lifted = t;
      if (beta > w_.lower[t] && fall > down) down = fall, lowered = t;
    }
    charge(2 * static_cast<double>(w_.size));
    settled = !(down - up > tol);
    if (settled) break;
    if (free_.empty()) {
      if (!enter(freed(lifted, true), true) || !enter(freed(lowered, false), false)) break;
      continue;
    }
    bool upwards = level - up > down - level;
    Index worst = upwards ? lifted : lowered;
    // One of the free ones: they are as equal as rounding allows.
    if (is_free(w_, worst) || !enter(freed(worst, upwards), upwards)) break;
  }
  return finish() && settled;
}

template class ActiveSet<float>;
template class ActiveSet<double>;

}  // namespace mercer
