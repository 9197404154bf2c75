// Kernels on sequences: dynamic programmes, automata and bit vectors, a whole Gram matrix at a
// time. Knows nothing of Python; everything here may be called with the lock released.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core.hpp"
#include "sparse_rows.hpp"

namespace mercer {

// n sequences of tokens 0, 1, ..., alphabet - 1; sequence i is token[start[i], start[i + 1]).
struct Sequences {
  const std::int32_t* token = nullptr;
  const Index* start = nullptr;
  Index n = 0;
  std::int32_t alphabet = 0;

  Index size(Index i) const { return start[i + 1] - start[i]; }
  std::span<const std::int32_t> operator[](Index i) const {
    return {token + start[i], static_cast<std::size_t>(size(i))};
  }
};

// In all of the following out is n × m, for Y null n × n and symmetric bit for bit; if `diagonal`,
// Y is null and out holds the n numbers k(xᵢ, xᵢ). Both sets of sequences share one alphabet.

// mantissa · 2^exponent = Σᵣ weights[r - 1] kᵣ(xᵢ, yⱼ), kᵣ the gap-weighted subsequences of length
// r.
void subsequences(const Sequences& X, const Sequences* Y, bool diagonal, double decay,
                  std::span<const double> weights, double* mantissa, std::int64_t* exponent,
                  const Poll&);

// Σ over all substrings u of w(|u|) #u(xᵢ) #u(yⱼ), where total[L] = w(1) + ... + w(L); beyond its
// end w is 0.
void substrings(const Sequences& X, const Sequences* Y, bool diagonal,
                std::span<const double> total, double* out, const Poll&);

// Σᵣ weights[r - 1] #(the places from which on two sequences have the same r tokens).
void matching_stretches(const Sequences& X, const Sequences* Y, bool diagonal,
                        std::span<const double> weights, double* out, const Poll&);

// Levenshtein's distance: the least number of insertions, deletions and substitutions.
void edit_distances(const Sequences& X, const Sequences* Y, double* out, const Poll&);

// The substrings of one length and how often each point has them: row i holds count[e] of
// column[e], start[i] <= e < start[i + 1], columns ascending. Columns are numbered as they first
// occur; column c is the substring at token[first[c]].
struct Counts {
  std::vector<Index> start;
  std::vector<std::int32_t> column;
  std::vector<double> count;
  std::vector<Index> first;
};

// If `placed`, the same substring at another place is another column.
Counts count_substrings(const Sequences& X, Index length, bool placed, const Poll&);

// Φ with ΦΦᵀ the weighted degree kernel, Σᵣ weights[r - 1] #(the places from which on two sequences
// have the same r tokens), each row times its factor (> 0; none for 1). Columns are what different
// rows have in common; what a row has alone is its own column. Stretches of as many tokens as there
// are weights, at most 22, have to fit into 64 bits (degrees.cpp).
SparseRows placed_stretches(const Sequences& X, std::span<const double> weights,
                            std::span<const double> factor, const Poll&);

// The same Φ by its tries, in less room: for products with vectors alone. All entries
// are >= 0. The last n columns are those of the rows alone.
class PlacedTries {
 public:
  PlacedTries(const Sequences& X, std::span<const double> weights, std::span<const double> factor,
              const Poll&);

  Index size() const { return n_; }
  Index width() const { return nodes_ + n_; }
  Index entries() const { return entries_ + n_; }
  std::size_t bytes() const;  // that it takes

  // out = Φw. Neither this nor what `pull` adds depends on how many threads there are.
  void times(std::span<const double> w, std::span<double> out, const Poll& poll = {}) const;

  // out += Φ_indexᵀ v.
  void pull(std::span<const std::int32_t> index, std::span<const double> v, std::span<double> out,
            const Poll& poll = {}) const;

 private:
  // The trie at one place; parents before their children.
  struct Place {
    std::vector<std::int32_t> parent;   // of each node, counted from 1; 0 for none
    std::vector<std::uint8_t> code;     // of its entry
    std::vector<std::int32_t> deepest;  // node of each row, counted from 1
    Index first = 0;                    // column of the first node

    Index size() const { return static_cast<Index>(code.size()); }
  };

  Index tasks() const;
  template <class Use>
  void each_place(Index task, const Use& use) const;

  Index n_, nodes_ = 0, entries_ = 0;
  std::vector<Place> place_;
  std::vector<double> table_, own_, factor_;
};

// What subsequence.cpp gives for one instruction set. `width` pairs of sequences side by side:
// s[i·width + w] is token i of the first sequence of pair w. Goes on with the tokens from..to of s
// (from 0, it begins); once all are done, sums[r·width + w] is kᵣ₊₁ / decay^(2(r + 1)), infinite
// where that overflows. state has (length - 1)·t_size·width numbers, sums length·width.
struct GapLoops {
  const char* name;
  Index width;
  void (*sums)(const std::int64_t* s, Index from, Index to, const std::int64_t* t, Index t_size,
               Index length, double decay, double* state, double* sums);
};

}  // namespace mercer
