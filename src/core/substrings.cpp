// All substrings by a suffix automaton, and the counts of those of one length.
//
// Vishwanathan and Smola, NIPS 15 (2003): k(x, y) sums, over the ends of y, the weight of all
// substrings of x that end there. Blumer et al., Theoret. Comput. Sci. 40 (1985): the automaton.
#include <stdexcept>

#include "pairs.hpp"

namespace mercer {
namespace {

// The suffix automaton of one sequence. A state stands for the substrings that end at the same
// places; they are the suffixes of its longest one, longer than the longest one of its link.
class Automaton {
 public:
  explicit Automaton(std::int32_t alphabet)
      : from_root_(static_cast<std::size_t>(alphabet), none) {}

  // Left as it is where stop is asked for: what it matches then is thrown away.
  void set(std::span<const std::int32_t> x, Stop& stop) {
    for (std::int32_t token : used_) from_root_[static_cast<std::size_t>(token)] = none;
    used_.clear();
    states_.assign(1, State{});
    edges_.clear();
    last_ = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (i % 4096 == 4095 && stop.asked()) break;
      extend(x[i]);
    }
    pack();
  }

  // Σ over the ends of y of the weight of the substrings of x that end there.
  double matched(std::span<const std::int32_t> y, std::span<const double> total, Stop& stop) {
    weigh(total);
    double sum = 0;
    std::int32_t state = 0;
    Index size = 0;
    for (std::size_t j = 0; j < y.size(); ++j) {
      if (j % 4096 == 4095 && stop.asked()) break;
      std::int32_t next = follow(state, y[j]);
      while (next == none && state != 0) {
        state = states_[std::size_t(state)].link;
        size = states_[std::size_t(state)].size;
        next = follow(state, y[j]);
      }
      if (next == none) continue;
      state = next;
      ++size;
      const State& here = states_[std::size_t(state)];
      const State& shorter = states_[std::size_t(here.link)];
      sum += shorter.weight + here.count * (at(total, size) - at(total, shorter.size));
    }
    return sum;
  }

 private:
  static constexpr std::int32_t none = -1;
  struct State {
    Index size = 0;  // of the longest substring
    std::int32_t link = 0;
    std::int32_t edge = none;  // the first of its edges; once packed, where they begin
    std::int32_t degree = 0;
    double count = 0;   // how often each of its substrings occurs
    double weight = 0;  // count times weight, summed over its substrings and their suffixes
  };
  struct Edge {
    std::int32_t token, to, next;
  };

  static double at(std::span<const double> total, Index size) {
    return total[std::min(static_cast<std::size_t>(size), total.size() - 1)];
  }

  std::int32_t* target(std::int32_t state, std::int32_t token) {
    if (state == 0) return &from_root_[static_cast<std::size_t>(token)];
    for (auto e = states_[std::size_t(state)].edge; e != none; e = edges_[std::size_t(e)].next) {
      if (edges_[std::size_t(e)].token == token) return &edges_[std::size_t(e)].to;
    }
    return nullptr;
  }
  bool has(std::int32_t state, std::int32_t token) {
    std::int32_t* to = target(state, token);
    return to && *to != none;
  }
  void add(std::int32_t state, std::int32_t token, std::int32_t to) {
    if (state == 0) {
      from_root_[static_cast<std::size_t>(token)] = to;
      used_.push_back(token);
      return;
    }
    State& from = states_[std::size_t(state)];
    edges_.push_back({token, to, from.edge});
    from.edge = static_cast<std::int32_t>(edges_.size()) - 1;
    ++from.degree;
  }

  void extend(std::int32_t token) {
    auto fresh = make(states_[std::size_t(last_)].size + 1, 1);
    std::int32_t p = last_;
    bool above_root = false;
    while (!has(p, token)) {
      add(p, token, fresh);
      if (p == 0) {
        above_root = true;
        break;
      }
      p = states_[std::size_t(p)].link;
    }
    if (!above_root) {
      std::int32_t q = *target(p, token);
      if (states_[std::size_t(q)].size != states_[std::size_t(p)].size + 1) {
        q = split(p, q, token);
      }
      states_[std::size_t(fresh)].link = q;
    }
    last_ = fresh;
  }

  std::int32_t make(Index size, double count) {
    State state;
    state.size = size;
    state.count = count;
    states_.push_back(state);
    return static_cast<std::int32_t>(states_.size()) - 1;
  }

  // The substrings of q that are no longer than those of p and a token get a state of their own.
  std::int32_t split(std::int32_t p, std::int32_t q, std::int32_t token) {
    auto clone = make(states_[std::size_t(p)].size + 1, 0);
    states_[std::size_t(clone)].link = states_[std::size_t(q)].link;
    for (auto e = states_[std::size_t(q)].edge; e != none; e = edges_[std::size_t(e)].next) {
      add(clone, edges_[std::size_t(e)].token, edges_[std::size_t(e)].to);
    }
    states_[std::size_t(q)].link = clone;
    for (;;) {
      std::int32_t* to = target(p, token);
      if (!to || *to != q) break;
      *to = clone;
      if (p == 0) break;
      p = states_[std::size_t(p)].link;
    }
    return clone;
  }

