// By what points are ranked: keys that are the same number on every processor, and the least of
// them.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "core.hpp"

namespace mercer {

// The `most` least keys so far, a heap with the worst on top: of equal keys the one of the later
// point.
struct Best {
  using Entry = std::pair<double, Index>;
  std::vector<Entry> heap;

  // Whether the point was taken.
  bool offer(double key, Index j, Index most) {
    if (std::isnan(key)) key = std::numeric_limits<double>::infinity();
    Entry entry(key, j);
    if (static_cast<Index>(heap.size()) < most) {
      heap.push_back(entry);
      std::push_heap(heap.begin(), heap.end());
      return true;
    }
    if (!(entry < heap.front())) return false;
    std::pop_heap(heap.begin(), heap.end());
    heap.back() = entry;
    std::push_heap(heap.begin(), heap.end());
    return true;
  }
};

// Eight sums, coordinate t going to sum t % 8, added up in one order: the same number on every
// processor (nothing is compiled to fused multiply-adds unless they are written out), for dense and
// sparse points, in single or double precision, and wherever the points stand.
constexpr Index lanes = 8;

inline double total(const double (&part)[lanes]) {
  return ((part[0] + part[4]) + (part[2] + part[6])) + ((part[1] + part[5]) + (part[3] + part[7]));
}

struct Times {
  double operator()(double a, double b) const { return a * b; }
};
struct Squared {
  double operator()(double a, double b) const { return (a - b) * (a - b); }
};
struct Apart {
  double operator()(double a, double b) const { return std::abs(a - b); }
};

}  // namespace mercer
