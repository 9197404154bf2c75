// Gap-weighted subsequences (the loops are in subsequence.cpp), runs of matches, edit distances.
#include "strings.hpp"

#include <bit>
#include <cmath>
#include <cstring>
#include <optional>

#include "pairs.hpp"
#include "wide.hpp"

namespace mercer {

namespace baseline {
extern const GapLoops gap_loops;
}
#if defined(__x86_64__)
namespace avx2 {
extern const GapLoops gap_loops;
}
namespace avx512 {
extern const GapLoops gap_loops;
}
#endif

namespace {

const GapLoops& gap_loops() {
#if defined(__x86_64__)
  for (const GapLoops* set : {&avx512::gap_loops, &avx2::gap_loops}) {
    if (std::strcmp(set->name, instruction_set().name) == 0) return *set;
  }
#endif
  return baseline::gap_loops;
}

// kₚ / λ^(2p) for p = 1..length where float64 overflows: the recurrence of subsequence.cpp.
std::vector<Wide> wide_sums(std::span<const std::int32_t> s, std::span<const std::int32_t> t,
                            std::size_t length, double decay, Stop& stop) {
  const Wide lambda(decay);
  std::vector<Wide> sums(length), state((length - 1) * t.size());
  for (std::size_t i = 0; i < s.size() && !stop.asked(); ++i) {
    for (std::size_t p = std::min(length, i + 1); p >= 1; --p) {
      const Wide* shorter = p > 1 ? state.data() + (p - 2) * t.size() : nullptr;
      Wide* own = p < length ? state.data() + (p - 1) * t.size() : nullptr;
      Wide before, inner;
      if (!shorter) before = Wide(1.0);
      for (std::size_t j = 0; j < t.size(); ++j) {
        inner = lambda * inner;
        if (s[i] == t[j]) {
          sums[p - 1] += before;
          inner += before;
        }
        if (own) {
          own[j] = lambda * own[j];
          own[j] += inner;
        }
        if (shorter) before = shorter[j];
      }
    }
  }
  return sums;
}

// One Gram matrix of gap-weighted subsequences: sequences of T in lanes against those of S.
class GapGram {
 public:
  GapGram(const Sequences& S, const Sequences& T, double decay, std::span<const double> weights)
      : S_(S),
        T_(T),
        decay_(decay),
        length_(static_cast<Index>(weights.size())),
        loops_(gap_loops()) {
    Wide power(1.0), square = Wide(decay) * Wide(decay);
    for (double weight : weights) {
      power = power * square;
      factors_.push_back(Wide(weight) * power);
    }
    order_.resize(static_cast<std::size_t>(T.n));
    std::iota(order_.begin(), order_.end(), Index{0});
    std::stable_sort(order_.begin(), order_.end(),
                     [&](Index a, Index b) { return T.size(a) < T.size(b); });
  }

  Index width() const { return loops_.width; }
  Index groups() const { return (T_.n + loops_.width - 1) / loops_.width; }

  // Buffers of one thread.
  struct Scratch {
    std::vector<std::int64_t> s, t;
    Buffer<double> state;
    std::vector<double> sums;
  };

  // Gives entry(i, j, value) for the rows from..to of S against a group of T. If `half`, S is T,
  // rows are counted in the order of T, and a pair is given once. For the diagonal the group stands
  // against itself.
  template <class Entry>
  void run(Index group, Index from, Index to, bool half, bool diagonal, Scratch& scratch,
           Stop& stop, const Entry& entry) const {
    Index first = group * loops_.width, last = std::min(first + loops_.width, T_.n);
    Index t_size = T_.size(order_[static_cast<std::size_t>(last - 1)]);
    scratch.t.assign(static_cast<std::size_t>(t_size * loops_.width), -1);
    for (Index at = first; at < last; ++at) fill(scratch.t, T_, at, at - first);
    scratch.state.resize(static_cast<std::size_t>((length_ - 1) * t_size * loops_.width));
    scratch.sums.resize(static_cast<std::size_t>(length_ * loops_.width));
    if (diagonal) {
      // Beyond its end a sequence matches nothing, not even the other's end.
      scratch.s = scratch.t;
      for (auto& token : scratch.s) token = token < 0 ? -2 : token;
      sums(scratch, t_size, t_size, stop);
      for (Index at = first; at < last; ++at) {
        Index i = order_[static_cast<std::size_t>(at)];
        entry(i, i, value(scratch, at - first, T_[i], T_[i], stop));
      }
      return;
    }
    for (Index row = from; row < to; ++row) {
      Index i = half ? order_[static_cast<std::size_t>(row)] : row, s_size = S_.size(i);
      scratch.s.resize(static_cast<std::size_t>(s_size * loops_.width));
      for (Index k = 0; k < s_size; ++k) {
        std::fill_n(scratch.s.begin() + k * loops_.width, loops_.width, S_[i][std::size_t(k)]);
      }
      sums(scratch, s_size, t_size, stop);
      for (Index at = half ? std::max(first, row) : first; at < last; ++at) {
        Index j = order_[static_cast<std::size_t>(at)];
        entry(i, j, value(scratch, at - first, S_[i], T_[j], stop));
      }
    }
  }

