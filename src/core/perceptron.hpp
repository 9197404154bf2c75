// The perceptron: one pass over the points, every mistake an update, in the textbook's order.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "core.hpp"
#include "explicit_rows.hpp"

namespace mercer {

// A callback, now and then, with how many points were seen and how many updates made; returns true
// to stop.
using Look = std::function<bool(Index seen, Index mistakes)>;

// One pass of q perceptrons over n points. At time t perceptron c is wrong where
// side[t·q + c] · f_c ≤ 0; then missed[t·q + c] = 1 and f_c += side · k(x, ·).
struct Pass {
  Index n = 0, q = 0;
  const std::int8_t* side = nullptr;
  double* scores = nullptr;  // in, out: f_c at point i is scores[c·n + i]
  std::uint8_t* missed = nullptr;
  double shift = 0;     // added to every kernel value
  bool settle = false;  // whether scores of points that were seen are kept up to date too
};

// Each returns how many points were seen. Throws std::domain_error where a score is not finite.

// Points in the order of the pass; no matrix is stored.
template <class T>
Index pass(const Recipe&, const Points<T>&, const Pass&, const Look&, const Poll&);

// All kernel values at hand, n × n; the point of time t is order[t].
template <class T>
Index pass(const T* matrix, std::span<const Index> order, const Pass&, const Look&, const Poll&);

// f_c(x) = ⟨w_c, x⟩, and a last component of w_c for a constant 1 if there is one: row order[t] of
// X is the point of time t.
struct Weights {
  double* w = nullptr;  // q rows of d + 1 numbers
  double* u = nullptr;  // Σ t · (what time t added to w), for averages
  double eta = 1;
  double constant = 0;  // 1, or 0 for none
  Index time = 0;       // of the first point
};
template <class T, class I>
Index pass(const Vectors<T, I>&, std::span<const Index> order, const Weights&, const Pass&,
           const Look&, const Poll&);

}  // namespace mercer
