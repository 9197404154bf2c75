// One working set solved two variables at a time; compiled once per instruction set.
//
// Second-order selection: Fan, Chen, Lin, JMLR 6 (2005). The letters are theirs: i can go up, j
// down.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "simd.hpp"

namespace mercer::MERCER_ISA {

template <class T>
struct Best {
  T value;
  Index at;
};

// Lane by lane the best so far; ties go to the lowest index.
template <class T>
MERCER_INLINE Best<T> lowest(Vec<T> value, Ints<T> at) {
  Best<T> best{value[0], static_cast<Index>(at[0])};
  for (int l = 1; l < lanes<T>; ++l) {
    if (value[l] < best.value || (value[l] == best.value && at[l] < best.at)) {
      best = {value[l], static_cast<Index>(at[l])};
    }
  }
  return best;
}

template <class T>
MERCER_INLINE Ints<T> counting(Index from) {
  Ints<T> at{};
  for (int l = 0; l < lanes<T>; ++l) at[l] = static_cast<typename Simd<T>::Scalar>(from + l);
  return at;
}

// i = argmin of up over [from, to), and the largest of down; gradient moves by delta (a - b) first.
template <class T>
MERCER_INLINE Best<T> move_and_find(const WorkingSet<T>& w, Index from, Index to, const T* a,
                                    const T* b, T delta, T& highest) {
  Vec<T> least = broadcast(std::numeric_limits<T>::infinity()), most = -least;
  Ints<T> where = counting<T>(from), at = where;
  Vec<T> step = broadcast(delta);
  for (Index t = from; t < to; t += lanes<T>) {
    Vec<T> gradient = fma(step, load(a + t) - load(b + t), load(w.gradient + t));
    store(w.gradient + t, gradient);
    Vec<T> up = gradient + load(w.up + t), down = gradient + load(w.down + t);
    Ints<T> lower = up < least;
    least = select<T>(lower, up, least);
    where = lower ? at : where;
    most = select<T>(down > most, down, most);
    at += static_cast<typename Simd<T>::Scalar>(lanes<T>);
  }
  highest = most[0];
  for (int l = 1; l < lanes<T>; ++l) highest = most[l] > highest ? most[l] : highest;
  return lowest<T>(least, where);
}

// Curvatures below this count as it: along such a pair the problem is flat, or not convex.
constexpr double flat = 1e-12;

// j = argmax of (downₜ - upᵢ)² / (kᵢᵢ + kₜₜ - 2kᵢₜ) over t that can go down and violate with i.
template <class T>
MERCER_INLINE Best<T> second(const WorkingSet<T>& w, Index from, Index to, const T* row, T kii,
                             T up) {
  constexpr T tau = static_cast<T>(flat);
  Vec<T> best = Vec<T>{};
  Ints<T> where = counting<T>(from), at = where;
  for (Index t = from; t < to; t += lanes<T>) {
    Vec<T> gap = load(w.gradient + t) + load(w.down + t) - broadcast(up);
    Vec<T> curve = broadcast(kii) + load(w.diagonal + t) - 2 * load(row + t);
    curve = select<T>(curve > tau, curve, broadcast(tau));
    gap = select<T>(gap > 0, gap, Vec<T>{});
    Vec<T> gain = -(gap * gap) / curve;
    Ints<T> better = gain < best;
    best = select<T>(better, gain, best);
    where = better ? at : where;
    at += static_cast<typename Simd<T>::Scalar>(lanes<T>);
  }
  return lowest<T>(best, where);
}

// What can be added to the gradient for the slope upwards and downwards; ∓∞ where there is no way.
template <class T>
MERCER_INLINE void set_slopes(const WorkingSet<T>& w, Index t) {
  constexpr T infinity = std::numeric_limits<T>::infinity();
  double beta = w.beta[t];
  T tube = static_cast<T>(w.tube[t]);
  w.up[t] = beta < w.upper[t] ? (beta >= 0 ? tube : -tube) : infinity;
  w.down[t] = beta > w.lower[t] ? (beta > 0 ? tube : -tube) : -infinity;
}

template <class T>
void solve_working_set(WorkingSet<T>& w) {
  const Index ends[3] = {0, w.split, w.size};
  for (Index t = 0; t < w.size; ++t) set_slopes(w, t);
  const T* row = w.matrix;
  T delta = 0;
  const T *a = row, *b = row;
  for (w.steps = 0;; ++w.steps) {
    Best<T> i{0, -1};
    T gap = 0;
    int group = 0;
    for (int g = 0; g < 2; ++g) {
      if (ends[g] == ends[g + 1]) continue;
      T most;
      Best<T> least = move_and_find(w, ends[g], ends[g + 1], a, b, delta, most);
      if (i.at < 0 || most - least.value > gap) {
        i = least;
        gap = most - least.value;
        group = g;
      }
    }
    if (!(static_cast<double>(gap) > w.tol) || w.steps >= w.max_steps) return;
    if (w.missing && w.missing[i.at]) w.make(w.maker, i.at);
    const T* Ki = row + i.at * w.ld;
    Best<T> j = second(w, ends[group], ends[group + 1], Ki, w.diagonal[i.at], i.value);
    if (!(j.value < 0)) return;
    if (w.missing && w.missing[j.at]) w.make(w.maker, j.at);
    const T* Kj = row + j.at * w.ld;
    double curve = static_cast<double>(w.diagonal[i.at]) + static_cast<double>(w.diagonal[j.at]) -
                   2 * static_cast<double>(Ki[j.at]);
    if (curve < flat) {
      // Rounding alone can make it a little negative.
      double size = std::abs(static_cast<double>(w.diagonal[i.at])) +
                    std::abs(static_cast<double>(w.diagonal[j.at]));
      w.indefinite |= curve < -8 * static_cast<double>(std::numeric_limits<T>::epsilon()) * size;
      curve = flat;
    }
    double move = (static_cast<double>(w.gradient[j.at]) + static_cast<double>(w.down[j.at]) -
                   static_cast<double>(i.value)) /
                  curve;
    double &bi = w.beta[i.at], &bj = w.beta[j.at];
    // The kink of the tube is at 0: no step goes past it.
    double end_i = w.tube[i.at] > 0 && bi < 0 ? std::min(0.0, w.upper[i.at]) : w.upper[i.at];
    double end_j = w.tube[j.at] > 0 && bj > 0 ? std::max(0.0, w.lower[j.at]) : w.lower[j.at];
    double room_i = end_i - bi, room_j = bj - end_j;
    double most_room = room_i < room_j ? room_i : room_j;
    if (move > most_room) move = most_room;
    bi = move == room_i ? end_i : bi + move;
    bj = move == room_j ? end_j : bj - move;
    set_slopes(w, i.at);
    set_slopes(w, j.at);
    a = Ki;
    b = Kj;
    delta = static_cast<T>(move);
  }
}

// F[t] += Σᵣ factorᵣ rowᵣ[t] for from ≤ t < to.
template <class T>
void add_rows(double* F, const T* const* rows, const double* factors, Index count, Index from,
              Index to) {
  Index r = 0;
  for (; r + 4 <= count; r += 4) {
    const T *p0 = rows[r], *p1 = rows[r + 1], *p2 = rows[r + 2], *p3 = rows[r + 3];
    double f0 = factors[r], f1 = factors[r + 1], f2 = factors[r + 2], f3 = factors[r + 3];
    for (Index t = from; t < to; ++t) {
      F[t] += (f0 * static_cast<double>(p0[t]) + f1 * static_cast<double>(p1[t])) +
              (f2 * static_cast<double>(p2[t]) + f3 * static_cast<double>(p3[t]));
    }
  }
  for (; r < count; ++r) {
    const T* p = rows[r];
    for (Index t = from; t < to; ++t) F[t] += factors[r] * static_cast<double>(p[t]);
  }
}

}  // namespace mercer::MERCER_ISA
