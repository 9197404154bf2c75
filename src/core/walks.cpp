// Vishwanathan et al., JMLR 11 (2010), section 4, by conjugate gradients. With r₀ = 1 and residuals
// rₜ the method's value after T steps is Σₜ step_t ‖rₜ‖², and what is left to 1ᵀM⁻¹1 is rᵀM⁻¹r
// (Hestenes and Stiefel 1952, theorem 6:1), here at most ‖r‖² / (1 - decay ρ), ρ the largest
// eigenvalue of the product. By Cauchy's and Schwarz's inequality ρ² ≤ ρ_G ρ_H, those of the two
// graphs with themselves.
#include "walks.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "pairs.hpp"
#include "threads.hpp"

namespace mercer {
namespace {

constexpr Index columns_per_task = 16;

// Σ a b in a fixed order, four sums side by side.
double inner(const std::vector<double>& a, const std::vector<double>& b) {
  std::array<double, 4> sum{};
  std::size_t i = 0;
  for (; i + 4 <= a.size(); i += 4) {
    for (std::size_t s = 0; s < 4; ++s) sum[s] += a[i + s] * b[i + s];
  }
  for (; i < a.size(); ++i) sum[0] += a[i] * b[i];
  return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

// The product of two graphs: its nodes are the pairs of nodes with equal labels, its arcs the pairs
// of arcs with equal labels between them, and its weights products. One room for each thread.
class Product {
 public:
  Product(const GraphSet& set, const WalkRule& rule, Stop& stop)
      : set_(set), rule_(rule), stop_(stop) {}

  // k of graphs g and h; false if the sum does not settle. `room`, ≤ 1 - decay ρ, is above 0.
  bool sum(Index g, Index h, double room, double& value) {
    g_ = g, h_ = h;
    written_ = set_.arcs(g) * set_.arcs(h) <= rule_.most_entries &&
               set_.nodes(g) * set_.nodes(h) <= rule_.most_entries;
    if (written_) {
      write();
    } else {
      open();
    }
    value = 0;
    direction_ = residual_;
    image_.resize(residual_.size());
    double square = inner(residual_, residual_);
    for (Index round = 0; square > 0; ++round) {
      if (stop_.asked()) return true;
      if (square <= rule_.tolerance * room * value) return true;
      if (round == rule_.most_rounds) return false;
      multiply();
      double curvature = inner(direction_, image_);
      if (!(curvature > 0)) return false;
      double step = square / curvature;
      value += step * square;
      for (std::size_t p = 0; p < residual_.size(); ++p) residual_[p] -= step * image_[p];
      double before = square;
      square = inner(residual_, residual_);
      double ratio = square / before;
      for (std::size_t p = 0; p < residual_.size(); ++p) {
        direction_[p] = residual_[p] + ratio * direction_[p];
      }
    }
    return std::isfinite(value);
  }

 private:
  bool weighted() const { return !set_.weight.empty(); }

  // The arcs of the product, one after the other.
  void write() {
    const std::int32_t *left = set_.label.data() + set_.start[g_],
                       *right = set_.label.data() + set_.start[h_];
    Index n = set_.nodes(g_), m = set_.nodes(h_);
    place_.resize(static_cast<std::size_t>(n * m));
    std::int32_t pairs = 0;
    for (Index u = 0; u < n; ++u) {
      for (Index v = 0; v < m; ++v) {
        bool alike = left[u] == right[v];
        place_[u * m + v] = alike ? pairs : -1;
        pairs += alike;
      }
    }
    residual_.assign(static_cast<std::size_t>(pairs), 1.0);
    begin_.resize(static_cast<std::size_t>(pairs) + 1);
    auto most = static_cast<std::size_t>(set_.arcs(g_) * set_.arcs(h_));
    if (to_.size() < most) to_.resize(most);
    if (weighted() && weight_.size() < most) weight_.resize(most);
    if (weighted()) {
      write_arcs<true, true>();
    } else if (set_.kinds > 1) {
      write_arcs<false, true>();
    } else {
      write_arcs<false, false>();
    }
  }

  template <bool with_weights, bool with_kinds>
  void write_arcs() {
    Index n = set_.nodes(g_), m = set_.nodes(h_);
    const Index *first = set_.first.data() + set_.start[g_],
                *other = set_.first.data() + set_.start[h_];
    const std::int32_t *near = set_.near.data(), *kind = set_.kind.data();
    const std::int32_t* place = place_.data();
    std::int32_t* to = to_.data();
    Index found = 0;
    for (Index u = 0; u < n; ++u) {
      for (Index v = 0; v < m; ++v) {
        if (place[u * m + v] < 0) continue;
        begin_[place[u * m + v]] = static_cast<std::int32_t>(found);
        for (Index a = first[u]; a < first[u + 1]; ++a) {
          const std::int32_t* row = place + near[a] * m;
          for (Index b = other[v]; b < other[v + 1]; ++b) {
            std::int32_t pair = row[near[b]];
            to[found] = pair;
            if constexpr (with_weights) weight_[found] = set_.weight[a] * set_.weight[b];
            // Kept, or written over by the next: which of the two is hard to foresee.
            bool kept = pair >= 0;
            if constexpr (with_kinds) kept &= kind[a] == kind[b];
            found += kept;
          }
        }
      }
    }
    begin_.back() = static_cast<std::int32_t>(found);
  }

  // Vectors on all pairs of nodes, 0 on those whose labels differ.
  void open() {
    Index n = set_.nodes(g_), m = set_.nodes(h_);
    residual_.assign(static_cast<std::size_t>(n * m), 0.0);
    for (Index u = 0; u < n; ++u) {
      for (Index v = 0; v < m; ++v) residual_[u * m + v] = alike(u, v) ? 1.0 : 0.0;
    }
    between_.resize(residual_.size());
  }

  bool alike(Index u, Index v) const {
    return set_.label[set_.start[g_] + u] == set_.label[set_.start[h_] + v];
  }

  // image = direction - decay A× direction.
  void multiply() {
    if (!written_) return multiply_open();
    const double* from = direction_.data();
    const std::int32_t* to = to_.data();
    for (std::size_t p = 0; p < direction_.size(); ++p) {
      double sum = 0;
      if (weighted()) {
        for (std::int32_t e = begin_[p]; e < begin_[p + 1]; ++e) sum += weight_[e] * from[to[e]];
      } else {
        for (std::int32_t e = begin_[p]; e < begin_[p + 1]; ++e) sum += from[to[e]];
      }
      image_[p] = from[p] - rule_.decay * sum;
    }
  }

  // A× Z = Σ over the labels of arcs of A Z B, restricted to the pairs; A and B sparse.
  void multiply_open() {
    Index n = set_.nodes(g_), m = set_.nodes(h_);
    const Index *first = set_.first.data() + set_.start[g_],
                *other = set_.first.data() + set_.start[h_];
    std::fill(image_.begin(), image_.end(), 0.0);
    for (std::int32_t kind = 0; kind < set_.kinds; ++kind) {
      for (Index u = 0; u < n && !stop_.asked(); ++u) {
        for (Index v = 0; v < m; ++v) {
          double sum = 0;
          for (Index b = other[v]; b < other[v + 1]; ++b) {
            if (set_.kind[b] != kind) continue;
            double weight = weighted() ? set_.weight[b] : 1.0;
            sum += weight * direction_[u * m + set_.near[b]];
          }
          between_[u * m + v] = sum;
        }
      }
      for (Index u = 0; u < n && !stop_.asked(); ++u) {
        for (Index a = first[u]; a < first[u + 1]; ++a) {
          if (set_.kind[a] != kind) continue;
          double weight = weighted() ? set_.weight[a] : 1.0;
          const double* row = between_.data() + set_.near[a] * m;
          for (Index v = 0; v < m; ++v) image_[u * m + v] += weight * row[v];
        }
      }
    }
    for (Index u = 0; u < n; ++u) {
      for (Index v = 0; v < m; ++v) {
        Index p = u * m + v;
        image_[p] = alike(u, v) ? direction_[p] - rule_.decay * image_[p] : 0.0;
      }
    }
  }

  const GraphSet& set_;
  const WalkRule& rule_;
  Stop& stop_;
  Index g_ = 0, h_ = 0;
  bool written_ = true;
  std::vector<double> residual_, direction_, image_, between_, weight_;
  std::vector<std::int32_t> place_, begin_, to_;
};

Unsettled sum_all(const PairBlock& block, const GraphSet& set, const WalkRule& rule,
                  std::span<const double> reach, double* out, const Poll& poll) {
  Stop stop(poll);
  int workers = threads();
  std::vector<Product> products(static_cast<std::size_t>(workers), Product(set, rule, stop));
  auto start = [&](int worker, Index g) {
    return [&, worker, g](Index h, double& value, Unsettled&) {
      if (stop.asked()) return true;  // what is written no longer matters
      double room = 1 - rule.decay * std::sqrt(reach[g] * reach[h]);
      return products[static_cast<std::size_t>(worker)].sum(g, h, room, value);
    };
  };
  return block.fill<Unsettled>(out, workers, start, [&] { stop.poll(); });
}

}  // namespace

GraphSet GraphSet::of(std::span<const Index> start, std::span<const std::int32_t> label,
                      std::span<const Index> first, std::span<const Index> near,
                      std::span<const std::int32_t> kind, std::span<const double> weight) {
  auto check = [](bool right) {
    if (!right) {
      throw std::invalid_argument(
          "Graphs need a label for each of fewer than 2**31 nodes, and for each arc where it goes, "
          "inside of its graph, a label >= 0 and a weight.");
    }
  };
  constexpr auto most = static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max());
  check(!start.empty() && start[0] == 0 && start.back() == static_cast<Index>(label.size()) &&
        label.size() < most && first.size() == label.size() + 1 && first[0] == 0 &&
        first.back() == static_cast<Index>(near.size()) && kind.size() == near.size() &&
        weight.size() == near.size());
  GraphSet set;
  set.near.reserve(near.size());
  for (std::size_t g = 0; g + 1 < start.size(); ++g) {
    check(start[g] <= start[g + 1] && start[g + 1] <= start.back());
    for (Index v = start[g]; v < start[g + 1]; ++v) {
      check(first[v] <= first[v + 1] && first[v + 1] <= first.back());
      for (Index a = first[v]; a < first[v + 1]; ++a) {
        check(start[g] <= near[a] && near[a] < start[g + 1] && kind[a] >= 0);
        set.near.push_back(static_cast<std::int32_t>(near[a] - start[g]));
        set.kinds = std::max(set.kinds, kind[a] + 1);
      }
    }
  }
  set.start.assign(start.begin(), start.end());
  set.label.assign(label.begin(), label.end());
  set.first.assign(first.begin(), first.end());
  set.kind.assign(kind.begin(), kind.end());
  if (std::any_of(weight.begin(), weight.end(), [](double w) { return w != 1; })) {
    set.weight.assign(weight.begin(), weight.end());
  }
  return set;
}

Unsettled walk_block(const GraphSet& set, const WalkRule& rule, std::span<const double> reach,
                     Index n, double* out, const Poll& poll) {
  return sum_all(PairBlock::of(n, set.graphs(), columns_per_task), set, rule, reach, out, poll);
}

Unsettled walk_diag(const GraphSet& set, const WalkRule& rule, std::span<const double> reach,
                    double* out, const Poll& poll) {
  return sum_all(PairBlock::diagonal(set.graphs()), set, rule, reach, out, poll);
}

}  // namespace mercer
