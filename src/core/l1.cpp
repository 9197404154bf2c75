// Sweeps: Friedman et al., Annals of Applied Statistics 1 (2007). Faces: Osborne, Presnell,
// Turlach, IMA Journal of Numerical Analysis 20 (2000), the descent algorithm.
#include "l1.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace mercer {
namespace {

double soft(double z, double reg) {
  return z > reg ? z - reg : z < -reg ? z + reg : 0.0;
}

// How far -gradient is from the slopes of reg |c|.
double violation(double gradient, double c, double reg) {
  if (c == 0) return std::max(std::abs(gradient) - reg, 0.0);
  return std::abs(gradient + std::copysign(reg, c));
}

void add(double factor, const double* x, double* y, Index count) {
  for (Index i = 0; i < count; ++i) y[i] += factor * x[i];
}

double dot(const double* x, const double* y, Index count) {
  double sum[4] = {};  // four at a time: the order is fixed, and the compiler may use vectors
  Index i = 0;
  for (; i + 4 <= count; i += 4) {
    for (int l = 0; l < 4; ++l) sum[l] += x[i + l] * y[i + l];
  }
  for (; i < count; ++i) sum[0] += x[i] * y[i];
  return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

// H among its members as R'R, R upper triangular, column k at factor_[k]; members come and go.
class Face {
 public:
  Face(const double* H, Index p) : H_(H), p_(p) {}

  Index size() const { return static_cast<Index>(members_.size()); }
  Index member(Index k) const { return members_[k]; }

  // Whether j is a member now. If not, its column is that of the members times `of_members`.
  bool append(Index j, std::vector<double>& of_members) {
    const Index m = size();
    std::vector<double> column(m + 1);
    for (Index k = 0; k < m; ++k) {
      const double* own = factor_[k].data();
      column[k] = (H_[j * p_ + members_[k]] - dot(own, column.data(), k)) / own[k];
    }
    const double whole = H_[j * p_ + j];
    const double rest = whole - dot(column.data(), column.data(), m);
    if (rest <= dependent * whole) {
      column.resize(m);
      back(column);
      of_members = std::move(column);
      return false;
    }
    column[m] = std::sqrt(rest);
    factor_.push_back(std::move(column));
    members_.push_back(j);
    return true;
  }

  void remove(Index k) {
    factor_.erase(factor_.begin() + k);
    members_.erase(members_.begin() + k);
    // Columns from k on have one entry too many below; rotations of two rows take it away.
    for (Index column = k; column < size(); ++column) {
      const double a = factor_[column][column], b = factor_[column][column + 1];
      const double length = std::hypot(a, b), cosine = a / length, sine = b / length;
      for (Index after = column; after < size(); ++after) {
        double &x = factor_[after][column], &y = factor_[after][column + 1];
        const double upper = cosine * x + sine * y;
        y = cosine * y - sine * x;
        x = upper;
      }
      factor_[column].resize(column + 1);
    }
  }

  // x := H⁻¹ x among the members.
  void solve(std::vector<double>& x) const {
    for (Index k = 0; k < size(); ++k) {
      x[k] = (x[k] - dot(factor_[k].data(), x.data(), k)) / factor_[k][k];
    }
    back(x);
  }

 private:
  static constexpr double dependent = 1e-12;  // what is left of a column, squared

  // x := R⁻¹ x.
  void back(std::vector<double>& x) const {
    for (Index k = size() - 1; k >= 0; --k) {
      x[k] /= factor_[k][k];
      add(-x[k], factor_[k].data(), x.data(), k);
    }
  }

  const double* H_;
  Index p_;
  std::vector<Index> members_;
  std::vector<std::vector<double>> factor_;
};

// The descent from face to face: coef with the signs of its members, which move together.
class Descent {
 public:
  Descent(const double* H, std::span<double> gradient, std::span<double> coef, double reg)
      : H_(H),
        p_(static_cast<Index>(coef.size())),
        gradient_(gradient),
        coef_(coef),
        reg_(reg),
        face_(H, p_),
        sign_(coef.size()),
        barred_(coef.size()) {
    for (Index j = 0; j < p_; ++j) {
      if (coef[j] != 0 && H[j * p_ + j] > 0) admit(j, std::copysign(1.0, coef[j]));
    }
  }

  // One step, or one more member; whether there was anything to do.
  bool step(double tol) {
    move_.resize(face_.size());
    double slope = 0;
    for (Index k = 0; k < face_.size(); ++k) {
      move_[k] = -slope_at(face_.member(k));
      slope = std::max(slope, std::abs(move_[k]));
    }
    if (slope <= tol) return join(tol);
    face_.solve(move_);
    go(1, -1, 0);
    return true;
  }

  double worst() const {
    double most = 0;
    for (Index j = 0; j < p_; ++j) most = std::max(most, violation(gradient_[j], coef_[j], reg_));
    return most;
  }

 private:
  double slope_at(Index j) const { return gradient_[j] + reg_ * sign_[j]; }

  bool join(double tol) {
    Index joins = -1;
    double most = tol;
    for (Index j = 0; j < p_; ++j) {
      const double off = std::abs(gradient_[j]) - reg_;
      if (sign_[j] == 0 && !barred_[j] && off > most && H_[j * p_ + j] > 0) most = off, joins = j;
    }
    if (joins >= 0) admit(joins, std::copysign(1.0, -gradient_[joins]));
    return joins >= 0;
  }

  // j becomes a member. While its column is a sum of those of others there is a direction along
  // which nothing but the penalty changes: down there, until one of them is at 0 and leaves.
  void admit(Index j, double sign) {
    sign_[j] = sign;
    while (!face_.append(j, move_)) {
      double slope = slope_at(j);
      for (Index k = 0; k < face_.size(); ++k) slope -= move_[k] * slope_at(face_.member(k));
      const double own =
          coef_[j] == 0 ? sign : std::copysign(1.0, slope == 0 ? coef_[j] : slope) * -1;
      for (double& x : move_) x *= -own;
      if (go(std::numeric_limits<double>::infinity(), j, own)) continue;
      sign_[j] = 0;
      return;
    }
  }

  // Along move_ on the face, and `own` of j beside it, by at most `length`, or until the first is
  // at 0, which leaves. Whether it was a member of the face.
  bool go(double length, Index j, double own) {
    const bool bounded = std::isfinite(length);
    Index leaves = -1;
    bool j_leaves = false;
    for (Index k = 0; k < face_.size(); ++k) {
      const Index i = face_.member(k);
      if (move_[k] * sign_[i] >= 0) continue;
      const double until = -coef_[i] / move_[k];
      if (until < length) length = until, leaves = k;
    }
    if (j >= 0 && own * sign_[j] < 0 && -coef_[j] / own <= length) {
      length = -coef_[j] / own, j_leaves = true, leaves = -1;
    }
    if (!bounded && !std::isfinite(length)) {
      barred_[j] = true;  // the way down has no end: rounding
      return false;
    }
    if (length > 0) std::fill(barred_.begin(), barred_.end(), false);
    for (Index k = 0; k < face_.size(); ++k) {
      put(face_.member(k), k == leaves ? 0 : coef_[face_.member(k)] + length * move_[k]);
    }
    if (j >= 0) put(j, j_leaves ? 0 : coef_[j] + length * own);
    if (leaves < 0) return false;
    const Index left = face_.member(leaves);
    barred_[left] = length == 0;  // came and went without a step
    sign_[left] = 0;
    face_.remove(leaves);
    return true;
  }

  void put(Index j, double value) {
    const double change = value - coef_[j];
    coef_[j] = value;
    if (change != 0) add(change, H_ + j * p_, gradient_.data(), p_);
  }

  const double* H_;
  Index p_;
  std::span<double> gradient_, coef_;
  double reg_;
  Face face_;
  std::vector<double> sign_, move_;
  std::vector<bool> barred_;
};

}  // namespace

double l1_sweeps(const double* H, std::span<double> gradient, std::span<double> coef, double reg,
                 double tol, Index sweeps, const Poll& poll) {
  const Index p = static_cast<Index>(coef.size());
  double worst = 0;
  for (Index sweep = 0; sweep < sweeps; ++sweep) {
    worst = 0;
    for (Index j = 0; j < p; ++j) {
      const double* row = H + j * p;
      const double c = coef[j], curvature = row[j];
      worst = std::max(worst, violation(gradient[j], c, reg));
      const double fresh = curvature > 0 ? soft(curvature * c - gradient[j], reg) / curvature : 0.0;
      if (fresh == c) continue;
      coef[j] = fresh;
      add(fresh - c, row, gradient.data(), p);
    }
    if (poll) poll();
    if (worst <= tol) break;
  }
  return worst;
}

double l1_faces(const double* H, std::span<double> gradient, std::span<double> coef, double reg,
                double tol, Index steps, const Poll& poll) {
  Descent descent(H, gradient, coef, reg);
  for (Index step = 0; step < steps && descent.step(tol); ++step) {
    if (poll && step % 64 == 0) poll();
  }
  return descent.worst();
}

}  // namespace mercer
