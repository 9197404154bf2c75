// The votes of class pairs for Python: types of arrays, the lock, signals.
#include "bind.hpp"
#include "votes.hpp"

using namespace nanobind::literals;

namespace mercer {

void bind_votes(nb::module_& m) {
  m.def(
      "votes",
      [](Matrix<double> K, Vector<Index> first, Matrix<double> rival, Matrix<double> turned,
         Vector<double> bias, bool zero_is_first, Output<double> won, Output<double> sum,
         Output<double> values) {
        Index k = static_cast<Index>(first.shape(0)) - 1, n = static_cast<Index>(rival.shape(0));
        Index rows = static_cast<Index>(K.shape(0)), pairs = k * (k - 1) / 2;
        auto is = [](auto& array, Index height, Index width) {
          return static_cast<Index>(array.shape(0)) == height &&
                 static_cast<Index>(array.shape(1)) == width;
        };
        check(k > 1 && is(K, rows, n) && is(rival, n, k - 1) && is(turned, k - 1, n) &&
                  static_cast<Index>(bias.shape(0)) == pairs && is(won, rows, k) &&
                  is(sum, rows, k) && (is(values, rows, pairs) || is(values, 0, 0)),
              "votes needs K (m, n), first (k + 1,), rival (n, k - 1), turned (k - 1, n), bias and "
              "a column of values for each pair or (0, 0), won and sum (m, k).");
        bool sorted = first.data()[0] == 0 && first.data()[k] == n;
        for (Index c = 0; c < k; ++c) sorted = sorted && first.data()[c] <= first.data()[c + 1];
        check(sorted, "votes needs first from 0 to n, never falling.");
        ClassPairs classes{k, n, first.data(), rival.data(), turned.data(), bias.data()};
        WithoutLock unlocked;
        votes(classes, K.data(), rows, zero_is_first, won.data(), sum.data(),
              values.shape(0) ? values.data() : nullptr, poll);
      },
      "K"_a, "first"_a, "rival"_a, "turned"_a, "bias"_a, "zero_is_first"_a, "won"_a, "sum"_a,
      "values"_a);
}

}  // namespace mercer
