// eˣ on vectors, within 2 ulp of the truth (about 0.9 with fused multiply-add, 1.2 without).
//
// x = n·ln 2 + r with |r| ≤ ½ ln 2, eˣ = 2ⁿ eʳ. The polynomials for eʳ = 1 + r + r² q(r) minimise
// the largest relative error (3e-9 for float, 4e-18 for double) and give exactly 1 at 0.
#pragma once

#include "simd.hpp"

namespace mercer::MERCER_ISA {

template <class T>
struct ExpConstants;
template <>
struct ExpConstants<float> {
  static constexpr float magic = 0x1.8p23f;  // adding it rounds to a whole number in the low bits
  static constexpr int mantissa = 23, bias = 127;
  static constexpr float log2e = 0x1.715476p+0f;
  // n·ln2_high is exact for every n that occurs, with or without fused multiply-add.
  static constexpr float ln2_high = 0x1.62e4p-1f, ln2_low = 0x1.7f7d1cp-20f;
  static constexpr float plain_below = 87.0f;  // up to this |x|, 2ⁿ and eˣ are normal
  static constexpr float zero_below = -104.0f, infinite_above = 89.0f;
  static constexpr float q[] = {0x1.6a21a6p-10f, 0x1.123b6ap-7f, 0x1.5558fcp-5f, 0x1.55549p-3f,
                                0x1.fffffcp-2f};
};
template <>
struct ExpConstants<double> {
  static constexpr double magic = 0x1.8p52;
  static constexpr int mantissa = 52, bias = 1023;
  static constexpr double log2e = 0x1.71547652b82fep+0;
  static constexpr double ln2_high = 0x1.62e42fefap-1, ln2_low = 0x1.cf79abc9e3b3ap-40;
  static constexpr double plain_below = 708.0;
  static constexpr double zero_below = -746.0, infinite_above = 710.0;
  static constexpr double q[] = {
      0x1.ad7e3f247d532p-26, 0x1.28ae7907130e8p-22, 0x1.71df27be37f1p-19, 0x1.a01998fd4a63cp-16,
      0x1.a01a0128858ddp-13, 0x1.6c16c18488991p-10, 0x1.1111111128362p-7, 0x1.55555555506ebp-5,
      0x1.55555555554f7p-3,  0x1.000000000000ap-1};
};

// eʳ and, in its low bits, n + magic.
template <class T>
MERCER_INLINE Vec<T> exp_reduced(Vec<T> x, Vec<T>& shifted) {
  using C = ExpConstants<T>;
  shifted = fma(x, broadcast(C::log2e), broadcast(C::magic));
  Vec<T> n = shifted - broadcast(C::magic);
  Vec<T> r = fma(n, broadcast(-C::ln2_high), x);
  r = fma(n, broadcast(-C::ln2_low), r);
  // Even and odd powers apart: half as long a chain of operations that wait for each other.
  constexpr int terms = static_cast<int>(sizeof C::q / sizeof(T));
  Vec<T> square = r * r, ahead = broadcast(C::q[0]), behind = broadcast(C::q[1]);
  MERCER_UNROLL
  for (int i = 2; i < terms; ++i) {
    Vec<T> next = fma(ahead, square, broadcast(C::q[i]));
    ahead = behind;
    behind = next;
  }
  Vec<T> q = fma(ahead, r, behind);
  return fma(fma(q, r, broadcast(T{1})), r, broadcast(T{1}));
}

// NaN, infinities, results that overflow or are subnormal.
template <class T>
[[gnu::noinline]] Vec<T> exp_of_any(Vec<T> x) {
  using C = ExpConstants<T>;
  using S = typename Simd<T>::Scalar;
  Vec<T> clamped = select<T>(x < C::zero_below, broadcast(C::zero_below), x);
  clamped = select<T>(clamped > C::infinite_above, broadcast(C::infinite_above), clamped);
  clamped = select<T>(x == x, clamped, Vec<T>{});
  Vec<T> shifted;
  Vec<T> y = exp_reduced<T>(clamped, shifted);
  // 2ⁿ in two factors, each normal; only the last product can round.
  Ints<T> n = bits<T>(shifted) - bits<T>(broadcast(C::magic));
  Ints<T> half = n >> 1;
  y = y * number<T>((half + S{C::bias}) << C::mantissa);
  y = y * number<T>((n - half + S{C::bias}) << C::mantissa);
  return select<T>(x == x, y, x);
}

template <class T>
MERCER_INLINE Vec<T> exp(Vec<T> x) {
  using C = ExpConstants<T>;
  Ints<T> plain = absolute<T>(x) < C::plain_below;  // false for NaN
  if (any<T>(~plain)) [[unlikely]] {
    return exp_of_any<T>(x);
  }
  Vec<T> shifted;
  Vec<T> y = exp_reduced<T>(x, shifted);
  return number<T>(bits<T>(y) + (bits<T>(shifted) << C::mantissa));
}

}  // namespace mercer::MERCER_ISA
