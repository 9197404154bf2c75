// Sums over the common walks of two graphs: the random walk kernel.
#pragma once

#include <span>
#include <vector>

#include "core.hpp"

namespace mercer {

// Undirected graphs side by side. A node is its place among the nodes of all graphs; an edge is two
// arcs, a loop one.
struct GraphSet {
  std::vector<Index> start;         // graphs + 1; graph g has the nodes [start[g], start[g + 1])
  std::vector<std::int32_t> label;  // of the nodes: equal numbers for equal labels
  std::vector<Index> first;         // nodes + 1; the arcs from v are [first[v], first[v + 1])
  std::vector<std::int32_t> near;   // where each arc goes, counted from the graph's first node
  std::vector<std::int32_t> kind;   // the label of each arc
  std::vector<double> weight;       // of each arc; empty where all are 1
  std::int32_t kinds = 0;           // how many labels of arcs there are

  // std::invalid_argument if an arc leaves its graph.
  static GraphSet of(std::span<const Index> start, std::span<const std::int32_t> label,
                     std::span<const Index> first, std::span<const Index> near,
                     std::span<const std::int32_t> kind, std::span<const double> weight);
  Index graphs() const { return static_cast<Index>(start.size()) - 1; }
  Index nodes(Index g) const { return start[g + 1] - start[g]; }
  Index arcs(Index g) const { return first[start[g + 1]] - first[start[g]]; }
};

struct WalkRule {
  double decay = 0;
  Index most_rounds = 10'000;
  double tolerance = 1e-15;      // of k, relative
  Index most_entries = 1 << 22;  // of a product that is written out
};

// The first pair of graphs, in the order of the rows, whose sum does not settle; -1: all do.
struct Unsettled {
  Index row = -1, column = -1;
};

// k = Σₙ decayⁿ 1ᵀ A×ⁿ 1 = 1ᵀ(I - decay A×)⁻¹ 1, A× the product of two graphs. reach[g] is at least
// the largest eigenvalue of the product of graph g with itself, and decay · reach[g] < 1; then k is
// off by at most tolerance · k, rounding apart. out as in `tree_block`.
Unsettled walk_block(const GraphSet&, const WalkRule&, std::span<const double> reach, Index n,
                     double* out, const Poll& = {});

// out[g] = k(graph g, graph g).
Unsettled walk_diag(const GraphSet&, const WalkRule&, std::span<const double> reach, double* out,
                    const Poll& = {});

}  // namespace mercer
