// Products of points whose coordinates are whole numbers times one step, in whole numbers.
#pragma once

#include <optional>

#include "core.hpp"

namespace mercer {

// m points y = step · q with whole |q| ≤ most, in panels of groups of coordinates, 4 bytes each:
// two numbers of 16 bits or, where all 0 ≤ q ≤ 255 and the processor multiplies bytes, four times
// q - 128. Group t of point j begins at panels[((j / width · groups + t) · width + j % width) · 4].
struct WholePoints {
  Index m = 0, d = 0, groups = 0, most = 0;
  double step = 1;
  bool bytes = false;
  Buffer<std::int8_t> panels;
  std::vector<std::int32_t> squares;  // Σₜ qₜ², whole panels

  // None where a coordinate is not a whole number of steps, or too many of them: sums of d products
  // and distances stay below 2³¹.
  static std::optional<WholePoints> of(const double* y, Index m, Index d, double step);
};

// out[i·m + j] = k(xᵢ, yⱼ) for kernels of products and of squared distances, of the rows x that are
// whole numbers of steps; done[i] says which these are. Σ is exact. Rows so long that k would show
// the last digits of x are left out too.
void whole_block(const Recipe& recipe, const double* x, Index n, const WholePoints& Y, double* out,
                 bool* done, const Poll& poll);

// What whole_loops.cpp gives for one instruction set.
struct WholeLoops {
  const char* name;
  Index width;  // points in a panel
  // q = x / step for d coordinates, zeros beyond up to a whole group; false, and zeros, where one
  // is not whole, or is more than `most`.
  bool (*row)(const double* x, Index d, double step, Index most, std::int16_t* q);
  // sums[i·ld + j] = Σₜ qᵢₜ pⱼₜ for `rows` rows q and one panel p, in groups.
  void (*products)(const std::int16_t* q, Index rows, Index groups, const std::int8_t* panel,
                   std::int32_t* sums, Index ld);
  // The same of bytes, q from 0 to 255 and p from -128 to 127; null where there is no instruction.
  void (*byte_products)(const std::uint8_t* q, Index rows, Index groups, const std::int8_t* panel,
                        std::int32_t* sums, Index ld);
};

}  // namespace mercer
