// Sequential minimal optimisation on working sets of hundreds of variables.
//
// A round takes the variables that violate the optimality conditions most, together with those the
// last round took, asks for their rows all at once, solves for them alone, and brings the gradient up
// to date. Joachims, Making large-scale SVM learning practical (1999); working sets as in Platt's
// and in Fan, Chen, Lin, JMLR 6 (2005).
#include "smo.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>

#include "threads.hpp"

namespace mercer {
namespace {

constexpr Index first_set = 64;  // variables in the first round, doubled every other round
constexpr Index patience = 20;  // rounds without progress: rounding stands in the way
constexpr double infinity = std::numeric_limits<double>::infinity();

// The rows computed last, oldest overwritten first: a row is rarely wanted again once it is old.
// Memory that was never touched is dear, so the cache grows towards what it may take only while
// many rows that were overwritten are wanted again.
template <class T>
class RowCache {
 public:
  RowCache(Rows<T>& rows, double bytes, Index least)
      : rows_(rows), n_(rows.size()), where_(static_cast<std::size_t>(n_), -1) {
    double room = bytes / (static_cast<double>(n_) * sizeof(T));
    capacity_ = std::min<Index>(n_, std::max<Index>(least, static_cast<Index>(std::min(room, 1e9))));
    owner_.assign(static_cast<std::size_t>(capacity_), -1);
    computed_.assign(static_cast<std::size_t>(n_), 0);
    // The dearer a row, the more of them are worth new memory.
    double dear = std::clamp(rows.cost() / 32, 1.0, 16.0);
    double modest = dear * 64e6 / (static_cast<double>(n_) * sizeof(T));
    limit_ = std::min(capacity_, std::max<Index>(least, static_cast<Index>(modest)));
  }

  // Makes the rows of these points be there; they stay until the next call.
  void want(std::span<const Index> points) {
    std::vector<Index> missing;
    std::vector<char> wanted(static_cast<std::size_t>(n_), 0);
    for (Index p : points) wanted[p] = 1;
    for (Index p : points) {
      if (where_[p] < 0) missing.push_back(p);
    }
    hits += static_cast<Index>(points.size() - missing.size());
    // Rows to be overwritten that are wanted themselves must move to the new run as well.
    for (;;) {
      Index count = static_cast<Index>(missing.size());
      if (head_ + count > limit_) turn(count);
      Index before = count;
      for (Index s = head_; s < head_ + count; ++s) {
        Index p = owner_[s];
        if (p >= 0 && wanted[p]) {
          missing.push_back(p);
          where_[p] = -1;
          owner_[s] = -1;
          --hits;
        }
      }
      if (static_cast<Index>(missing.size()) == before) break;
    }
    if (missing.empty()) return;
    Index count = static_cast<Index>(missing.size());
    for (Index s = head_; s < head_ + count; ++s) {
      if (owner_[s] >= 0) where_[owner_[s]] = -1;
      owner_[s] = missing[s - head_];
      where_[missing[s - head_]] = s;
    }
    std::size_t needed = static_cast<std::size_t>((head_ + count) * n_);
    if (storage_.size() < needed) {
      if (storage_.capacity() < needed) storage_.reserve(static_cast<std::size_t>(capacity_ * n_));
      storage_.resize(needed);
    }
    rows_.fill(missing, std::span<T>(storage_.data() + head_ * n_, static_cast<std::size_t>(count * n_)));
    for (Index p : missing) {
      again_ += computed_[p];
      computed_[p] = 1;
    }
    since_turn_ += count;
    computed += count;
    head_ += count;
  }

  const T* row(Index point) const { return storage_.data() + where_[point] * n_; }

  Index computed = 0, hits = 0;

 private:
  // At the end of the ring: make it longer, or begin again at its start.
  void turn(Index count) {
    while (limit_ < capacity_ && head_ + count > limit_ && again_ * 8 >= since_turn_) {
      limit_ = std::min(capacity_, 2 * limit_);
    }
    if (head_ + count > limit_) {
      head_ = 0;
      again_ = since_turn_ = 0;
    }
  }

  Rows<T>& rows_;
  Index n_, capacity_, limit_, head_ = 0;
  Index again_ = 0, since_turn_ = 0;  // rows computed a second time, and all, since the last turn
  std::vector<char> computed_;
  std::vector<Index> where_, owner_;
  RowBuffer<T> storage_;
};

struct Slopes {
  double least[2] = {infinity, infinity};     // smallest slope upwards, per group
  double most[2] = {-infinity, -infinity};    // largest slope downwards
  double violation() const {
    return std::max(most[0] - least[0], most[1] - least[1]);
  }
};

template <class T>
class Solver {
 public:
  Solver(Rows<T>& rows, const Program& program, const Options& options)
      : rows_(rows), p_(program), o_(options), m_(static_cast<Index>(program.target.size())),
        n_(rows.size()), up_(m_), down_(m_) {}

