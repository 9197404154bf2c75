// The map of the weighted degree kernel: stretches of tokens at their places.
//
// At each place the stretches of all rows are a trie. Those that the same rows have (a node with
// one child) are one column, and those that no other row has are a part of the row's own column:
// ΦΦᵀ is the same, with fewer entries and much fewer columns. The nodes that are left are where
// neighbours among the sorted stretches begin to differ.
//
// SparseRows lists the columns of every row; PlacedTries keeps the tries themselves, which are
// smaller, and whose products with vectors read each node once and then one number for every
// row and place.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <stdexcept>

#include "pairs.hpp"
#include "strings.hpp"
#include "threads.hpp"

namespace mercer {
namespace {

constexpr Index places_of_task = 16, rows_of_task = 4096;
constexpr std::size_t often = 16;  // rows of a node, in the mean over its level
constexpr std::int32_t none = -1;

// Stretches that some rows have in common, from the depth of the parent to that of the node.
struct Node {
  std::int32_t parent, column;       // of this place; none where the weights are 0
  std::uint8_t depth, code, length;  // entries of the path to it
};

struct Trie {
  std::vector<Node> node;
  std::vector<std::int32_t> deepest;  // of each row; none where it is alone, or has ended
  std::int32_t columns = 0;
};

class Tries {
 public:
  Tries(const Sequences& X, std::span<const double> weights)
      : X_(X), degree_(static_cast<int>(weights.size())) {
    Index shortest = X.n > 0 ? X.size(0) : 0;
    for (Index i = 0; i < X.n; ++i) {
      longest_ = std::max(longest_, X.size(i));
      shortest = std::min(shortest, X.size(i));
    }
    // 0 stands for the end where sequences do not end together.
    ends_ = shortest < longest_;
    const std::int32_t largest = std::max(1, X.alphabet - (ends_ ? 0 : 1));
    bits_ = static_cast<int>(std::bit_width(static_cast<std::uint32_t>(largest)));
    if (degree_ > most_degrees || bits_ * degree_ > 64) {
      throw std::invalid_argument("The tokens of a stretch do not fit into 64 bits.");
    }
    for (int b = 1; b <= degree_; ++b) {
      for (int a = 0; a < b; ++a) {
        table_.push_back(std::sqrt(between(weights, a, b)));
        squares_.push_back(between(weights, a, b));
      }
    }
  }

  const std::vector<double>& table() const { return table_; }
  Index places() const { return longest_; }

  // Σ of the weights of the lengths a + 1..b.
  double square(int a, int b) const { return a < b ? squares_[code(a, b)] : 0.0; }

  // How long the stretches of a row at a place can be.
  int room(Index row, Index place) const {
    return static_cast<int>(std::clamp<Index>(X_.size(row) - place, 0, degree_));
  }

  // Buffers of one thread.
  struct Item {
    std::uint64_t key;
    std::int32_t row;
  };
  struct Scratch {
    std::vector<std::uint64_t> key;
    std::vector<Item> item, other;
    std::vector<std::int32_t> stack;
    std::array<std::vector<std::int32_t>, 65> of_depth;
  };

  // The tries of some places that follow each other.
  // If `by_level`, parents come before their children.
  void build(Index from, Index to, bool by_level, std::vector<Trie>& tries,
             Scratch& scratch) const {
    scratch.key.assign(static_cast<std::size_t>(X_.n), 0);
    for (Index i = 0; i < X_.n; ++i) {
      for (int r = 0; r + 1 < degree_; ++r) append(scratch.key[i], i, from + r);
    }
    for (Index place = from; place < to; ++place) {
      scratch.item.clear();
      for (Index i = 0; i < X_.n; ++i) {
        append(scratch.key[i], i, place + degree_ - 1);
        if (X_.size(i) > place) {
          scratch.item.push_back({scratch.key[i], static_cast<std::int32_t>(i)});
        }
      }
      sort(scratch);
      link(place, tries[static_cast<std::size_t>(place)], scratch);
      arrange(by_level, tries[static_cast<std::size_t>(place)], scratch);
      finish(tries[static_cast<std::size_t>(place)], scratch);
    }
  }

 private:
  static constexpr int most_degrees = 22;  // pairs of depths have codes of one byte

  static double between(std::span<const double> weights, int a, int b) {
    return std::accumulate(weights.begin() + a, weights.begin() + b, 0.0);
  }
  static std::uint8_t code(int a, int b) { return static_cast<std::uint8_t>(b * (b - 1) / 2 + a); }

