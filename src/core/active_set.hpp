// The active-set method, for working sets that pairs of variables do not settle.
#pragma once

#include <vector>

#include "core.hpp"

namespace mercer {

// Finds the optimum of a working set from where it stands; the sum of all variables stays.
//
// Free variables, those strictly between their bounds, go to where their slopes are equal, or as
// far as the first bound; then the variable at a bound that violates its condition most becomes
// free. A factor of K among the free ones goes along. Costs are in steps of two variables, each of
// which does something for every variable of the set.
template <class T>
class ActiveSet {
 public:
  // What it costs to take all free variables to equal slopes, if their rows are independent.
  static double price(const WorkingSet<T>&);

  explicit ActiveSet(WorkingSet<T>&);

  // Finds the free variables and their factor, where that and so many changes of these variables
  // cost no more than `most`; otherwise little has changed. Where the row of one is a combination
  // of others, these variables have gone along it to the first bound: at most as many are left as K
  // has rank.
  bool begin(double changes, double most);

  // Until no two slopes differ by more than tol or by what rounding does to them, or until `most`
  // is spent. The objective has not grown, and the gradient is up to date. Whether it came to the
  // end.
  bool run(double tol, double most);

  double spent() const { return spent_; }

 private:
  // A free variable: its bounds, the kink of the tube being one, and what the tube adds to its
  // slope.
  struct Free {
    Index at;
    double lowest, highest, tube;
    double slope;  // as the steps since the last refresh leave it
  };

  Free freed(Index t, bool upwards) const;
  Index count() const { return static_cast<Index>(free_.size()); }
  double* row(Index k) { return factor_.data() + k * room_; }
  const double* row(Index k) const { return factor_.data() + k * room_; }
  double reduce(Index t);
  void append(const Free&, double pivot);
  void erase(Index k);
  void forward(std::vector<double>& x) const;
  void backward(std::vector<double>& x) const;
  bool enter(const Free&, bool upwards);
  bool follow(const Free&, double sign);
  double room(const Free&, double direction) const;
  void move(Index t, double by, double end, bool meets);
  void leave_at_bounds();
  bool step();
  bool ends(double most) const;
  bool to_equal_slopes(double tol, double most);
  bool refresh();
  bool finish();
  double noise() const;
  void charge(double multiplications) { spent_ += multiplications / per_step_; }

  WorkingSet<T>& w_;
  double per_step_, constant_ = 0, largest_ = 0, spent_ = 0;
  std::vector<double> gradient_;
  std::vector<Free> free_;      // in the order of the factor
  std::vector<double> factor_;  // L with LLᵀ = K + constant among them, row after row
  Index room_ = 0;              // numbers in a row of the factor
  std::vector<double> x_, ones_, turn_, slant_;
  std::vector<double> before_;  // per variable that has moved since the gradient was up to date
  std::vector<Index> touched_;  // these variables
  std::vector<char> is_touched_;
  Index idle_ = 0;  // steps of no length, one after another
};

}  // namespace mercer
