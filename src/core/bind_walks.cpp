// Random walks on graphs for Python: types of arrays, the lock, signals.
#include <nanobind/stl/optional.h>

#include "bind.hpp"
#include "walks.hpp"

using namespace nanobind::literals;

namespace mercer {
namespace {

// The first pair whose sum does not settle; None where there is none.
std::optional<Unsettled> first(const Unsettled& unsettled) {
  if (unsettled.row < 0) return {};
  return unsettled;
}

}  // namespace

void bind_walks(nb::module_& m) {
  class_of<WalkRule>(m, "WalkRule", "How walks are summed up.")
      .def(
          "__init__",
          [](WalkRule* self, double decay, Index most_rounds, double tolerance,
             Index most_entries) {
            check(most_entries >= 0 && most_entries <= (Index{1} << 30),
                  "WalkRule needs 0 <= most_entries <= 2**30.");
            new (self) WalkRule{decay, most_rounds, tolerance, most_entries};
          },
          "decay"_a, "most_rounds"_a, "tolerance"_a, "most_entries"_a);
  class_of<Unsettled>(m, "Unsettled", "A pair of graphs whose sum of walks does not settle.")
      .def_ro("row", &Unsettled::row)
      .def_ro("column", &Unsettled::column);
  class_of<GraphSet>(m, "GraphSet", "Graphs packed for the core.")
      .def(
          "__init__",
          [](GraphSet* self, Vector<Index> start, Vector<std::int32_t> label, Vector<Index> first,
             Vector<Index> near, Vector<std::int32_t> kind, Vector<double> weight) {
            new (self) GraphSet(GraphSet::of(view(start), view(label), view(first), view(near),
                                             view(kind), view(weight)));
          },
          "start"_a, "label"_a, "first"_a, "near"_a, "kind"_a, "weight"_a);
  m.def(
      "walk_block",
      [](const GraphSet& set, const WalkRule& rule, Vector<double> reach, Index n,
         Output<double> out) {
        Index columns = n == set.graphs() ? n : set.graphs() - n;
        check(n >= 0 && columns >= 0 && static_cast<Index>(out.shape(0)) == n &&
                  static_cast<Index>(out.shape(1)) == columns &&
                  static_cast<Index>(reach.shape(0)) == set.graphs(),
              "walk_block needs out (n, graphs - n), or (n, n) for all, and reach (graphs,).");
        Unsettled unsettled;
        {
          WithoutLock unlocked;
          unsettled = walk_block(set, rule, view(reach), n, out.data(), poll);
        }
        return first(unsettled);
      },
      "set"_a, "rule"_a, "reach"_a, "n"_a, "out"_a);
  m.def(
      "walk_diag",
      [](const GraphSet& set, const WalkRule& rule, Vector<double> reach,
         ResultVector<double> out) {
        check(static_cast<Index>(out.shape(0)) == set.graphs() &&
                  static_cast<Index>(reach.shape(0)) == set.graphs(),
              "walk_diag needs out (graphs,) and reach (graphs,).");
        Unsettled unsettled;
        {
          WithoutLock unlocked;
          unsettled = walk_diag(set, rule, view(reach), out.data(), poll);
        }
        return first(unsettled);
      },
      "set"_a, "rule"_a, "reach"_a, "out"_a);
}

}  // namespace mercer
