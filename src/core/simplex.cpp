#include "simplex.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace mercer {
namespace {

constexpr std::size_t many = 64;  // weights for which a step takes a while
constexpr double least = 1e-300;

double product(const double* a, const double* b, std::size_t count) {
  return std::inner_product(a, a + count, b, 0.0);
}

// x = A⁻¹x for a positive definite matrix of side q, over which its factor is written. A pivot that
// rounding made 0 or less counts as the last digit of its diagonal.
void solve(std::vector<double>& A, std::size_t q, double* x) {
  for (std::size_t j = 0; j < q; ++j) {
    double* row = A.data() + j * q;
    double diagonal = std::abs(row[j]);
    for (std::size_t i = 0; i < j; ++i) {
      const double* other = A.data() + i * q;
      row[i] = (row[i] - product(row, other, i)) / other[i];
    }
    double pivot = row[j] - product(row, row, j);
    double smallest = std::max(std::numeric_limits<double>::epsilon() * diagonal, least);
    row[j] = std::sqrt(std::max(pivot, smallest));
    x[j] = (x[j] - product(row, x, j)) / row[j];
  }
  for (std::size_t j = q; j-- > 0;) {
    x[j] /= A[j * q + j];
    for (std::size_t i = 0; i < j; ++i) x[i] -= A[j * q + i] * x[j];
  }
}

}  // namespace

// On what rowᵀx = 0 allows, by a reflection of row on the first axis: A alone may be singular but
// for its ridge, and what a multiplier would cancel is then larger than x by nine digits.
std::vector<double> constrained_minimum(std::span<const double> A, std::span<const double> pull,
                                        std::span<const double> row) {
  std::size_t k = row.size();
  if (k < 2) return std::vector<double>(k, 0.0);
  std::vector<double> mirror(row.begin(), row.end()), image(k, 0.0);
  double length = std::sqrt(product(row.data(), row.data(), k));
  for (double& m : mirror) m /= length;
  mirror[0] += mirror[0] >= 0 ? 1 : -1;
  double scale = 2 / product(mirror.data(), mirror.data(), k);
  for (std::size_t i = 0; i < k; ++i) image[i] = scale * product(&A[i * k], mirror.data(), k);
  double twice = scale * product(mirror.data(), image.data(), k);
  double along = scale * product(mirror.data(), pull.data(), k);
  // The reflected matrix and pull, without the first axis.
  std::size_t q = k - 1;
  std::vector<double> reflected(q * q), x(k, 0.0);
  for (std::size_t i = 1; i < k; ++i) {
    for (std::size_t j = 1; j <= i; ++j) {
      reflected[(i - 1) * q + j - 1] = A[i * k + j] - mirror[i] * image[j] - image[i] * mirror[j] +
                                       twice * mirror[i] * mirror[j];
    }
    x[i] = pull[i] - along * mirror[i];
  }
  solve(reflected, q, x.data() + 1);
  double back = scale * product(mirror.data(), x.data(), k);
  for (std::size_t i = 0; i < k; ++i) x[i] -= back * mirror[i];
  return x;
}

// By active sets: on the entries that are not held at 0 the minimum is a linear system; an entry
// that would become negative is held, one whose release lowers the value is released.
std::vector<double> simplex_minimum(std::span<const double> H, std::span<const double> slope,
                                    std::span<const double> start, const Poll& poll) {
  std::size_t n = start.size();
  std::vector<double> x(start.begin(), start.end()), gradient(n), block, pull;
  std::vector<char> held(n);
  std::vector<std::size_t> free;
  for (std::size_t i = 0; i < n; ++i) held[i] = x[i] <= 0;
  auto find_gradient = [&] {
    for (std::size_t i = 0; i < n; ++i) {
      gradient[i] = slope[i];
      for (std::size_t j = 0; j < n; ++j) gradient[i] += H[i * n + j] * (x[j] - start[j]);
    }
  };
  for (std::size_t round = 0; round < 20 * n; ++round) {
    if (poll && n > many) poll();
    free.clear();
    for (std::size_t i = 0; i < n; ++i) {
      if (!held[i]) free.push_back(i);
    }
    find_gradient();
    block.clear();
    pull.clear();
    for (std::size_t i : free) {
      pull.push_back(-gradient[i]);
      for (std::size_t j : free) block.push_back(H[i * n + j]);
    }
    std::vector<double> move =
        constrained_minimum(block, pull, std::vector<double>(free.size(), 1.0));
    // How far it can go, and which entry is the first at 0.
    double ratio = std::numeric_limits<double>::infinity();
    std::size_t first = n;
    for (std::size_t a = 0; a < free.size(); ++a) {
      if (!(x[free[a]] + move[a] < 0)) continue;
      double share = x[free[a]] / -move[a];
      if (share < ratio) {
        ratio = share;
        first = free[a];
      }
    }
    bool blocked = first < n;
    for (std::size_t a = 0; a < free.size(); ++a) {
      double by = blocked ? ratio * move[a] : move[a];
      x[free[a]] = std::max(x[free[a]] + by, 0.0);
    }
    if (blocked) {
      x[first] = 0;
      held[first] = 1;
      continue;
    }
    find_gradient();
    double level = 0, largest = least, lowest = std::numeric_limits<double>::infinity();
    for (std::size_t i : free) level += gradient[i] / static_cast<double>(free.size());
    for (std::size_t i = 0; i < n; ++i) {
      largest = std::max(largest, std::abs(gradient[i]));
      if (held[i] && gradient[i] - level < lowest) {
        lowest = gradient[i] - level;
        first = i;
      }
    }
    if (!(lowest < -1e-12 * largest)) break;
    held[first] = 0;
  }
  double total = std::accumulate(x.begin(), x.end(), 0.0);
  for (double& entry : x) entry /= total;
  return x;
}

}  // namespace mercer