 private:
  void fill(std::vector<std::int64_t>& lanes, const Sequences& from, Index at, Index lane) const {
    Index place = lane;
    for (std::int32_t token : from[order_[static_cast<std::size_t>(at)]]) {
      lanes[static_cast<std::size_t>(place)] = token;
      place += loops_.width;
    }
  }
  void sums(Scratch& scratch, Index s_size, Index t_size, Stop& stop) const {
    Index rows = std::max<Index>(1, (Index{1} << 20) / (t_size * length_ + 1));
    for (Index from = 0; from == 0 || (from < s_size && !stop.asked()); from += rows) {
      loops_.sums(scratch.s.data(), from, std::min(from + rows, s_size), scratch.t.data(), t_size,
                  length_, decay_, scratch.state.data(), scratch.sums.data());
    }
  }
  Wide value(const Scratch& scratch, Index lane, std::span<const std::int32_t> s,
             std::span<const std::int32_t> t, Stop& stop) const {
    Wide total;
    bool fits = true;
    for (Index p = 0; p < length_; ++p) {
      double sum = scratch.sums[static_cast<std::size_t>(p * loops_.width + lane)];
      if (factors_[static_cast<std::size_t>(p)].mantissa == 0) continue;
      fits = fits && std::isfinite(sum);
      if (fits) total += factors_[static_cast<std::size_t>(p)] * Wide(sum);
    }
    if (fits) return total;
    auto wide = wide_sums(s, t, static_cast<std::size_t>(length_), decay_, stop);
    total = {};
    for (std::size_t p = 0; p < wide.size(); ++p) total += factors_[p] * wide[p];
    return total;
  }

  const Sequences &S_, &T_;
  double decay_;
  Index length_;
  const GapLoops& loops_;
  std::vector<Wide> factors_;  // weights[r - 1] λ^(2r)
  std::vector<Index> order_;   // of T, by size
};

}  // namespace

void subsequences(const Sequences& X, const Sequences* Y, bool diagonal, double decay,
                  std::span<const double> weights, double* mantissa, std::int64_t* exponent,
                  const Poll& poll) {
  // The larger set in the lanes, so that they are full.
  bool swapped = Y && X.n > Y->n;
  const Sequences& S = swapped ? *Y : X;
  const Sequences& T = swapped ? X : (Y ? *Y : X);
  GapGram gram(S, T, decay, weights);
  bool half = !Y && !diagonal;
  Index columns = Y ? Y->n : X.n;
  constexpr Index rows = 32;
  struct Task {
    Index group, from, to;
  };
  std::vector<Task> tasks;
  for (Index group = gram.groups() - 1; group >= 0; --group) {
    Index end = diagonal ? 1 : half ? std::min((group + 1) * gram.width(), T.n) : S.n;
    for (Index from = 0; from < end; from += rows) {
      tasks.push_back({group, from, std::min(from + rows, end)});
    }
  }
  Stop stop(poll);
  std::vector<GapGram::Scratch> scratch(static_cast<std::size_t>(threads()));
  auto set = [&](Index place, const Wide& value) {
    int exponent_of;
    mantissa[place] = std::frexp(value.mantissa, &exponent_of);
    exponent[place] = value.mantissa == 0 ? 0 : exponent_of + 512 * value.block;
  };
  parallel(
      static_cast<Index>(tasks.size()), static_cast<int>(scratch.size()),
      [&](Index task, int worker) {
        const Task& now = tasks[static_cast<std::size_t>(task)];
        gram.run(now.group, now.from, now.to, half, diagonal,
                 scratch[static_cast<std::size_t>(worker)], stop,
                 [&](Index i, Index j, const Wide& value) {
                   if (diagonal) return set(i, value);
                   set(swapped ? j * columns + i : i * columns + j, value);
                   if (half) set(j * columns + i, value);
                 });
      },
      [&] { stop.poll(); });
}

namespace {

// Tokens by their bits: plane p of a word holds bit p of 64 tokens that follow each other.
class Planes {
 public:
  Planes(const Sequences& X, int bits) : bits_(bits), start_(static_cast<std::size_t>(X.n) + 1) {
    for (Index i = 0; i < X.n; ++i) start_[i + 1] = start_[i] + (X.size(i) + 63) / 64 * bits;
    word_.resize(static_cast<std::size_t>(start_.back()));
    for (Index i = 0; i < X.n; ++i) {
      const auto tokens = X[i];
      for (std::size_t k = 0; k < tokens.size(); ++k) {
        std::uint64_t* planes = &word_[static_cast<std::size_t>(start_[i]) + k / 64 * bits];
        for (int p = 0; p < bits; ++p) {
          planes[p] |= static_cast<std::uint64_t>(tokens[k] >> p & 1) << k % 64;
        }
      }
    }
  }
  const std::uint64_t* operator[](Index i) const { return word_.data() + start_[i]; }
  int bits() const { return bits_; }

