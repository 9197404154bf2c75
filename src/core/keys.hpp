// Numbers that tell points apart by what they are, not by where they stand.
#pragma once

#include "explicit_rows.hpp"

namespace mercer {

// keys[i] = mix(sum over entries x_j != 0 of row i of mix(bits of x_j + (j + 1) g), and over its
// targets y_c, of the (n, q), of mix(bits of y_c - (c + 1) g)), modulo 2^64, where mix is the
// finaliser of SplitMix64 and g = 0x9e3779b97f4a7c15.
template <class I>
void row_keys(const Vectors<double, I>& X, const double* target, Index q, std::uint64_t* keys,
              const Poll& poll);

// The places of the keys in ascending order; of equal keys in the order in which they stand.
void ascending(std::span<const std::uint64_t> keys, Index* places);

}  // namespace mercer
