// Boxes rule points out exactly. For y in a box each |xₜ - yₜ| is at least that to the box's
// nearest side, and rounding keeps the order of differences, squares and sums: the key of the
// distance to the box, summed in the order of all keys, is never above the key of a point in it.
#include "kdtree.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "ranking.hpp"
#include "sources.hpp"
#include "threads.hpp"

namespace mercer {
namespace {

constexpr Index leaf_points = 24;  // at most
constexpr Index grain = 4;         // points whose keys are computed side by side
constexpr Index queries = 128;     // of a task
constexpr Index sampled = 256;     // points by which the widest coordinate is found

struct Square {
  double operator()(double difference) const { return difference * difference; }
};
struct Absolute {
  double operator()(double difference) const { return std::abs(difference); }
};

}  // namespace

template <class T>
KdTree::KdTree(const DenseArray<T>& points, const Poll& poll) : n_(points.n), d_(points.d) {
  while (pieces_of(n_, leaves()) > leaf_points) ++levels_;
  width_ = rounded_up(pieces_of(n_, leaves()), grain);
  Index nodes = 2 * leaves() - 1, inner = leaves() - 1;
  auto room = [](Index size) { return static_cast<std::size_t>(size); };
  number_.resize(room(n_));
  for (Index i = 0; i < n_; ++i) number_[room(i)] = i;
  axis_.resize(room(inner));
  split_.resize(room(inner));
  box_.resize(room(nodes * 2 * d_));
  least_.resize(room(nodes));
  value_.resize(room(leaves() * d_ * width_));
  int workers = n_ * d_ < 20000 ? 1 : threads();

  auto coordinate = [&](Index i, Index t) { return static_cast<double>(points.value[i * d_ + t]); };
  auto widest = [&](Index lo, Index hi) {
    Index step = std::max<Index>(1, (hi - lo) / sampled), best = 0;
    double width = -1;
    for (Index t = 0; t < d_; ++t) {
      double least = coordinate(number_[room(lo)], t), most = least;
      for (Index p = lo; p < hi; p += step) {
        double value = coordinate(number_[room(p)], t);
        least = std::min(least, value);
        most = std::max(most, value);
      }
      // Halves: the difference of two large numbers may overflow.
      if (most / 2 - least / 2 > width) width = most / 2 - least / 2, best = t;
    }
    return best;
  };
  // The points of each node of a level, and in the end of each leaf, from start_[c] on.
  start_ = {0, n_};
  for (Index level = 0; level < levels_; ++level) {
    Index count = Index{1} << level, together = std::max<Index>(1, count / 64);
    std::vector<Index> halves{0};
    for (Index c = 0; c < count; ++c) {
      Index lo = start_[room(c)], hi = start_[room(c + 1)];
      halves.insert(halves.end(), {lo + (hi - lo) / 2, hi});
    }
    parallel(
        pieces_of(count, together), workers,
        [&](Index task, int) {
          std::vector<Best::Entry> order;
          Index end = std::min(count, (task + 1) * together);
          for (Index c = task * together; c < end; ++c) {
            Index node = count - 1 + c, lo = start_[room(c)], hi = start_[room(c + 1)];
            Index axis = widest(lo, hi), middle = halves[room(2 * c + 1)];
            order.clear();
            for (Index p = lo; p < hi; ++p) {
              order.emplace_back(coordinate(number_[room(p)], axis), number_[room(p)]);
            }
            std::nth_element(order.begin(), order.begin() + (middle - lo), order.end());
            axis_[room(node)] = axis;
            split_[room(node)] = order[room(middle - lo)].first;
            for (Index p = lo; p < hi; ++p) number_[room(p)] = order[room(p - lo)].second;
          }
        },
        poll);
    start_ = std::move(halves);
  }

  auto fill = [&](Index leaf) {
    Index node = inner + leaf, lo = start_[room(leaf)], hi = start_[room(leaf + 1)];
    // Equal keys are then met in the order of their numbers.
    std::sort(number_.begin() + lo, number_.begin() + hi);
    least_[room(node)] = lo < hi ? number_[room(lo)] : n_;
    double* box = box_.data() + node * 2 * d_;
    for (Index t = 0; t < d_; ++t) {
      double* value = value_.data() + (leaf * d_ + t) * width_;
      box[t] = std::numeric_limits<double>::infinity();
      box[d_ + t] = -box[t];
      for (Index p = lo; p < hi; ++p) {
        value[p - lo] = coordinate(number_[room(p)], t);
        box[t] = std::min(box[t], value[p - lo]);
        box[d_ + t] = std::max(box[d_ + t], value[p - lo]);
      }
    }
  };
  Index together = std::max<Index>(1, leaves() / 64);
  parallel(
      pieces_of(leaves(), together), workers,
      [&](Index task, int) {
        Index end = std::min(leaves(), (task + 1) * together);
        for (Index leaf = task * together; leaf < end; ++leaf) fill(leaf);
      },
      poll);
  for (Index node = inner - 1; node >= 0; --node) {
    Index left = 2 * node + 1, right = left + 1;
    least_[room(node)] = std::min(least_[room(left)], least_[room(right)]);
    double *box = box_.data() + node * 2 * d_, *a = box_.data() + left * 2 * d_, *b = a + 2 * d_;
    for (Index t = 0; t < d_; ++t) {
      box[t] = std::min(a[t], b[t]);
      box[d_ + t] = std::max(a[d_ + t], b[d_ + t]);
    }
  }
}

std::size_t KdTree::bytes() const {
  return sizeof(double) * (value_.size() + box_.size() + split_.size()) +
         sizeof(Index) * (number_.size() + start_.size() + least_.size() + axis_.size());
}

Index KdTree::leaf_of(const double* x) const {
  Index node = 0, inner = leaves() - 1;
  while (node < inner) {
    auto at = static_cast<std::size_t>(node);
    node = 2 * node + 1 + (x[axis_[at]] >= split_[at]);
  }
  return node - inner;
}

// The way of one point down the tree, the nearer half first.
struct Descent {
  const KdTree& tree;
  Index count;
  std::vector<double> keys;
  Best best;
  const double* x = nullptr;
  Index own = -1, looked = 0;

