// Numbers that tell points apart by what they are, not by where they stand.
#pragma once

#include "explicit_rows.hpp"

namespace mercer {

// keys[i]: the first 8 bytes of BLAKE2b with a digest of 8 bytes (RFC 7693) over the columns of row
// i that are not 0, as 64-bit numbers, their entries, and row i of the (n, q) targets.
template <class I>
void row_keys(const Vectors<double, I>& X, const double* target, Index q, std::uint64_t* keys,
              const Poll& poll);

// The places of the keys in ascending order; of equal keys in the order in which they stand.
void ascending(std::span<const std::uint64_t> keys, Index* places);

}  // namespace mercer
