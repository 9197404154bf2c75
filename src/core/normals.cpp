// Rows are taken 256 at a time and turned, so that a coordinate of all of them stands side by side:
// the loops over rows need no sum across a vector, and the two products of a coordinate with the
// answers stay in registers. Differences x - mean come first: nothing cancels, however far the
// points are from 0. Every sum has an order that depends neither on the number of threads nor on
// the instruction set.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

#include "densities.hpp"
#include "threads.hpp"

namespace mercer {
namespace {

constexpr Index height = 256;   // rows that are turned at once
constexpr Index lanes = 8;      // sums side by side
constexpr Index few = 32;       // rows of a run that are not worth turning
constexpr Index task = 8192;    // numbers that are worth waking a thread for

int crew(Index tasks) {
  return static_cast<int>(std::max<Index>(1, std::min<Index>(threads(), tasks)));
}

// The densities as they are used: 1 / deviation, and -ln of the factor before the exponential.
struct Prepared {
  explicit Prepared(const DiagonalNormals& p) : normals(p) {
    std::size_t size = static_cast<std::size_t>(p.k * p.d);
    inverse.resize(size);
    logs.resize(size);
    constant.resize(static_cast<std::size_t>(p.k));
    for (std::size_t i = 0; i < size; ++i) {
      inverse[i] = 1 / p.deviation[i];
      logs[i] = std::log(p.deviation[i]) + 0.5 * std::log(2 * std::numbers::pi);
    }
    for (Index c = 0; c < p.k; ++c) {
      for (Index j = 0; j < p.d; ++j) constant[c] += logs[c * p.d + j];
    }
  }
  DiagonalNormals normals;
  std::vector<double> inverse, logs, constant;
};

// Up to 256 rows of `width` numbers, turned; rows that are not there are 0.
struct Turned {
  std::vector<double> x;
  bool gaps = false;  // whether one of the numbers is NaN
  const double* column(Index j) const { return &x[j * height]; }
  void turn(const double* rows, Index count, Index width) {
    x.assign(static_cast<std::size_t>(width * height), 0.0);
    gaps = false;
    for (Index l = 0; l < count; ++l) {
      for (Index j = 0; j < width; ++j) {
        double number = rows[l * width + j];
        gaps |= number != number;
        x[j * height + l] = number;
      }
    }
  }
};

// -ln N under density c of the turned rows from l on.
template <bool gaps>
void negative_logs(const Prepared& p, const Turned& t, Index c, Index l, double* out) {
  Index d = p.normals.d;
  const double *mean = p.normals.mean + c * d, *inverse = &p.inverse[c * d], *logs = &p.logs[c * d];
  double squares[lanes] = {}, constants[lanes] = {};
  for (Index j = 0; j < d; ++j) {
    const double* x = t.column(j) + l;
    for (Index i = 0; i < lanes; ++i) {
      double z = (x[i] - mean[j]) * inverse[j];
      if constexpr (gaps) {
        bool seen = x[i] == x[i];
        z = seen ? z : 0.0;
        constants[i] += seen ? logs[j] : 0.0;
      }
      squares[i] += z * z;
    }
  }
  for (Index i = 0; i < lanes; ++i) {
    out[i] = 0.5 * squares[i] + (gaps ? constants[i] : p.constant[c]);
  }
}

// The two sums over turned rows, of density c and coordinate j; answers as the rows.
template <bool gaps>
void add_moments(const Prepared& p, const Turned& t, const double* answers, Index rows, Index c,
                 Index j, double& first, double& second) {
  double mean = p.normals.mean[c * p.normals.d + j], inverse = p.inverse[c * p.normals.d + j];
  double a[lanes] = {}, b[lanes] = {};
  const double* x = t.column(j);
  for (Index l = 0; l < rows; l += lanes) {
    for (Index i = 0; i < lanes; ++i) {
      double z = (x[l + i] - mean) * inverse, square = z * z;
      if constexpr (gaps) {
        bool seen = x[l + i] == x[l + i];
        z = seen ? z : 0.0;
        square = seen ? square : 1.0;
      }
      a[i] += answers[l + i] * z;
      b[i] += answers[l + i] * square;
    }
  }
  for (Index i = 0; i < lanes; ++i) {
    first += a[i];
    second += b[i];
  }
}

// The same, row by row.
void add_rows(const Prepared& p, const double* rows, const double* answers, Index count,
              double* first, double* second) {
  Index k = p.normals.k, d = p.normals.d;
  for (Index l = 0; l < count; ++l) {
    for (Index c = 0; c < k; ++c) {
      const double *x = rows + l * d, *mean = p.normals.mean + c * d, *inverse = &p.inverse[c * d];
      double answer = answers[l * k + c], *a = first + c * d, *b = second + c * d;
      for (Index j = 0; j < d; ++j) {
        bool seen = x[j] == x[j];
        double z = seen ? (x[j] - mean[j]) * inverse[j] : 0.0;
        a[j] += answer * z;
        b[j] += answer * (seen ? z * z : 1.0);
      }
    }
  }
}

}  // namespace

void log_densities(const DiagonalNormals& normals, const double* rows, Index n, double* out,
                   const Poll& poll) {
  Index k = normals.k, d = normals.d, blocks = (n + height - 1) / height;
  Prepared p(normals);
  int workers = crew(std::min(blocks, n * d * k / task));
  std::vector<Turned> turned(static_cast<std::size_t>(workers));
  auto block = [&](Index number, int worker) {
    Index from = number * height, count = std::min(height, n - from);
    Turned& t = turned[worker];
    t.turn(rows + from * d, count, d);
    for (Index c = 0; c < k; ++c) {
      for (Index l = 0; l < count; l += lanes) {
        double found[lanes];
        t.gaps ? negative_logs<true>(p, t, c, l, found) : negative_logs<false>(p, t, c, l, found);
        for (Index i = 0; i < std::min(lanes, count - l); ++i) {
          out[(from + l + i) * k + c] = -found[i];
        }
      }
    }
  };
  parallel(blocks, workers, block, poll);
}

void moments(const DiagonalNormals& normals, const double* rows, const Runs& runs,
             const double* answers, double* first, double* second, const Poll& poll) {
  Index k = normals.k, d = normals.d;
  Prepared p(normals);
  int workers = crew(std::min(runs.count, runs.count ? runs.end(runs.count - 1) * d * k / task : 0));
  std::vector<Turned> points(static_cast<std::size_t>(workers)), shares(points.size());
  auto run = [&](Index r, int worker) {
    double *a = first + r * k * d, *b = second + r * k * d;
    std::fill_n(a, k * d, 0.0);
    std::fill_n(b, k * d, 0.0);
    if (runs.end(r) - runs.begin(r) < few) {
      Index from = runs.begin(r);
      return add_rows(p, rows + from * d, answers + from * k, runs.end(r) - from, a, b);
    }
    for (Index from = runs.begin(r); from < runs.end(r); from += height) {
      Index count = std::min(height, runs.end(r) - from);
      Turned &t = points[worker], &w = shares[worker];
      t.turn(rows + from * d, count, d);
      w.turn(answers + from * k, count, k);
      for (Index c = 0; c < k; ++c) {
        for (Index j = 0; j < d; ++j) {
          auto add = t.gaps ? add_moments<true> : add_moments<false>;
          add(p, t, w.column(c), count, c, j, a[c * d + j], b[c * d + j]);
        }
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
