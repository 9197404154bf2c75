// Steele, Lea and Flood, OOPSLA 2014: the finaliser of SplitMix64 as a hash of one word; a point is
// the sum of the hashes of its entries, each with its place.
#include "keys.hpp"

#include <algorithm>
#include <bit>
#include <vector>

#include "threads.hpp"

namespace mercer {
namespace {

constexpr std::uint64_t golden = 0x9e3779b97f4a7c15;

inline std::uint64_t mixed(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

inline std::uint64_t entry(double value, std::uint64_t place) {
  return mixed(std::bit_cast<std::uint64_t>(value) + place * golden);
}

}  // namespace

// Keys are random: a few bits more than it takes to count them tell almost all of them apart, and
// the rest is a matter of neighbours. The bits below are not looked at until then and hold the
// place.
void ascending(std::span<const std::uint64_t> keys, Index* places) {
  constexpr int width = 11;
  constexpr std::size_t buckets = std::size_t{1} << width;
  const std::size_t n = keys.size();
  const int bits = static_cast<int>(std::bit_width(n));
  const std::uint64_t low = (std::uint64_t{1} << bits) - 1;
  const int rounds = std::min((bits + 2 + width - 1) / width, (64 - bits) / width);
  Buffer<std::uint64_t> entries(n), sorted(n);
  for (std::size_t i = 0; i < n; ++i) entries[i] = (keys[i] & ~low) | i;
  for (int round = 0; round < rounds; ++round) {
    const int shift = 64 - width * (rounds - round);
    std::vector<std::size_t> begin(buckets + 1);
    for (std::uint64_t e : entries) ++begin[((e >> shift) & (buckets - 1)) + 1];
    for (std::size_t k = 0; k < buckets; ++k) begin[k + 1] += begin[k];
    for (std::uint64_t e : entries) sorted[begin[(e >> shift) & (buckets - 1)]++] = e;
    entries.swap(sorted);
  }
  const int rest = 64 - width * rounds;
  for (std::size_t i = 0; i < n;) {
    std::size_t end = i + 1;
    while (end < n && entries[end] >> rest == entries[i] >> rest) ++end;
    for (std::size_t k = i; k < end; ++k) places[k] = static_cast<Index>(entries[k] & low);
    if (end - i > 1) {
      std::stable_sort(places + i, places + end, [&](Index a, Index b) {
        return keys[static_cast<std::size_t>(a)] < keys[static_cast<std::size_t>(b)];
      });
    }
    i = end;
  }
}

template <class I>
void row_keys(const Vectors<double, I>& X, const double* target, Index q, std::uint64_t* keys,
              const Poll& poll) {
  constexpr Index together = 1024;
  auto task = [&](Index number, int) {
    const Index last = std::min(X.n, (number + 1) * together);
    for (Index i = number * together; i < last; ++i) {
      const Row<double, I> x = X.row(i);
      std::uint64_t sum = 0;
      for (Index k = 0; k < x.count; ++k) {
        const std::uint64_t place = static_cast<std::uint64_t>(x.place(k)) + 1;
        sum += x.value[k] != 0 ? entry(x.value[k], place) : 0;
      }
      for (Index c = 0; c < q; ++c) {
        // Plus 0: a target of -0 is one of 0.
        sum += entry(target[i * q + c] + 0.0, ~static_cast<std::uint64_t>(c));
      }
      keys[i] = mixed(sum);
    }
  };
  parallel((X.n + together - 1) / together, threads(), task, poll);
}

template void row_keys(const Vectors<double, std::int32_t>&, const double*, Index, std::uint64_t*,
                       const Poll&);
template void row_keys(const Vectors<double, std::int64_t>&, const double*, Index, std::uint64_t*,
                       const Poll&);

}  // namespace mercer
