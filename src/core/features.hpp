// Coordinate descent on explicit features: a quadratic over sparse rows in a box.
//
//   minimise over β   ½‖Φᵀβ‖² - targetᵀβ + Σ tube|β|,   low ≤ β ≤ high,
//                     the β of each group summing to its total.
#pragma once

#include <cstdint>
#include <span>

#include "core.hpp"

namespace mercer {

// Rows of Φ, compressed.
struct SparseRows {
  std::span<const std::int32_t> begin;  // of each row, and the end of the last
  std::span<const std::int32_t> column;
  std::span<const double> entry;
};

struct FeatureQuadratic {
  SparseRows rows;
  std::span<const double> target, low, high;
  std::span<const double> tube;         // empty for 0
  std::span<const std::uint8_t> group;  // empty for one group
  std::span<const double> total;        // of each group; empty for no such condition
  std::span<const double> square;       // ‖φ‖² of each row
  double sigma = 0;                     // price of (Σβ - total)²/2
};

// Moves beta and w = Φᵀβ, and the levels rho by the method of multipliers. Variables that are at a
// kink, and pulled to it by more than the largest violation of the pass before, are left out until
// the others agree. Ends when no slope of all variables is off by more than tol, or after `work`
// entries of Φ have been read; returns the largest violation of the last pass, whether that was one
// over all variables, and how much was read.
struct Descended {
  double violation;
  bool complete;
  std::int64_t read;
};
// Which variables are left out, from one call to the next: those of `order` from `active` on.
struct Shrunk {
  Index active;    // all of them at first
  double allowed;  // a slope beyond which a variable at a kink is left out; infinite at first
};

Descended descend(const FeatureQuadratic& problem, std::span<double> beta, std::span<double> w,
                  std::span<double> rho, std::span<std::int32_t> order, Shrunk& shrunk, double tol,
                  std::int64_t work, std::uint64_t seed, const Poll& poll = {});

}  // namespace mercer
