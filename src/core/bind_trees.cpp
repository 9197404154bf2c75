// Tree kernels for Python: types of arrays, the lock, signals.
#include <nanobind/stl/optional.h>

#include "bind.hpp"
#include "trees.hpp"

using namespace nanobind::literals;

namespace mercer {
namespace {

// The first refusal; None where there was none.
std::optional<Refusal> first(const Refusal& refusal) {
  if (refusal.row < 0) return {};
  return refusal;
}

}  // namespace

void bind_trees(nb::module_& m) {
  class_of<TreeRule>(m, "TreeRule", "How trees are compared.")
      .def(
          "__init__",
          [](TreeRule* self, bool partial, double decay, double gap, double most_pairs,
             bool logarithm) {
            new (self) TreeRule{partial ? Fragment::partial : Fragment::subset, decay, gap,
                                most_pairs, logarithm};
          },
          "partial"_a, "decay"_a, "gap"_a, "most_pairs"_a, "logarithm"_a);
  class_of<Refusal>(m, "Refusal", "A pair of trees that has no value.")
      .def_ro("row", &Refusal::row)
      .def_ro("column", &Refusal::column)
      .def_ro("pairs", &Refusal::pairs)
      .def_ro("log_value", &Refusal::log_value);
  class_of<Forest>(m, "Forest", "Trees packed for the core.")
      .def(
          "__init__",
          [](Forest* self, Vector<std::int32_t> label, Vector<std::int32_t> arity,
             Vector<Index> start) {
            new (self)
                Forest(Forest::of({label.data(), label.shape(0)}, {arity.data(), arity.shape(0)},
                                  {start.data(), start.shape(0)}));
          },
          "label"_a, "arity"_a, "start"_a);
  m.def(
      "tree_block",
      [](const Forest& forest, const TreeRule& rule, Index n, Output<double> out) {
        Index columns = n == forest.trees() ? n : forest.trees() - n;
        if (n < 0 || columns < 0 || static_cast<Index>(out.shape(0)) != n ||
            static_cast<Index>(out.shape(1)) != columns) {
          throw std::invalid_argument("tree_block needs out (n, trees - n), or (n, n) for all.");
        }
        Refusal refusal;
        {
          WithoutLock unlocked;
          refusal = tree_block(forest, rule, n, out.data(), poll);
        }
        return first(refusal);
      },
      "forest"_a, "rule"_a, "n"_a, "out"_a);
  m.def(
      "tree_diag",
      [](const Forest& forest, const TreeRule& rule, ResultVector<double> out) {
        if (static_cast<Index>(out.shape(0)) != forest.trees()) {
          throw std::invalid_argument("tree_diag needs out (trees,).");
        }
        Refusal refusal;
        {
          WithoutLock unlocked;
          refusal = tree_diag(forest, rule, out.data(), poll);
        }
        return first(refusal);
      },
      "forest"_a, "rule"_a, "out"_a);
}

}  // namespace mercer
