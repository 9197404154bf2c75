// Coordinate descent on explicit features: a quadratic over sparse rows in a box.
//
//   minimise over β   ½‖Φᵀβ‖² - targetᵀβ + Σ tube|β|,   low ≤ β ≤ high,
//                     the β of each group summing to its total.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "sparse_rows.hpp"

namespace mercer {

struct FeatureQuadratic {
  std::span<const std::int32_t> place;  // the row of each variable; empty for its own
  std::span<const double> target, low, high;
  std::span<const double> tube;         // empty for 0
  std::span<const std::uint8_t> group;  // empty for one group
  std::span<const double> total;        // of each group; empty for no such condition
  std::span<const double> square;       // ‖φ‖² of each row
  double sigma = 0;                     // price of (Σβ - total)²/2
};

// What descent keeps from one call to the next.
struct DescentState {
  explicit DescentState(Index n, std::uint64_t seed_ = 0);

  static constexpr int most_ways = 2;
  // The variables; those from `active` on are left out, the others ascend.
  std::vector<std::int32_t> order;
  Index active;    // all of them at first
  double allowed;  // a slope beyond which a variable at a kink is left out; infinite at first
  double checked;  // the largest violation when all variables were last looked at
  std::uint64_t seed;
  // The ways of the last passes: how far they moved β, for the first `reach` of the order, and w.
  struct Way {
    Buffer<double> moved, pulled;
    Index reach = 0;
  };
  std::array<Way, most_ways> way;
  Buffer<double> trial;  // w where a way would lead
  int ways = 0, latest = 0;
  int since = 0;  // the latest way began: passes
  std::int64_t passes = 0;
};

// Moves beta and w = Φᵀβ, and the levels rho by the method of multipliers. Variables that are at a
// kink, and pulled to it by more than the largest violation of the pass before, are left out until
// the others agree. After each pass all variables go on along the ways of the last few passes, to
// where the objective is least: what conjugate gradients do, with a pass as their preconditioner.
// Ends when no slope of all variables is off by more than tol, or after `work` entries of Φ have
// been read; returns the largest violation of the last pass, whether that was one over all
// variables, and how much was read.
struct Descended {
  double violation;
  bool complete;
  std::int64_t read;
};
Descended descend(const SparseRows& rows, const FeatureQuadratic& problem, std::span<double> beta,
                  std::span<double> w, std::span<double> rho, DescentState& state, double tol,
                  std::int64_t work, const Poll& poll = {});

}  // namespace mercer
