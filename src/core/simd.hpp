// Vectors of the instruction set this file is compiled for, by the extension of GCC and Clang.
// Included by vectors.cpp and subsequence.cpp only; everything lives in the namespace of that
// instruction set.
#pragma once

#include <cstdint>
#include <cstring>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "core.hpp"

#if defined(__clang__)
#define MERCER_UNROLL _Pragma("unroll")
#else
#define MERCER_UNROLL _Pragma("GCC unroll 16")
#endif

namespace mercer::MERCER_ISA {

#if defined(__AVX512F__)
constexpr int vector_bytes = 64;
#elif defined(__AVX2__)
constexpr int vector_bytes = 32;
#else
constexpr int vector_bytes = 16;
#endif

template <class T>
struct Simd;
template <>
struct Simd<float> {
  typedef float V __attribute__((vector_size(vector_bytes)));
  typedef std::int32_t I __attribute__((vector_size(vector_bytes)));
  using Scalar = std::int32_t;
};
template <>
struct Simd<double> {
  typedef double V __attribute__((vector_size(vector_bytes)));
  typedef std::int64_t I __attribute__((vector_size(vector_bytes)));
  using Scalar = std::int64_t;
};
template <class T>
using Vec = typename Simd<T>::V;
template <class T>
using Ints = typename Simd<T>::I;
template <class T>
constexpr int lanes = vector_bytes / static_cast<int>(sizeof(T));

#define MERCER_INLINE inline __attribute__((always_inline))
#define MERCER_LAMBDA __attribute__((always_inline))

template <class T>
MERCER_INLINE Vec<T> load(const T* p) {
  Vec<T> v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
// As many values as a vector of doubles has, in double.
template <class T>
MERCER_INLINE Vec<double> widened(const T* p) {
  if constexpr (sizeof(T) == sizeof(double)) {
    return load(p);
  } else {
    typedef float Half __attribute__((vector_size(vector_bytes / 2)));
    Half half;
    std::memcpy(&half, p, sizeof half);
    return __builtin_convertvector(half, Vec<double>);
  }
}
template <class T>
MERCER_INLINE void store(T* p, Vec<T> v) {
  std::memcpy(p, &v, sizeof v);
}
template <class T>
MERCER_INLINE Vec<T> broadcast(T x) {
  return x - Vec<T>{};  // minus: x + 0 is not x for x = -0, and would be computed
}
template <class T>
MERCER_INLINE Ints<T> bits(Vec<T> v) {
  return reinterpret_cast<Ints<T>>(v);
}
template <class T>
MERCER_INLINE Vec<T> number(Ints<T> v) {
  return reinterpret_cast<Vec<T>>(v);
}
template <class T>
MERCER_INLINE Vec<T> select(Ints<T> mask, Vec<T> yes, Vec<T> no) {
  return mask ? yes : no;
}
template <class T>
MERCER_INLINE Vec<T> absolute(Vec<T> v) {
  using S = typename Simd<T>::Scalar;
  return number<T>(bits<T>(v) & (Ints<T>{} + static_cast<S>(~(S{1} << (8 * sizeof(S) - 1)))));
}

// a·b + c, rounded once where the machine can.
MERCER_INLINE Vec<float> fma(Vec<float> a, Vec<float> b, Vec<float> c) {
#if defined(__AVX512F__)
  return (Vec<float>)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(__AVX2__)
  return (Vec<float>)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#elif defined(__clang__) && defined(__aarch64__)
  return __builtin_elementwise_fma(a, b, c);
#else
  return a * b + c;
#endif
}
MERCER_INLINE Vec<double> fma(Vec<double> a, Vec<double> b, Vec<double> c) {
#if defined(__AVX512F__)
  return (Vec<double>)_mm512_fmadd_pd((__m512d)a, (__m512d)b, (__m512d)c);
#elif defined(__AVX2__)
  return (Vec<double>)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c);
#elif defined(__clang__) && defined(__aarch64__)
  return __builtin_elementwise_fma(a, b, c);
#else
  return a * b + c;
#endif
}

// Write past the caches; p on a vector's boundary.
template <class T>
MERCER_INLINE void stream(T* p, Vec<T> v) {
#if defined(__AVX512F__)
  _mm512_stream_si512(reinterpret_cast<__m512i*>(p), (__m512i)v);
#elif defined(__AVX2__)
  _mm256_stream_si256(reinterpret_cast<__m256i*>(p), (__m256i)v);
#elif defined(__x86_64__)
  _mm_stream_si128(reinterpret_cast<__m128i*>(p), (__m128i)v);
#else
  store<T>(p, v);
#endif
}
// Streamed writes are not ordered with the signal that a task is done.
MERCER_INLINE void end_of_stream() {
#if defined(__x86_64__)
  _mm_sfence();
#endif
}

template <class T>
MERCER_INLINE bool any(Ints<T> mask) {
#if defined(__AVX512F__)
  if constexpr (sizeof(T) == 4) {
    return _mm512_movepi32_mask((__m512i)mask) != 0;
  } else {
    return _mm512_movepi64_mask((__m512i)mask) != 0;
  }
#elif defined(__AVX2__)
  return _mm256_movemask_epi8((__m256i)mask) != 0;
#elif defined(__x86_64__)
  return _mm_movemask_epi8((__m128i)mask) != 0;
#else
  typename Simd<T>::Scalar all = 0;
  for (int i = 0; i < lanes<T>; ++i) all |= mask[i];
  return all != 0;
#endif
}

}  // namespace mercer::MERCER_ISA