  Descent(const KdTree& tree, Index count)
      : tree(tree), count(count), keys(static_cast<std::size_t>(tree.width_)) {}

  template <class Term, int D>
  void from_root() {
    best.heap.clear();
    if (tree.levels_ == 0) return leaf<Term, D>(0);
    visit<Term, D>(0);
  }

 private:
  bool may_hold(double bound, Index node) const {
    return static_cast<Index>(best.heap.size()) < count ||
           Best::Entry(bound, tree.least_[static_cast<std::size_t>(node)]) < best.heap.front();
  }

  // D: the dimension, where it is known to the compiler; else 0.
  template <class Term, int D>
  double bound(Index node) const {
    Index d = D ? D : tree.d_;
    const double *least = tree.box_.data() + node * 2 * d, *most = least + d;
    double part[lanes] = {};
    for (Index t = 0; t < d; ++t) {
      double gap = std::max(0.0, std::max(least[t] - x[t], x[t] - most[t]));
      part[t % lanes] += Term{}(gap);
    }
    return total(part);
  }

  template <class Term, int D>
  void visit(Index node) {
    Index inner = tree.leaves() - 1, near = 2 * node + 1, far = near + 1;
    double to_near = bound<Term, D>(near), to_far = bound<Term, D>(far);
    auto first = [&](Index child) { return tree.least_[static_cast<std::size_t>(child)]; };
    if (std::pair(to_far, first(far)) < std::pair(to_near, first(near))) {
      std::swap(near, far);
      std::swap(to_near, to_far);
    }
    ++looked;
    if (!may_hold(to_near, near)) return;
    if (near < inner) {
      visit<Term, D>(near);
      if (may_hold(to_far, far)) visit<Term, D>(far);
    } else {
      leaf<Term, D>(near - inner);
      if (may_hold(to_far, far)) leaf<Term, D>(far - inner);
    }
  }

