// Collins and Duffy, NIPS 14 (2001), with the productions grouped as in Moschitti, EACL 2006: only
// pairs of nodes that match are ever looked at. Partial trees: Moschitti, ECML 2006, here with the
// sum over all lengths of child sequences in one pass.
#include "trees.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <unordered_map>

#include "frames.hpp"
#include "pairs.hpp"
#include "threads.hpp"
#include "wide.hpp"

namespace mercer {
namespace {

constexpr Index columns_per_task = 32;
// From so many rows on finding the frames takes less than they save.
constexpr Index least_rows = 8;
// Below this a sum of up to 10⁷ terms may have lost some of them to underflow.
constexpr double smallest_trusted = 1e-290;

// What decides whether two nodes match, and the nodes of each tree sorted by it.
struct Groups {
  std::span<const std::int32_t> key;  // -1 matches nothing
  std::int32_t keys = 0;
  std::vector<std::int32_t> order;  // the nodes of each tree by (key, place)
  std::vector<std::int32_t> rank;   // place of a node among those of its tree with its key

  Groups(const Forest& forest, Fragment fragment)
      : key(fragment == Fragment::subset ? forest.production : forest.label),
        keys(fragment == Fragment::subset ? forest.productions : forest.labels),
        order(key.size()),
        rank(key.size()) {
    std::iota(order.begin(), order.end(), 0);
    for (Index t = 0; t < forest.trees(); ++t) {
      auto from = order.begin() + forest.start[t], to = order.begin() + forest.start[t + 1];
      std::stable_sort(from, to, [&](auto a, auto b) { return key[a] < key[b]; });
      for (auto at = from; at != to; ++at) {
        rank[*at] = at != from && key[at[-1]] == key[*at] ? rank[at[-1]] + 1 : 0;
      }
    }
  }
};

// The children of each node sorted by (label, place), for nodes with many children.
std::vector<std::int32_t> children_by_label(const Forest& forest) {
  std::vector<std::int32_t> sorted = forest.child;
  for (std::size_t v = 0; v + 1 < forest.child_start.size(); ++v) {
    std::stable_sort(sorted.begin() + forest.child_start[v],
                     sorted.begin() + forest.child_start[v + 1],
                     [&](auto a, auto b) { return forest.label[a] < forest.label[b]; });
  }
  return sorted;
}

// What all workers share.
struct Shared {
  const Forest& forest;
  const TreeRule& rule;
  Groups groups;
  std::vector<std::int32_t> by_label;  // partial only
  std::optional<Frames> frames;        // where one tree is compared with many at once

  Shared(const Forest& f, const TreeRule& r) : forest(f), rule(r), groups(f, r.fragment) {
    if (rule.fragment == Fragment::partial) by_label = children_by_label(forest);
  }
  // Whether two trees could have more matching pairs than are allowed.
  bool many(Index a, Index b) const {
    auto nodes = [&](Index t) {
      return static_cast<double>(forest.start[t + 1] - forest.start[t]);
    };
    return nodes(a) * nodes(b) > rule.most_pairs;
  }
};

// The nodes of one tree, found by their key.
struct Found {
  std::vector<std::int32_t> first, size;  // by key: a run of Groups::order

  void enter(const Shared& shared, Index tree) {
    const Groups& g = shared.groups;
    first.resize(g.keys);
    size.resize(g.keys, 0);
    for (Index at = shared.forest.start[tree]; at < shared.forest.start[tree + 1]; ++at) {
      std::int32_t key = g.key[g.order[at]];
      if (key >= 0 && size[key]++ == 0) first[key] = static_cast<std::int32_t>(at);
    }
  }
  void leave(const Shared& shared, Index tree) {
    for (Index v = shared.forest.start[tree]; v < shared.forest.start[tree + 1]; ++v) {
      if (shared.groups.key[v] >= 0) size[shared.groups.key[v]] = 0;
    }
  }
};

// k of two trees in numbers N: double, or Wide where that is not enough.
template <class N>
class Comparison {
 public:
  explicit Comparison(const Shared& shared)
      : forest_(shared.forest),
        groups_(shared.groups),
        by_label_(shared.by_label),
        decay_(shared.rule.decay),
        gap_(shared.rule.gap),
        square_(gap_ * gap_) {}

