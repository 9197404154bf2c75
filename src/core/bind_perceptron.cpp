// The perceptron for Python: types of arrays, the lock, signals.
#include <algorithm>

#include "bind.hpp"
#include "bind_csr.hpp"
#include "perceptron.hpp"

using namespace nanobind::literals;

namespace mercer {
namespace {

Pass pass_of(Matrix<std::int8_t> side, Output<double>* scores, Output<std::uint8_t> missed,
             double shift, bool settle) {
  std::size_t n = side.shape(0), q = side.shape(1);
  check(missed.shape(0) == n && missed.shape(1) == q, "perceptron needs side and missed (n, q).");
  check(!scores || (scores->shape(0) == q && scores->shape(1) == n),
        "perceptron needs scores (q, n).");
  return {extent(n),     extent(q), side.data(), scores ? scores->data() : nullptr,
          missed.data(), shift,     settle};
}

std::span<const Index> order_of(Vector<Index> order, Index n, Index points) {
  std::span<const Index> index(order.data(), order.shape(0));
  check(extent(index.size()) == n, "perceptron needs an order of n points.");
  for (Index i : index) check(i >= 0 && i < points, "perceptron needs 0 <= order < n.");
  return index;
}

Look look_of(const nb::object& watch) {
  if (watch.is_none()) return {};
  return [&watch](Index seen, Index mistakes) {
    WithLock lock;
    return nb::cast<bool>(watch(seen, mistakes));
  };
}

template <class T, class I>
void bind_rows(nb::module_& m) {
  m.def(
      "perceptron_csr",
      [](Vector<I> start, Vector<I> column, Vector<T> value, Vector<Index> order,
         Matrix<std::int8_t> side, Output<double> w, Output<double> u, double eta, double constant,
         Index time, Output<std::uint8_t> missed, nb::object watch) {
        Pass pass = pass_of(side, nullptr, missed, 0, false);
        Index d = extent(w.shape(1)) - 1;
        check(extent(w.shape(0)) == pass.q, "perceptron_csr needs w (q, d + 1).");
        const Vectors<T, I> X = checked_csr<T, I>(start, column, value, d);
        auto index = order_of(order, pass.n, X.n);
        check(u.shape(0) == w.shape(0) && u.shape(1) == w.shape(1),
              "perceptron needs w and u of one shape.");
        Weights weights{w.data(), u.data(), eta, constant, time};
        Look look = look_of(watch);
        WithoutLock unlocked;
        return mercer::pass<T, I>(X, index, weights, pass, look, poll);
      },
      "start"_a, "column"_a, "value"_a, "order"_a, "side"_a, "w"_a, "u"_a, "eta"_a, "constant"_a,
      "time"_a, "missed"_a, "watch"_a.none());
}

template <class T>
void bind_of(nb::module_& m) {
  m.def(
      "perceptron",
      [](const Recipe& recipe, const Points<T>& X, Vector<Index> order, double shift,
         Matrix<std::int8_t> side, Output<double> scores, bool settle, Output<std::uint8_t> missed,
         nb::object watch) {
        Pass pass = pass_of(side, &scores, missed, shift, settle);
        check(X.n == pass.n, "perceptron needs a side for each point.");
        Look look = look_of(watch);
        bool as_they_are = order.shape(0) == 0;
        auto index = as_they_are ? std::span<const Index>() : order_of(order, pass.n, X.n);
        WithoutLock unlocked;
        if (as_they_are) return mercer::pass<T>(recipe, X, pass, look, poll);
        return mercer::pass<T>(recipe, X.take(index), pass, look, poll);
      },
      "recipe"_a, "X"_a, "order"_a, "shift"_a, "side"_a, "scores"_a, "settle"_a, "missed"_a,
      "watch"_a.none());
  m.def(
      "perceptron_dense",
      [](Matrix<T> matrix, Vector<Index> order, double shift, Matrix<std::int8_t> side,
         Output<double> scores, Output<std::uint8_t> missed, nb::object watch) {
        Pass pass = pass_of(side, &scores, missed, shift, true);
        check(extent(matrix.shape(0)) == pass.n && extent(matrix.shape(1)) == pass.n,
              "perceptron_dense needs a matrix (n, n).");
        auto index = order_of(order, pass.n, pass.n);
        Look look = look_of(watch);
        WithoutLock unlocked;
        return mercer::pass<T>(matrix.data(), index, pass, look, poll);
      },
      "matrix"_a, "order"_a, "shift"_a, "side"_a, "scores"_a, "missed"_a, "watch"_a.none());
  m.def(
      "perceptron_vectors",
      [](Matrix<T> X, Vector<Index> order, Matrix<std::int8_t> side, Output<double> w,
         Output<double> u, double eta, double constant, Index time, Output<std::uint8_t> missed,
         nb::object watch) {
        Pass pass = pass_of(side, nullptr, missed, 0, false);
        Index n = extent(X.shape(0)), d = extent(X.shape(1));
        check(extent(w.shape(0)) == pass.q && extent(w.shape(1)) == d + 1,
              "perceptron_vectors needs w (q, d + 1).");
        auto index = order_of(order, pass.n, n);
        check(u.shape(0) == w.shape(0) && u.shape(1) == w.shape(1),
              "perceptron needs w and u of one shape.");
        Weights weights{w.data(), u.data(), eta, constant, time};
        Look look = look_of(watch);
        WithoutLock unlocked;
        Vectors<T, std::int32_t> points{n, d, X.data()};
        return mercer::pass<T, std::int32_t>(points, index, weights, pass, look, poll);
      },
      "X"_a, "order"_a, "side"_a, "w"_a, "u"_a, "eta"_a, "constant"_a, "time"_a, "missed"_a,
      "watch"_a.none());
  bind_rows<T, std::int32_t>(m);
  bind_rows<T, std::int64_t>(m);
}

}  // namespace

void bind_perceptron(nb::module_& m) {
  bind_of<float>(m);
  bind_of<double>(m);
}

}  // namespace mercer
