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

// Vectors of so many bytes.
template <class T, int bytes>
struct Vector {
  typedef T V __attribute__((vector_size(bytes)));
  typedef typename Simd<T>::Scalar I __attribute__((vector_size(bytes)));
};

// The least value and where it is; ties go to the lowest index.
template <class T, int bytes = vector_bytes>
MERCER_INLINE Best<T> lowest(typename Vector<T, bytes>::V value, typename Vector<T, bytes>::I at) {
  if constexpr (bytes > 16) {
    using V = typename Vector<T, bytes / 2>::V;
    using I = typename Vector<T, bytes / 2>::I;
    V values[2];
    I places[2];
    std::memcpy(values, &value, sizeof value);
    std::memcpy(places, &at, sizeof at);
    I lower = (values[1] < values[0]) | ((values[1] == values[0]) & (places[1] < places[0]));
    return lowest<T, bytes / 2>(lower ? values[1] : values[0], lower ? places[1] : places[0]);
  } else {
    Best<T> best{value[0], static_cast<Index>(at[0])};
    for (int l = 1; l < bytes / static_cast<int>(sizeof(T)); ++l) {
      bool lower = (value[l] < best.value) | ((value[l] == best.value) & (at[l] < best.at));
      best.value = lower ? value[l] : best.value;
      best.at = lower ? static_cast<Index>(at[l]) : best.at;
    }
    return best;
  }
}

// The largest value.
template <class T, int bytes = vector_bytes>
MERCER_INLINE T highest(typename Vector<T, bytes>::V value) {
  if constexpr (bytes > 16) {
    typename Vector<T, bytes / 2>::V values[2];
    std::memcpy(values, &value, sizeof value);
    return highest<T, bytes / 2>(values[1] > values[0] ? values[1] : values[0]);
  } else {
    T most = value[0];
    for (int l = 1; l < bytes / static_cast<int>(sizeof(T)); ++l) {
      most = value[l] > most ? value[l] : most;
    }
    return most;
  }
}

template <class T>
MERCER_INLINE Ints<T> counting(Index from) {
  Ints<T> at{};
  for (int l = 0; l < lanes<T>; ++l) at[l] = static_cast<typename Simd<T>::Scalar>(from + l);
  return at;
}

// Vectors whose least values are kept apart: the next one need not wait for the last.
constexpr int apart = vector_bytes == 64 ? 4 : 2;

// Lane by lane the least values so far and where they are, of every so many-th vector.
template <class T>
struct Lowest {
  Vec<T> value[apart];
  Ints<T> where[apart];

  MERCER_INLINE Lowest(T most, Index from) {
    for (int k = 0; k < apart; ++k) {
      value[k] = broadcast(most);
      where[k] = counting<T>(from);
    }
  }
  MERCER_INLINE void take(int k, Vec<T> other, Ints<T> at) {
    Ints<T> lower = other < value[k];
    value[k] = select<T>(lower, other, value[k]);
    where[k] = lower ? at : where[k];
  }
  MERCER_INLINE Best<T> best() const {
    Vec<T> least = value[0];
    Ints<T> at = where[0];
    for (int k = 1; k < apart; ++k) {
      Ints<T> lower = (value[k] < least) | ((value[k] == least) & (where[k] < at));
      least = select<T>(lower, value[k], least);
      at = lower ? where[k] : at;
    }
    return lowest<T>(least, at);
  }
};

// How far ahead a row of the matrix is fetched, which may be too large for the nearer caches.
template <class T>
constexpr Index ahead = 1024 / static_cast<Index>(sizeof(T));

// each(k, t) for the vectors from `from` to `to`, t being where one begins and k < apart its turn.
template <class T, class Each>
MERCER_INLINE void in_turn(Index from, Index to, Each&& each) {
  constexpr Index stride = apart * lanes<T>;
  Index t = from;
  for (; t + stride <= to; t += stride) {
    MERCER_UNROLL
    for (int k = 0; k < apart; ++k) each(k, t + k * lanes<T>);
  }
  for (; t < to; t += lanes<T>) each(0, t);
}

// i = argmin of up over [from, to), and the largest of down; gradient moves by delta (a - b) first.
template <class T>
MERCER_INLINE Best<T> move_and_find(const WorkingSet<T>& w, Index from, Index to, const T* a,
                                    const T* b, T delta, T& largest) {
  constexpr T infinity = std::numeric_limits<T>::infinity();
  Lowest<T> least(infinity, from);
  Vec<T> most[apart];
  for (auto& m : most) m = broadcast(-infinity);
  const Vec<T> step = broadcast(delta);
  const T *ups = w.up, *downs = w.down;
  T* gradients = w.gradient;
  Ints<T> at = counting<T>(from);
  in_turn<T>(from, to, [&](int k, Index t) MERCER_LAMBDA {
    __builtin_prefetch(b + t + ahead<T>);
    Vec<T> gradient = fma(step, load(a + t) - load(b + t), load(gradients + t));
    store(gradients + t, gradient);
    least.take(k, gradient + load(ups + t), at);
    Vec<T> down = gradient + load(downs + t);
    most[k] = select<T>(down > most[k], down, most[k]);
    at += static_cast<typename Simd<T>::Scalar>(lanes<T>);
  });
  for (int k = 1; k < apart; ++k) most[0] = select<T>(most[k] > most[0], most[k], most[0]);
  largest = highest<T>(most[0]);
  return least.best();
}

