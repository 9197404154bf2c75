// Products in whole numbers (the loops are in whole_loops.cpp), and kernel values of them.
#include "whole.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

namespace mercer {

namespace baseline {
extern const WholeLoops whole_loops;
}
#if defined(__x86_64__)
namespace avx2 {
extern const WholeLoops whole_loops;
}
namespace avx512 {
extern const WholeLoops whole_loops;
}
namespace avx512vnni {
extern const WholeLoops whole_loops;
}
#endif

namespace {

const WholeLoops& whole_loops() {
#if defined(__x86_64__)
  static const bool adds = __builtin_cpu_supports("avx512vnni");  // what it has multiplied
  if (adds && std::strcmp(avx512::whole_loops.name, instruction_set().name) == 0) {
    return avx512vnni::whole_loops;
  }
  for (const WholeLoops* set : {&avx512::whole_loops, &avx2::whole_loops}) {
    if (std::strcmp(set->name, instruction_set().name) == 0) return *set;
  }
#endif
  return baseline::whole_loops;
}

constexpr Index band = 64;                // rows whose whole numbers stay in the cache
constexpr Index most_columns = 256;       // of sums that are finished at a time
constexpr Index longest_bytes = 1 << 15;  // coordinates, of which 128 times the sum stays below 2³¹
constexpr Index slack = 16;               // numbers that `finish` may read beyond the last column

// The largest |q| for which ‖x - y‖² = Σ (q - p)² ≤ 4 d most² is below 2³¹, as each sum on the way.
Index most_of(Index d) {
  Index most = std::numeric_limits<std::int16_t>::max();
  auto fits = [d](Index q) {
    return 4.0 * static_cast<double>(d) * static_cast<double>(q * q) < 0x1p31;
  };
  while (most > 0 && !fits(most)) most = most * 15 / 16;
  return most;
}

// Sums over the numbers of one row.
struct Totals {
  std::int32_t sum = 0, squares = 0;
  bool bytes = true;  // all from 0 to 255
  Totals(const std::int16_t* q, Index count) {
    for (Index t = 0; t < count; ++t) {
      sum += q[t];
      squares += std::int32_t{q[t]} * q[t];
      bytes &= q[t] >= 0 && q[t] <= 255;
    }
  }
};

}  // namespace

std::optional<WholePoints> WholePoints::of(const double* y, Index m, Index d, double step) {
  const auto& native = whole_loops();
  WholePoints points;
  points.m = m, points.d = d, points.step = step, points.most = most_of(d);
  const Index panels = (m + native.width - 1) / native.width, row = (d + 3) / 4 * 4;
  points.squares.assign(static_cast<std::size_t>(panels * native.width), 0);
  std::vector<std::int16_t> q(static_cast<std::size_t>(m * row));
  points.bytes = native.byte_products && d <= longest_bytes;
  for (Index j = 0; j < m; ++j) {
    if (!native.row(y + j * d, d, step, points.most, q.data() + j * row)) return std::nullopt;
    Totals of(q.data() + j * row, row);
    points.squares[j] = of.squares;
    points.bytes &= of.bytes;
  }
  const Index each = points.bytes ? 4 : 2;  // numbers of a group
  points.groups = row / each;
  points.panels.assign(static_cast<std::size_t>(panels * native.width * points.groups * 4), 0);
  for (Index j = 0; j < m; ++j) {
    std::int8_t* panel = points.panels.data() + j / native.width * native.width * points.groups * 4;
    for (Index t = 0; t < row; ++t) {
      std::int8_t* to = panel + (t / each * native.width + j % native.width) * 4;
      if (points.bytes) {
        to[t % each] = static_cast<std::int8_t>(q[j * row + t] - 128);
      } else {
        std::memcpy(to + t % each * 2, &q[j * row + t], 2);
      }
    }
  }
  return points;
}

void whole_block(const Recipe& recipe, const double* x, Index n, const WholePoints& Y, double* out,
                 bool* done, const Poll& poll) {
  const auto& native = whole_loops();
  const bool distances = recipe.part == Part::square;
  const double unit = Y.step * Y.step;
  const Index row = Y.groups * (Y.bytes ? 4 : 2);
  const Index columns = std::max<Index>(1, most_columns / native.width) * native.width;
  const Index ld = columns + slack;
  std::vector<std::int16_t> q(static_cast<std::size_t>(band * row));
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(Y.bytes ? band * row : 0));
  std::vector<std::int32_t> sums(static_cast<std::size_t>(band * columns));
  std::vector<double> values(static_cast<std::size_t>(band * ld), 0.0);
  std::int32_t own[band], less[band];
  std::int32_t longest = 0;
  for (std::int32_t one : Y.squares) longest = std::max(longest, one);
  for (Index i = 0; i < n; i += band) {
    Index height = std::min(band, n - i), good = 0;
    for (Index r = 0; r < height; ++r) {
      std::int16_t* here = q.data() + r * row;
      bool whole = native.row(x + (i + r) * Y.d, Y.d, Y.step, Y.most, here);
      Totals of(here, row);
      own[r] = of.squares;
      less[r] = Y.bytes ? 128 * of.sum : 0;  // what is missing where 128 is taken from all y
      if (Y.bytes) std::copy(here, here + row, bytes.data() + r * row);
      double largest = unit * (static_cast<double>(own[r]) + static_cast<double>(longest));
      done[i + r] =
          whole && (of.bytes || !Y.bytes) && !(distances && direct<double>(recipe, Y.d, largest));
      good += done[i + r];
    }
    for (Index j = 0; good > 0 && j < Y.m; j += columns) {
      Index some = std::min(columns, Y.m - j);
      for (Index k = 0; k < some; k += native.width) {
        const std::int8_t* panel = Y.panels.data() + (j + k) * Y.groups * 4;
        if (Y.bytes) {
          native.byte_products(bytes.data(), height, Y.groups, panel, sums.data() + k, columns);
        } else {
          native.products(q.data(), height, Y.groups, panel, sums.data() + k, columns);
        }
      }
      for (Index r = 0; r < height; ++r) {
        const std::int32_t *from = sums.data() + r * columns, *squares = Y.squares.data() + j;
        double* to = values.data() + r * ld;
        for (Index c = 0; c < some; ++c) {
          std::int32_t sum = from[c] + less[r];
          to[c] = unit * static_cast<double>(distances ? own[r] + squares[c] - 2 * sum : sum);
        }
      }
      loops<double>().finish(recipe, values.data(), ld, height, some, nullptr, nullptr,
                             out + i * Y.m + j, Y.m, false);
    }
    if (i % (16 * band) == 0) poll();
  }
}

}  // namespace mercer
