// Points are taken sixteen at a time, side by side: every coefficient is read once for all of them,
// and each sum is over the points of the first class, then over those of the second, in order.
#include "votes.hpp"

#include <algorithm>
#include <vector>

#include "threads.hpp"

namespace mercer {
namespace {

constexpr Index lanes = 16;

struct Lane {
  double value[lanes];
  void add(double factor, const double* x) {
    for (Index l = 0; l < lanes; ++l) value[l] += factor * x[l];
  }
};

struct Tally {
  std::vector<double> K, won, sum;  // per point of the n, or per class: a lane each
};

void count(const ClassPairs& p, const double* K, Index rows, bool zero_is_first, Tally& tally,
           double* values) {
  Index k = p.classes, n = p.n, rivals = k - 1, pairs = k * rivals / 2, pair = 0;
  tally.K.assign(static_cast<std::size_t>(n * lanes), 0.0);
  tally.won.assign(static_cast<std::size_t>(k * lanes), 0.0);
  tally.sum.assign(static_cast<std::size_t>(k * lanes), 0.0);
  for (Index l = 0; l < rows; ++l) {
    for (Index q = 0; q < n; ++q) tally.K[q * lanes + l] = K[l * n + q];
  }
  for (Index i = 0; i < k; ++i) {
    double *won = &tally.won[i * lanes], *sum = &tally.sum[i * lanes];
    const double* turned = p.turned + i * n;  // class i is the i-th rival of all classes after it
    for (Index j = i + 1; j < k; ++j, ++pair) {
      Lane f;
      std::fill_n(f.value, lanes, p.bias[pair]);
      for (Index q = p.first[i]; q < p.first[i + 1]; ++q) {
        f.add(p.rival[q * rivals + j - 1], &tally.K[q * lanes]);
      }
      for (Index q = p.first[j]; q < p.first[j + 1]; ++q) f.add(turned[q], &tally.K[q * lanes]);
      double *lost = &tally.won[j * lanes], *other = &tally.sum[j * lanes];
      for (Index l = 0; l < lanes; ++l) {
        double wins = zero_is_first ? f.value[l] >= 0 : f.value[l] > 0;
        won[l] += wins;
        lost[l] += 1 - wins;
        sum[l] += f.value[l];
        other[l] -= f.value[l];
      }
      if (!values) continue;
      for (Index l = 0; l < rows; ++l) values[l * pairs + pair] = f.value[l];
    }
  }
}

}  // namespace

void votes(const ClassPairs& p, const double* K, Index m, bool zero_is_first, double* won,
           double* sum, double* values, const Poll& poll) {
  Index k = p.classes, pairs = k * (k - 1) / 2, blocks = (m + lanes - 1) / lanes;
  int workers = static_cast<int>(std::max<Index>(1, std::min<Index>(threads(), blocks)));
  std::vector<Tally> tallies(static_cast<std::size_t>(workers));
  auto block = [&](Index task, int worker) {
    Index from = task * lanes, rows = std::min(lanes, m - from);
    Tally& tally = tallies[worker];
    count(p, K + from * p.n, rows, zero_is_first, tally, values ? values + from * pairs : nullptr);
    for (Index l = 0; l < rows; ++l) {
      for (Index c = 0; c < k; ++c) {
        won[(from + l) * k + c] = tally.won[c * lanes + l];
        sum[(from + l) * k + c] = tally.sum[c * lanes + l];
      }
    }
  };
  parallel(blocks, workers, block, poll);
}

}  // namespace mercer
