// Kernels on sequences for Python: types of arrays, the lock, signals.
#include "bind.hpp"

#include <algorithm>
#include <utility>

#include "strings.hpp"

using namespace nanobind::literals;

namespace mercer {
namespace {

// Sequences whose arrays Python holds.
struct Held {
  Vector<std::int32_t> token;
  Vector<Index> start;
  std::int32_t alphabet;

  Held(Vector<std::int32_t> token, Vector<Index> start, std::int32_t alphabet)
      : token(token), start(start), alphabet(alphabet) {
    auto size = static_cast<Index>(token.shape(0));
    check(start.shape(0) > 0 && start.data()[0] == 0 && start.data()[start.shape(0) - 1] == size &&
              std::is_sorted(start.data(), start.data() + start.shape(0)),
          "Sequences need ascending starts, from 0 to the number of tokens.");
    check(std::all_of(token.data(), token.data() + size,
                      [&](std::int32_t t) { return t >= 0 && t < alphabet; }),
          "Sequences need 0 <= token < alphabet.");
  }
  Sequences view() const {
    return {token.data(), start.data(), static_cast<Index>(start.shape(0)) - 1, alphabet};
  }
};

void check_stretches(const Held& X, Vector<double> weights, Vector<double> factor) {
  check(std::all_of(weights.data(), weights.data() + weights.shape(0),
                    [](double weight) { return weight >= 0; }),
        "Stretches at places need weights >= 0.");
  const std::size_t n = X.start.shape(0) - 1;
  check(factor.shape(0) == n || factor.shape(0) == 0,
        "Stretches at places need a factor for every sequence.");
}

// X, Y or null, checked to have one alphabet and room for the result.
struct Both {
  Sequences X, Y;
  bool one;
  Both(const Held& x, const Held* y, bool diagonal, std::size_t room)
      : X(x.view()), Y(y ? y->view() : x.view()), one(!y) {
    check(!y || (x.alphabet == y->alphabet && !diagonal),
          "Sequences are compared in one alphabet, and a diagonal has one set of them.");
    check(static_cast<Index>(room) == (diagonal ? X.n : X.n * Y.n),
          "out needs one number for each pair of sequences.");
  }
  const Sequences* other() const { return one ? nullptr : &Y; }
};

template <class T>
nb::object moved(std::vector<T>&& values) {
  auto* kept = new std::vector<T>(std::move(values));
  nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  return nb::cast(nb::ndarray<nb::numpy, T, nb::ndim<1>>(kept->data(), {kept->size()}, owner));
}

}  // namespace

void bind_strings(nb::module_& m) {
  class_of<Held>(m, "Sequences", "Sequences of whole numbers, one after the other.")
      .def(nb::init<Vector<std::int32_t>, Vector<Index>, std::int32_t>(), "token"_a, "start"_a,
           "alphabet"_a);
  m.def(
      "subsequences",
      [](const Held& X, const Held* Y, bool diagonal, double decay, Vector<double> weights,
         ResultVector<double> mantissa, ResultVector<std::int64_t> exponent) {
        Both both(X, Y, diagonal, mantissa.shape(0));
        check(exponent.shape(0) == mantissa.shape(0), "subsequences needs room for exponents.");
        check(decay > 0 && decay <= 1 && weights.shape(0) > 0,
              "subsequences needs 0 < decay <= 1 and at least one weight.");
        WithoutLock unlocked;
        subsequences(both.X, both.other(), diagonal, decay, view(weights), mantissa.data(),
                     exponent.data(), poll);
      },
      "X"_a, "Y"_a.none(), "diagonal"_a, "decay"_a, "weights"_a, "mantissa"_a, "exponent"_a);
  m.def(
      "substrings",
      [](const Held& X, const Held* Y, bool diagonal, Vector<double> total,
         ResultVector<double> out) {
        Both both(X, Y, diagonal, out.shape(0));
        check(total.shape(0) > 0, "substrings needs the total of no weights, 0, at least.");
        WithoutLock unlocked;
        substrings(both.X, both.other(), diagonal, view(total), out.data(), poll);
      },
      "X"_a, "Y"_a.none(), "diagonal"_a, "total"_a, "out"_a);
  m.def(
      "matching_stretches",
      [](const Held& X, const Held* Y, bool diagonal, Vector<double> weights,
         ResultVector<double> out) {
        Both both(X, Y, diagonal, out.shape(0));
        WithoutLock unlocked;
        matching_stretches(both.X, both.other(), diagonal, view(weights), out.data(), poll);
      },
      "X"_a, "Y"_a.none(), "diagonal"_a, "weights"_a, "out"_a);
  m.def(
      "edit_distances",
      [](const Held& X, const Held* Y, ResultVector<double> out) {
        Both both(X, Y, false, out.shape(0));
        WithoutLock unlocked;
        edit_distances(both.X, both.other(), out.data(), poll);
      },
      "X"_a, "Y"_a.none(), "out"_a);
  m.def(
      "placed_stretches",
      [](const Held& X, Vector<double> weights, Vector<double> factor) {
        check_stretches(X, weights, factor);
        WithoutLock unlocked;
        return placed_stretches(X.view(), view(weights), view(factor), poll);
      },
      "X"_a, "weights"_a, "factor"_a);
  class_of<PlacedTries>(m, "PlacedTries")
      .def(
          "__init__",
          [](PlacedTries* self, const Held& X, Vector<double> weights, Vector<double> factor) {
            check_stretches(X, weights, factor);
            WithoutLock unlocked;
            new (self) PlacedTries(X.view(), view(weights), view(factor), poll);
          },
          "X"_a, "weights"_a, "factor"_a)
      .def_prop_ro("size", &PlacedTries::size)
      .def_prop_ro("width", &PlacedTries::width)
      .def_prop_ro("entries", &PlacedTries::entries)
      .def_prop_ro("bytes", &PlacedTries::bytes)
      .def(
          "times",
          [](const PlacedTries& rows, Vector<double> w, ResultVector<double> out) {
            check(extent(w.shape(0)) == rows.width() && extent(out.shape(0)) == rows.size(),
                  "A product needs a weight for every column and a place for every row.");
            WithoutLock unlocked;
            rows.times(view(w), view(out), poll);
          },
          "w"_a, "out"_a)
      .def(
          "pull",
          [](const PlacedTries& rows, Vector<std::int32_t> index, Vector<double> v,
             ResultVector<double> out) {
            check(extent(out.shape(0)) == rows.width() && v.shape(0) == index.shape(0),
                  "A product needs a number for every row and a place for every column.");
            check_places(index, rows.size());
            WithoutLock unlocked;
            rows.pull(view(index), view(v), view(out), poll);
          },
          "index"_a, "v"_a, "out"_a);
  m.def(
      "count_substrings",
      [](const Held& X, Index length, bool placed) {
        check(length >= 1, "count_substrings needs length >= 1.");
        Counts counts;
        {
          WithoutLock unlocked;
          counts = count_substrings(X.view(), length, placed, poll);
        }
        return nb::make_tuple(moved(std::move(counts.start)), moved(std::move(counts.column)),
                              moved(std::move(counts.count)), moved(std::move(counts.first)));
      },
      "X"_a, "length"_a, "placed"_a);
}

}  // namespace mercer
