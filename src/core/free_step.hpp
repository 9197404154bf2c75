// Newton's step for the free variables of a working set.
#pragma once

#include <vector>

#include "core.hpp"

namespace mercer {

// Takes the steps of one working set; holds its factor from one step to the next.
template <class T>
class FreeSteps {
 public:
  // Steps of two variables that cost as much as one step for this many free variables.
  static Index price(Index free, Index size);

  // How many variables are strictly between their bounds, and off the kink of their tube.
  Index find(const WorkingSet<T>&);

  // Moves the variables found to where their slopes are equal, or as far as the first bound allows;
  // where the row of one is a combination of others, these along it to the first bound. The sum of
  // all stays what it is, and the objective grows by no more than rounding. Whether no bound was
  // met.
  bool take(const WorkingSet<T>&);

 private:
  Index factorize(const WorkingSet<T>&);
  void substitute(std::vector<double>& x, Index count) const;
  void solve(std::vector<double>& x) const;
  void aim_at_optimum();
  void aim_at_bound(Index k);
  double spread() const;
  bool move(const WorkingSet<T>&, double whole);

  std::vector<Index> free_;
  std::vector<double> factor_;        // U with UᵀU = K + constant among them, row after row
  std::vector<double> slope_, x_;     // of the free variables; how they are to move
  std::vector<double> change_;        // of the gradient, for x_
  std::vector<const double*> above_;  // the rows of U
  std::vector<const T*> rows_;
  std::vector<double> minus_;
};

}  // namespace mercer