// Curvatures below this count as it: along such a pair the problem is flat, or not convex.
constexpr double flat = 1e-12;

// j = argmax of (downₜ - upᵢ)² / (kᵢᵢ + kₜₜ - 2kᵢₜ) over t that can go down and violate with i.
template <class T>
MERCER_INLINE Best<T> second(const WorkingSet<T>& w, Index from, Index to, const T* row, T kii,
                             T up) {
  constexpr T tau = static_cast<T>(flat);
  Lowest<T> least(T{0}, from);
  const Vec<T> own = broadcast(kii), least_up = broadcast(up);
  const T *gradients = w.gradient, *downs = w.down, *diagonal = w.diagonal;
  Ints<T> at = counting<T>(from);
  in_turn<T>(from, to, [&](int k, Index t) MERCER_LAMBDA {
    __builtin_prefetch(row + t + ahead<T>);
    Vec<T> gap = load(gradients + t) + load(downs + t) - least_up;
    Vec<T> curve = own + load(diagonal + t) - 2 * load(row + t);
    curve = select<T>(curve > tau, curve, broadcast(tau));
    gap = select<T>(gap > 0, gap, Vec<T>{});
    least.take(k, -(gap * gap) / curve, at);
    at += static_cast<typename Simd<T>::Scalar>(lanes<T>);
  });
  return least.best();
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

// The slopes of all variables of a problem without a tube, as `Loops::slopes` has them.
inline void slopes_of(const double* gradient, const double* beta, const double* lower,
                      const double* upper, Index count, double* up, double* down, double* ends) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const Vec<double> above = broadcast(infinity), below = broadcast(-infinity);
  Vec<double> least = above, most = below, odd = Vec<double>{};
  Index t = 0;
  for (; t + lanes<double> <= count; t += lanes<double>) {
    Vec<double> g = load(gradient + t), b = load(beta + t);
    odd += g - g;
    Vec<double> rise = select<double>(b < load(upper + t), g, above);
    Vec<double> fall = select<double>(b > load(lower + t), g, below);
    store(up + t, rise);
    store(down + t, fall);
    least = select<double>(rise < least, rise, least);
    most = select<double>(fall > most, fall, most);
  }
  ends[0] = -highest<double>(-least);
  ends[1] = highest<double>(most);
  ends[2] = 0;
  for (int l = 0; l < lanes<double>; ++l) ends[2] += odd[l];
  for (; t < count; ++t) {
    double g = gradient[t];
    ends[2] += g - g;
    up[t] = beta[t] < upper[t] ? g : infinity;
    down[t] = beta[t] > lower[t] ? g : -infinity;
    ends[0] = std::min(ends[0], up[t]);
    ends[1] = std::max(ends[1], down[t]);
  }
}

// F[t] += Σᵣ factorᵣ rowᵣ[t] for from ≤ t < to. Rows are far from each other in memory: while four
// are added, the next four come near.
template <class T>
void add_rows(double* F, const T* const* rows, const double* factors, Index count, Index from,
              Index to) {
  constexpr Index line = 64 / static_cast<Index>(sizeof(T));
  Index r = 0;
  for (; r + 4 <= count; r += 4) {
    const T *p0 = rows[r], *p1 = rows[r + 1], *p2 = rows[r + 2], *p3 = rows[r + 3];
    const T* const* next = r + 8 <= count ? rows + r + 4 : rows + r;
    const T *q0 = next[0], *q1 = next[1], *q2 = next[2], *q3 = next[3];
    double f0 = factors[r], f1 = factors[r + 1], f2 = factors[r + 2], f3 = factors[r + 3];
    auto add = [&](Index t) MERCER_LAMBDA {
      F[t] += (f0 * static_cast<double>(p0[t]) + f1 * static_cast<double>(p1[t])) +
              (f2 * static_cast<double>(p2[t]) + f3 * static_cast<double>(p3[t]));
    };
    Index t = from;
    for (; t + line <= to; t += line) {
      __builtin_prefetch(q0 + t);
      __builtin_prefetch(q1 + t);
      __builtin_prefetch(q2 + t);
      __builtin_prefetch(q3 + t);
      for (Index k = t; k < t + line; ++k) add(k);
    }
    for (; t < to; ++t) add(t);
  }
  for (; r < count; ++r) {
    const T* p = rows[r];
    for (Index t = from; t < to; ++t) F[t] += factors[r] * static_cast<double>(p[t]);
  }
}

}  // namespace mercer::MERCER_ISA