  // Tree `a` against the tree entered in `found`; `offset[v]` is where the values of node v of `a`
  // begin, one for each node of its group in the other tree.
  N operator()(Fragment fragment, Index a, const Found& found, const std::vector<Index>& offset,
               Index pairs) {
    values_.resize(static_cast<std::size_t>(pairs));
    origin_ = forest_.start[a];
    offset_ = offset.data();
    N total(0);
    // Children have higher places than their parents.
    for (Index at = forest_.start[a + 1]; at-- > origin_;) {
      auto v = static_cast<std::int32_t>(at);
      std::int32_t key = groups_.key[v];
      if (key < 0 || found.size[key] == 0) continue;
      N sum(0);
      N* value = values_.data() + offset_[at - origin_];
      const std::int32_t* other = groups_.order.data() + found.first[key];
      for (std::int32_t r = 0; r < found.size[key]; ++r) {
        value[r] = fragment == Fragment::subset ? subset(v, other[r]) : partial(v, other[r]);
        sum = sum + value[r];
      }
      total = total + sum;
    }
    return total;
  }

 private:
  bool match(std::int32_t v, std::int32_t w) const {
    return groups_.key[v] >= 0 && groups_.key[v] == groups_.key[w];
  }
  const N& value(std::int32_t v, std::int32_t w) const {
    return values_[offset_[v - origin_] + groups_.rank[w]];
  }

  // decay · Π (1 + value of the children)
  N subset(std::int32_t v, std::int32_t w) const {
    N product = decay_;
    const std::int32_t* a = forest_.child.data() + forest_.child_start[v];
    const std::int32_t* b = forest_.child.data() + forest_.child_start[w];
    for (std::int32_t k = forest_.arity(v); k-- > 0; ++a, ++b) {
      if (match(*a, *b)) product = product * (N(1) + value(*a, *b));
    }
    return product;
  }

  // decay · (gap² + Σ over sequences of children of gap^(both spans) · Π values)
  N partial(std::int32_t v, std::int32_t w) {
    std::int32_t a = forest_.arity(v), b = forest_.arity(w);
    if (a == 0 || b == 0) return decay_ * square_;
    if (static_cast<Index>(a) * b > 1024) {
      double matches = count_matches(v, w);
      if (matches * 8 * std::log2(b + 1.0) < static_cast<double>(a) * b) {
        return decay_ * (square_ + sparse_sequences(v, w));
      }
    }
    return decay_ * (square_ + dense_sequences(v, w));
  }

  // ends_[j] = Σ S(i', j') gap^(i - i' + j - j') over i' ≤ i, j' ≤ j, where S(i, j) sums the
  // sequences that end in child i of v and child j of w.
  N dense_sequences(std::int32_t v, std::int32_t w) {
    std::int32_t a = forest_.arity(v), b = forest_.arity(w);
    const std::int32_t* left = forest_.child.data() + forest_.child_start[v];
    const std::int32_t* right = forest_.child.data() + forest_.child_start[w];
    ends_.assign(b, N(0));
    N total(0);
    for (std::int32_t i = 0; i < a; ++i) {
      N before(0), row(0);  // of row i - 1 and column j - 1; of row i so far
      for (std::int32_t j = 0; j < b; ++j) {
        row = row * gap_;
        if (match(left[i], right[j])) {
          N S = square_ * value(left[i], right[j]) * (N(1) + before);
          total = total + S;
          row = row + S;
        }
        before = ends_[j];
        ends_[j] = row + gap_ * before;
      }
    }
    return total;
  }

  std::span<const std::int32_t> alike(std::int32_t v, std::int32_t w) const {
    auto label = [this](std::int32_t x, std::int32_t y) {
      return forest_.label[x] < forest_.label[y];
    };
    auto from = by_label_.begin() + forest_.child_start[w];
    auto to = by_label_.begin() + forest_.child_start[w + 1];
    auto [first, last] = std::equal_range(from, to, v, label);
    return {first, last};
  }

  double count_matches(std::int32_t v, std::int32_t w) const {
    double count = 0;
    for (std::int32_t k = forest_.child_start[v]; k < forest_.child_start[v + 1]; ++k) {
      count += static_cast<double>(alike(forest_.child[k], w).size());
    }
    return count;
  }

