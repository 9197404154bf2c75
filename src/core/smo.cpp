// Sequential minimal optimisation on working sets of hundreds of variables.
//
// A round takes the variables that violate the optimality conditions most, together with those the
// last round took, asks for their rows all at once, solves for them alone, and brings the gradient
// up to date. Joachims, Making large-scale SVM learning practical (1999); working sets as in
// Platt's and in Fan, Chen, Lin, JMLR 6 (2005).
#include "smo.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <tuple>

#include "active_set.hpp"
#include "rows.hpp"
#include "threads.hpp"

namespace mercer {
namespace {

constexpr Index first_set = 64;   // variables in the first round, doubled every other round
constexpr Index many = 100'000;   // variables: what is done once for each takes a while
constexpr Index most_idle = 20;   // rounds without progress: rounding stands in the way
constexpr Index most_checks = 8;  // so often F is summed anew in double before that is given up
// What the error of F at a point is taken to be at most, in units of what independent roundings
// give (Higham and Mary, SIAM J. Sci. Comput. 41 (2019)) or of the largest error that was found.
constexpr double safety = 8;
constexpr Index sampled = 64;  // points that show how far F is off
// Of the support vectors: with fewer points that decide, a sum over all pairs costs more.
constexpr double most_checked = 0.4;
constexpr double infinity = std::numeric_limits<double>::infinity();
// Of the active-set method: steps of two variables for each variable before it; what it may cost
// at the start, in the same unit, and in the end, as a share of what these steps have cost; the
// share of all variables that it makes free or takes to a bound, which is a guess from problems for
// which pairs took many steps.
constexpr Index patience = 4;
constexpr double first_turn = 8, longest_turn = 100;
constexpr double last_share = 0.03;
constexpr double changing = 0.15;
constexpr double fineness = 1e-6;  // of tol: how far slopes are apart where it ends

// Rows that were computed. Memory that was never touched takes time, so the cache grows towards
// what it may take only where rows would be lost that are likely to be wanted again.
template <class T>
class RowCache {
 public:
  RowCache(Rows<T>& rows, double bytes, Index working_set, RowBuffer<T>& storage)
      : rows_(rows), storage_(storage), n_(rows.size()), where_(static_cast<std::size_t>(n_), -1) {
    double of_row = static_cast<double>(n_) * sizeof(T), asked = std::min(bytes / of_row, 1e9);
    // Two working sets, but no more than twice what was asked for; and one of them in any case,
    // but never much more than that: what is not kept is computed anew.
    double two = std::min(2.0 * static_cast<double>(working_set), 2 * asked);
    double one = std::min(static_cast<double>(working_set), most_beyond / of_row);
    Index least = static_cast<Index>(std::max(one, two));
    capacity_ = std::min<Index>(n_, std::max<Index>(least, static_cast<Index>(asked)));
    double modest = 64e6 / of_row;
    limit_ = std::min(capacity_, std::max<Index>(least, static_cast<Index>(modest)));
    // What was handed on is of use only if it is large enough, and not much too large.
    std::size_t most = static_cast<std::size_t>(capacity_ * n_);
    double held = static_cast<double>(storage_.capacity() * sizeof(T));
    if (storage_.capacity() < most || storage_.capacity() / 2 > most ||
        held > std::max(bytes, this->bytes())) {
      RowBuffer<T>().swap(storage_);
    }
  }

  // What it may come to take.
  double bytes() const { return static_cast<double>(capacity_ * n_) * sizeof(T); }

  bool has(Index point) const { return where_[point] >= 0; }
  bool keeps_some() const { return rows_.facts.cost > cheap; }
  const T* row(Index point) const { return storage_.data() + where_[point] * n_; }

  // sums += Σᵣ factor[r] k(points[r], ·) for different points. Rows that are not there are
  // computed. Those of points that are likely to be asked for again are kept; where rows are
  // costly, all are, and the others go first where room is needed.
  template <class Likely>
  void add(std::span<const Index> points, std::span<const double> factor, Likely&& likely,
           double* sums) {
    auto keeps = [&](Index p) { return keeps_some() && (rows_.facts.cost > costly || likely(p)); };
    ++round_;
    std::vector<const T*> there;
    std::vector<Index> missing;
    std::vector<double> factors_there, factors_missing;
    Index keeping = 0;
    for (std::size_t k = 0; k < points.size(); ++k) {
      Index p = points[k];
      if (has(p)) {
        used_[where_[p]] = round_;
        there.push_back(row(p));
        factors_there.push_back(factor[k]);
      } else {
        missing.push_back(p);
        factors_missing.push_back(factor[k]);
        keeping += keeps(p);
      }
    }
    add_all<T>(there, factors_there, n_, sums);
    hits += static_cast<Index>(there.size());
    std::vector<Index> slots = make_room(keeping, likely);
    std::vector<T*> keep;
    for (Index p : missing) {
      keep.push_back(nullptr);
      if (slots.empty() || !keeps(p)) continue;
      Index slot = slots.back();
      slots.pop_back();
      owner_[slot] = p;
      where_[p] = slot;
      used_[slot] = round_;
      keep.back() = storage_.data() + slot * n_;
    }
    rows_.add(missing, factors_missing, keep, sums);
    computed += static_cast<Index>(missing.size());
  }