  void append(std::uint64_t& key, Index row, Index place) const {
    std::uint64_t digit = 0;
    if (place < X_.size(row)) {
      digit = static_cast<std::uint64_t>(X_.token[X_.start[row] + place]) + (ends_ ? 1 : 0);
    }
    key = key << bits_ | digit;
    if (bits_ * degree_ < 64) key &= (std::uint64_t{1} << bits_ * degree_) - 1;
  }

  // By the keys, rows with equal ones as they were.
  void sort(Scratch& scratch) const {
    constexpr int digit = 11;
    auto& [key, item, other, stack, of_depth] = scratch;
    other.resize(item.size());
    for (int shift = 0; shift < bits_ * degree_; shift += digit) {
      std::array<std::size_t, std::size_t{1} << digit> at{};
      auto of = [&](const Item& one) { return one.key >> shift & (at.size() - 1); };
      for (const Item& one : item) ++at[of(one)];
      std::size_t sum = 0;
      for (std::size_t& begin : at) begin = std::exchange(sum, sum + begin);
      for (const Item& one : item) other[at[of(one)]++] = one;
      item.swap(other);
    }
  }

  // How many tokens two stretches have in common from their beginning.
  int common(Index place, const Item& a, const Item& b) const {
    const int room_of_both = std::min(room(a.row, place), room(b.row, place));
    const std::uint64_t differ = a.key ^ b.key;
    if (differ == 0) return room_of_both;
    const int equal = (std::countl_zero(differ) - (64 - bits_ * degree_)) / bits_;
    return std::min(equal, room_of_both);
  }

  // The nodes and their parents: a node lasts as long as neighbours have its depth in common.
  void link(Index place, Trie& trie, Scratch& scratch) const {
    auto& [key, item, other, stack, of_depth] = scratch;
    trie.deepest.assign(static_cast<std::size_t>(X_.n), none);
    auto& node = trie.node;
    stack.clear();
    int before = 0;
    for (std::size_t k = 1; k <= item.size(); ++k) {
      const int depth = k < item.size() ? common(place, item[k - 1], item[k]) : 0;
      const auto row = static_cast<std::size_t>(item[k - 1].row);
      if (depth < before) trie.deepest[row] = stack.back();
      std::int32_t last = none;
      while (!stack.empty() && node[stack.back()].depth > depth) {
        last = stack.back();
        stack.pop_back();
        node[last].parent = stack.empty() ? none : stack.back();
      }
      if (depth > 0 && (stack.empty() || node[stack.back()].depth < depth)) {
        const auto fresh = static_cast<std::int32_t>(node.size());
        if (last != none) node[last].parent = fresh;
        node.push_back({none, none, static_cast<std::uint8_t>(depth), 0, 0});
        stack.push_back(fresh);
      }
      if (depth >= before && depth > 0) trie.deepest[row] = stack.back();
      before = depth;
    }
  }

  // Nodes that many rows have level by level, the others as they are, next to those they lead to:
  // what is read often is together, and so is what is read one after another.
  void arrange(bool by_level, Trie& trie, Scratch& scratch) const {
    auto& [key, item, other, stack, of_depth] = scratch;
    auto& node = trie.node;
    for (auto& nodes : of_depth) nodes.clear();
    for (std::size_t k = 0; k < node.size(); ++k) {
      of_depth[node[k].depth].push_back(static_cast<std::int32_t>(k));
    }
    auto& rank = stack;
    rank.assign(node.size(), none);
    std::int32_t next = 0;
    for (const auto& nodes : of_depth) {
      if (!by_level && nodes.size() * often > item.size()) break;
      for (const std::int32_t k : nodes) rank[k] = next++;
    }
    for (std::int32_t& place : rank) {
      if (place == none) place = next++;
    }
    std::vector<Node> arranged(node.size());
    for (std::size_t k = 0; k < node.size(); ++k) {
      if (node[k].parent != none) node[k].parent = rank[node[k].parent];
      arranged[rank[k]] = node[k];
    }
    node.swap(arranged);
    for (std::int32_t& deepest : trie.deepest) {
      if (deepest != none) deepest = rank[deepest];
    }
    for (auto& nodes : of_depth) {
      for (std::int32_t& k : nodes) k = rank[k];
    }
  }

  // Columns for the nodes, and how many a path has.
  void finish(Trie& trie, Scratch& scratch) const {
    auto& node = trie.node;
    for (Node& one : node) {
      one.code = code(one.parent == none ? 0 : node[one.parent].depth, one.depth);
      if (table_[one.code] > 0) one.column = trie.columns++;
    }
    for (const auto& nodes : scratch.of_depth) {
      for (const std::int32_t k : nodes) {
        const int above = node[k].parent == none ? 0 : node[node[k].parent].length;
        node[k].length = static_cast<std::uint8_t>(above + (node[k].column != none));
      }
    }
  }