  // The same sum over matching children only: ends_[q] of a Fenwick tree holds the columns
  // (q - lowbit(q), q] as they were in row stamp_[q], seen from column q.
  N sparse_sequences(std::int32_t v, std::int32_t w) {
    std::int32_t a = forest_.arity(v), b = forest_.arity(w);
    ends_.assign(b + 1, N(0));
    stamp_.assign(b + 1, 0);
    prepare_powers(std::max(a, b));
    N total(0);
    std::vector<std::pair<std::int32_t, N>> row;
    for (std::int32_t i = 1; i <= a; ++i) {
      row.clear();
      std::int32_t c = forest_.child[forest_.child_start[v] + i - 1];
      for (std::int32_t d : alike(c, w)) {
        std::int32_t p = place(d, w);
        N before(0);
        for (std::int32_t q = p; q > 0; q &= q - 1) {
          if (stamp_[q]) before = before + ends_[q] * power_[i - 1 - stamp_[q]] * power_[p - q];
        }
        row.emplace_back(p + 1, square_ * value(c, d) * (N(1) + before));
        total = total + row.back().second;
      }
      for (const auto& [p, S] : row) {
        for (std::int32_t q = p; q <= b; q += q & -q) {
          ends_[q] = (stamp_[q] ? ends_[q] * power_[i - stamp_[q]] : N(0)) + S * power_[q - p];
          stamp_[q] = i;
        }
      }
    }
    return total;
  }

  // How many brothers stand before child d of w.
  std::int32_t place(std::int32_t d, std::int32_t w) const {
    auto from = forest_.child.begin() + forest_.child_start[w];
    return static_cast<std::int32_t>(
        std::lower_bound(from, forest_.child.begin() + forest_.child_start[w + 1], d) - from);
  }

  void prepare_powers(std::int32_t highest) {
    if (power_.empty()) power_.push_back(N(1));
    while (static_cast<std::int32_t>(power_.size()) <= highest) {
      power_.push_back(power_.back() * gap_);
    }
  }

  const Forest& forest_;
  const Groups& groups_;
  const std::vector<std::int32_t>& by_label_;
  N decay_, gap_, square_;
  std::vector<N> values_, ends_, power_;
  std::vector<std::int32_t> stamp_;
  Index origin_ = 0;
  const Index* offset_ = nullptr;
};

// One thread's room, and one pair of trees after the other in it.
struct Worker {
  const Shared& shared;
  Found found;
  std::vector<Index> offset;
  Comparison<double> plain;
  Comparison<Wide> scaled;
  std::optional<FrameRow> frames;

  explicit Worker(const Shared& s) : shared(s), plain(s), scaled(s) {
    if (shared.frames) frames.emplace(*shared.frames, shared.rule.decay);
  }

  // The same of two trees by their frames; false if that is not to be had, or not to be trusted.
  bool framed(Index row, Index column, double& out) {
    double value = 0;
    if (!frames || shared.many(row, column) || !frames->value(row, column, value)) return false;
    // A pair of nodes that matches is worth decay at least.
    bool nothing = value == 0 && shared.rule.decay > smallest_trusted;
    if (!nothing && !(std::isfinite(value) && value > smallest_trusted)) return false;
    out = shared.rule.logarithm ? std::log(value) : value;
    return true;
  }

  // k (or its logarithm) of tree a and the tree entered in `found`; false if it is refused.
  bool compare(Index a, double& out, Refusal& refusal) {
    const Forest& forest = shared.forest;
    Index from = forest.start[a], nodes = forest.start[a + 1] - from, pairs = 0;
    offset.resize(static_cast<std::size_t>(nodes));
    for (Index k = 0; k < nodes; ++k) {
      offset[k] = pairs;
      std::int32_t key = shared.groups.key[from + k];
      if (key >= 0) pairs += found.size[key];
    }
    const TreeRule& rule = shared.rule;
    refusal.pairs = static_cast<double>(pairs);
    if (refusal.pairs > rule.most_pairs) return false;
    if (pairs == 0) {
      out = rule.logarithm ? -std::numeric_limits<double>::infinity() : 0;
      return true;
    }
    double value = plain(rule.fragment, a, found, offset, pairs);
    if (std::isfinite(value) && value > smallest_trusted) {
      out = rule.logarithm ? std::log(value) : value;
      return true;
    }
    Wide exact = scaled(rule.fragment, a, found, offset, pairs);
    out = rule.logarithm ? exact.log() : exact.value();
    refusal.log_value = exact.log();
    return !std::isinf(out);
  }
};

// A tree that others are compared with, entered from the first one that needs it as long as this
// lives.
class Entered {
 public:
  Entered(Worker& worker, Index tree) : worker_(worker), tree_(tree) {}
  ~Entered() {
    if (entered_) worker_.found.leave(worker_.shared, tree_);
  }
  Entered(const Entered&) = delete;
  Entered& operator=(const Entered&) = delete;
  bool operator()(Index other, double& value, Refusal& refusal) {
    if (worker_.framed(tree_, other, value)) return true;
    if (!entered_) worker_.found.enter(worker_.shared, tree_);
    entered_ = true;
    return worker_.compare(other, value, refusal);
  }