  template <class Term, int D>
  void leaf(Index number) {
    Index d = D ? D : tree.d_, width = tree.width_;
    const Index* start = tree.start_.data() + number;
    Index lo = start[0], hi = start[1];
    const double* value = tree.value_.data() + number * d * width;
    ++looked;
    for (Index p = 0; p < hi - lo; p += grain) {
      double part[lanes][grain] = {};
      for (Index t = 0; t < d; ++t) {
        for (Index l = 0; l < grain; ++l) {
          part[t % lanes][l] += Term{}(x[t] - value[t * width + p + l]);
        }
      }
      for (Index l = 0; l < grain; ++l) {
        keys[static_cast<std::size_t>(p + l)] =
            ((part[0][l] + part[4][l]) + (part[2][l] + part[6][l])) +
            ((part[1][l] + part[5][l]) + (part[3][l] + part[7][l]));
      }
    }
    for (Index p = lo; p < hi; ++p) {
      Index j = tree.number_[static_cast<std::size_t>(p)];
      if (j != own) best.offer(keys[static_cast<std::size_t>(p - lo)], j, count);
    }
  }
};

namespace {

using Walk = void (Descent::*)();

// A walk for each of the few dimensions: the compiler unrolls their sums.
template <class Term, int... D>
Walk walk_of(Index d, std::integer_sequence<int, D...>) {
  constexpr Walk walks[] = {&Descent::from_root<Term, D>...};
  return walks[d <= static_cast<Index>(sizeof...(D)) - 1 ? d : 0];
}

template <class Term>
Walk walk_of(Index d) {
  return walk_of<Term>(d, std::make_integer_sequence<int, 17>{});
}

}  // namespace

template <class T>
Index KdTree::nearest(Part part, const DenseArray<T>& X, Index count, const Index* own, double* key,
                      Index* index, const Poll& poll) const {
  Walk walk = part == Part::absolute ? walk_of<Absolute>(d_) : walk_of<Square>(d_);
  int workers = X.n < 2 * queries ? 1 : threads();
  Index tasks = pieces_of(X.n, queries);
  // Points of one leaf follow each other: what one of them looked at is still in the cache.
  std::vector<Index> leaf(static_cast<std::size_t>(X.n)), order(leaf.size());
  auto point = [&](Index i, std::vector<double>& x) {
    for (Index t = 0; t < d_; ++t) x[static_cast<std::size_t>(t)] = X.value[i * d_ + t];
  };
  parallel(
      tasks, workers,
      [&](Index task, int) {
        std::vector<double> x(static_cast<std::size_t>(d_));
        for (Index i = task * queries; i < std::min(X.n, (task + 1) * queries); ++i) {
          point(i, x);
          leaf[static_cast<std::size_t>(i)] = leaf_of(x.data());
        }
      },
      poll);
  std::vector<Index> place(static_cast<std::size_t>(leaves() + 1));
  for (Index number : leaf) ++place[static_cast<std::size_t>(number + 1)];
  for (std::size_t c = 1; c < place.size(); ++c) place[c] += place[c - 1];
  for (std::size_t i = 0; i < leaf.size(); ++i) {
    order[static_cast<std::size_t>(place[static_cast<std::size_t>(leaf[i])]++)] =
        static_cast<Index>(i);
  }
  std::vector<Index> looked(static_cast<std::size_t>(tasks));
  parallel(
      tasks, workers,
      [&](Index task, int) {
        std::vector<double> x(static_cast<std::size_t>(d_));
        Descent descent(*this, count);
        descent.x = x.data();
        for (Index r = task * queries; r < std::min(X.n, (task + 1) * queries); ++r) {
          Index i = order[static_cast<std::size_t>(r)];
          point(i, x);
          descent.own = own ? own[i] : -1;
          (descent.*walk)();
          auto& found = descent.best.heap;
          std::sort_heap(found.begin(), found.end());
          for (Index c = 0; c < count; ++c) {
            key[i * count + c] = found[static_cast<std::size_t>(c)].first;
            index[i * count + c] = found[static_cast<std::size_t>(c)].second;
          }
        }
        looked[static_cast<std::size_t>(task)] = descent.looked;
      },
      poll);
  Index all = 0;
  for (Index some : looked) all += some;
  return all;
}

#define MERCER_KDTREE_OF(T)                                                                        \
  template KdTree::KdTree(const DenseArray<T>&, const Poll&);                                      \
  template Index KdTree::nearest(Part, const DenseArray<T>&, Index, const Index*, double*, Index*, \
                                 const Poll&) const;
MERCER_KDTREE_OF(float)
MERCER_KDTREE_OF(double)

}  // namespace mercer
