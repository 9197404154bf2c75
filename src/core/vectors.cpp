// The innermost loops of vector kernels, compiled once per instruction set.
//
// Every sum Σₜ part(xₜ, yₜ) is one accumulator that takes t = 0, 1, 2, ... in order, one fused
// multiply-add each. Its value is therefore the same wherever the pair (x, y) stands in a tile, and
// the same for sparse rows, which only leave out steps that add zero.
#include "exp.hpp"
#include "simd.hpp"
#include "working.hpp"

namespace mercer::MERCER_ISA {
namespace {

// A tile is `tile_rows` broadcast numbers against `tile_vectors` vectors: as many sums as fit the
// registers beside the operands. A panel is as wide as a tile, and a whole number of tiles high.
#if defined(__AVX512F__)
constexpr int tile_vectors = 2;
template <class T>
constexpr int tile_rows = 8;
#else
constexpr int tile_vectors = 3;
template <class T>
constexpr int tile_rows = lanes<T> == 2 ? 3 : 4;
#endif
template <class T>
constexpr int panel_width = tile_vectors * lanes<T>;
static_assert(panel_width<float> % tile_rows<float> == 0);
static_assert(panel_width<double> % tile_rows<double> == 0);

constexpr int sweep_vectors = 8;

struct Product {
  template <class T>
  static MERCER_INLINE Vec<T> add(Vec<T> x, Vec<T> y, Vec<T> sum) {
    return fma(x, y, sum);
  }
};
struct Square {
  template <class T>
  static MERCER_INLINE Vec<T> add(Vec<T> x, Vec<T> y, Vec<T> sum) {
    Vec<T> difference = x - y;
    return fma(difference, difference, sum);
  }
};
struct Absolute {
  template <class T>
  static MERCER_INLINE Vec<T> add(Vec<T> x, Vec<T> y, Vec<T> sum) {
    return sum + absolute<T>(x - y);
  }
};
struct Chi2 {
  template <class T>
  static MERCER_INLINE Vec<T> add(Vec<T> x, Vec<T> y, Vec<T> sum) {
    Vec<T> difference = x - y;
    Vec<T> square = difference * difference;
    return sum + select<T>(square == T{0}, Vec<T>{}, square / (x + y));
  }
};
struct Minimum {
  template <class T>
  static MERCER_INLINE Vec<T> add(Vec<T> x, Vec<T> y, Vec<T> sum) {
    // The comparison alone would hide a NaN in x.
    return sum + select<T>(x == x, select<T>(x < y, x, y), x);
  }
};

// Transposes an L × L square held in L vectors by swapping halves, quarters, ...: in the round of
// `half`, row i takes the blocks of its partner i ^ half that lie across the diagonal.
template <int half, class T>
MERCER_INLINE void transpose_square(Vec<T> (&row)[lanes<T>]) {
  constexpr int L = lanes<T>;
  using S = typename Simd<T>::Scalar;
  Ints<T> low = {}, high = {};
  MERCER_UNROLL
  for (int k = 0; k < L; ++k) {
    low[k] = static_cast<S>(k & half ? k - half + L : k);
    high[k] = static_cast<S>(k & half ? k + L : k + half);
  }
  MERCER_UNROLL
  for (int i = 0; i < L; ++i) {
    if (i & half) continue;
    Vec<T> a = row[i], b = row[i + half];
#if defined(__clang__)
    T from[2 * L];
    store<T>(from, a);
    store<T>(from + L, b);
    for (int k = 0; k < L; ++k) row[i][k] = from[low[k]], row[i + half][k] = from[high[k]];
#else
    row[i] = __builtin_shuffle(a, b, low);
    row[i + half] = __builtin_shuffle(a, b, high);
#endif
  }
  if constexpr (half > 1) transpose_square<half / 2, T>(row);
}

template <class T>
Index pack(const T* x, Index rows, Index d, T* panel) {
  constexpr int width = panel_width<T>, L = lanes<T>;
  Index zeros = 0;
  Vec<T> not_finite = {};
  for (int i = 0; i < width; i += L) {
    for (Index t = 0; t < d; t += L) {
      Index count = d - t < L ? d - t : L;
      Vec<T> row[L];
      Ints<T> found = {};
      MERCER_UNROLL
      for (int k = 0; k < L; ++k) {
        T part[L] = {};
        const T* from = x + (i + k) * d + t;
        if (i + k >= rows) {
          row[k] = Vec<T>{};
          continue;
        }
        if (count < L) {
          for (Index s = 0; s < count; ++s) part[s] = from[s];
          from = part;
        }
        row[k] = load(from);
        found -= row[k] == T{0};
        not_finite += row[k] - row[k];  // 0, or NaN for good
      }
      for (int k = 0; k < L; ++k) zeros += static_cast<Index>(found[k]);
      if (count < L) {
        Index present = rows - i < 0 ? 0 : rows - i < L ? rows - i : L;
        zeros -= present * (L - count);
      }
      transpose_square<L / 2, T>(row);
      MERCER_UNROLL
      for (int k = 0; k < L; ++k) {
        if (k < count) store<T>(panel + (t + k) * width + i, row[k]);
      }
    }
  }
  return any<T>(not_finite != T{0}) ? -1 : zeros;
}

// One tile: tile_rows points of a against a whole panel of b. `fresh` sums start from zero, others
// go on from where they are. A function of its own, or GCC runs out of registers.
template <class Term, bool fresh, class T>
[[gnu::noinline]] void tile(const T* a, const T* b, Index steps, T* sums, Index ld) {
  constexpr int width = panel_width<T>;
  Vec<T> sum[tile_rows<T>][tile_vectors];
  MERCER_UNROLL
  for (int i = 0; i < tile_rows<T>; ++i) {
    MERCER_UNROLL
    for (int j = 0; j < tile_vectors; ++j) {
      sum[i][j] = fresh ? Vec<T>{} : load(sums + i * ld + j * lanes<T>);
    }
  }
  for (Index t = 0; t < steps; ++t) {
    Vec<T> y[tile_vectors];
    MERCER_UNROLL
    for (int j = 0; j < tile_vectors; ++j) y[j] = load(b + t * width + j * lanes<T>);
    MERCER_UNROLL
    for (int i = 0; i < tile_rows<T>; ++i) {
      Vec<T> x = broadcast(a[t * width + i]);
      MERCER_UNROLL
      for (int j = 0; j < tile_vectors; ++j) sum[i][j] = Term::template add<T>(x, y[j], sum[i][j]);
    }
  }
  MERCER_UNROLL
  for (int i = 0; i < tile_rows<T>; ++i) {
    MERCER_UNROLL
    for (int j = 0; j < tile_vectors; ++j) store<T>(sums + i * ld + j * lanes<T>, sum[i][j]);
  }
}

// A panel of this many coordinates takes half of a 32 KB cache: the two of a tile just fit.
template <class T>
constexpr Index stretch = 12288 / (panel_width<T> * static_cast<Index>(sizeof(T)));

template <class Term, class T>
void sums_by_tiles(const T* a, Index a_panels, const T* b, Index b_panels, Index d, T* sums,
                   Index ld) {
  constexpr int width = panel_width<T>;
  // Stretches of one length: a short last one would cost nearly as much as the others.
  Index pieces = d > stretch<T> ? (d + stretch<T> - 1) / stretch<T> : 1;
  Index length = d > 0 ? (d + pieces - 1) / pieces : 1;
  for (Index t = 0; t == 0 || t < d; t += length) {
    Index steps = d - t < length ? d - t : length;
    for (Index q = 0; q < b_panels; ++q) {
      for (Index p = 0; p < a_panels; ++p) {
        for (int i = 0; i < width; i += tile_rows<T>) {
          const T* x = a + (p * d + t) * width + i;
          const T* y = b + (q * d + t) * width;
          T* here = sums + (p * width + i) * ld + q * width;
          t == 0 ? tile<Term, true, T>(x, y, steps, here, ld)
                 : tile<Term, false, T>(x, y, steps, here, ld);
        }
      }
    }
  }
}

// The elementary symmetric polynomials E_r of z_t = x_t y_t, for `vectors` vectors of pairs:
// E_r += z E_{r-1} for r = D, ..., 1, term by term. `terms(use)` calls use(z) for each t in order.
// A fixed D > 0 keeps E in registers.
template <int D, int vectors, class T, class Terms>
MERCER_INLINE void anova_of(Index order, bool cumulative, T* scratch, T* sums, Terms&& terms) {
  constexpr int size = D > 0 ? (D + 1) * vectors : 1;
  Vec<T> fixed[size];
  constexpr int L = lanes<T>;
  // E_r of fewer than r terms is 0 and must stay so: an infinite z would make it 0·∞.
  Index seen = 0;
  if constexpr (D > 0) {
    MERCER_UNROLL
    for (int k = 0; k < size; ++k) fixed[k] = Vec<T>{} + (k < vectors ? T{1} : T{0});
    terms([&](const Vec<T>(&z)[vectors]) {
      ++seen;
      MERCER_UNROLL
      for (int r = D; r > 0; --r) {
        if (r > seen) continue;
        MERCER_UNROLL
        for (int j = 0; j < vectors; ++j) {
          fixed[r * vectors + j] = fma(z[j], fixed[(r - 1) * vectors + j], fixed[r * vectors + j]);
        }
      }
    });
    MERCER_UNROLL
    for (int j = 0; j < vectors; ++j) {
      Vec<T> total = fixed[D * vectors + j];
      if (cumulative) {
        MERCER_UNROLL
        for (int r = D - 1; r > 0; --r) total += fixed[r * vectors + j];
      }
      store<T>(sums + j * L, total);
    }
  } else {
    for (Index k = 0; k < (order + 1) * vectors; ++k) {
      store<T>(scratch + k * L, Vec<T>{} + (k < vectors ? T{1} : T{0}));
    }
    terms([&](const Vec<T>(&z)[vectors]) {
      ++seen;
      for (Index r = order < seen ? order : seen; r > 0; --r) {
        for (int j = 0; j < vectors; ++j) {
          T* e = scratch + (r * vectors + j) * L;
          store<T>(e, fma(z[j], load(e - vectors * L), load(e)));
        }
      }
    });
    for (int j = 0; j < vectors; ++j) {
      Vec<T> total = load(scratch + (order * vectors + j) * L);
      if (cumulative) {
        for (Index r = order - 1; r > 0; --r) total += load(scratch + (r * vectors + j) * L);
      }
      store<T>(sums + j * L, order > 0 ? total : broadcast(T{1}));
    }
  }
}

template <int vectors, class T, class Terms>
MERCER_INLINE void anova(const Recipe& recipe, T* scratch, T* sums, Terms&& terms) {
  switch (recipe.degree) {
    case 1:
      return anova_of<1, vectors>(1, recipe.cumulative, scratch, sums, terms);
    case 2:
      return anova_of<2, vectors>(2, recipe.cumulative, scratch, sums, terms);
    case 3:
      return anova_of<3, vectors>(3, recipe.cumulative, scratch, sums, terms);
    default:
      return anova_of<0, vectors>(recipe.degree, recipe.cumulative, scratch, sums, terms);
  }
}

template <class T>
void sums_of_anova(const Recipe& recipe, const T* a, Index a_panels, const T* b, Index b_panels,
                   Index d, T* sums, Index ld, T* scratch) {
  constexpr int width = panel_width<T>;
  for (Index q = 0; q < b_panels; ++q) {
    for (Index i = 0; i < a_panels * width; ++i) {
      const T* x = a + i / width * d * width + i % width;
      const T* y = b + q * d * width;
      anova<tile_vectors>(recipe, scratch, sums + i * ld + q * width, [&](auto&& use) {
        for (Index t = 0; t < d; ++t) {
          Vec<T> z[tile_vectors];
          MERCER_UNROLL
          for (int j = 0; j < tile_vectors; ++j) {
            z[j] = load(y + t * width + j * lanes<T>) * x[t * width];
          }
          use(z);
        }
      });
    }
  }
}

// Calls use(term) with the term of the recipe's part; anova is not a sum and has its own loops.
template <class Use>
MERCER_INLINE void with_term(Part part, Use&& use) {
  switch (part) {
    case Part::product:
      return use(Product{});
    case Part::square:
      return use(Square{});
    case Part::absolute:
      return use(Absolute{});
    case Part::chi2:
      return use(Chi2{});
    case Part::minimum:
      return use(Minimum{});
    case Part::anova:
      return;
  }
}

template <class T>
void sums(const Recipe& recipe, const T* a, Index a_panels, const T* b, Index b_panels, Index d,
          T* sums, Index ld, T* scratch) {
  if (recipe.part == Part::anova) {
    return sums_of_anova(recipe, a, a_panels, b, b_panels, d, sums, ld, scratch);
  }
  with_term(recipe.part, [&](auto term) {
    sums_by_tiles<decltype(term), T>(a, a_panels, b, b_panels, d, sums, ld);
  });
}

template <class T>
void sweep(const Recipe& recipe, const T* value, const std::int32_t* place, Index count,
           const T* panel, T* sums, T* scratch) {
  constexpr int L = lanes<T>;
  if (recipe.part == Part::anova) {
    for (int part = 0; part < sweep_vectors; part += 2) {
      anova<2>(recipe, scratch, sums + part * L, [&](auto&& use) {
        for (Index k = 0; k < count; ++k) {
          const T* y = panel + static_cast<Index>(place[k]) * (sweep_vectors * L) + part * L;
          Vec<T> z[2] = {load(y) * value[k], load(y + L) * value[k]};
          use(z);
        }
      });
    }
    return;
  }
  Vec<T> sum[sweep_vectors] = {};
  for (Index k = 0; k < count; ++k) {
    const T* y = panel + static_cast<Index>(place[k]) * (sweep_vectors * L);
    Vec<T> x = broadcast(value[k]);
    MERCER_UNROLL
    for (int j = 0; j < sweep_vectors; ++j) sum[j] = fma(x, load(y + j * L), sum[j]);
  }
  MERCER_UNROLL
  for (int j = 0; j < sweep_vectors; ++j) store<T>(sums + j * L, sum[j]);
}

template <class T>
void strip(const T* value, const std::int32_t* column, Index count, const T* panel,
           const std::int32_t* row, Index rows, bool fresh, T* sums, Index ld) {
  constexpr int width = panel_width<T>;
  Vec<T> sum[strip_rows][tile_vectors] = {};
  if (!fresh) {
    MERCER_UNROLL
    for (int i = 0; i < strip_rows; ++i) {
      if (i >= rows) break;
      MERCER_UNROLL
      for (int j = 0; j < tile_vectors; ++j) sum[i][j] = load(sums + row[i] * ld + j * lanes<T>);
    }
  }
  for (Index k = 0; k < count; ++k) {
    const T* from = panel + static_cast<Index>(column[k]) * width;
    Vec<T> y[tile_vectors];
    MERCER_UNROLL
    for (int j = 0; j < tile_vectors; ++j) y[j] = load(from + j * lanes<T>);
    MERCER_UNROLL
    for (int i = 0; i < strip_rows; ++i) {
      Vec<T> x = broadcast(value[k * strip_rows + i]);
      MERCER_UNROLL
      for (int j = 0; j < tile_vectors; ++j) sum[i][j] = fma(x, y[j], sum[i][j]);
    }
  }
  MERCER_UNROLL
  for (int i = 0; i < strip_rows; ++i) {
    if (i >= rows) break;
    MERCER_UNROLL
    for (int j = 0; j < tile_vectors; ++j) {
      store<T>(sums + row[i] * ld + j * lanes<T>, sum[i][j]);
    }
  }
}

template <class T>
void self(const Recipe& recipe, const T* panel, Index d, T* sums, T* scratch) {
  constexpr int width = panel_width<T>, L = lanes<T>;
  for (int j = 0; j < width; j += L) {
    if (recipe.part == Part::anova) {
      anova<1>(recipe, scratch, sums + j, [&](auto&& use) {
        for (Index t = 0; t < d; ++t) {
          Vec<T> x = load(panel + t * width + j);
          Vec<T> z[1] = {x * x};
          use(z);
        }
      });
      continue;
    }
    with_term(recipe.part, [&](auto term) {
      Vec<T> sum = {};
      for (Index t = 0; t < d; ++t) {
        Vec<T> x = load(panel + t * width + j);
        sum = decltype(term)::template add<T>(x, x, sum);
      }
      store<T>(sums + j, sum);
    });
  }
}

template <class T>
T self_of_row(const Recipe& recipe, const T* value, Index count, T* scratch) {
  Vec<T> sum = {};
  if (recipe.part == Part::anova) {
    T sums[lanes<T>];
    anova<1>(recipe, scratch, sums, [&](auto&& use) {
      for (Index k = 0; k < count; ++k) {
        Vec<T> x = broadcast(value[k]);
        Vec<T> z[1] = {x * x};
        use(z);
      }
    });
    return sums[0];
  }
  with_term(recipe.part, [&](auto term) {
    for (Index k = 0; k < count; ++k) {
      Vec<T> x = broadcast(value[k]);
      sum = decltype(term)::template add<T>(x, x, sum);
    }
  });
  return sum[0];
}

template <class T>
struct Identity {
  MERCER_INLINE Vec<T> operator()(Vec<T> s) const { return s; }
};
template <class T>
struct Exponential {
  T scale;
  MERCER_INLINE Vec<T> operator()(Vec<T> s) const { return exp<T>(s * scale); }
};
template <class T>
struct Power {
  T scale, offset;
  Index degree;
  MERCER_INLINE Vec<T> operator()(Vec<T> s) const {
    Vec<T> base = fma(s, broadcast(scale), broadcast(offset)), result = broadcast(T{1});
    for (Index k = degree; k > 0; k >>= 1) {
      if (k & 1) result = result * base;
      if (k > 1) base = base * base;
    }
    return result;
  }
};

// One row of `finish`: whole vectors on the boundaries of out, single numbers before and after.
template <bool distances, class T, class Last>
MERCER_INLINE void finish_row(Last last, const T* sums, Index columns, T x_norm, const T* y_norms,
                              T* out, bool past_caches) {
  constexpr int L = lanes<T>;
  auto at = [&](Index j) __attribute__((always_inline)) {
    Vec<T> s = load(sums + j);
    if constexpr (distances) {
      s = fma(broadcast(T{-2}), s, load(y_norms + j) + x_norm);
      s = select<T>(s < T{0}, Vec<T>{}, s);  // false for NaN
    }
    return last(s);
  };
  auto some = [&](Index from, Index count) {
    T values[L];
    store<T>(values, at(from));
    for (Index k = 0; k < count; ++k) out[from + k] = values[k];
  };
  Index j = 0;
  if (past_caches) {
    // Whole cache lines only: half a line written past the cache costs more than it saves.
    Index before = static_cast<Index>(-reinterpret_cast<std::uintptr_t>(out) % 64 / sizeof(T));
    before = before < columns ? before : columns;
    for (; j + L <= before; j += L) store<T>(out + j, at(j));
    if (j < before) some(j, before - j);
    j = before;
    for (; j + 64 / static_cast<Index>(sizeof(T)) <= columns;) {
      MERCER_UNROLL
      for (int k = 0; k < 64 / vector_bytes; ++k, j += L) stream<T>(out + j, at(j));
    }
  }
  for (; j + L <= columns; j += L) store<T>(out + j, at(j));
  if (j < columns) some(j, columns - j);
}

template <class T, class Last>
void finish_rows(Last last, const T* sums, Index ld, Index rows, Index columns, const T* x_norms,
                 const T* y_norms, T* out, Index stride, bool past_caches) {
  for (Index i = 0; i < rows; ++i) {
    if (x_norms) {
      finish_row<true, T>(last, sums + i * ld, columns, x_norms[i], y_norms, out + i * stride,
                          past_caches);
    } else {
      finish_row<false, T>(last, sums + i * ld, columns, T{0}, y_norms, out + i * stride,
                           past_caches);
    }
  }
  if (past_caches) end_of_stream();
}

template <class T>
void finish(const Recipe& recipe, const T* sums, Index ld, Index rows, Index columns,
            const T* x_norms, const T* y_norms, T* out, Index stride, bool past_caches) {
  T scale = static_cast<T>(recipe.scale), offset = static_cast<T>(recipe.offset);
  auto run = [&](auto last) {
    finish_rows<T>(last, sums, ld, rows, columns, x_norms, y_norms, out, stride, past_caches);
  };
  switch (recipe.finish) {
    case Finish::identity:
      return run(Identity<T>{});
    case Finish::exp:
      return run(Exponential<T>{scale});
    case Finish::power:
      return run(Power<T>{scale, offset, recipe.degree});
  }
}

template <class T>
void transpose(const T* tile, Index ld, Index rows, Index columns, T* out, Index stride,
               bool past_caches) {
  constexpr int L = lanes<T>;
  constexpr Index longest = 512;  // a strip of L such rows stays in the L1 cache
  T strip[L * longest];
  for (Index first = 0; first < rows; first += longest) {
    Index length = rows - first < longest ? rows - first : longest;
    for (Index j = 0; j < columns; j += L) {
      for (Index i = 0; i < length; i += L) {
        Vec<T> row[L];
        MERCER_UNROLL
        for (int k = 0; k < L; ++k) row[k] = load(tile + (first + i + k) * ld + j);
        transpose_square<L / 2, T>(row);
        MERCER_UNROLL
        for (int k = 0; k < L; ++k) store<T>(strip + k * longest + i, row[k]);
      }
      for (Index k = 0; k < L && j + k < columns; ++k) {
        finish_row<false, T>(Identity<T>{}, strip + k * longest, length, T{0},
                             static_cast<const T*>(nullptr), out + (j + k) * stride + first,
                             past_caches);
      }
    }
  }
  if (past_caches) end_of_stream();
}

// Sums in double of `rows` rows of the tile with `vectors` vectors of columns of v; the tile's
// numbers are `down` and `along` apart, so that its transpose is read as well.
template <int rows, int vectors, class T>
MERCER_INLINE void times_tile(const T* tile, Index down, Index along, Index columns, const T* v,
                              Index v_ld, Index q, double* sums, Index count) {
  constexpr int L = lanes<T>;
  // Sums of a few terms in T are added up in double: terms of one sign, as those of one class, sum
  // up to far more than is left in the end.
  constexpr Index run = 128;
  for (Index first = 0; first < columns; first += run) {
    Index last = std::min(columns, first + run);
    Vec<T> sum[rows][vectors] = {};
    for (Index j = first; j < last; ++j) {
      Vec<T> y[vectors];
      MERCER_UNROLL
      for (int c = 0; c < vectors; ++c) y[c] = load(v + j * v_ld + c * L);
      MERCER_UNROLL
      for (int i = 0; i < rows; ++i) {
        Vec<T> x = broadcast(tile[i * down + j * along]);
        MERCER_UNROLL
        for (int c = 0; c < vectors; ++c) sum[i][c] = fma(x, y[c], sum[i][c]);
      }
    }
    for (int i = 0; i < rows; ++i) {
      T values[vectors * L];
      for (int c = 0; c < vectors; ++c) store<T>(values + c * L, sum[i][c]);
      for (Index c = 0; c < count; ++c) sums[i * q + c] += static_cast<double>(values[c]);
    }
  }
}

template <class T>
MERCER_INLINE void times_strided(const T* tile, Index down, Index along, Index rows, Index columns,
                                 const T* v, Index v_ld, Index q, double* sums) {
  constexpr int L = lanes<T>;
  for (Index c = 0; c < q; c += 2 * L) {
    Index count = q - c < 2 * L ? q - c : 2 * L;
    Index i = 0;
    // As many sums as there are registers for.
    auto run = [&]<int height, int vectors>() __attribute__((always_inline)) {
      for (; i + height <= rows; i += height) {
        times_tile<height, vectors, T>(tile + i * down, down, along, columns, v + c, v_ld, q,
                                       sums + i * q + c, count);
      }
    };
    if (count > L) {
      run.template operator()<6, 2>();
      run.template operator()<1, 2>();
    } else {
      run.template operator()<8, 1>();
      run.template operator()<1, 1>();
    }
  }
}

template <class T>
void times_transposed(const T* tile, Index ld, Index rows, Index columns, const T* v, Index v_ld,
                      Index q, double* sums) {
  times_strided<T>(tile, 1, ld, columns, rows, v, v_ld, q, sums);
}

template <class T>
void times(const T* tile, Index ld, Index rows, Index columns, const T* v, Index v_ld,
           bool by_column, Index q, double* sums) {
  if (by_column) {
    // Few columns are summed in double at once.
    constexpr int D = lanes<double>;
    for (Index i = 0; i < rows; ++i) {
      for (Index c = 0; c < q; ++c) {
        // Four partial sums, always added up in the same order.
        Vec<double> sum[4] = {};
        const T *x = tile + i * ld, *y = v + c * v_ld;
        Index j = 0;
        for (; j + 4 * D <= columns; j += 4 * D) {
          MERCER_UNROLL
          for (int k = 0; k < 4; ++k) {
            sum[k] = fma(widened(x + j + k * D), widened(y + j + k * D), sum[k]);
          }
        }
        for (; j < columns; j += D) sum[0] = fma(widened(x + j), widened(y + j), sum[0]);
        Vec<double> all = (sum[0] + sum[1]) + (sum[2] + sum[3]);
        double total = 0;
        for (int k = 0; k < D; ++k) total += all[k];
        sums[i * q + c] += total;
      }
    }
    return;
  }
  times_strided<T>(tile, ld, 1, rows, columns, v, v_ld, q, sums);
}

template <int height, class T>
MERCER_INLINE void cross_rows(const T* tile, Index ld, Index columns, const T* across,
                              const T* down, double* sums, T* totals) {
  constexpr int L = lanes<T>;
  Vec<T> sum[height] = {}, factor[height];
  MERCER_UNROLL
  for (int i = 0; i < height; ++i) factor[i] = broadcast(down[i]);
  Index j = 0;
  for (; j + L <= columns; j += L) {
    Vec<T> y = load(across + j), total = load(totals + j);
    MERCER_UNROLL
    for (int i = 0; i < height; ++i) {
      Vec<T> x = load(tile + i * ld + j);
      sum[i] = fma(x, y, sum[i]);
      total = fma(x, factor[i], total);
    }
    store<T>(totals + j, total);
  }
  for (int i = 0; i < height; ++i) {
    T all = 0;
    for (int k = 0; k < L; ++k) all += sum[i][k];
    for (Index k = j; k < columns; ++k) {
      all += tile[i * ld + k] * across[k];
      totals[k] += tile[i * ld + k] * down[i];
    }
    sums[i] += static_cast<double>(all);
  }
}

template <class T>
void cross(const T* tile, Index ld, Index rows, Index columns, const T* across, const T* down,
           double* sums, T* totals) {
  Index i = 0;
  for (; i + 4 <= rows; i += 4) {
    cross_rows<4, T>(tile + i * ld, ld, columns, across, down + i, sums + i, totals);
  }
  for (; i < rows; ++i) {
    cross_rows<1, T>(tile + i * ld, ld, columns, across, down + i, sums + i, totals);
  }
}

// A few rows and a few vectors of columns, whose sums stay in registers.
template <int height, int vectors, class T>
void row_products_of(const T* const* rows, Index d, const T* right, Index ld, T* products) {
  constexpr int L = lanes<T>;
  Vec<T> sum[height][vectors] = {};
  for (Index t = 0; t < d; ++t, right += ld) {
    Vec<T> y[vectors];
    MERCER_UNROLL
    for (int j = 0; j < vectors; ++j) y[j] = load(right + j * L);
    MERCER_UNROLL
    for (int i = 0; i < height; ++i) {
      Vec<T> x = broadcast(rows[i][t]);
      MERCER_UNROLL
      for (int j = 0; j < vectors; ++j) sum[i][j] = fma(x, y[j], sum[i][j]);
    }
  }
  MERCER_UNROLL
  for (int i = 0; i < height; ++i) {
    MERCER_UNROLL
    for (int j = 0; j < vectors; ++j) store<T>(products + i * ld + j * L, sum[i][j]);
  }
}

template <int vectors, class T>
void row_products_beside(const T* const* rows, Index count, Index d, const T* right, Index ld,
                         T* products) {
  constexpr int height = 8 / vectors;  // sums enough that they need not wait for each other
  Index i = 0;
  for (; i + height <= count; i += height) {
    row_products_of<height, vectors, T>(rows + i, d, right, ld, products + i * ld);
  }
  for (; i < count; ++i) {
    row_products_of<1, vectors, T>(rows + i, d, right, ld, products + i * ld);
  }
}

template <class T>
void row_products(const T* const* rows, Index count, Index d, const T* right, Index ld,
                  T* products) {
  constexpr int L = lanes<T>;
  Index j = 0;
  for (; j + 2 * L <= ld; j += 2 * L) {
    row_products_beside<2, T>(rows, count, d, right + j, ld, products + j);
  }
  if (j < ld) row_products_beside<1, T>(rows, count, d, right + j, ld, products + j);
}

// As many columns of a tall product as have their sums in registers, with two rows or vectors.
#if defined(__AVX512F__)
constexpr int tall_columns = 10;
#else
constexpr int tall_columns = 5;
#endif

// Calls use.operator()<C>() with C = count ≤ tall_columns.
template <int C = tall_columns, class Use>
MERCER_INLINE void with_columns(Index count, Use&& use) {
  if constexpr (C > 1) {
    if (count < C) return with_columns<C - 1>(count, use);
  }
  use.template operator()<C>();
}

// The products of `height` rows of M with C rows of w, both p long and w padded with zeros.
template <int height, int C, class T>
MERCER_INLINE void tall_rows(const T* M, Index p, const T* w, Index ld, double* out, Index stride) {
  constexpr int L = lanes<T>;
  constexpr Index run = 128 * L;  // terms that are added in T
  for (int k = 0; k < height * C; ++k) out[k / C * stride + k % C] = 0;
  for (Index first = 0; first < p; first += run) {
    Index last = p - first < run ? p : first + run;
    Vec<T> sum[height][C] = {};
    for (Index j = first; j < last; j += L) {
      Vec<T> x[height];
      MERCER_UNROLL
      for (int i = 0; i < height; ++i) {
        if (last - j >= L) {
          x[i] = load(M + i * p + j);
        } else {
          T part[L] = {};
          for (Index k = j; k < last; ++k) part[k - j] = M[i * p + k];
          x[i] = load(part);
        }
      }
      MERCER_UNROLL
      for (int c = 0; c < C; ++c) {
        Vec<T> y = load(w + c * ld + j);
        MERCER_UNROLL
        for (int i = 0; i < height; ++i) sum[i][c] = fma(x[i], y, sum[i][c]);
      }
    }
    for (int i = 0; i < height; ++i) {
      for (int c = 0; c < C; ++c) {
        double total = 0;
        for (int k = 0; k < L; ++k) total += static_cast<double>(sum[i][c][k]);
        out[i * stride + c] += total;
      }
    }
  }
}

template <class T>
void tall_times(const T* M, Index n, Index p, const T* w, Index ld, Index q, double* out) {
  for (Index c = 0; c < q; c += tall_columns) {
    Index count = q - c < tall_columns ? q - c : tall_columns;
    with_columns(count, [&]<int C>() {
      Index i = 0;
      for (; i + 2 <= n; i += 2)
        tall_rows<2, C, T>(M + i * p, p, w + c * ld, ld, out + i * q + c, q);
      if (i < n) tall_rows<1, C, T>(M + i * p, p, w + c * ld, ld, out + i * q + c, q);
    });
  }
}

// Columns j .. j + vectors·L of M times C columns of v, over n rows that are few.
template <int vectors, int C, class T>
MERCER_INLINE void tall_strip(const T* M, Index n, Index p, Index width, const T* v, Index q,
                              double* sums) {
  constexpr int L = lanes<T>;
  Vec<T> sum[C][vectors] = {};
  for (Index i = 0; i < n; ++i) {
    Vec<T> x[vectors];
    if (width == vectors * L) {
      MERCER_UNROLL
      for (int k = 0; k < vectors; ++k) x[k] = load(M + i * p + k * L);
    } else {
      T part[vectors * L] = {};
      for (Index k = 0; k < width; ++k) part[k] = M[i * p + k];
      for (int k = 0; k < vectors; ++k) x[k] = load(part + k * L);
    }
    MERCER_UNROLL
    for (int c = 0; c < C; ++c) {
      Vec<T> y = broadcast(v[i * q + c]);
      MERCER_UNROLL
      for (int k = 0; k < vectors; ++k) sum[c][k] = fma(x[k], y, sum[c][k]);
    }
  }
  for (int c = 0; c < C; ++c) {
    for (Index k = 0; k < width; ++k) sums[c * p + k] += static_cast<double>(sum[c][k / L][k % L]);
  }
}

template <class T>
void tall_pull(const T* M, Index n, Index p, const T* v, Index q, double* sums) {
  constexpr Index width = 2 * lanes<T>;
  constexpr Index rows = 64;  // which stay in the L2 cache, and whose terms are added in T
  for (Index i = 0; i < n; i += rows) {
    Index height = n - i < rows ? n - i : rows;
    for (Index c = 0; c < q; c += tall_columns) {
      Index count = q - c < tall_columns ? q - c : tall_columns;
      with_columns(count, [&]<int C>() {
        for (Index j = 0; j < p; j += width) {
          Index some = p - j < width ? p - j : width;
          tall_strip<2, C, T>(M + i * p + j, height, p, some, v + i * q + c, q, sums + c * p + j);
        }
      });
    }
  }
}

// The products of a panel with one that is not before it, added to their place.
template <class T>
void square_of_panels(const T* left, const T* right, Index steps, Index rows, Index columns,
                      double* sums, Index ld) {
  constexpr int width = panel_width<T>, L = lanes<double>;
  T square[width * width];
  for (Index t = 0; t < steps; t += stretch<T>) {
    Index some = steps - t < stretch<T> ? steps - t : stretch<T>;
    for (int k = 0; k < width; k += tile_rows<T>) {
      const T* x = left + t * width + k;
      const T* y = right + t * width;
      t == 0 ? tile<Product, true, T>(x, y, some, square + k * width, width)
             : tile<Product, false, T>(x, y, some, square + k * width, width);
    }
  }
  for (Index k = 0; k < rows; ++k) {
    double* to = sums + k * ld;
    const T* from = square + k * width;
    if (columns == width) {
      MERCER_UNROLL
      for (int c = 0; c < width; c += L) store<double>(to + c, load(to + c) + widened(from + c));
    } else {
      for (Index c = 0; c < columns; ++c) to[c] += static_cast<double>(from[c]);
    }
  }
}

template <class T>
void squares(const T* left, const T* right, Index steps, Index p, double* sums) {
  constexpr int width = panel_width<T>;
  // Panels that stay in the L2 cache while all those before them pass.
  constexpr Index bytes = 3 * 131072;
  Index group = bytes / (steps * width * static_cast<Index>(sizeof(T)));
  group = (group > 1 ? group : 1) * width;
  for (Index first = 0; first < p; first += group) {
    Index last = p - first < group ? p : first + group;
    for (Index j = 0; j < last; j += width) {
      for (Index i = j > first ? j : first; i < last; i += width) {
        square_of_panels(left + i * steps, right + j * steps, steps, p - i < width ? p - i : width,
                         p - j < width ? p - j : width, sums + i * p + j, p);
      }
    }
  }
}

template <class T>
void exp_of_array(const T* x, T* out, Index count) {
  constexpr int L = lanes<T>;
  Index i = 0;
  for (; i + L <= count; i += L) store<T>(out + i, exp<T>(load(x + i)));
  if (i < count) {
    T values[L] = {};
    for (Index k = i; k < count; ++k) values[k - i] = x[k];
    store<T>(values, exp<T>(load(values)));
    for (Index k = i; k < count; ++k) out[k] = values[k - i];
  }
}

template <class T>
Index scratch(const Recipe& recipe) {
  return recipe.part == Part::anova ? (recipe.degree + 1) * panel_width<T> : 0;
}

template <class T>
constexpr Loops<T> table = {panel_width<T>,
                            sweep_vectors * lanes<T>,
                            stretch<T>,
                            pack<T>,
                            sums<T>,
                            sweep<T>,
                            strip<T>,
                            self<T>,
                            self_of_row<T>,
                            finish<T>,
                            transpose<T>,
                            times<T>,
                            times_transposed<T>,
                            cross<T>,
                            row_products<T>,
                            tall_times<T>,
                            tall_pull<T>,
                            squares<T>,
                            exp_of_array<T>,
                            solve_working_set<T>,
                            slopes_of,
                            add_rows<T>,
                            scratch<T>};

#define MERCER_TEXT_OF(name) #name
#define MERCER_TEXT(name) MERCER_TEXT_OF(name)

}  // namespace

extern const InstructionSet instructions;
const InstructionSet instructions = {MERCER_TEXT(MERCER_ISA), table<float>, table<double>};

}  // namespace mercer::MERCER_ISA