 private:
  Worker& worker_;
  Index tree_;
  bool entered_ = false;
};

Refusal compare_all(const PairBlock& block, const Shared& shared, double* out, const Poll& poll) {
  int count = threads();
  std::vector<Worker> workers;
  workers.reserve(static_cast<std::size_t>(count));
  for (int w = 0; w < count; ++w) workers.emplace_back(shared);
  auto start = [&](int w, Index row) { return Entered(workers[static_cast<std::size_t>(w)], row); };
  return block.fill<Refusal>(out, count, start, poll);
}

}  // namespace

Forest Forest::of(std::span<const std::int32_t> label, std::span<const std::int32_t> arity,
                  std::span<const Index> start) {
  constexpr auto most = static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max());
  auto check = [](bool right) {
    if (!right) {
      throw std::invalid_argument(
          "A forest needs a label >= 0 and a number of children for each of fewer than 2**31 "
          "nodes, in preorder, and where each tree begins.");
    }
  };
  check(label.size() == arity.size() && label.size() < most && !start.empty() && start[0] == 0 &&
        start.back() == static_cast<Index>(label.size()));
  Forest forest;
  forest.start.assign(start.begin(), start.end());
  forest.label.assign(label.begin(), label.end());
  forest.child_start.assign(label.size() + 1, 0);
  for (std::size_t v = 0; v < label.size(); ++v) {
    check(arity[v] >= 0 && label[v] >= 0 && arity[v] < static_cast<Index>(label.size()));
    forest.child_start[v + 1] = forest.child_start[v] + arity[v];
    check(forest.child_start[v + 1] >= forest.child_start[v]);
    forest.labels = std::max(forest.labels, label[v] + 1);
    forest.widest = std::max(forest.widest, arity[v]);
  }
  forest.child.resize(static_cast<std::size_t>(forest.child_start.back()));
  forest.production.assign(label.size(), -1);
  std::unordered_map<std::vector<std::int32_t>, std::int32_t, HashOfNumbers> known;
  std::vector<std::int32_t> open, key;  // nodes whose parent is still to come, the last one on top
  for (Index t = 0; t < forest.trees(); ++t) {
    check(forest.start[t] < forest.start[t + 1]);
    open.clear();
    for (Index v = forest.start[t + 1]; v-- > forest.start[t];) {
      auto children = static_cast<std::size_t>(arity[v]);
      check(children <= open.size());
      key.assign(1, label[v]);
      for (std::size_t k = 0; k < children; ++k) {
        std::int32_t c = open[open.size() - 1 - k];
        forest.child[forest.child_start[v] + k] = c;
        key.push_back(label[c]);
      }
      open.resize(open.size() - children);
      open.push_back(static_cast<std::int32_t>(v));
      if (children > 0) {
        auto next = static_cast<std::int32_t>(known.size());
        forest.production[v] = known.try_emplace(key, next).first->second;
      }
    }
    check(open.size() == 1);
  }
  forest.productions = static_cast<std::int32_t>(known.size());
  return forest;
}

Refusal tree_block(const Forest& forest, const TreeRule& rule, Index n, double* out,
                   const Poll& poll) {
  Shared shared(forest, rule);
  Index columns = columns_per_task;
  if (rule.fragment == Fragment::subset && n >= least_rows) {
    shared.frames.emplace(forest, n == forest.trees() ? 0 : n);
    columns = Frames::columns_per_span(forest);
  }
  return compare_all(PairBlock::of(n, forest.trees(), columns), shared, out, poll);
}

Refusal tree_diag(const Forest& forest, const TreeRule& rule, double* out, const Poll& poll) {
  return compare_all(PairBlock::diagonal(forest.trees()), Shared(forest, rule), out, poll);
}

}  // namespace mercer