  const Sequences& X_;
  int degree_, bits_ = 1;
  bool ends_ = false;
  Index longest_ = 0;
  std::vector<double> table_, squares_;
};

// The rows that the tries list.
SparseRows::Parts listed(const Sequences& X, const Tries& tries, const std::vector<Trie>& built,
                         Stop& stop) {
  SparseRows::Parts parts;
  std::vector<Index> first(built.size());
  for (std::size_t place = 0; place < built.size(); ++place) {
    first[place] = parts.width;
    parts.width += built[place].columns;
  }
  if (parts.width > std::numeric_limits<std::int32_t>::max()) {
    throw std::invalid_argument("There are more columns than 32 bits can count.");
  }
  const Index tasks = (X.n + rows_of_task - 1) / rows_of_task;
  auto each_row = [&](const auto& use) {
    parallel(
        tasks, threads(),
        [&](Index task, int) {
          const Index begin = task * rows_of_task, end = std::min(X.n, begin + rows_of_task);
          for (std::size_t place = 0; place < built.size() && !stop.asked(); ++place) {
            for (Index i = begin; i < end; ++i) {
              use(i, place, built[place].deepest[static_cast<std::size_t>(i)]);
            }
          }
        },
        [&] { stop.poll(); });
  };
  parts.begin.assign(static_cast<std::size_t>(X.n) + 1, 0);
  parts.own.assign(static_cast<std::size_t>(X.n), 0.0);
  each_row([&](Index i, std::size_t place, std::int32_t deepest) {
    const Node* node = deepest == none ? nullptr : &built[place].node[deepest];
    const int room = tries.room(i, static_cast<Index>(place));
    parts.own[i] += tries.square(node ? node->depth : 0, room);
    if (node) parts.begin[i + 1] += node->length;
  });
  for (double& square : parts.own) square = std::sqrt(square);
  if (std::ranges::all_of(parts.own, [](double entry) { return entry == 0; })) parts.own.clear();
  std::partial_sum(parts.begin.begin(), parts.begin.end(), parts.begin.begin());
  parts.column.resize(static_cast<std::size_t>(parts.begin.back()));
  parts.code.resize(parts.column.size());
  std::vector<Index> at(parts.begin.begin(), parts.begin.end() - 1);
  each_row([&](Index i, std::size_t place, std::int32_t deepest) {
    for (std::int32_t k = deepest; k != none; k = built[place].node[k].parent) {
      const Node& node = built[place].node[k];
      if (node.column == none) continue;
      parts.column[at[i]] = static_cast<std::int32_t>(first[place] + node.column);
      parts.code[at[i]++] = node.code;
    }
  });
  parts.table = tries.table();
  return parts;
}

}  // namespace

SparseRows placed_stretches(const Sequences& X, std::span<const double> weights,
                            std::span<const double> factor, const Poll& poll) {
  const Tries tries(X, weights);
  std::vector<Trie> built(static_cast<std::size_t>(tries.places()));
  std::vector<Tries::Scratch> scratch(static_cast<std::size_t>(threads()));
  Stop stop(poll);
  parallel((tries.places() + places_of_task - 1) / places_of_task, static_cast<int>(scratch.size()),
           [&](Index task, int worker) {
             const Index begin = task * places_of_task;
             if (stop.asked()) return;
             tries.build(begin, std::min(tries.places(), begin + places_of_task), false, built,
                         scratch[static_cast<std::size_t>(worker)]);
           },
           [&] { stop.poll(); });
  SparseRows::Parts parts = listed(X, tries, built, stop);
  parts.factor.assign(factor.begin(), factor.end());
  return SparseRows(std::move(parts));
}

PlacedTries::PlacedTries(const Sequences& X, std::span<const double> weights,
                         std::span<const double> factor, const Poll& poll)
    : n_(X.n), factor_(factor.begin(), factor.end()) {
  const Tries tries(X, weights);
  table_ = tries.table();
  place_.resize(static_cast<std::size_t>(tries.places()));
  std::vector<Tries::Scratch> scratch(static_cast<std::size_t>(threads()));
  // What is summed over the places of each task; the sums are added in their order.
  std::vector<std::vector<double>> own(static_cast<std::size_t>(tasks()));
  std::vector<Index> entries(own.size(), 0);
  Stop stop(poll);
  parallel(
      tasks(), static_cast<int>(scratch.size()),
      [&](Index task, int worker) {
        if (stop.asked()) return;
        std::vector<Trie> built(place_.size());
        const Index from = task * places_of_task;
        const Index to = std::min(tries.places(), from + places_of_task);
        tries.build(from, to, true, built, scratch[worker]);
        own[task].assign(static_cast<std::size_t>(n_), 0.0);
        each_place(task, [&](Index place) {
          Trie& trie = built[place];
          for (Index i = 0; i < n_; ++i) {
            const std::int32_t deepest = trie.deepest[i];
            const Node* node = deepest == none ? nullptr : &trie.node[deepest];
            own[task][i] += tries.square(node ? node->depth : 0, tries.room(i, place));
            if (node) entries[task] += node->length;
          }
          Place& kept = place_[place];
          for (const Node& node : trie.node) {
            kept.parent.push_back(node.parent + 1);
            kept.code.push_back(node.code);
          }
          kept.deepest = std::move(trie.deepest);
          for (std::int32_t& deepest : kept.deepest) ++deepest;  // none is 0
          trie.node = {};
        });
      },
      [&] { stop.poll(); });
  for (Place& place : place_) place.first = std::exchange(nodes_, nodes_ + place.size());
  own_.assign(static_cast<std::size_t>(n_), 0.0);
  for (std::size_t task = 0; task < own.size(); ++task) {
    for (Index i = 0; i < n_; ++i) own_[i] += own[task][i];
    entries_ += entries[task];
  }
  for (double& square : own_) square = std::sqrt(square);
}

void PlacedTries::times(std::span<const double> w, std::span<double> out, const Poll& poll) const {
  std::vector<std::vector<double>> part(static_cast<std::size_t>(tasks()));
  std::vector<std::vector<double>> sums(static_cast<std::size_t>(threads()));
  Stop stop(poll);
  parallel(
      tasks(), static_cast<int>(sums.size()),
      [&](Index task, int worker) {
        if (stop.asked()) return;
        part[task].assign(static_cast<std::size_t>(n_), 0.0);
        auto& sum = sums[worker];  // of the entries from the root to each node
        each_place(task, [&](Index at) {
          const Place& place = place_[at];
          sum.assign(1 + static_cast<std::size_t>(place.size()), 0.0);
          for (Index k = 0; k < place.size(); ++k) {
            sum[k + 1] = sum[place.parent[k]] + table_[place.code[k]] * w[place.first + k];
          }
          for (Index i = 0; i < n_; ++i) part[task][i] += sum[place.deepest[i]];
        });
      },
      [&] { stop.poll(); });
  for (Index i = 0; i < n_; ++i) {
    double total = own_[i] * w[nodes_ + i];
    for (const auto& some : part) total += some[i];
    out[i] = factor_.empty() ? total : factor_[i] * total;
  }
}

void PlacedTries::pull(std::span<const std::int32_t> index, std::span<const double> v,
                       std::span<double> out, const Poll& poll) const {
  std::vector<double> given(v.begin(), v.end());
  for (std::size_t k = 0; k < index.size(); ++k) {
    if (!factor_.empty()) given[k] *= factor_[index[k]];
    out[nodes_ + index[k]] += given[k] * own_[index[k]];
  }
  std::vector<std::vector<double>> sums(static_cast<std::size_t>(threads()));
  Stop stop(poll);
  parallel(
      tasks(), static_cast<int>(sums.size()),
      [&](Index task, int worker) {
        if (stop.asked()) return;
        auto& sum = sums[worker];  // over the rows below each node
        each_place(task, [&](Index at) {
          const Place& place = place_[at];
          sum.assign(1 + static_cast<std::size_t>(place.size()), 0.0);
          for (std::size_t k = 0; k < index.size(); ++k) {
            sum[place.deepest[index[k]]] += given[k];
          }
          for (Index k = place.size() - 1; k >= 0; --k) {
            out[place.first + k] += table_[place.code[k]] * sum[k + 1];
            sum[place.parent[k]] += sum[k + 1];
          }
        });
      },
      [&] { stop.poll(); });
}

std::size_t PlacedTries::bytes() const {
  std::size_t sum = 8 * (own_.size() + factor_.size());
  for (const Place& place : place_) {
    sum += 4 * (place.parent.size() + place.deepest.size()) + place.code.size();
  }
  return sum;
}

Index PlacedTries::tasks() const {
  return (static_cast<Index>(place_.size()) + places_of_task - 1) / places_of_task;
}

template <class Use>
void PlacedTries::each_place(Index task, const Use& use) const {
  const auto end = std::min(static_cast<Index>(place_.size()), (task + 1) * places_of_task);
  for (Index place = task * places_of_task; place < end; ++place) use(place);
}

}  // namespace mercer