  Index computed = 0, hits = 0;

 private:
  static constexpr double cheap = 1, costly = 64;  // the cost of an entry
  static constexpr double most_beyond = 1e9;       // bytes, however small the cache is to be

  // Up to `count` places for rows: new ones, or those of rows that may go.
  template <class Likely>
  std::vector<Index> make_room(Index count, Likely&& likely) {
    Index held = static_cast<Index>(owner_.size());
    // (likely to be asked for, when used last, place)
    std::vector<std::tuple<bool, Index, Index>> old;
    if (held + count > limit_) {
      Index idle = 0;
      for (Index s = 0; s < held; ++s) {
        if (used_[s] == round_) continue;
        bool waits = likely(owner_[s]);
        idle += !waits;
        old.emplace_back(waits, used_[s], s);
      }
      // New memory is taken for rows that are costly, or if one would go that is wanted again.
      if (limit_ < capacity_ && (rows_.facts.cost > costly || held + count - limit_ > idle)) {
        limit_ = std::min(capacity_, limit_ + std::max(limit_ / 2, count));
      }
    }
    Index fresh = std::min(count, limit_ - held);
    Index evicted = std::min(count - fresh, static_cast<Index>(old.size()));
    std::vector<Index> slots;
    if (evicted > 0) {
      std::nth_element(old.begin(), old.begin() + (evicted - 1), old.end());
      for (Index k = 0; k < evicted; ++k) {
        Index slot = std::get<2>(old[k]);
        where_[owner_[slot]] = -1;
        slots.push_back(slot);
      }
    }
    for (Index k = 0; k < fresh; ++k) slots.push_back(held + k);
    if (fresh > 0) grow(held + fresh);
    return slots;
  }

  void grow(Index held) {
    std::size_t needed = static_cast<std::size_t>(held * n_);
    if (storage_.capacity() < needed) storage_.reserve(static_cast<std::size_t>(capacity_ * n_));
    if (storage_.size() < needed) storage_.resize(needed);
    owner_.resize(static_cast<std::size_t>(held), -1);
    used_.resize(static_cast<std::size_t>(held), 0);
  }

  Rows<T>& rows_;
  RowBuffer<T>& storage_;
  Index n_, capacity_, limit_, round_ = 0;
  std::vector<Index> where_, owner_, used_;  // per point; per place, with the call it was used in
};

struct Slopes {
  double least[2] = {infinity, infinity};   // smallest slope upwards, per group
  double most[2] = {-infinity, -infinity};  // largest slope downwards
  double violation() const { return std::max(most[0] - least[0], most[1] - least[1]); }
};

template <class T>
class Solver {
 public:
  Solver(Rows<T>& rows, const Program& program, const Options& options, Scratch<T>& scratch)
      : rows_(rows),
        p_(program),
        o_(options),
        scratch_(scratch),
        all_(scratch.all),
        square_(scratch.square),
        matrix_(scratch.matrix),
        storage_(scratch.rows),
        m_(static_cast<Index>(program.target.size())),
        n_(rows.size()),
        up_(scratch.slope_up),
        down_(scratch.slope_down) {
    up_.resize(static_cast<std::size_t>(m_));
    down_.resize(static_cast<std::size_t>(m_));
    for (Index t = 0; t < m_ && null_ < 0; ++t) {
      if (point(t) == n_) null_ = t;
    }
    if (!o_.objectives) worst_ = rows_.facts.worst_error;
    for (T k : rows_.diagonal()) largest_ = std::max(largest_, std::abs(static_cast<double>(k)));
  }

  Result run(std::span<const double> start, const Known& known, const Watch& watch,
             const Poll& poll);

 private:
  static constexpr Index lanes = 64 / static_cast<Index>(sizeof(T));

  // Where many variables are free, or take many steps, more of them together take fewer.
  Index usual_set() const {
    bool many_free = !p_.tube.empty() || o_.refines;
    return std::clamp<Index>(n_ / (many_free ? 5 : 12), 512, 2048);
  }
  bool is_small() const { return o_.working_set == 0 && mercer::is_small(n_, rows_.facts.cost); }
  void make_all();
  double norm(Index i) const {
    return worst_.squares.empty() ? 0 : std::sqrt(static_cast<double>(worst_.squares[i]));
  }
  const T* row(Index i) const { return whole_ ? all_.data() + i * n_ : cache_->row(i); }
  // The same of a whole matrix; made where it is not there yet.
  const T* made(Index i) {
    if (on_demand_ && on_demand_->missing()[i]) on_demand_->make(i, all_.data());
    return all_.data() + i * n_;
  }
  static void make_row(void* solver, Index i) { static_cast<Solver*>(solver)->made(i); }

  Index point(Index t) const { return p_.point.empty() ? t : p_.point[t]; }
  int group(Index t) const { return p_.group.empty() ? 0 : p_.group[t]; }
  double tube(Index t) const { return p_.tube.empty() ? 0 : p_.tube[t]; }

