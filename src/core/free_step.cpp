// Between bounds the problem is a system of equations: K d = level - gradient among the free
// variables, Σd = 0. Where kernel rows are nearly dependent, pairs of variables need very many
// steps to its solution, and a Cholesky factorisation is soon less work.
#include "free_step.hpp"

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

// The bounds of a free variable: the kink of the tube is one.
template <class T>
double lowest(const WorkingSet<T>& w, Index t) {
  bool kink = w.tube[t] > 0 && w.beta[t] > 0;
  return kink ? std::max(0.0, w.lower[t]) : w.lower[t];
}
template <class T>
double highest(const WorkingSet<T>& w, Index t) {
  bool kink = w.tube[t] > 0 && w.beta[t] < 0;
  return kink ? std::min(0.0, w.upper[t]) : w.upper[t];
}

}  // namespace

template <class T>
Index FreeSteps<T>::price(Index free, Index size) {
  // f³/6 multiplications for the factor and f for each gradient; in the time of four of them a step
  // of two variables does what it does for one variable.
  double f = static_cast<double>(free), q = static_cast<double>(std::max<Index>(1, size));
  return static_cast<Index>((f * f * f / 6 + 2 * f * q) / (4 * q)) + 1;
}

template <class T>
Index FreeSteps<T>::find(const WorkingSet<T>& w) {
  free_.clear();
  for (Index t = 0; t < w.size; ++t) {
    bool kink = w.tube[t] > 0 && w.beta[t] == 0;
    if (!kink && w.beta[t] > w.lower[t] && w.beta[t] < w.upper[t]) free_.push_back(t);
  }
  return static_cast<Index>(free_.size());
}

// Row by row: each is that of K less the rows above it. With a constant added to K, which no step
// of sum 0 sees, a dependent row belongs to such a step. Returns the first one, or how many there
// are.
template <class T>
Index FreeSteps<T>::factorize(const WorkingSet<T>& w) {
  Index f = static_cast<Index>(free_.size());
  factor_.resize(static_cast<std::size_t>(f * f));
  above_.clear();
  minus_.resize(static_cast<std::size_t>(f));
  double constant = std::abs(static_cast<double>(w.diagonal[free_[0]]));
  for (Index k = 0; k < f; ++k) {
    double* row = factor_.data() + k * f;
    const T* given = w.matrix + free_[k] * w.ld;
    for (Index j = k; j < f; ++j) row[j] = constant + static_cast<double>(given[free_[j]]);
    row[k] = constant + static_cast<double>(w.diagonal[free_[k]]);
    double least = dependent<T> * std::abs(row[k]);
    for (Index p = 0; p < k; ++p) minus_[p] = -above_[p][k];
    loops<double>().add_rows(row, above_.data(), minus_.data(), k, k, f);
    if (!(row[k] > least)) return k;
    double root = std::sqrt(row[k]);
    row[k] = root;
    for (Index j = k + 1; j < f; ++j) row[j] /= root;
    above_.push_back(row);
  }
  return f;
}

// The first `count` of x become those of U⁻¹x.
template <class T>
void FreeSteps<T>::substitute(std::vector<double>& x, Index count) const {
  for (Index k = count - 1; k >= 0; --k) {
    const double* row = above_[k];
    double sum = x[k];
    for (Index j = k + 1; j < count; ++j) sum -= row[j] * x[j];
    x[k] = sum / row[k];
  }
}

// x becomes (K + constant)⁻¹x.
template <class T>
void FreeSteps<T>::solve(std::vector<double>& x) const {
  Index f = static_cast<Index>(free_.size());
  for (Index k = 0; k < f; ++k) {
    const double* row = above_[k];
    double by = x[k] /= row[k];
    for (Index j = k + 1; j < f; ++j) x[j] -= by * row[j];
  }
  substitute(x, f);
}

