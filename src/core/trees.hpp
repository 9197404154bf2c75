// Kernels that compare two trees by the fragments they share.
#pragma once

#include <span>
#include <vector>

#include "core.hpp"

namespace mercer {

// Trees in preorder, one after the other. A node is its place in that order.
struct Forest {
  std::vector<Index> start;               // trees + 1; tree t is nodes [start[t], start[t + 1])
  std::vector<std::int32_t> label;        // equal numbers for equal labels
  std::vector<std::int32_t> child_start;  // nodes + 1; child[child_start[v], child_start[v + 1])
  std::vector<std::int32_t> child;        // from left to right
  std::vector<std::int32_t> production;   // equal where the labels of a node and of its children
                                          // are; -1 for leaves
  std::int32_t labels = 0, productions = 0, widest = 0;  // how many; the most children of a node

  // std::invalid_argument if the numbers of children do not make trees.
  static Forest of(std::span<const std::int32_t> label, std::span<const std::int32_t> arity,
                   std::span<const Index> start);
  Index trees() const { return static_cast<Index>(start.size()) - 1; }
  std::int32_t arity(std::int32_t v) const { return child_start[v + 1] - child_start[v]; }
};

struct HashOfNumbers {
  std::size_t operator()(const std::vector<std::int32_t>& numbers) const {
    std::uint64_t h = numbers.size();
    for (std::int32_t x : numbers) {
      h = (h ^ static_cast<std::uint32_t>(x)) * 0x9E3779B97F4A7C15u;
      h ^= h >> 29;
    }
    return h;
  }
};

enum class Fragment {
  subset,  // whole productions, each worth decay (Collins and Duffy)
  partial  // any nodes with their ancestors, each worth decay; gap per child spanned (Moschitti)
};

struct TreeRule {
  Fragment fragment = Fragment::subset;
  double decay = 1, gap = 1;
  double most_pairs = 1e7;  // of matching nodes in two trees: more are refused
  bool logarithm = false;   // ln k instead of k, also where k is no double
};

// The first pair of trees, in the order of the rows, that was refused.
struct Refusal {
  Index row = -1, column = -1;  // -1: none was
  double pairs = 0;
  double log_value = 0;  // ln k where that overflows, 0 where there were too many pairs
};

// out[i·(trees - n) + j] = k(tree i, tree n + j), i < n; where n is the number of trees,
// out[i·n + j] = k(tree i, tree j), symmetric bit for bit.
Refusal tree_block(const Forest&, const TreeRule&, Index n, double* out, const Poll& = {});

// out[i] = k(tree i, tree i).
Refusal tree_diag(const Forest&, const TreeRule&, double* out, const Poll& = {});

}  // namespace mercer
