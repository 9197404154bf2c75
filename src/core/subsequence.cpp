// Gap-weighted subsequences, several pairs of sequences side by side in the lanes of a vector;
// compiled once per instruction set.
//
// Lodhi et al., JMLR 2 (2002), section 3, with their K' and K'' divided by λ^(2p):
//
//   K''ₚ[i, j] = λ K''ₚ[i, j - 1] + [sᵢ = tⱼ] K'ₚ₋₁[i - 1, j - 1]
//   K'ₚ[i, j]  = λ K'ₚ[i - 1, j] + K''ₚ[i, j],        K'₀ = 1
//   kₚ / λ^(2p) = Σᵢⱼ [sᵢ = tⱼ] K'ₚ₋₁[i - 1, j - 1]
//
// Nothing is subtracted, so every sum is right to a few units in its last place; and k(s, s) /
// λ^(2p) is at least 1, so what underflows is nothing beside it.
#include "simd.hpp"
#include "strings.hpp"

namespace mercer::MERCER_ISA {
namespace {

using V = Vec<double>;
using I = Ints<double>;
constexpr int width = lanes<double>;

MERCER_INLINE V masked(V v, I mask) {
  return number<double>(bits<double>(v) & mask);
}
MERCER_INLINE I tokens(const std::int64_t* p) {
  I v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

// Numbers below 2^-1022 count as 0: they are nothing here, and cost a hundred times as much.
class NoSubnormals {
 public:
#if defined(__x86_64__)
  NoSubnormals() : before_(_mm_getcsr()) { _mm_setcsr(before_ | 0x8040); }
  ~NoSubnormals() { _mm_setcsr(before_); }

 private:
  unsigned before_;
#else
  NoSubnormals() {}
#endif
};

// K'ₚ[i, j] is state[(j·(P - 1) + p - 1)·width], P the length.
template <int P>
void sums_of(const std::int64_t* s, Index from, Index to, const std::int64_t* t, Index t_size,
             double decay, double* state, double* sums) {
  const V lambda = broadcast(decay);
  V total[P];
  for (int p = 0; p < P; ++p) total[p] = load(sums + p * width);
  for (Index i = from; i < to; ++i) {
    const I letter = tokens(s + i * width);
    V inner[P] = {};   // K''ₚ at p - 1
    V before[P] = {};  // K'ₚ[i - 1, j - 1] at p
    before[0] = broadcast(1.0);
    double* column = state;
    for (Index j = 0; j < t_size; ++j, column += (P - 1) * width) {
      const I same = tokens(t + j * width) == letter;
      total[P - 1] += masked(before[P - 1], same);
      MERCER_UNROLL
      for (int p = P - 1; p >= 1; --p) {
        double* at = column + (p - 1) * width;
        const V above = load(at), match = masked(before[p - 1], same);
        total[p - 1] += match;
        inner[p - 1] = fma(lambda, inner[p - 1], match);
        store<double>(at, fma(lambda, above, inner[p - 1]));
        before[p] = above;
      }
    }
  }
  for (int p = 0; p < P; ++p) store<double>(sums + p * width, total[p]);
}

// The same for any length: one p after the other, the largest first, so that K'ₚ₋₁ is still that of
// the row before. K'ₚ[i, j] is state[((p - 1)·t_size + j)·width].
void sums_of_any(const std::int64_t* s, Index from, Index to, const std::int64_t* t, Index t_size,
                 Index length, double decay, double* state, double* sums) {
  const V lambda = broadcast(decay);
  for (Index i = from; i < to; ++i) {
    const I letter = tokens(s + i * width);
    for (Index p = length < i + 1 ? length : i + 1; p >= 1; --p) {
      double* own = state + (p - 1) * t_size * width;
      const double* shorter = own - t_size * width;
      V before = p == 1 ? broadcast(1.0) : V{}, inner = {}, total = load(sums + (p - 1) * width);
      for (Index j = 0; j < t_size; ++j) {
        const V match = masked(before, tokens(t + j * width) == letter);
        total += match;
        if (p < length) {
          inner = fma(lambda, inner, match);
          store<double>(own + j * width, fma(lambda, load(own + j * width), inner));
        }
        if (p > 1) before = load(shorter + j * width);
      }
      store<double>(sums + (p - 1) * width, total);
    }
  }
}

void sums(const std::int64_t* s, Index from, Index to, const std::int64_t* t, Index t_size,
          Index length, double decay, double* state, double* out) {
  NoSubnormals here;
  if (from == 0) {
    for (Index k = 0; k < (length - 1) * t_size * width; ++k) state[k] = 0;
    for (Index k = 0; k < length * width; ++k) out[k] = 0;
  }
  switch (length) {
    case 1:
      return sums_of<1>(s, from, to, t, t_size, decay, state, out);
    case 2:
      return sums_of<2>(s, from, to, t, t_size, decay, state, out);
    case 3:
      return sums_of<3>(s, from, to, t, t_size, decay, state, out);
    case 4:
      return sums_of<4>(s, from, to, t, t_size, decay, state, out);
    case 5:
      return sums_of<5>(s, from, to, t, t_size, decay, state, out);
    case 6:
      return sums_of<6>(s, from, to, t, t_size, decay, state, out);
    default:
      return sums_of_any(s, from, to, t, t_size, length, decay, state, out);
  }
}

#define MERCER_TEXT_OF(name) #name
#define MERCER_TEXT(name) MERCER_TEXT_OF(name)

}  // namespace

extern const GapLoops gap_loops;
const GapLoops gap_loops = {MERCER_TEXT(MERCER_ISA), width, sums};

}  // namespace mercer::MERCER_ISA