  // Counts from the longest state to the shortest, and the edges of a state side by side.
  void pack() {
    std::vector<Index> bucket(static_cast<std::size_t>(states_[std::size_t(last_)].size) + 2, 0);
    for (const State& state : states_) ++bucket[std::size_t(state.size) + 1];
    std::partial_sum(bucket.begin(), bucket.end(), bucket.begin());
    by_size_.resize(states_.size());
    for (std::size_t s = 0; s < states_.size(); ++s) {
      by_size_[std::size_t(bucket[std::size_t(states_[s].size)]++)] = static_cast<std::int32_t>(s);
    }
    for (std::size_t k = states_.size(); k-- > 1;) {
      const State& state = states_[std::size_t(by_size_[k])];
      states_[std::size_t(state.link)].count += state.count;
    }
    std::vector<Edge> packed;
    packed.reserve(edges_.size());
    for (State& state : states_) {
      auto begin = static_cast<std::int32_t>(packed.size());
      for (auto e = state.edge; e != none; e = edges_[std::size_t(e)].next) {
        packed.push_back(edges_[std::size_t(e)]);
      }
      state.edge = begin;
    }
    edges_ = std::move(packed);
    weighed_ = false;
  }

  void weigh(std::span<const double> total) {
    if (weighed_) return;
    for (std::size_t k = 1; k < states_.size(); ++k) {
      State& state = states_[std::size_t(by_size_[k])];
      const State& link = states_[std::size_t(state.link)];
      state.weight = link.weight + state.count * (at(total, state.size) - at(total, link.size));
    }
    weighed_ = true;
  }

  std::int32_t follow(std::int32_t state, std::int32_t token) const {
    if (state == 0) return from_root_[static_cast<std::size_t>(token)];
    const State& from = states_[std::size_t(state)];
    for (std::int32_t e = from.edge; e < from.edge + from.degree; ++e) {
      if (edges_[std::size_t(e)].token == token) return edges_[std::size_t(e)].to;
    }
    return none;
  }

  std::vector<State> states_;
  std::vector<Edge> edges_;
  std::vector<std::int32_t> from_root_, used_, by_size_;
  std::int32_t last_ = 0;
  bool weighed_ = false;
};

// Numbers keys 0, 1, 2, ... as they come; a hash table with open addresses.
class Numbering {
 public:
  explicit Numbering(std::uint64_t keys) {
    // Few possible keys are numbered by a plain table.
    if (keys <= std::uint64_t{1} << 22) {
      direct_.assign(static_cast<std::size_t>(keys), -1);
    } else {
      slots_.assign(1 << 16, {0, -1});
    }
  }
  std::int32_t count() const { return count_; }
  std::int32_t operator()(std::uint64_t key) {
    if (!direct_.empty()) {
      std::int32_t& number = direct_[static_cast<std::size_t>(key)];
      return number < 0 ? number = fresh() : number;
    }
    Slot& slot = find(key);
    if (slot.number >= 0) return slot.number;
    slot = {key, fresh()};
    if (static_cast<std::size_t>(count_) * 2 > slots_.size()) grow();
    return count_ - 1;
  }

 private:
  struct Slot {
    std::uint64_t key;
    std::int32_t number;
  };
  std::int32_t fresh() {
    if (count_ == std::numeric_limits<std::int32_t>::max()) {
      throw std::length_error("More than 2**31 - 1 different substrings; pass fewer points.");
    }
    return count_++;
  }
  Slot& find(std::uint64_t key) {
    std::uint64_t hash = key * 0x9e3779b97f4a7c15u;
    std::size_t mask = slots_.size() - 1, place = (hash ^ hash >> 32) & mask;
    while (slots_[place].number >= 0 && slots_[place].key != key) place = (place + 1) & mask;
    return slots_[place];
  }
  void grow() {
    std::vector<Slot> old(slots_.size() * 2, {0, -1});
    old.swap(slots_);
    for (const Slot& slot : old) {
      if (slot.number >= 0) find(slot.key) = slot;
    }
  }

  std::vector<std::int32_t> direct_;
  std::vector<Slot> slots_;
  std::int32_t count_ = 0;
};

// The windows of one length, each with a key that says what is in it. Few enough tokens make one
// number; a longer window is the pair of two shorter ones that overlap or touch, numbered before.
class Windows {
 public:
  Windows(const Sequences& X, Index length, const Poll& poll) : X_(X), poll_(poll) {
    letters_ = static_cast<std::uint64_t>(std::max(X.alphabet, 1));
    while (size_ < length && keys_ <= (std::uint64_t{1} << 62) / letters_) {
      keys_ *= letters_;
      ++size_;
    }
    while (size_ < length) {
      Numbering number(keys_);
      std::vector<std::int32_t> numbers(static_cast<std::size_t>(X.start[X.n]), -1);
      each([&](Index, Index at, std::uint64_t key) { numbers[std::size_t(at)] = number(key); });
      shorter_ = std::move(numbers);
      shorter_size_ = size_;
      size_ = std::min(2 * size_, length);
      keys_ = std::numeric_limits<std::uint64_t>::max();
    }
  }

