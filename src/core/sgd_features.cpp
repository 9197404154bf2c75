// The steps of sgd.cpp, each of which touches the columns of its point alone (Xu, arXiv:1107.2490,
// section 5).
#include "sgd_features.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

namespace mercer {
namespace {

// Output c with scale 1 and past 0, what was there shrunk by `factor` besides.
void multiply_out(const FeatureVisits& v, Index c, double factor) {
  const double past = v.past[c], scale = v.scale[c] * factor;
  for (const SumRows& rows : {v.w, v.bias, v.mine}) {
    for (Index k = c; k < rows.m * rows.step; k += rows.step) {
      rows.fixed[k] += past * rows.raw[k] - rows.late[k];
      rows.late[k] = 0.0;
      rows.raw[k] *= scale;
    }
  }
  v.summed[c] += v.shrunk[c] * past;
  v.shrunk[c] *= scale;
  v.scale[c] = 1.0;
  v.past[c] = 0.0;
}

// What visit t adds to raw of output c, f being its value; the scale, the sum and |w|^2 follow.
double step(const LossSlope& loss, const FeatureVisits& v, Index t, Index c, double f) {
  const double eta = v.rate[t], shrink = std::max(0.0, 1 - 2 * v.reg * eta);
  const double largest = v.norm * v.norm;
  const double d = -eta * v.weight[t] * loss.at(v.target[t * v.q + c], f);
  double& square = v.square[c];
  square *= shrink * shrink;
  if (d != 0) square += d * (2 * shrink * f + d * v.diagonal[v.place[t]]);
  // Rounding can leave -1e-17; a NaN stays one.
  if (square < 0) square = 0.0;
  const double factor = square > largest ? std::sqrt(largest / square) : 1.0;
  if (square > largest) square = largest;
  if (v.average) v.past[c] += v.scale[c];
  const double next = v.scale[c] * shrink * factor;
  if (next < v.smallest) {
    multiply_out(v, c, shrink * factor);
    return factor * d;
  }
  const double added = d / (v.scale[c] * shrink);
  v.scale[c] = next;
  return added;
}

}  // namespace

template <class I>
void sgd_feature_steps(const LossSlope& loss, const Vectors<double, I>& X, const FeatureVisits& v) {
  const Index q = v.q;
  std::vector<double> added(static_cast<std::size_t>(q)), late(added.size());
  std::fill_n(v.shrunk, q, 1.0);
  std::fill_n(v.summed, q, 0.0);
  for (Index t = 0; t < v.b; ++t) {
    if (t + visits_ahead < v.b) {
      const Index next = v.place[t + visits_ahead];
      X.prefetch(next);
      __builtin_prefetch(v.diagonal + next);
      __builtin_prefetch(v.mine.raw + next * v.mine.step, 1);
      __builtin_prefetch(v.mine.late + next * v.mine.step, 1);
    }
    const Index i = v.place[t];
    const Row<double, I> x = X.row(i);
    double* f = v.values + t * q;
    x.products(v.w.raw, q, f);
    bool any = false, counts = false;
    for (Index c = 0; c < q; ++c) {
      f[c] = v.scale[c] * (f[c] + v.root * v.bias.raw[c]);
      added[c] = step(loss, v, t, c, f[c]);
      late[c] = v.past[c] * added[c];
      if (added[c] == 0) continue;  // most visits of some losses: nothing to write
      any = true;
      counts = counts || late[c] != 0;
      v.bias.raw[c] += v.root * added[c];
      v.bias.late[c] += v.root * late[c];
      v.mine.raw[i * v.mine.step + c] += added[c];
      v.mine.late[i * v.mine.step + c] += late[c];
    }
    if (any) x.add(added.data(), q, v.w.raw);
    if (counts) x.add(late.data(), q, v.w.late);
  }
}

template void sgd_feature_steps(const LossSlope&, const Vectors<double, std::int32_t>&,
                                const FeatureVisits&);
template void sgd_feature_steps(const LossSlope&, const Vectors<double, std::int64_t>&,
                                const FeatureVisits&);

}  // namespace mercer
