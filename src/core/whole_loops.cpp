// The innermost loops of products in whole numbers, compiled once per instruction set. A vector of
// 16-bit numbers is multiplied by another, and neighbours are added: two coordinates at a time.
#include "simd.hpp"
#include "whole.hpp"

namespace mercer::MERCER_ISA {
namespace {

typedef std::int16_t Short __attribute__((vector_size(vector_bytes)));
typedef std::int32_t Sum __attribute__((vector_size(vector_bytes)));

constexpr int sums_of_vector = vector_bytes / 4;
#if defined(__AVX512F__)
constexpr int tile_vectors = 2, tile_rows = 8;
#else
constexpr int tile_vectors = 3, tile_rows = 4;
#endif
constexpr int width = tile_vectors * sums_of_vector;

// sum[k] + a[2k] b[2k] + a[2k + 1] b[2k + 1].
MERCER_INLINE Sum add_products(Short a, Short b, Sum sum) {
#if defined(__AVX512VNNI__)
  return (Sum)_mm512_dpwssd_epi32((__m512i)sum, (__m512i)a, (__m512i)b);
#elif defined(__AVX512F__)
  return sum + (Sum)_mm512_madd_epi16((__m512i)a, (__m512i)b);
#elif defined(__AVX2__)
  return sum + (Sum)_mm256_madd_epi16((__m256i)a, (__m256i)b);
#elif defined(__x86_64__)
  return sum + (Sum)_mm_madd_epi16((__m128i)a, (__m128i)b);
#else
  for (int k = 0; k < sums_of_vector; ++k) {
    sum[k] += std::int32_t{a[2 * k]} * b[2 * k] + std::int32_t{a[2 * k + 1]} * b[2 * k + 1];
  }
  return sum;
#endif
}

struct Shorts {
  static MERCER_INLINE Sum add(Sum x, Sum y, Sum sum) {
    return add_products((Short)x, (Short)y, sum);
  }
};

#if defined(__AVX512VNNI__)
// sum[k] + Σ a[4k + i] b[4k + i], a without a sign.
struct Bytes {
  static MERCER_INLINE Sum add(Sum x, Sum y, Sum sum) {
    return (Sum)_mm512_dpbusd_epi32((__m512i)sum, (__m512i)x, (__m512i)y);
  }
};
#endif

// q has groups of 4 bytes.
template <class Products, int height>
[[gnu::noinline]] void tile(const std::uint8_t* q, Index groups, const std::int8_t* panel,
                            std::int32_t* sums, Index ld) {
  Sum sum[height][tile_vectors] = {};
  for (Index t = 0; t < groups; ++t, panel += 4 * width) {
    Sum y[tile_vectors];
    MERCER_UNROLL
    for (int j = 0; j < tile_vectors; ++j)
      std::memcpy(&y[j], panel + j * vector_bytes, sizeof(Sum));
    MERCER_UNROLL
    for (int i = 0; i < height; ++i) {
      std::int32_t group;
      std::memcpy(&group, q + (i * groups + t) * 4, sizeof group);
      Sum x = Sum{} + group;
      MERCER_UNROLL
      for (int j = 0; j < tile_vectors; ++j) sum[i][j] = Products::add(x, y[j], sum[i][j]);
    }
  }
  MERCER_UNROLL
  for (int i = 0; i < height; ++i) std::memcpy(sums + i * ld, sum[i], sizeof sum[i]);
}

template <class Products>
void tiles(const std::uint8_t* q, Index rows, Index groups, const std::int8_t* panel,
           std::int32_t* sums, Index ld) {
  Index i = 0;
  for (; i + tile_rows <= rows; i += tile_rows) {
    tile<Products, tile_rows>(q + i * groups * 4, groups, panel, sums + i * ld, ld);
  }
  for (; i < rows; ++i) tile<Products, 1>(q + i * groups * 4, groups, panel, sums + i * ld, ld);
}

void products(const std::int16_t* q, Index rows, Index groups, const std::int8_t* panel,
              std::int32_t* sums, Index ld) {
  tiles<Shorts>(reinterpret_cast<const std::uint8_t*>(q), rows, groups, panel, sums, ld);
}

bool row(const double* x, Index d, double step, Index most, std::int16_t* q) {
  // Numbers that were divided by the same are within a few units in the last place of whole steps.
  constexpr double units = 0x1p-49;
  constexpr double round = 0x1.8p52;  // added and taken away, it leaves a whole number
  const double inverse = 1 / step, limit = static_cast<double>(most);
  std::int32_t off = 0;
  for (Index t = 0; t < d; ++t) {
    double times = x[t] * inverse;
    double whole = (times + round) - round;
    double size = whole < 0 ? -whole : whole, error = x[t] - whole * step;
    error = error < 0 ? -error : error;
    // Of NaN nothing is true.
    off |= !(error <= units * step * size) | !(size <= limit);
    q[t] = static_cast<std::int16_t>(size <= limit ? whole : 0.0);
  }
  for (Index t = off ? 0 : d; t < d || t % 4 != 0; ++t) q[t] = 0;
  return !off;
}

#define MERCER_TEXT_OF(name) #name
#define MERCER_TEXT(name) MERCER_TEXT_OF(name)

}  // namespace

extern const WholeLoops whole_loops;
const WholeLoops whole_loops = {
    MERCER_TEXT(MERCER_ISA),
    width,
    row,
    products,
#if defined(__AVX512VNNI__)
    tiles<Bytes>,
#else
    nullptr,
#endif
};

}  // namespace mercer::MERCER_ISA
