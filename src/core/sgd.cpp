// w <- (1 - 2 reg eta) w - eta l'(y, f(x)) phi(x), then w <- w min(1, norm / |w|).
#include "sgd.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <stdexcept>
#include <string>
#include <utility>

namespace mercer {

LossSlope LossSlope::of(std::string_view name, double parameter) {
  static constexpr std::array<std::pair<std::string_view, Kind>, 8> kinds{{
      {"hinge", Kind::hinge},
      {"perceptron", Kind::perceptron},
      {"squared_hinge", Kind::squared_hinge},
      {"logistic", Kind::logistic},
      {"squared", Kind::squared},
      {"epsilon_insensitive", Kind::epsilon_insensitive},
      {"huber", Kind::huber},
      {"quantile", Kind::quantile},
  }};
  for (const auto& [known, kind] : kinds) {
    if (known == name) return {kind, parameter};
  }
  throw std::invalid_argument("sgd_steps does not know the loss " + std::string(name) + ".");
}

Index sgd_steps(const LossSlope& loss, const Visits& v, double tiny) {
  const double largest = v.norm * v.norm;
  std::fill_n(v.scale, v.q, 1.0);
  std::fill_n(v.last, v.q, 0.0);
  std::fill_n(v.added, v.q * v.b, 0.0);
  for (Index j = 0; j < v.b; ++j) {
    const double* row = v.gram + j * v.b;
    const double eta = v.rate[j];
    const double shrink = std::max(0.0, 1 - 2 * v.reg * eta);
    bool vanished = false;
    for (Index c = 0; c < v.q; ++c) {
      double* f = v.values + c * v.b;
      double& scale = v.scale[c];
      double& square = v.square[c];
      v.scales[c * v.b + j] = scale;
      f[j] *= scale;
      const double d = -eta * v.weight[j] * loss.at(v.target[c * v.b + j], f[j]);
      square = shrink * shrink * square + d * (2 * shrink * f[j] + d * row[j]);
      // Rounding can leave -1e-17; a NaN stays one.
      if (square < 0) square = 0.0;
      const double factor = square > largest ? std::sqrt(largest / square) : 1.0;
      if (square > largest) square = largest;
      scale *= shrink;
      if (scale < tiny) {
        v.last[c] = factor * d;
        vanished = true;
      } else if (d != 0) {
        const double step = v.added[c * v.b + j] = d / scale;
        for (Index i = j + 1; i < v.b; ++i) f[i] += step * row[i];
      }
      scale *= factor;
      vanished = vanished || scale < tiny;
    }
    if (vanished) return j + 1;
  }
  return v.b;
}

}  // namespace mercer