 private:
  int bits_;
  std::vector<Index> start_;
  std::vector<std::uint64_t> word_;
};

// Bit k of `match` says that the tokens at place k are equal; from stretches of r tokens to those
// of r + 1 it is combined with its neighbour. `match` has room for one word more.
[[gnu::always_inline]] inline double stretches(const std::uint64_t* a, const std::uint64_t* b,
                                               std::size_t size, int bits,
                                               std::span<const double> weights,
                                               std::uint64_t* match) {
  const std::size_t words = (size + 63) / 64;
  for (std::size_t w = 0; w < words; ++w, a += bits, b += bits) {
    std::uint64_t differ = 0;
    for (int p = 0; p < bits; ++p) differ |= a[p] ^ b[p];
    match[w] = ~differ;
  }
  if (size % 64 != 0) match[words - 1] &= (std::uint64_t{1} << size % 64) - 1;
  match[words] = 0;
  double total = 0;
  for (const double weight : weights) {
    Index count = 0;
    for (std::size_t w = 0; w < words; ++w) count += std::popcount(match[w]);
    if (count == 0) break;
    total += weight * static_cast<double>(count);
    for (std::size_t w = 0; w < words; ++w) match[w] &= match[w] >> 1 | match[w + 1] << 63;
  }
  return total;
}

using Stretches = double (*)(const std::uint64_t*, const std::uint64_t*, std::size_t, int,
                             std::span<const double>, std::uint64_t*);

double stretches_plainly(const std::uint64_t* a, const std::uint64_t* b, std::size_t size, int bits,
                         std::span<const double> weights, std::uint64_t* match) {
  return stretches(a, b, size, bits, weights, match);
}
#if defined(__x86_64__)
// With the instruction that counts bits, which the plainest processors lack.
[[gnu::target("popcnt")]] double stretches_counted(const std::uint64_t* a, const std::uint64_t* b,
                                                   std::size_t size, int bits,
                                                   std::span<const double> weights,
                                                   std::uint64_t* match) {
  return stretches(a, b, size, bits, weights, match);
}
#endif

Stretches quickest_stretches() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("popcnt")) return stretches_counted;
#endif
  return stretches_plainly;
}

}  // namespace

void matching_stretches(const Sequences& X, const Sequences* Y, bool diagonal,
                        std::span<const double> weights, double* out, const Poll& poll) {
  const Sequences& T = Y ? *Y : X;
  if (diagonal) {
    for (Index i = 0; i < X.n; ++i) {
      out[i] = 0;
      Index count = X.size(i);
      for (std::size_t r = 0; r < weights.size() && count > 0; ++r, --count) {
        out[i] += weights[r] * static_cast<double>(count);
      }
    }
    return;
  }
  Stop stop(poll);
  const auto largest =
      static_cast<std::uint32_t>(std::max(1, std::max(X.alphabet, T.alphabet) - 1));
  const int bits = static_cast<int>(std::bit_width(largest));
  const Planes of_X(X, bits);
  const std::optional<Planes> of_Y =
      Y ? std::optional<Planes>(std::in_place, *Y, bits) : std::nullopt;
  const Planes& of_T = of_Y ? *of_Y : of_X;
  Index longest = 0;
  for (Index i = 0; i < X.n; ++i) longest = std::max(longest, X.size(i));
  std::vector<std::vector<std::uint64_t>> match(static_cast<std::size_t>(threads()));
  for (auto& words : match) words.resize(static_cast<std::size_t>(longest / 64 + 2));
  const Stretches sum = quickest_stretches();
  each_row(X, !Y, stop, [&](Index i, Index from, int worker) {
    for (Index j = from; j < T.n; ++j) {
      const auto size = static_cast<std::size_t>(std::min(X.size(i), T.size(j)));
      const double total = sum(of_X[i], of_T[j], size, bits, weights, match[worker].data());
      out[i * T.n + j] = total;
      if (!Y) out[j * T.n + i] = total;
    }
  });
}

