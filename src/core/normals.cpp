// Rows are taken 128 at a time and turned, so that a coordinate of all of them stands side by side:
// the loops over rows need no sum across a vector, and what they add up stays in registers.
// Differences x - mean come first: nothing cancels, however far the points are from 0. Vectors are
// of two numbers on every processor and every sum has one order, so results depend neither on the
// instruction set nor on the number of threads.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numbers>
#include <vector>

#include "densities.hpp"
#include "threads.hpp"

#if defined(__clang__)
#define MERCER_UNROLL _Pragma("unroll")
#else
#define MERCER_UNROLL _Pragma("GCC unroll 16")
#endif

namespace mercer {
namespace {

typedef double Pair __attribute__((vector_size(16)));
typedef std::int64_t Mask __attribute__((vector_size(16)));

constexpr Index height = 128;  // rows that are turned at once
constexpr Index lanes = 16;    // of them, those whose sums are in registers
constexpr Index few = 32;      // rows of a run that are not worth turning
constexpr Index task = 8192;   // numbers that are worth waking a thread for
const double half_log_2pi = 0.5 * std::log(2 * std::numbers::pi);

Pair load(const double* p) {
  Pair v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

void store(double* p, Pair v) {
  std::memcpy(p, &v, sizeof v);
}

Pair both(double x) {
  return Pair{x, x};
}

// v where x is a number, else `otherwise`.
Pair where_seen(Pair x, Pair v, Pair otherwise) {
  Mask seen = x == x;
  return seen ? v : otherwise;
}

int crew(Index tasks) {
  return static_cast<int>(std::max<Index>(1, std::min<Index>(threads(), tasks)));
}

std::size_t room(Index size) {
  return static_cast<std::size_t>(size);
}

// Up to 128 rows of `width` numbers, turned. Rows that are not there are as the first one, whose
// numbers occur anyway: no other could overflow. Answers for them must be 0.
struct Turned {
  std::vector<double> x;
  bool gaps = false;  // whether one of the numbers is NaN
  const double* column(Index j) const { return &x[j * height]; }
  double* column(Index j) { return &x[j * height]; }
  void turn(const double* rows, Index count, Index width, bool answers = false) {
    x.resize(room(width * height));
    bool found = false;
    for (Index l = 0; l < height; l += 8) {  // a line of the cache is written at once
      const double* row[8];
      for (Index i = 0; i < 8; ++i) row[i] = l + i < count ? rows + (l + i) * width : rows;
      for (Index j = 0; j < width; ++j) {
        double* out = column(j) + l;
        for (Index i = 0; i < 8; ++i) {
          out[i] = row[i][j];
          found |= out[i] != out[i];
        }
      }
    }
    for (Index j = 0; answers && j < width; ++j) {
      std::fill(column(j) + count, column(j) + height, 0.0);
    }
    gaps = found;
  }
};

// Independent coordinates: 1 / deviation, and -ln of the factors before the exponentials.
struct Diagonal {
  explicit Diagonal(const DiagonalNormals& p)
      : k(p.k),
        d(p.d),
        mean(p.mean),
        inverse(room(k * d)),
        logs(inverse.size()),
        constant(room(k)) {
    for (std::size_t i = 0; i < inverse.size(); ++i) {
      inverse[i] = 1 / p.deviation[i];
      logs[i] = std::log(p.deviation[i]) + half_log_2pi;
    }
    for (Index c = 0; c < k; ++c) {
      for (Index j = 0; j < d; ++j) constant[c] += logs[c * d + j];
    }
  }
  Index k, d;
  const double* mean;
  std::vector<double> inverse, logs, constant;

  // -ln N under density c of 16 turned rows from l on.
  template <bool gaps>
  void negative_logs(const Turned& t, Index c, Index l, double* out) const {
    Pair squares[lanes / 2] = {}, constants[lanes / 2] = {};
    for (Index j = 0; j < d; ++j) {
      Pair m = both(mean[c * d + j]), s = both(inverse[c * d + j]), log = both(logs[c * d + j]);
      const double* from = t.column(j) + l;
      MERCER_UNROLL
      for (Index i = 0; i < lanes / 2; ++i) {
        Pair x = load(from + 2 * i), z = (x - m) * s;
        if constexpr (gaps) {
          z = where_seen(x, z, Pair{});
          constants[i] += where_seen(x, log, Pair{});
        }
        squares[i] += z * z;
      }
    }
    MERCER_UNROLL
    for (Index i = 0; i < lanes / 2; ++i) {
      store(out + 2 * i, 0.5 * squares[i] + (gaps ? constants[i] : both(constant[c])));
    }
  }

  // Adds the two sums over turned rows, of density c and coordinate j; answers stand as the rows.
  // The sums are of x - mean, and divided by the deviation in the end.
  template <bool gaps>
  void add(const Turned& t, const double* answers, Index rows, Index c, Index j, double& first,
           double& second) const {
    double scale = inverse[c * d + j];
    Pair m = both(mean[c * d + j]), variance = both(1 / (scale * scale)), a[4] = {}, b[4] = {};
    const double* from = t.column(j);
    for (Index l = 0; l < rows; l += 8) {
      MERCER_UNROLL
      for (Index i = 0; i < 4; ++i) {
        Pair x = load(from + l + 2 * i), answer = load(answers + l + 2 * i), e = x - m;
        if constexpr (gaps) {
          a[i] += answer * where_seen(x, e, Pair{});
          b[i] += answer * where_seen(x, e * e, variance);
        } else {
          Pair weighted = answer * e;
          a[i] += weighted;
          b[i] += weighted * e;
        }
      }
    }
    for (Index i = 0; i < 4; ++i) {
      first += (a[i][0] + a[i][1]) * scale;
      second += (b[i][0] + b[i][1]) * scale * scale;
    }
  }

  // The same for all densities and coordinates, row by row.
  void add_rows(const double* rows, const double* answers, Index count, double* first,
                double* second) const {
    for (Index l = 0; l < count; ++l) {
      for (Index c = 0; c < k; ++c) {
        const double *x = rows + l * d, *m = mean + c * d, *s = &inverse[c * d];
        double answer = answers[l * k + c], *a = first + c * d, *b = second + c * d;
        for (Index j = 0; j < d; ++j) {
          bool seen = x[j] == x[j];
          double z = seen ? (x[j] - m[j]) * s[j] : 0.0;
          a[j] += answer * z;
          b[j] += answer * (seen ? z * z : 1.0);
        }
      }
    }
  }
};

// Cholesky factors: 1 / their diagonal, and -ln of the factor before the exponential.
struct Full {
  explicit Full(const FullNormals& p)
      : k(p.k), d(p.d), mean(p.mean), factor(p.factor), inverse(room(k * d)), constant(room(k)) {
    for (Index c = 0; c < k; ++c) {
      for (Index i = 0; i < d; ++i) {
        double pivot = factor[(c * d + i) * d + i];
        inverse[c * d + i] = 1 / pivot;
        constant[c] += std::log(pivot) + half_log_2pi;
      }
    }
  }
  Index k, d;
  const double *mean, *factor;
  std::vector<double> inverse, constant;

  // -ln N under density c of 16 turned rows from l on; z (d × 16) becomes L⁻¹(x - mean).
  void negative_logs(const Turned& t, Index c, Index l, double* z, double* out) const {
    const double* L = factor + c * d * d;
    Pair squares[lanes / 2] = {};
    for (Index i = 0; i < d; ++i) {
      Pair rest[lanes / 2], m = both(mean[c * d + i]), s = both(inverse[c * d + i]);
      const double* x = t.column(i) + l;
      MERCER_UNROLL
      for (Index r = 0; r < lanes / 2; ++r) rest[r] = load(x + 2 * r) - m;
      for (Index j = 0; j < i; ++j) {
        Pair entry = both(L[i * d + j]);
        MERCER_UNROLL
        for (Index r = 0; r < lanes / 2; ++r) rest[r] -= entry * load(z + j * lanes + 2 * r);
      }
      MERCER_UNROLL
      for (Index r = 0; r < lanes / 2; ++r) {
        rest[r] *= s;
        squares[r] += rest[r] * rest[r];
        store(z + i * lanes + 2 * r, rest[r]);
      }
    }
    MERCER_UNROLL
    for (Index r = 0; r < lanes / 2; ++r) {
      store(out + 2 * r, 0.5 * squares[r] + both(constant[c]));
    }
  }
};

// The differences from a mean, of all turned rows, and these times the answers; four columns of 0
// at the end, so that columns can be taken two and four at a time.
struct Residuals {
  std::vector<double> plain, weighted;
  void set(const Turned& t, const double* mean, const double* answers, Index d) {
    plain.resize(room((d + 4) * height));
    weighted.resize(plain.size());
    for (Index j = 0; j < d; ++j) {
      const double* x = t.column(j);
      for (Index l = 0; l < height; ++l) {
        double difference = x[l] - mean[j];
        plain[j * height + l] = difference;
        weighted[j * height + l] = answers[l] * difference;
      }
    }
    std::fill(plain.begin() + d * height, plain.end(), 0.0);
    std::fill(weighted.begin() + d * height, weighted.end(), 0.0);
  }

  // Adds answers · e to first and the lower half of answers · eeᵀ to second.
  void add(Index d, Index rows, double* first, double* second) const {
    for (Index i = 0; i < d; ++i) {
      Pair sum[4] = {};
      for (Index l = 0; l < rows; l += 8) {
        MERCER_UNROLL
        for (Index r = 0; r < 4; ++r) sum[r] += load(&weighted[i * height + l + 2 * r]);
      }
      for (Index r = 0; r < 4; ++r) first[i] += sum[r][0] + sum[r][1];
    }
    for (Index i = 0; i < d; i += 2) {
      for (Index j = 0; j <= std::min(i + 1, d - 1); j += 4) {
        Pair sum[2][4] = {};
        const double *a = &weighted[i * height], *b = &plain[j * height];
        for (Index l = 0; l < rows; l += 2) {
          Pair left[2] = {load(a + l), load(a + height + l)};
          MERCER_UNROLL
          for (Index s = 0; s < 4; ++s) {
            Pair right = load(b + s * height + l);
            sum[0][s] += left[0] * right;
            sum[1][s] += left[1] * right;
          }
        }
        for (Index r = 0; r < std::min<Index>(2, d - i); ++r) {
          for (Index s = 0; s < 4 && j + s <= i + r; ++s) {
            second[(i + r) * d + j + s] += sum[r][s][0] + sum[r][s][1];
          }
        }
      }
    }
  }
};

// Calls logs(turned, c, l, out), which writes -ln N of 16 rows, for all rows and densities.
template <class Logs>
void fill_logs(const double* rows, Index n, Index d, Index k, Index work, double* out,
               const Logs& logs, const Poll& poll) {
  Index blocks = (n + height - 1) / height;
  int workers = crew(std::min(blocks, n * work / task));
  std::vector<Turned> turned(room(workers));
  auto block = [&](Index number, int worker) {
    Index from = number * height, count = std::min(height, n - from);
    Turned& t = turned[worker];
    t.turn(rows + from * d, count, d);
    for (Index l = 0; l < count; l += lanes) {
      for (Index c = 0; c < k; ++c) {
        double found[lanes];
        logs(t, c, l, worker, found);
        for (Index i = 0; i < std::min(lanes, count - l); ++i) {
          out[(from + l + i) * k + c] = -found[i];
        }
      }
    }
  };
  parallel(blocks, workers, block, poll);
}

}  // namespace

void log_densities(const DiagonalNormals& normals, const double* rows, Index n, double* out,
                   const Poll& poll) {
  Diagonal p(normals);
  auto logs = [&](const Turned& t, Index c, Index l, int, double* found) {
    t.gaps ? p.negative_logs<true>(t, c, l, found) : p.negative_logs<false>(t, c, l, found);
  };
  fill_logs(rows, n, p.d, p.k, p.k * p.d, out, logs, poll);
}

void log_densities(const FullNormals& normals, const double* rows, Index n, double* out,
                   const Poll& poll) {
  Full p(normals);
  std::vector<std::vector<double>> z(room(threads()), std::vector<double>(room(p.d * lanes)));
  auto logs = [&](const Turned& t, Index c, Index l, int worker, double* found) {
    p.negative_logs(t, c, l, z[worker].data(), found);
  };
  fill_logs(rows, n, p.d, p.k, p.k * p.d * p.d, out, logs, poll);
}

void moments(const DiagonalNormals& normals, const double* rows, const Runs& runs,
             const double* answers, double* first, double* second, const Poll& poll) {
  Diagonal p(normals);
  Index k = p.k, d = p.d, n = runs.count ? runs.end(runs.count - 1) : 0;
  int workers = crew(std::min(runs.count, n * d * k / task));
  std::vector<Turned> points(room(workers)), weights(points.size());
  auto run = [&](Index r, int worker) {
    double *a = first + r * k * d, *b = second + r * k * d;
    std::fill_n(a, k * d, 0.0);
    std::fill_n(b, k * d, 0.0);
    if (runs.end(r) - runs.begin(r) < few) {
      Index from = runs.begin(r);
      return p.add_rows(rows + from * d, answers + from * k, runs.end(r) - from, a, b);
    }
    for (Index from = runs.begin(r); from < runs.end(r); from += height) {
      Index count = std::min(height, runs.end(r) - from);
      Turned &t = points[worker], &w = weights[worker];
      t.turn(rows + from * d, count, d);
      w.turn(answers + from * k, count, k, true);
      for (Index i = 0; i < k * d; ++i) {
        Index c = i / d, j = i % d;
        t.gaps ? p.add<true>(t, w.column(c), count, c, j, a[i], b[i])
               : p.add<false>(t, w.column(c), count, c, j, a[i], b[i]);
      }
    }
  };
  // Short runs are handed out together: a task costs about as much as one of them.
  Index each = std::max<Index>(1, runs.count / (64 * workers));
  auto group = [&](Index number, int worker) {
    Index end = std::min(runs.count, (number + 1) * each);
    for (Index r = number * each; r < end; ++r) run(r, worker);
  };
  parallel((runs.count + each - 1) / each, workers, group, poll);
}

void scatter(const double* mean, Index k, Index d, const double* rows, const Runs& runs,
             const double* answers, double* first, double* second, const Poll& poll) {
  int workers = crew(runs.count);
  struct Memory {
    Turned points, weights;
    Residuals residuals;
  };
  std::vector<Memory> memories(room(workers));
  auto run = [&](Index r, int worker) {
    Memory& m = memories[worker];
    double *a = first + r * k * d, *b = second + r * k * d * d;
    std::fill_n(a, k * d, 0.0);
    std::fill_n(b, k * d * d, 0.0);
    for (Index from = runs.begin(r); from < runs.end(r); from += height) {
      Index count = std::min(height, runs.end(r) - from);
      m.points.turn(rows + from * d, count, d);
      m.weights.turn(answers + from * k, count, k, true);
      for (Index c = 0; c < k; ++c) {
        m.residuals.set(m.points, mean + c * d, m.weights.column(c), d);
        m.residuals.add(d, count, a + c * d, b + c * d * d);
      }
    }
    for (Index c = 0; c < k; ++c) {
      double* whole = b + c * d * d;
      for (Index i = 0; i < d; ++i) {
        for (Index j = 0; j < i; ++j) whole[j * d + i] = whole[i * d + j];
      }
    }
  };
  parallel(runs.count, workers, run, poll);
}

void shares(double* logs, Index n, Index k, double* sums, const Poll& poll) {
  Index rows = std::max<Index>(1, task / std::max<Index>(k, 1)), blocks = (n + rows - 1) / rows;
  auto block = [&](Index number, int) {
    for (Index i = number * rows; i < std::min(n, (number + 1) * rows); ++i) {
      double *row = logs + i * k, top = -std::numeric_limits<double>::infinity(), sum = 0;
      for (Index c = 0; c < k; ++c) top = std::max(top, row[c]);
      if (std::isinf(top)) top = 0;  // a row of -inf has the sum 0, and shares that are no numbers
      for (Index c = 0; c < k; ++c) sum += row[c] = std::exp(row[c] - top);
      for (Index c = 0; c < k; ++c) row[c] /= sum;
      sums[i] = top + std::log(sum);
    }
  };
  parallel(blocks, crew(blocks), block, poll);
}

}  // namespace mercer