  Result run(std::span<const double> start, const Watch& watch, const Poll& poll);

 private:
  // Few points, or points whose kernel costs little: the matrix is made at once, and every round
  // is about all the variables.
  bool is_small() const {
    return o_.working_set == 0 && (n_ <= 512 || (n_ <= 2048 && rows_.cost() <= 64));
  }
  void make_all();
  const T* row(Index i) const { return all_.empty() ? cache_->row(i) : all_.data() + i * n_; }
  void want(std::span<const Index> points) {
    if (all_.empty()) cache_->want(points);
  }

  Index point(Index t) const { return p_.point.empty() ? t : p_.point[t]; }
  int group(Index t) const { return p_.group.empty() ? 0 : p_.group[t]; }
  double tube(Index t) const { return p_.tube.empty() ? 0 : p_.tube[t]; }

  Slopes slopes();
  std::vector<Index> choose(const Slopes&, Index size);
  void refine(const std::vector<Index>& chosen, double tol);
  void fill_matrix(std::span<const Index> order, T* matrix);
  void add(std::span<const Index> points, std::span<const double> change);
  void add_start(Index size);
  double objective() const;
  double rounding() const;

  Rows<T>& rows_;
  const Program& p_;
  const Options& o_;
  Index m_, n_;
  std::vector<double> beta_, F_, up_, down_;
  std::vector<Index> newest_;    // the variables chosen anew in the last round
  std::unique_ptr<RowCache<T>> cache_;
  RowBuffer<T> all_, square_, matrix_;
  Result result_;
};

template <class T>
void Solver<T>::make_all() {
  std::vector<Index> everything(static_cast<std::size_t>(n_));
  for (Index i = 0; i < n_; ++i) everything[i] = i;
  std::size_t size = everything.size() * everything.size();
  all_.resize(size + 64);  // a working set reads whole vectors
  std::fill(all_.begin() + static_cast<std::ptrdiff_t>(size), all_.end(), T{0});
  std::span<T> matrix(all_.data(), size);
  if (!rows_.among(everything, matrix)) rows_.fill(everything, matrix);
  result_.rows = n_;
}

template <class T>
Slopes Solver<T>::slopes() {
  Slopes s;
  for (Index t = 0; t < m_; ++t) {
    double gradient = F_[point(t)] - p_.target[t], b = beta_[t], e = tube(t);
    if (!std::isfinite(gradient)) {
      throw std::domain_error("The kernel has a value that is not finite, in the row of point " +
                              std::to_string(point(t)) + " or beside it.");
    }
    int g = group(t);
    up_[t] = b < p_.upper[t] ? gradient + (b >= 0 ? e : -e) : infinity;
    down_[t] = b > p_.lower[t] ? gradient + (b > 0 ? e : -e) : -infinity;
    s.least[g] = std::min(s.least[g], up_[t]);
    s.most[g] = std::max(s.most[g], down_[t]);
  }
  return s;
}

// The newest half of the last working set, and the worst violators to fill it up.
template <class T>
std::vector<Index> Solver<T>::choose(const Slopes& s, Index size) {
  std::vector<Index> chosen;
  std::vector<char> taken(static_cast<std::size_t>(m_), 0);
  std::size_t half = static_cast<std::size_t>(size / 2);
  if (newest_.size() > half) newest_.resize(half);
  for (Index t : newest_) {
    chosen.push_back(t);
    taken[t] = 1;
  }
  std::vector<std::pair<double, Index>> ups, downs;
  for (Index t = 0; t < m_; ++t) {
    if (taken[t]) continue;
    int g = group(t);
    if (up_[t] < s.most[g]) ups.emplace_back(up_[t] - s.most[g], t);
    if (down_[t] > s.least[g]) downs.emplace_back(s.least[g] - down_[t], t);
  }
  Index room = size - static_cast<Index>(chosen.size());
  auto sort_best = [&](auto& list) {
    Index keep = std::min<Index>(room, static_cast<Index>(list.size()));
    std::nth_element(list.begin(), list.begin() + keep, list.end());
    list.resize(static_cast<std::size_t>(keep));
    std::sort(list.begin(), list.end());
  };
  sort_best(ups);
  sort_best(downs);
  newest_.clear();
  for (std::size_t a = 0, b = 0; room > 0 && (a < ups.size() || b < downs.size());) {
    for (auto [list, at] : {std::pair{&ups, &a}, std::pair{&downs, &b}}) {
      while (*at < list->size() && taken[(*list)[*at].second]) ++*at;
      if (*at < list->size() && room > 0) {
        Index t = (*list)[(*at)++].second;
        taken[t] = 1;
        newest_.push_back(t);
        --room;
      }
    }
  }
  chosen.insert(chosen.end(), newest_.begin(), newest_.end());
  std::sort(chosen.begin(), chosen.end());  // rows are read from left to right
  return chosen;
}

template <class T>
void Solver<T>::add(std::span<const Index> points, std::span<const double> change) {
  std::vector<const T*> rows;
  std::vector<double> factors;
  for (std::size_t k = 0; k < points.size(); ++k) {
    if (change[k] == 0) continue;
    rows.push_back(row(points[k]));
    factors.push_back(change[k]);
  }
  if (rows.empty()) return;
  constexpr Index run = 2048;
  int workers = static_cast<double>(n_) * static_cast<double>(rows.size()) < 2e5 ? 1 : threads();
  auto task = [&](Index number, int) {
    loops<T>().add_rows(F_.data(), rows.data(), factors.data(), static_cast<Index>(rows.size()),
                        number * run, std::min(n_, (number + 1) * run));
  };
  parallel((n_ + run - 1) / run, workers, task, {});
}

// K among the variables `order`, with zeros for those that only fill up (-1).
template <class T>
void Solver<T>::fill_matrix(std::span<const Index> order, T* matrix) {
  Index q = static_cast<Index>(order.size());
  std::vector<Index> points, place;  // of the real variables, and where they are in `order`
  for (Index a = 0; a < q; ++a) {
    if (order[a] < 0) continue;
    points.push_back(point(order[a]));
    place.push_back(a);
  }
  std::fill(matrix, matrix + q * q, T{0});
  std::size_t p = points.size();
  square_.resize(p * p);
  bool squared = all_.empty() && rows_.among(points, square_);
  auto row_of = [&](Index a, int) {
    const T* from = squared ? square_.data() + a * static_cast<Index>(p) : row(points[a]);
    T* to = matrix + place[a] * q;
    for (std::size_t b = 0; b < p; ++b) to[place[b]] = from[squared ? b : points[b]];
  };
  parallel(static_cast<Index>(p), p < 128 ? 1 : threads(), row_of, {});
}

template <class T>
void Solver<T>::refine(const std::vector<Index>& chosen, double tol) {
  // Group 0 first, each group padded to whole vectors with variables that cannot move.
  constexpr Index lanes = 64 / static_cast<Index>(sizeof(T));
  std::vector<Index> order;
  Index split = 0;
  for (int g = 0; g < 2; ++g) {
    for (Index t : chosen) {
      if (group(t) == g) order.push_back(t);
    }
    while (static_cast<Index>(order.size()) % lanes) order.push_back(-1);
    if (g == 0) split = static_cast<Index>(order.size());
  }
  Index q = static_cast<Index>(order.size());
  Buffer<T> gradient(q), up(q), down(q), diagonal(q);
  std::vector<double> beta(q, 0.0), lower(q, 0.0), upper(q, 0.0), e(q, 0.0);
  auto diag = rows_.diagonal();
  for (Index a = 0; a < q; ++a) {
    Index t = order[a];
    gradient[a] = t < 0 ? T{0} : static_cast<T>(F_[point(t)] - p_.target[t]);
    diagonal[a] = t < 0 ? T{1} : diag[point(t)];
    if (t < 0) continue;
    beta[a] = beta_[t];
    lower[a] = p_.lower[t];
    upper[a] = p_.upper[t];
    e[a] = tube(t);
  }
  WorkingSet<T> w;
  w.size = q;
  w.split = split;
  bool as_it_is = !all_.empty() && p_.point.empty() && split == q;
  if (!as_it_is) {
    matrix_.resize(static_cast<std::size_t>(q * q));
    fill_matrix(order, matrix_.data());
  }
  w.ld = as_it_is ? n_ : q;
  w.matrix = as_it_is ? all_.data() : matrix_.data();
  w.diagonal = diagonal.data();
  w.gradient = gradient.data();
  w.up = up.data();
  w.down = down.data();
  w.beta = beta.data();
  w.lower = lower.data();
  w.upper = upper.data();
  w.tube = e.data();
  w.tol = tol;
  w.max_steps = std::min<Index>(std::max<Index>(q * 40, 1000), o_.max_iter - result_.iterations);
  loops<T>().solve_working_set(w);
  result_.iterations += w.steps;
  result_.indefinite |= w.indefinite;
  std::vector<Index> points;
  std::vector<double> change;
  for (Index a = 0; a < q; ++a) {
    Index t = order[a];
    if (t < 0 || beta[a] == beta_[t]) continue;
    points.push_back(point(t));
    change.push_back(beta[a] - beta_[t]);
    beta_[t] = beta[a];
  }
  add(points, change);
}

// F of the variables that do not start at 0, by as many rows at a time as a round takes.
template <class T>
void Solver<T>::add_start(Index size) {
  std::vector<double> coef(static_cast<std::size_t>(n_), 0.0);
  for (Index t = 0; t < m_; ++t) coef[point(t)] += beta_[t];
  std::vector<Index> points;
  std::vector<double> change;
  for (Index i = 0; i <= n_; ++i) {
    if (i < n_ && coef[i] != 0) {
      points.push_back(i);
      change.push_back(coef[i]);
    }
    if (static_cast<Index>(points.size()) == std::min(size, n_) || (i == n_ && !points.empty())) {
      want(points);
      add(points, change);
      points.clear();
      change.clear();
    }
  }
}

template <class T>
double Solver<T>::objective() const {
  double value = 0;
  for (Index t = 0; t < m_; ++t) {
    value += beta_[t] * (0.5 * F_[point(t)] - p_.target[t]) + tube(t) * std::abs(beta_[t]);
  }
  return value;
}

// What the rounding of the kernel values, each on its own, adds up to in F.
template <class T>
double Solver<T>::rounding() const {
  double square = 0, largest = 0;
  for (double b : beta_) square += b * b;
  for (T k : rows_.diagonal()) largest = std::max(largest, std::abs(static_cast<double>(k)));
  return std::sqrt(square) * largest * static_cast<double>(std::numeric_limits<T>::epsilon()) / 2;
}

template <class T>
Result Solver<T>::run(std::span<const double> start, const Watch& watch, const Poll& poll) {
  auto begin = std::chrono::steady_clock::now();
  auto seconds = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  beta_.assign(start.begin(), start.end());
  F_.assign(static_cast<std::size_t>(n_), 0.0);
  // At least 4: beside the half that is kept, the two that violate most.
  Index size = std::max<Index>(4, o_.working_set > 0 ? o_.working_set : 512);
  size = std::min(size, m_);
  cache_ = std::make_unique<RowCache<T>>(rows_, o_.cache_bytes, 2 * size);
  std::vector<Index> everything;
  if (is_small()) {
    make_all();
    for (Index t = 0; t < m_; ++t) everything.push_back(t);
  }
  add_start(size);
  Slopes s = slopes();
  double best = infinity;
  Index since = 0;  // rounds without a lower objective
  for (;; ++result_.rounds) {
    result_.violation = s.violation();
    double value = objective();
    since = value < best - 1e-13 * std::abs(best) || best == infinity ? 0 : since + 1;
    best = std::min(best, value);
    if (watch && watch({result_.rounds, result_.iterations, cache_->computed, result_.violation,
                        value, seconds()})) {
      result_.status = Status::stopped;
      break;
    }
    if (result_.violation < o_.tol) break;
    if (result_.iterations >= o_.max_iter) {
      result_.status = Status::max_iter;
      break;
    }
    if (o_.time_limit > 0 && seconds() > o_.time_limit) {
      result_.status = Status::time_limit;
      break;
    }
    if (o_.demanding && rounding() > 0.1 * o_.tol) {
      result_.status = Status::imprecise;
      break;
    }
    if (since >= patience) {
      result_.status = Status::stalled;
      break;
    }
    if (poll) poll();
    if (!everything.empty()) {
      refine(everything, 0.5 * o_.tol);
    } else {
      // Small sets first: before anything is learnt most points look alike, and rows are dear.
      Index now = std::min(size, first_set << std::min<Index>(result_.rounds / 2, 20));
      std::vector<Index> chosen = choose(s, now), points;
      for (Index t : chosen) points.push_back(point(t));
      std::sort(points.begin(), points.end());
      points.erase(std::unique(points.begin(), points.end()), points.end());
      want(points);
      refine(chosen, std::max(0.1 * result_.violation, 0.5 * o_.tol));
    }
    s = slopes();
  }
  result_.objective = objective();
  result_.value = std::move(beta_);
  result_.function = std::move(F_);
  result_.rows += cache_->computed;
  result_.hits = cache_->hits;
  return std::move(result_);
}

}  // namespace

template <class T>
Result solve(Rows<T>& rows, const Program& program, const Options& options,
             std::span<const double> start, const Watch& watch, const Poll& poll) {
  return Solver<T>(rows, program, options).run(start, watch, poll);
}

template Result solve(Rows<float>&, const Program&, const Options&, std::span<const double>,
                      const Watch&, const Poll&);
template Result solve(Rows<double>&, const Program&, const Options&, std::span<const double>,
                      const Watch&, const Poll&);

}  // namespace mercer
