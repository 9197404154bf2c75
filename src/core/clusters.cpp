// Hamerly, SDM (2010): bounds on the distances from the own centroid and from all others.
#include "clusters.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "threads.hpp"

namespace mercer {
namespace {

constexpr Index together = 2048;  // points of a task
constexpr Index rows_at_once = 64;
constexpr double infinite = std::numeric_limits<double>::infinity();

// The centroids as the products want them, and how far they went.
struct Prepared {
  Index ld;
  Buffer<double> columns;      // (d, ld): -2 mu, a column for each, zeros from k on
  double far = 0, second = 0;  // the two longest ways
  Index farthest = -1;

  explicit Prepared(const Centroids& c) {
    constexpr Index vector = 8;  // numbers of the longest one there is
    ld = (c.k + vector - 1) / vector * vector;
    columns.assign(static_cast<std::size_t>(c.d * ld), 0.0);
    for (Index j = 0; j < c.k; ++j) {
      for (Index t = 0; t < c.d; ++t) columns[t * ld + j] = c.product[j * c.d + t];
      if (!c.moved) continue;
      if (c.moved[j] > far) {
        second = std::exchange(far, c.moved[j]);
        farthest = j;
      } else {
        second = std::max(second, c.moved[j]);
      }
    }
  }
};

// Whether the bounds, after the centroids moved, leave it open where a point belongs.
bool is_open(const Centroids& c, const Prepared& ready, const Assignment& p, Index i) {
  if (!c.moved) return true;
  const Index own = p.label[i];
  constexpr double up = 1 + 4 * std::numeric_limits<double>::epsilon();
  p.upper[i] = (p.upper[i] + c.moved[own]) * up;
  p.lower[i] = (p.lower[i] - (own == ready.farthest ? ready.second : ready.far) * up) / up;
  return !(p.upper[i] < p.lower[i]);
}

// The label and the bounds of a point, by its products with all centroids.
void settle(const Centroids& c, const Assignment& p, Index i, double* distance) {
  const double scale = p.scale ? p.scale[i] : 1.0;
  Index own = p.label[i];
  double least = infinite;
  for (Index j = 0; j < c.k; ++j) distance[j] = scale * distance[j] + c.offset[j];
  distance[own] += c.own[own];
  for (Index j = 0; j < c.k; ++j) least = std::min(least, distance[j]);
  const double slack = c.rounding * (p.square[i] + c.most);
  if (distance[own] - least > slack) {
    own = std::find(distance, distance + c.k, least) - distance;
    p.label[i] = own;
  }
  double other = infinite;
  for (Index j = 0; j < c.k; ++j) {
    if (j != own) other = std::min(other, distance[j]);
  }
  p.upper[i] = std::sqrt(std::max(0.0, p.square[i] + distance[own]) + slack);
  p.lower[i] = std::sqrt(std::max(0.0, p.square[i] + other - slack));
}

}  // namespace

void nearest_centroids(const Centroids& c, const Assignment& p, const Poll& poll) {
  const Prepared ready(c);
  const auto& products = loops<double>().row_products;
  auto task = [&](Index number, int) {
    std::array<Index, rows_at_once> open;
    std::array<const double*, rows_at_once> rows;
    std::vector<double> distances(static_cast<std::size_t>(rows_at_once * ready.ld));
    Index count = 0;
    auto settle_all = [&] {
      products(rows.data(), count, c.d, ready.columns.data(), ready.ld, distances.data());
      for (Index r = 0; r < count; ++r) settle(c, p, open[r], distances.data() + r * ready.ld);
      count = 0;
    };
    const Index last = std::min(p.n, (number + 1) * together);
    for (Index i = number * together; i < last; ++i) {
      if (!is_open(c, ready, p, i)) continue;
      open[count] = i;
      rows[count++] = p.x + i * c.d;
      if (count == rows_at_once) settle_all();
    }
    if (count) settle_all();
  };
  const bool small = p.n * c.k * c.d < 1000000;
  parallel((p.n + together - 1) / together, small ? 1 : threads(), task, poll);
}

}  // namespace mercer