// The step to equal slopes.
template <class T>
void FreeSteps<T>::aim_at_optimum() {
  std::vector<double> ones(free_.size(), 1.0);
  x_ = slope_;
  solve(x_);
  solve(ones);
  double level =
      std::accumulate(x_.begin(), x_.end(), 0.0) / std::accumulate(ones.begin(), ones.end(), 0.0);
  for (std::size_t k = 0; k < x_.size(); ++k) x_[k] = level * ones[k] - x_[k];
}

// A step that changes no gradient: row k less what it is made of. Downhill, as far as rounding
// tells.
template <class T>
void FreeSteps<T>::aim_at_bound(Index k) {
  x_.assign(free_.size(), 0.0);
  for (Index p = 0; p < k; ++p) x_[p] = above_[p][k];
  substitute(x_, k);
  for (Index p = 0; p < k; ++p) x_[p] = -x_[p];
  x_[k] = 1;
  if (std::inner_product(x_.begin(), x_.end(), slope_.begin(), 0.0) > 0) {
    for (double& x : x_) x = -x;
  }
}

template <class T>
bool FreeSteps<T>::take(const WorkingSet<T>& w) {
  slope_.clear();
  rows_.clear();
  for (Index t : free_) {
    double tube = w.beta[t] > 0 ? w.tube[t] : -w.tube[t];
    slope_.push_back(static_cast<double>(w.gradient[t]) + tube);
    rows_.push_back(w.matrix + t * w.ld);
  }
  Index independent = factorize(w), f = static_cast<Index>(free_.size());
  if (independent == f) {
    aim_at_optimum();
  } else {
    aim_at_bound(independent);
  }
  // Where rows are nearly dependent, parts of a step are large and cancel.
  for (int again = 0; again < 2; ++again) {
    double rest = std::accumulate(x_.begin(), x_.end(), 0.0) / static_cast<double>(f);
    for (double& x : x_) x -= rest;
  }
  change_.assign(static_cast<std::size_t>(w.size), 0.0);
  loops<T>().add_rows(change_.data(), rows_.data(), x_.data(), f, 0, w.size);
  double fall = -std::inner_product(x_.begin(), x_.end(), slope_.begin(), 0.0), bend = 0;
  for (Index k = 0; k < f; ++k) bend += x_[k] * change_[free_[k]];
  double whole = infinity;
  if (independent == f) {
    if (!(fall > 0 && bend > 0)) return true;
    whole = fall / bend;
  }
  return !move(w, whole);
}

// How far the slopes of the free variables are from each other.
template <class T>
double FreeSteps<T>::spread() const {
  auto [least, most] = std::minmax_element(slope_.begin(), slope_.end());
  return *most - *least;
}

// Goes along x_, at most by `whole`; whether a bound ended it.
template <class T>
bool FreeSteps<T>::move(const WorkingSet<T>& w, double whole) {
  auto end = [&](std::size_t k) { return x_[k] > 0 ? highest(w, free_[k]) : lowest(w, free_[k]); };
  auto room = [&](std::size_t k) {
    return x_[k] == 0 ? infinity : (end(k) - w.beta[free_[k]]) / x_[k];
  };
  double step = whole;
  for (std::size_t k = 0; k < x_.size(); ++k) step = std::min(step, room(k));
  if (!(step < infinity)) return false;
  // A row that is nearly a combination of others is none where the slopes would show it.
  double most = 0;
  for (Index t : free_) most = std::max(most, std::abs(change_[t]));
  if (whole == infinity && !(step * most < 0.1 * spread())) return false;
  for (std::size_t k = 0; k < x_.size(); ++k) {
    double& beta = w.beta[free_[k]];
    beta = room(k) <= step ? end(k) : beta + step * x_[k];
  }
  for (Index t = 0; t < w.size; ++t) w.gradient[t] += static_cast<T>(step * change_[t]);
  return step < whole;
}

template class FreeSteps<float>;
template class FreeSteps<double>;

}  // namespace mercer