  Slopes slopes();
  std::vector<Index> choose(const Slopes&, Index size);
  void refine(const std::vector<Index>& chosen, double tol);
  void solve_working_set(WorkingSet<T>&);
  void fill_matrix(std::span<const Index> order, T* matrix);
  void add(std::vector<std::pair<Index, double>>& changes);
  double objective() const;
  double gap(const Slopes&) const;
  Index support() const {
    Index zeros = static_cast<Index>(std::count(beta_.begin(), beta_.end(), 0.0));
    return m_ - zeros - (null_ >= 0 && beta_[null_] != 0);
  }
  double rounding() const;
  bool check_few(std::span<const Index> which, std::span<const double> factor, double largest);
  bool check_sample(std::span<const Index> which, std::span<const double> factor);
  bool check(const Slopes&);
  void find_coefficients();
  bool refresh(const Slopes&, double hidden);

  Rows<T>& rows_;
  const Program& p_;
  const Options& o_;
  Scratch<T>& scratch_;
  RowBuffer<T>&all_, &square_, &matrix_, &storage_;
  Index m_, n_;
  Index null_ = -1;     // the variable of no point
  double largest_ = 0;  // |k(x, x)|
  bool whole_ = false;  // all of K is in all_, or is made there
  RowsOnDemand<T>* on_demand_ = nullptr;
  Index pairs_ = 0;  // steps of two variables so far, where the active-set method has its turns
  Index due_ = 0;    // and at the next of them
  WorstError<T> worst_;
  double moved_norm_ = 0;  // Σ|β - β before| ‖x‖ over the rounds
  std::vector<double> beta_, F_;
  std::vector<double> exact_;  // β of which F was last summed in double; empty: 0
  std::vector<double>&up_, &down_;
  std::vector<char> free_;     // per point, whether a variable of it is between its bounds
  std::vector<Index> newest_;  // the variables chosen anew in the last round
  std::unique_ptr<RowCache<T>> cache_;
  Result result_;
};

template <class T>
void Solver<T>::make_all() {
  auto& everything = scratch_.everything;
  everything.resize(static_cast<std::size_t>(n_));
  std::iota(everything.begin(), everything.end(), Index{0});
  std::size_t size = everything.size() * everything.size();
  // A working set reads whole vectors.
  if (all_.size() < size + lanes) all_.resize(size + lanes);
  std::fill_n(all_.data() + size, lanes, T{0});
  whole_ = true;
  // Where the working set is K as it stands, few of its rows may be read.
  bool as_it_is = p_.point.empty() && p_.group.empty() && !o_.free_steps;
  on_demand_ = as_it_is ? rows_.on_demand() : nullptr;
  if (on_demand_) return;
  rows_.among(everything, {all_.data(), size});
  result_.rows = n_;
}

template <class T>
Slopes Solver<T>::slopes() {
  Slopes s;
  if (p_.tube.empty() && p_.group.empty()) {
    auto& slope = scratch_.slope;
    slope.resize(static_cast<std::size_t>(m_));
    for (Index t = 0; t < m_; ++t) slope[t] = F_[point(t)] - p_.target[t];
    double ends[3];
    loops<T>().slopes(slope.data(), beta_.data(), p_.lower.data(), p_.upper.data(), m_, up_.data(),
                      down_.data(), ends);
    s.least[0] = ends[0];
    s.most[0] = ends[1];
    if (ends[2] == 0) return s;
  }
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
  if (null_ >= 0 && !taken[null_]) {
    chosen.push_back(null_);
    taken[null_] = 1;
  }
  // Whether a variable violates cannot be foretold: each is written, and those that do stay.
  auto &ups = scratch_.ups, &downs = scratch_.downs;
  ups.resize(static_cast<std::size_t>(m_ + 1));
  downs.resize(static_cast<std::size_t>(m_ + 1));
  std::size_t rising = 0, falling = 0;
  for (Index t = 0; t < m_; ++t) {
    int g = group(t);
    ups[rising] = {up_[t] - s.most[g], t};
    downs[falling] = {s.least[g] - down_[t], t};
    rising += static_cast<std::size_t>((up_[t] < s.most[g]) & !taken[t]);
    falling += static_cast<std::size_t>((down_[t] > s.least[g]) & !taken[t]);
  }
  ups.resize(rising);
  downs.resize(falling);
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
  // Whole vectors, where all variables are of one group: what fills them up may as well move.
  for (Index t = 0; t < m_ && p_.group.empty() && chosen.size() % lanes != 0; ++t) {
    if (taken[t]) continue;
    chosen.push_back(t);
    taken[t] = 1;
  }
  std::sort(chosen.begin(), chosen.end());  // rows are read from left to right
  return chosen;
}

// F of the points whose coefficients change.
template <class T>
void Solver<T>::add(std::vector<std::pair<Index, double>>& changes) {
  std::sort(changes.begin(), changes.end());
  auto& points = scratch_.points;
  auto& factor = scratch_.factor;
  points.clear();
  factor.clear();
  for (auto [p, change] : changes) {
    if (p == n_) continue;
    if (points.empty() || points.back() != p) {
      points.push_back(p);
      factor.push_back(0);
    }
    factor.back() += change;
  }
  for (std::size_t k = 0; k < points.size(); ++k) {
    result_.moved += std::abs(factor[k]);
    ++result_.additions;
    moved_norm_ += std::abs(factor[k]) * norm(points[k]);
  }
  if (whole_) {
    auto& rows = scratch_.of_rows;
    rows.clear();
    for (Index p : points) rows.push_back(made(p));
    add_all<T>(rows, factor, n_, F_.data());
    return;
  }
  // A variable that came to a bound mostly stays there; one between them moves on.
  free_.assign(static_cast<std::size_t>(n_ + 1), 0);
  for (Index t = 0; cache_->keeps_some() && t < m_; ++t) {
    free_[point(t)] |= (beta_[t] > p_.lower[t]) & (beta_[t] < p_.upper[t]) & (beta_[t] != 0);
  }
  cache_->add(points, factor, [&](Index p) { return free_[p] != 0; }, F_.data());
}

// K among the variables `order`, with zeros for those of no point. Whole rows are not
// asked for yet: of the variables in a working set, a third do not move.
template <class T>
void Solver<T>::fill_matrix(std::span<const Index> order, T* matrix) {
  constexpr double picking = 48;  // steps that a number far away in memory costs, about
  Index q = static_cast<Index>(order.size());
  std::vector<Index> points, place;  // of the real variables, and where they are in `order`
  for (Index a = 0; a < q; ++a) {
    if (order[a] < 0 || order[a] == null_) continue;
    points.push_back(point(order[a]));
    place.push_back(a);
  }
  Index p = static_cast<Index>(points.size());
  std::vector<Index> known, lacking, which;
  for (Index a = 0; a < p; ++a) {
    bool there = whole_ || (rows_.facts.cost > picking && cache_->has(points[a]));
    (there ? known : lacking).push_back(a);
    if (!there) which.push_back(points[a]);
  }
  Index r = static_cast<Index>(lacking.size());
  if (r == q) {
    rows_.among(which, {matrix, static_cast<std::size_t>(q * q)});
    return;
  }
  if (p < q) std::fill(matrix, matrix + q * q, T{0});
  std::size_t area = static_cast<std::size_t>(r * r);
  if (square_.size() < area) square_.resize(area);
  rows_.among(which, {square_.data(), area});
  // Far away in memory: each pair is read once, by the first of the two that has a row.
  Index k = static_cast<Index>(known.size());
  std::vector<char> has(static_cast<std::size_t>(p), 0);
  for (Index a : known) has[a] = 1;
  auto row_of = [&](Index number, int) {
    if (number < k) {
      Index a = known[number];
      const T* from = row(points[a]);
      T* to = matrix + place[a] * q;
      for (Index b : lacking) to[place[b]] = from[points[b]];
      for (Index c = number; c < k; ++c) to[place[known[c]]] = from[points[known[c]]];
    } else {
      const T* from = square_.data() + (number - k) * r;
      T* to = matrix + place[lacking[number - k]] * q;
      for (Index b = 0; b < r; ++b) to[place[lacking[b]]] = from[b];
    }
  };
  int workers = p < 128 ? 1 : threads();
  parallel(p, workers, row_of, {});
  // And turned over to the other one, square by square.
  constexpr Index side = 32;
  Index sides = (p + side - 1) / side;
  auto rows_of = [&](Index number, int) {
    Index a0 = number * side, a1 = std::min(p, a0 + side);
    for (Index b0 = 0; b0 < p; b0 += side) {
      for (Index a = a0; a < a1; ++a) {
        T* to = matrix + place[a] * q;
        Index end = std::min({p, b0 + side, has[a] ? a : p});
        for (Index b = b0; b < end; ++b) {
          if (has[b]) to[place[b]] = matrix[place[b] * q + place[a]];
        }
      }
    }
  };
  parallel(sides, workers, rows_of, {});
}

template <class T>
void Solver<T>::refine(const std::vector<Index>& chosen, double tol) {
  // Group 0 first, each group padded to whole vectors with variables that cannot move.
  auto& order = scratch_.order;
  order.clear();
  Index split = 0;
  for (int g = 0; g < 2; ++g) {
    for (Index t : chosen) {
      if (group(t) == g) order.push_back(t);
    }
    while (static_cast<Index>(order.size()) % lanes) order.push_back(-1);
    if (g == 0) split = static_cast<Index>(order.size());
  }
  Index q = static_cast<Index>(order.size());
  auto &gradient = scratch_.gradient, &up = scratch_.up, &down = scratch_.down,
       &diagonal = scratch_.diagonal;
  auto &beta = scratch_.beta, &lower = scratch_.lower, &upper = scratch_.upper, &e = scratch_.tube;
  for (auto* values : {&gradient, &up, &down, &diagonal}) {
    if (values->size() < static_cast<std::size_t>(q)) values->resize(static_cast<std::size_t>(q));
  }
  for (auto* values : {&beta, &lower, &upper, &e}) values->assign(static_cast<std::size_t>(q), 0.0);
  auto diag = rows_.diagonal();
  for (Index a = 0; a < q; ++a) {
    Index t = order[a];
    gradient[a] = t < 0 ? T{0} : static_cast<T>(F_[point(t)] - p_.target[t]);
    diagonal[a] = t < 0 ? T{1} : t == null_ ? T{0} : diag[point(t)];
    if (t < 0) continue;
    beta[a] = beta_[t];
    lower[a] = p_.lower[t];
    upper[a] = p_.upper[t];
    e[a] = tube(t);
  }
  WorkingSet<T> w;
  w.size = q;
  w.split = split;
  bool as_it_is = whole_ && p_.point.empty() && split == q;
  if (!as_it_is) {
    std::size_t area = static_cast<std::size_t>(q * q);
    if (matrix_.size() < area) matrix_.resize(area);
    fill_matrix(order, matrix_.data());
  }
  if (on_demand_) {
    w.missing = on_demand_->missing().data();
    w.make = &Solver::make_row;
    w.maker = this;
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
  solve_working_set(w);
  auto& changes = scratch_.changes;
  changes.clear();
  for (Index a = 0; a < q; ++a) {
    Index t = order[a];
    if (t < 0 || beta[a] == beta_[t]) continue;
    changes.emplace_back(point(t), beta[a] - beta_[t]);
    beta_[t] = beta[a];
  }
  add(changes);
}

// Pairs of variables, and where they take many steps the active-set method: it has its turn when
// pairs have cost as much as it is likely to, and they have theirs again where it does not come to
// an end, so that neither costs much more than the other one alone would. It comes first where the
// start is likely to be near.
template <class T>
void Solver<T>::solve_working_set(WorkingSet<T>& w) {
  Index left =
      std::min<Index>(std::max<Index>(w.size * 40, 1000), o_.max_iter - result_.iterations);
  // One sum is kept, every variable is of a point, and all rows are there.
  bool by_sets = (whole_ || o_.free_steps) && !on_demand_ && w.split == w.size && null_ < 0;
  double size = static_cast<double>(w.size);
  if (!whole_ || result_.rounds == 0) {
    pairs_ = 0;
    due_ = o_.near && whole_ ? 0 : patience * w.size;
  }
  auto settle = [&](double changes, double likely, double most) {
    double limit = static_cast<double>(o_.max_iter - result_.iterations);
    ActiveSet<T> set(w);
    bool settled =
        set.begin(changes, std::min(likely, limit)) &&
        set.run(whole_ ? fineness * o_.tol : w.tol, std::min({most, longest_turn * size, limit}));
    result_.iterations += static_cast<Index>(std::ceil(std::min(set.spent(), limit)));
    left = std::min<Index>(left, o_.max_iter - result_.iterations);
    return settled;
  };
  while (by_sets && left > 0) {
    if (pairs_ >= due_) {
      double cost = pairs_ > 0 ? static_cast<double>(pairs_) : first_turn * size;
      if (settle(changing * size, cost, 2 * cost)) return;
      due_ = std::max<Index>(2 * pairs_, patience * w.size);
    }
    w.max_steps = std::min<Index>(left, due_ - pairs_);
    loops<T>().solve_working_set(w);
    result_.iterations += w.steps;
    result_.indefinite |= w.indefinite;
    left = std::min<Index>(left - w.steps, o_.max_iter - result_.iterations);
    pairs_ += w.steps;
    if (w.indefinite) return;
    if (w.steps < w.max_steps) {
      double most = last_share * static_cast<double>(w.steps);
      if (whole_ && ActiveSet<T>::price(w) < most) settle(1, most, most);
      return;
    }
  }
  if (by_sets) return;
  w.max_steps = left;
  loops<T>().solve_working_set(w);
  result_.iterations += w.steps;
  result_.indefinite |= w.indefinite;
}

template <class T>
double Solver<T>::objective() const {
  double value = 0;
  for (Index t = 0; t < m_; ++t) {
    value += beta_[t] * (0.5 * F_[point(t)] - p_.target[t]) + tube(t) * std::abs(beta_[t]);
  }
  return value;
}

// Σₜ max over b in [lower, upper] of (gradientₜ - level)(βₜ - b) + tubeₜ(|βₜ| - |b|), the level of
// a group being in the middle of its slopes: the primal objective less the dual. The maximum is at
// a bound or at the kink; bounds at infinity are left out.
template <class T>
double Solver<T>::gap(const Slopes& s) const {
  double total = 0;
  for (Index t = 0; t < m_; ++t) {
    int g = group(t);
    double level = null_ < 0 ? 0.5 * (s.least[g] + s.most[g]) : 0;
    double slope = F_[point(t)] - p_.target[t] - level;
    double b = beta_[t], e = tube(t), most = 0;
    auto consider = [&](double to) {
      double by = b - to;
      if (by != 0 && std::isfinite(by))
        most = std::max(most, slope * by + e * (std::abs(b) - std::abs(to)));
    };
    consider(p_.lower[t]);
    consider(p_.upper[t]);
    if (e > 0) consider(0);
    total += most;
  }
  return total;
}

// What the rounding of the kernel values, each on its own, adds up to in F.
template <class T>
double Solver<T>::rounding() const {
  double square = 0;
  for (Index t = 0; t < m_; ++t) {
    double added = t == null_ ? 0 : exact_.empty() ? beta_[t] : beta_[t] - exact_[t];
    square += added * added;
  }
  return std::sqrt(square) * largest_ * static_cast<double>(std::numeric_limits<T>::epsilon()) / 2;
}

// Sums F in double at the points that decide about the violation, if they are few: those with a
// free variable, and those so near to the extreme slopes that the error of F, which is bounded here
// at its worst, might hide one. What is summed moves the extremes, so more points may come near to
// them.
template <class T>
bool Solver<T>::check_few(std::span<const Index> which, std::span<const double> factor,
                          double largest) {
  double unit = 0.5 * static_cast<double>(std::numeric_limits<T>::epsilon()) * largest;
  auto error = [&](Index i) {
    return unit *
           (worst_.base * result_.moved + worst_.slope * (moved_norm_ + norm(i) * result_.moved));
  };
  std::size_t most = static_cast<std::size_t>(most_checked * static_cast<double>(which.size()));
  std::vector<char> taken(static_cast<std::size_t>(n_ + 1), 0);
  std::vector<Index> some;
  auto find = [&](bool at_worst) {
    Slopes s = slopes();
    some.clear();
    std::vector<char> seen(taken);
    seen[n_] = 1;
    for (Index t = 0; t < m_; ++t) {
      Index i = point(t);
      if (seen[i]) continue;
      int g = group(t);
      bool free = std::isfinite(up_[t]) && std::isfinite(down_[t]) && beta_[t] != 0;
      double reach = (at_worst ? error(i) : 0) + o_.tol;
      if (free || !(up_[t] - reach >= s.most[g] && down_[t] + reach <= s.least[g])) {
        seen[i] = 1;
        some.push_back(i);
      }
    }
  };
  find(true);
  if (some.size() > most) return false;
  std::vector<double> before(F_), sums;
  std::size_t count = 0;
  // At first the extremes alone, which are not known well yet.
  find(false);
  for (bool sure = false; !sure || !some.empty(); find(true), sure = true) {
    count += some.size();
    sums.resize(some.size());
    if (count > most) {
      F_ = std::move(before);
      slopes();
      return false;
    }
    rows_.facts.exact->sum(which, factor, false, some, sums.data());
    for (std::size_t k = 0; k < some.size(); ++k) {
      F_[some[k]] = sums[k];
      taken[some[k]] = 1;
    }
  }
  return true;
}

// Sums F in double at the extreme slopes and at some points spread over all. The error elsewhere is
// taken to be a few times what it is there; false where that leaves open if the violation is below
// tol.
template <class T>
bool Solver<T>::check_sample(std::span<const Index> which, std::span<const double> factor) {
  std::vector<std::pair<double, Index>> ups, downs;
  for (Index t = 0; t < m_; ++t) {
    if (t == null_) continue;
    if (std::isfinite(up_[t])) ups.emplace_back(up_[t], t);
    if (std::isfinite(down_[t])) downs.emplace_back(-down_[t], t);
  }
  std::vector<char> taken(static_cast<std::size_t>(n_ + 1), 0);
  std::vector<Index> some;
  auto take = [&](Index t) {
    if (!taken[point(t)]) some.push_back(point(t));
    taken[point(t)] = 1;
  };
  for (auto* list : {&ups, &downs}) {
    Index keep = std::min<Index>(sampled / 4, static_cast<Index>(list->size()));
    std::nth_element(list->begin(), list->begin() + keep, list->end());
    for (Index k = 0; k < keep; ++k) take((*list)[k].second);
  }
  Index apart = std::max<Index>(1, m_ / (sampled / 2));
  for (Index t = apart / 2; t < m_; t += apart) {
    if (t != null_) take(t);
  }
  std::vector<double> sums(some.size()), before(F_);
  rows_.facts.exact->sum(which, factor, false, some, sums.data());
  double found = 0;
  for (std::size_t k = 0; k < some.size(); ++k) {
    found = std::max(found, std::abs(sums[k] - F_[some[k]]));
    F_[some[k]] = sums[k];
  }
  result_.sampled_error = safety * found;
  // Both ends may be off, in what is found here and in what is made of it.
  if (slopes().violation() + 4 * result_.sampled_error < o_.tol) return true;
  result_.sampled_error = 0;
  F_ = std::move(before);
  slopes();
  return false;
}

// The points whose coefficient is not 0, and these coefficients.
template <class T>
void Solver<T>::find_coefficients() {
  auto& coef = scratch_.coef;
  coef.assign(static_cast<std::size_t>(n_), 0.0);
  for (Index t = 0; t < m_; ++t) {
    if (point(t) < n_) coef[point(t)] += beta_[t];
  }
  scratch_.points.clear();
  scratch_.factor.clear();
  for (Index i = 0; i < n_; ++i) {
    if (coef[i] == 0) continue;
    scratch_.points.push_back(i);
    scratch_.factor.push_back(coef[i]);
  }
}

// F from β alone, in double, at every point with a coefficient, and at those so near to the extreme
// slopes that what the rounding of the rows may have hidden could make them violate.
template <class T>
bool Solver<T>::refresh(const Slopes& s, double hidden) {
  if (!rows_.facts.exact) return false;
  find_coefficients();
  std::vector<Index> at(scratch_.points), others;
  std::vector<char> taken(static_cast<std::size_t>(n_ + 1), 0);
  taken[n_] = 1;
  for (Index i : at) taken[i] = 1;
  double reach = safety * hidden + o_.tol;
  for (Index t = 0; t < m_; ++t) {
    int g = group(t);
    if (taken[point(t)] || !(up_[t] - reach < s.most[g] || down_[t] + reach > s.least[g])) continue;
    others.push_back(point(t));
    taken[point(t)] = 1;
  }
  std::vector<double> sums(at.size() + others.size());
  rows_.facts.exact->sum(at, scratch_.factor, true, others, sums.data());
  at.insert(at.end(), others.begin(), others.end());
  for (std::size_t k = 0; k < at.size(); ++k) F_[at[k]] = sums[k];
  exact_ = beta_;
  result_.complete = true;
  result_.sampled_error = 0;
  return true;
}

// F from β alone, in double, at the points that decide; false where the rows have no such values.
//
// Where no objectives are asked for and most points are far from their condition at their bound,
// those that decide are few, and known for sure. Otherwise they are the points with a coefficient,
// and the ones near to the extreme slopes as far as the error of F is estimated for each point, and
// held against the errors found at all the points that are summed: where these are larger, more
// are.
template <class T>
bool Solver<T>::check(const Slopes& s) {
  if (on_demand_) return false;  // rows of variables that stayed are not there
  find_coefficients();
  auto& at = scratch_.points;
  auto& factor = scratch_.factor;
  if (whole_ && sizeof(T) == 8) {
    auto& rows = scratch_.of_rows;
    rows.clear();
    for (Index i : at) rows.push_back(all_.data() + i * n_);
    F_.assign(static_cast<std::size_t>(n_ + 1), 0.0);
    add_all<T>(rows, factor, n_, F_.data());
    return true;
  }
  if (!rows_.facts.exact) return false;
  auto diag = rows_.diagonal();
  double largest = 0, square = 0;
  for (T k : diag) largest = std::max(largest, std::abs(static_cast<double>(k)));
  for (double f : factor) square += f * f;
  result_.complete = true;
  result_.sampled_error = 0;
  bool some = sizeof(T) == 4 && !o_.objectives;
  if (some && ((o_.samples && check_sample(at, factor)) || check_few(at, factor, largest))) {
    result_.complete = false;
    return true;
  }
  double typical = 0.5 * static_cast<double>(std::numeric_limits<T>::epsilon()) *
                   rows_.facts.typical_error * std::sqrt(square * largest);
  std::vector<char> taken(static_cast<std::size_t>(n_ + 1), 0);
  for (Index i : at) taken[i] = 1;
  taken[n_] = 1;
  std::vector<Index> which(at);
  double found = 0;
  auto add_near = [&](double margin) {
    for (Index t = 0; t < m_; ++t) {
      Index i = point(t);
      if (taken[i]) continue;
      int g = group(t);
      double size = std::sqrt(std::abs(static_cast<double>(diag[i])));
      double error = std::max(safety * typical * size, margin) + o_.tol;
      if (up_[t] - error < s.most[g] || down_[t] + error > s.least[g]) {
        taken[i] = 1;
        at.push_back(i);
      }
    }
  };
  add_near(0);
  std::vector<double> sums(at.size());
  auto others = [&] { return std::span<const Index>(at).subspan(which.size()); };
  rows_.facts.exact->sum(which, factor, true, others(), sums.data());
  for (std::size_t k = 0; k < at.size(); ++k)
    found = std::max(found, std::abs(sums[k] - F_[at[k]]));
  if (sizeof(T) == 4 && found > typical * std::sqrt(largest)) {
    std::size_t before = at.size();
    add_near(safety * found);
    if (at.size() > before) {
      sums.resize(at.size());
      rows_.facts.exact->sum(which, factor, true, others(), sums.data());
    }
  }
  for (std::size_t k = 0; k < at.size(); ++k) F_[at[k]] = sums[k];
  return true;
}

template <class T>
Result Solver<T>::run(std::span<const double> start, const Known& known, const Watch& watch,
                      const Poll& poll) {
  auto begin = std::chrono::steady_clock::now();
  auto seconds = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  // Seconds that summing F anew at the end will take: a row of each support vector, which are as
  // many as the time so far went for. Half of the limit at most, or nothing would be solved.
  auto closing = [&](Index started) {
    if (!cache_) return 0.0;
    Index rows = std::max<Index>({cache_->computed, started, 1});
    double once = seconds() * static_cast<double>(support()) / static_cast<double>(rows);
    return std::min(once, 0.5 * o_.time_limit);
  };
  beta_.assign(start.begin(), start.end());
  F_.assign(static_cast<std::size_t>(n_ + 1), 0.0);  // and that of no point
  // At least 4: beside the half that is kept, the two that violate most.
  Index size = std::max<Index>(4, o_.working_set > 0 ? o_.working_set : usual_set());
  size = std::min(size, m_);
  auto& everything = scratch_.everything;
  everything.clear();
  if (is_small()) {
    make_all();
    everything.resize(static_cast<std::size_t>(m_));
    std::iota(everything.begin(), everything.end(), Index{0});
  } else {
    cache_ = std::make_unique<RowCache<T>>(rows_, o_.cache_bytes, size, storage_);
    scratch_.cache_bytes = cache_->bytes();
  }
  auto& changes = scratch_.changes;
  changes.clear();
  bool begun = !known.beta.empty();
  if (begun) {
    std::copy(known.function.begin(), known.function.end(), F_.begin());
    result_.moved = known.moved;
    for (Index i = 0; i < n_; ++i) moved_norm_ = std::max(moved_norm_, known.moved * norm(i));
  }
  for (Index t = 0; t < m_; ++t) {
    double change = beta_[t] - (begun ? known.beta[t] : 0);
    if (change != 0) changes.emplace_back(point(t), change);
  }
  if (on_demand_) {
    for (double change : on_demand_->sum(beta_, all_.data(), F_.data())) {
      result_.moved += std::abs(change);
      ++result_.additions;
    }
  } else if (!changes.empty()) {
    add(changes);
  }
  Index started = static_cast<Index>(changes.size());
  Slopes s = slopes();
  double best = infinity;
  Index since = 0;  // rounds without a lower objective
  Index checks = 0;
  for (;; ++result_.rounds) {
    result_.violation = s.violation();
    // F was added up round by round, with rounding errors: it is summed anew.
    double hidden = o_.refines ? rounding() : 0;
    // At a start that is the optimum, what its rows hide could make it seem that it is not.
    double margin = result_.rounds == 0 ? safety * hidden : hidden;
    if (result_.violation < std::max(o_.tol, margin)) {
      if (checks++ == most_checks) {
        result_.status = o_.demanding ? Status::imprecise : Status::stalled;
        break;
      }
      if (hidden > 0.1 * o_.tol) {
        result_.checked = refresh(s, hidden);
        best = infinity;  // what it was has errors
      } else {
        result_.checked = check(s);
      }
      s = slopes();
      result_.violation = s.violation();
    }
    double value = objective();
    since = value < best - 1e-13 * std::abs(best) || best == infinity ? 0 : since + 1;
    best = std::min(best, value);
    if (watch && watch({result_.rounds, result_.iterations, cache_ ? cache_->computed : 0,
                        support(), result_.violation, value, gap(s), seconds()})) {
      result_.status = Status::stopped;
      break;
    }
    if (result_.violation < o_.tol) break;
    if (result_.iterations >= o_.max_iter) {
      result_.status = Status::max_iter;
      break;
    }
    if (o_.time_limit > 0 && seconds() + closing(started) > o_.time_limit) {
      result_.status = Status::time_limit;
      break;
    }
    if (o_.demanding && !o_.refines && rounding() > 0.1 * o_.tol) {
      result_.status = Status::imprecise;
      break;
    }
    if (since >= most_idle) {
      result_.status = Status::stalled;
      break;
    }
    if (poll) poll();
    result_.checked = false;
    if (!everything.empty()) {
      refine(everything, 0.5 * o_.tol);
    } else {
      // Small sets first: in the first rounds most points violate alike, and rows are costly.
      Index now = std::min(size, first_set << std::min<Index>(result_.rounds / 2, 20));
      std::vector<Index> chosen = choose(s, now);
      if (poll && m_ > many) poll();
      refine(chosen, std::max(0.1 * result_.violation, 0.5 * o_.tol));
    }
    if (poll && m_ > many) poll();
    s = slopes();
  }
  if (!result_.checked && result_.status != Status::optimal &&
      result_.status != Status::imprecise) {
    result_.checked = check(s);
    result_.violation = slopes().violation();
  }
  rows_.complete(F_.data());
  result_.objective = objective();
  result_.value = std::move(beta_);
  F_.pop_back();
  result_.function = std::move(F_);
  if (cache_) {
    result_.rows += cache_->computed;
    result_.hits = cache_->hits;
  }
  return std::move(result_);
}

}  // namespace

template <class T>
Result solve(Rows<T>& rows, const Program& program, const Options& options,
             std::span<const double> start, const Watch& watch, const Poll& poll,
             Scratch<T>& scratch, const Known& known) {
  return Solver<T>(rows, program, options, scratch).run(start, known, watch, poll);
}

template Result solve(Rows<float>&, const Program&, const Options&, std::span<const double>,
                      const Watch&, const Poll&, Scratch<float>&, const Known&);
template Result solve(Rows<double>&, const Program&, const Options&, std::span<const double>,
                      const Watch&, const Poll&, Scratch<double>&, const Known&);

}  // namespace mercer
