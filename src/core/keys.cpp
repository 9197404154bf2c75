// Aumasson et al., BLAKE2 (RFC 7693): section 3.1 to 3.3, without a key.
#include "keys.hpp"

#include <algorithm>
#include <bit>
#include <vector>

#include "threads.hpp"

namespace mercer {
namespace {

static_assert(std::endian::native == std::endian::little, "BLAKE2 reads little-endian words.");

constexpr std::uint64_t initial[8] = {0x6a09e667f3bcc908, 0xbb67ae8584caa73b, 0x3c6ef372fe94f82b,
                                      0xa54ff53a5f1d36f1, 0x510e527fade682d1, 0x9b05688c2b3e6c1f,
                                      0x1f83d9abfb41bd6b, 0x5be0cd19137e2179};

constexpr int sigma[10][16] = {{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
                               {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
                               {11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4},
                               {7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8},
                               {9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13},
                               {2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9},
                               {12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11},
                               {13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10},
                               {6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5},
                               {10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0}};

inline void mix(std::uint64_t& a, std::uint64_t& b, std::uint64_t& c, std::uint64_t& d,
                std::uint64_t x, std::uint64_t y) {
  a += b + x;
  d = std::rotr(d ^ a, 32);
  c += d;
  b = std::rotr(b ^ c, 24);
  a += b + y;
  d = std::rotr(d ^ a, 16);
  c += d;
  b = std::rotr(b ^ c, 63);
}

void compress(std::uint64_t* h, const std::uint64_t* m, std::uint64_t bytes, bool last) {
  std::uint64_t v[16];
  std::copy_n(h, 8, v);
  std::copy_n(initial, 8, v + 8);
  v[12] ^= bytes;
  if (last) v[14] = ~v[14];
#pragma GCC unroll 12
  for (int r = 0; r < 12; ++r) {
    const int* s = sigma[r % 10];
    mix(v[0], v[4], v[8], v[12], m[s[0]], m[s[1]]);
    mix(v[1], v[5], v[9], v[13], m[s[2]], m[s[3]]);
    mix(v[2], v[6], v[10], v[14], m[s[4]], m[s[5]]);
    mix(v[3], v[7], v[11], v[15], m[s[6]], m[s[7]]);
    mix(v[0], v[5], v[10], v[15], m[s[8]], m[s[9]]);
    mix(v[1], v[6], v[11], v[12], m[s[10]], m[s[11]]);
    mix(v[2], v[7], v[8], v[13], m[s[12]], m[s[13]]);
    mix(v[3], v[4], v[9], v[14], m[s[14]], m[s[15]]);
  }
  for (int k = 0; k < 8; ++k) h[k] ^= v[k] ^ v[k + 8];
}

// Of whole words; they are filled up with zeros to whole blocks of 16.
std::uint64_t digest(std::vector<std::uint64_t>& words) {
  constexpr std::size_t block = 16;
  const std::size_t count = words.size();
  words.resize((count + block - 1) / block * block);
  std::uint64_t h[8];
  std::copy_n(initial, 8, h);
  h[0] ^= 0x01010000 ^ sizeof(std::uint64_t);
  for (std::size_t at = 0; at < count; at += block) {
    const std::size_t end = std::min(at + block, count);
    compress(h, words.data() + at, sizeof(std::uint64_t) * end, end == count);
  }
  return h[0];
}

}  // namespace

// Keys are random: their first 33 bits, in three rounds of 11, tell almost all of them apart, and
// the rest is a matter of neighbours.
void ascending(std::span<const std::uint64_t> keys, Index* places) {
  struct Entry {
    std::uint64_t key;
    Index place;
  };
  constexpr int width = 11, rounds = 3;
  constexpr std::size_t buckets = std::size_t{1} << width;
  const std::size_t n = keys.size();
  Buffer<Entry> entries(n), sorted(n);
  for (std::size_t i = 0; i < n; ++i) entries[i] = {keys[i], static_cast<Index>(i)};
  for (int round = 0; round < rounds; ++round) {
    const int shift = 64 - width * (rounds - round);
    const auto digit = [&](const Entry& e) { return (e.key >> shift) & (buckets - 1); };
    std::vector<std::size_t> begin(buckets + 1);
    for (const Entry& e : entries) ++begin[digit(e) + 1];
    for (std::size_t k = 0; k < buckets; ++k) begin[k + 1] += begin[k];
    for (const Entry& e : entries) sorted[begin[digit(e)]++] = e;
    entries.swap(sorted);
  }
  constexpr int low = 64 - width * rounds;
  for (std::size_t i = 0; i < n;) {
    std::size_t end = i + 1;
    while (end < n && entries[end].key >> low == entries[i].key >> low) ++end;
    if (end - i > 1) {
      std::stable_sort(entries.begin() + static_cast<std::ptrdiff_t>(i),
                       entries.begin() + static_cast<std::ptrdiff_t>(end),
                       [](const Entry& a, const Entry& b) { return a.key < b.key; });
    }
    i = end;
  }
  for (std::size_t i = 0; i < n; ++i) places[i] = entries[i].place;
}

template <class I>
void row_keys(const Vectors<double, I>& X, const double* target, Index q, std::uint64_t* keys,
              const Poll& poll) {
  constexpr Index together = 1024;
  auto task = [&](Index number, int) {
    std::vector<std::uint64_t> words;
    const Index last = std::min(X.n, (number + 1) * together);
    for (Index i = number * together; i < last; ++i) {
      const Row<double, I> x = X.row(i);
      words.clear();
      for (Index k = 0; k < x.count; ++k) {
        if (x.value[k] != 0) words.push_back(static_cast<std::uint64_t>(x.place(k)));
      }
      for (Index k = 0; k < x.count; ++k) {
        if (x.value[k] != 0) words.push_back(std::bit_cast<std::uint64_t>(x.value[k]));
      }
      for (Index c = 0; c < q; ++c) {
        // Plus 0: a target of -0 is one of 0.
        words.push_back(std::bit_cast<std::uint64_t>(target[i * q + c] + 0.0));
      }
      keys[i] = digest(words);
    }
  };
  parallel((X.n + together - 1) / together, threads(), task, poll);
}

template void row_keys(const Vectors<double, std::int32_t>&, const double*, Index, std::uint64_t*,
                       const Poll&);
template void row_keys(const Vectors<double, std::int64_t>&, const double*, Index, std::uint64_t*,
                       const Poll&);

}  // namespace mercer