namespace {

// Edit distances of one sequence s to others. Myers, J. ACM 46 (1999), in blocks of 64 rows of the
// table as by Hyyrö (2003): bit i of `up` (`down`) says that the table grows (falls) by 1 from row
// i to row i + 1. Where the bits of all tokens would take too much room, row by row instead.
class EditDistance {
 public:
  explicit EditDistance(std::int32_t alphabet) : slot_(static_cast<std::size_t>(alphabet), -1) {}

  void set(std::span<const std::int32_t> s) {
    for (std::int32_t token : s_) slot_[static_cast<std::size_t>(token)] = -1;
    s_ = s;
    std::int32_t different = 0;
    for (std::int32_t token : s) {
      auto& slot = slot_[static_cast<std::size_t>(token)];
      if (slot < 0) slot = different++;
    }
    blocks_ = (s.size() + 63) / 64;
    by_bits_ = (static_cast<std::size_t>(different) + 1) * blocks_ <= std::size_t{1} << 25;
    if (!by_bits_) return;
    // The last row of bits is that of the tokens that s does not have.
    places_.assign((static_cast<std::size_t>(different) + 1) * blocks_, 0);
    absent_ = different;
    for (std::size_t i = 0; i < s.size(); ++i) {
      auto slot = static_cast<std::size_t>(slot_[static_cast<std::size_t>(s[i])]);
      places_[slot * blocks_ + i / 64] |= std::uint64_t{1} << i % 64;
    }
  }

  double to(std::span<const std::int32_t> t, Stop& stop) {
    if (s_.empty()) return static_cast<double>(t.size());
    return by_bits_ ? bitwise(t, stop) : row_by_row(t, stop);
  }

 private:
  double bitwise(std::span<const std::int32_t> t, Stop& stop) {
    up_.assign(blocks_, ~std::uint64_t{0});
    down_.assign(blocks_, 0);
    auto distance = static_cast<Index>(s_.size());
    const std::uint64_t last = std::uint64_t{1} << (s_.size() - 1) % 64;
    for (std::size_t j = 0; j < t.size(); ++j) {
      if (j % 1024 == 1023 && stop.asked()) break;
      std::int32_t slot = slot_[static_cast<std::size_t>(t[j])];
      const std::uint64_t* place =
          places_.data() + static_cast<std::size_t>(slot < 0 ? absent_ : slot) * blocks_;
      int carry = 1;  // how the row above the block changes from column j to j + 1
      for (std::size_t b = 0; b < blocks_; ++b) {
        std::uint64_t equal = place[b], up = up_[b], down = down_[b];
        std::uint64_t vertical = equal | down;
        equal |= carry < 0;
        std::uint64_t across = (((equal & up) + up) ^ up) | equal;
        std::uint64_t more = down | ~(across | up), less = up & across;
        std::uint64_t end = b + 1 == blocks_ ? last : std::uint64_t{1} << 63;
        int next = (more & end ? 1 : 0) - (less & end ? 1 : 0);
        more = more << 1 | (carry > 0);
        less = less << 1 | (carry < 0);
        up_[b] = less | ~(vertical | more);
        down_[b] = more & vertical;
        carry = next;
      }
      distance += carry;
    }
    return static_cast<double>(distance);
  }

  double row_by_row(std::span<const std::int32_t> t, Stop& stop) {
    row_.resize(t.size() + 1);
    std::iota(row_.begin(), row_.end(), Index{0});
    for (std::size_t i = 0; i < s_.size() && !stop.asked(); ++i) {
      Index corner = row_[0];
      row_[0] = static_cast<Index>(i) + 1;
      for (std::size_t j = 0; j < t.size(); ++j) {
        Index replaced = corner + (s_[i] != t[j]);
        corner = row_[j + 1];
        row_[j + 1] = std::min(replaced, std::min(corner, row_[j]) + 1);
      }
    }
    return static_cast<double>(row_.back());
  }

  std::vector<std::int32_t> slot_;  // of a token of s; -1 for others
  std::span<const std::int32_t> s_;
  std::int32_t absent_ = 0;
  std::size_t blocks_ = 0;
  bool by_bits_ = true;
  std::vector<std::uint64_t> places_, up_, down_;
  std::vector<Index> row_;
};

}  // namespace

void edit_distances(const Sequences& X, const Sequences* Y, double* out, const Poll& poll) {
  const Sequences& T = Y ? *Y : X;
  Stop stop(poll);
  std::vector<EditDistance> workers(static_cast<std::size_t>(threads()), EditDistance(X.alphabet));
  each_row(X, !Y, stop, [&](Index i, Index from, int worker) {
    EditDistance& distance = workers[static_cast<std::size_t>(worker)];
    distance.set(X[i]);
    for (Index j = from; j < T.n; ++j) {
      out[i * T.n + j] = distance.to(T[j], stop);
      if (!Y) out[j * T.n + i] = out[i * T.n + j];
    }
  });
}

}  // namespace mercer