  std::uint64_t keys() const { return keys_; }  // more than any key

  // visit(i, at, key) for every window, which begins at token[at] in sequence i.
  template <class Visit>
  void each(const Visit& visit) const {
    std::uint64_t seen = 0;
    auto watched = [&](Index i, Index at, std::uint64_t key) {
      if (++seen % (1 << 18) == 0 && poll_) poll_();  // a sequence may be long
      visit(i, at, key);
    };
    for (Index i = 0; i < X_.n; ++i) {
      if (i % 1024 == 0 && poll_) poll_();
      if (X_.size(i) < size_) continue;
      if (shorter_.empty()) {
        of_tokens(i, watched);
      } else {
        Index shift = size_ - shorter_size_;
        for (Index at = X_.start[i]; at + size_ <= X_.start[i + 1]; ++at) {
          watched(i, at,
                  static_cast<std::uint64_t>(shorter_[std::size_t(at)]) << 32 |
                      static_cast<std::uint64_t>(shorter_[std::size_t(at + shift)]));
        }
      }
    }
  }

 private:
  template <class Visit>
  void of_tokens(Index i, const Visit& visit) const {
    const std::uint64_t highest = keys_ / letters_;
    auto token = [&](Index at) { return static_cast<std::uint64_t>(X_.token[at]); };
    std::uint64_t key = 0;
    Index end = X_.start[i] + size_ - 1;
    for (Index at = X_.start[i]; at < end; ++at) key = key * letters_ + token(at);
    for (Index at = X_.start[i]; end < X_.start[i + 1]; ++at, ++end) {
      key = key * letters_ + token(end);
      visit(i, at, key);
      key -= token(at) * highest;
    }
  }

  const Sequences& X_;
  const Poll& poll_;
  Index size_ = 0, shorter_size_ = 0;
  std::uint64_t letters_ = 1, keys_ = 1;
  std::vector<std::int32_t> shorter_;
};

}  // namespace

void substrings(const Sequences& X, const Sequences* Y, bool diagonal,
                std::span<const double> total, double* out, const Poll& poll) {
  const Sequences& T = Y ? *Y : X;
  Stop stop(poll);
  std::vector<Automaton> workers(static_cast<std::size_t>(threads()), Automaton(X.alphabet));
  each_row(X, !Y, stop, [&](Index i, Index from, int worker) {
    Automaton& automaton = workers[static_cast<std::size_t>(worker)];
    automaton.set(X[i], stop);
    if (diagonal) {
      out[i] = automaton.matched(X[i], total, stop);
      return;
    }
    for (Index j = from; j < T.n; ++j) {
      out[i * T.n + j] = automaton.matched(T[j], total, stop);
      if (!Y) out[j * T.n + i] = out[i * T.n + j];
    }
  });
}

Counts count_substrings(const Sequences& X, Index length, bool placed, const Poll& poll) {
  Windows windows(X, length, poll);
  Numbering number(windows.keys());
  constexpr std::uint64_t any = std::numeric_limits<std::uint64_t>::max();
  Numbering place(placed ? any : 1);
  Counts counts;
  counts.start.assign(1, 0);
  Index most = 0;
  for (Index i = 0; i < X.n; ++i) most += std::max<Index>(0, X.size(i) - length + 1);
  counts.column.reserve(static_cast<std::size_t>(most));
  counts.count.reserve(static_cast<std::size_t>(most));
  std::vector<std::int32_t> tally, met;  // of the row; the columns it has
  auto write = [&](std::int32_t column) {
    counts.column.push_back(column);
    counts.count.push_back(tally[std::size_t(column)]);
    tally[std::size_t(column)] = 0;
  };
  auto finish_rows = [&](Index until) {
    if (tally.size() < 32 * met.size()) {
      // Looking at all columns is quicker than sorting the many that the row has.
      for (std::size_t c = 0; c < tally.size(); ++c) {
        if (tally[c]) write(static_cast<std::int32_t>(c));
      }
    } else {
      std::sort(met.begin(), met.end());
      for (std::int32_t column : met) write(column);
    }
    met.clear();
    counts.start.resize(static_cast<std::size_t>(until) + 1,
                        static_cast<Index>(counts.column.size()));
  };
  Index row = 0;
  windows.each([&](Index i, Index at, std::uint64_t key) {
    if (i != row) {
      finish_rows(i);
      row = i;
    }
    std::int32_t column = number(key);
    if (placed) {
      column = place(static_cast<std::uint64_t>(column) << 32 |
                     static_cast<std::uint64_t>(at - X.start[i]));
    }
    if (static_cast<std::size_t>(column) == tally.size()) {
      tally.push_back(0);
      counts.first.push_back(at);
    }
    if (tally[std::size_t(column)]++ == 0) met.push_back(column);
  });
  finish_rows(X.n);
  return counts;
}

}  // namespace mercer
