// Vectors for Python, and the module itself: types of arrays, the lock, signals.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <system_error>

#include "bind.hpp"
#include "core.hpp"
#include "threads.hpp"

namespace nb = nanobind;
using namespace nb::literals;

// threadpoolctl finds the pool by these two names.
extern "C" {
__attribute__((visibility("default"))) int mercer_get_num_threads() {
  return mercer::threads();
}
__attribute__((visibility("default"))) void mercer_set_num_threads(int count) {
  mercer::set_threads(count);
}
}

namespace mercer {
namespace {

Recipe recipe_of(const std::string& part, const std::string& finish, double scale, double offset,
                 Index degree, bool cumulative) {
  static const std::map<std::string, Part> parts = {
      {"product", Part::product}, {"square", Part::square},   {"absolute", Part::absolute},
      {"chi2", Part::chi2},       {"minimum", Part::minimum}, {"anova", Part::anova}};
  static const std::map<std::string, Finish> finishes = {
      {"identity", Finish::identity}, {"power", Finish::power}, {"exp", Finish::exp}};
  if (!parts.count(part)) {
    throw std::invalid_argument("Recipe knows no part '" + part +
                                "'; choose product, square, absolute, chi2, minimum or anova.");
  }
  if (!finishes.count(finish)) {
    throw std::invalid_argument("Recipe knows no finish '" + finish +
                                "'; choose identity, power or exp.");
  }
  if (degree < 0) {
    throw std::invalid_argument("Recipe needs degree >= 0; got degree=" + std::to_string(degree) +
                                ".");
  }
  if (part == "anova" && finish == "power") {
    throw std::invalid_argument(
        "Recipe needs degree for the order of anova, so it cannot be the exponent of power too; "
        "choose the finish identity or exp.");
  }
  return {parts.at(part), finishes.at(finish), scale, offset, degree, cumulative};
}

// void sgemm(char*, char*, int*, int*, int*, T*, T*, int*, T*, int*, T*, T*, int*), as scipy
// exports it; the capsule's name says whether it is.
template <class T>
using Gemm = void (*)(char*, char*, int*, int*, int*, T*, T*, int*, T*, int*, T*, T*, int*);

template <class T>
const char* gemm_signature() {
  return sizeof(T) == 4 ? "void (char *, char *, int *, int *, int *, "
                          "__pyx_t_5scipy_6linalg_11cython_blas_s *,"
                          " __pyx_t_5scipy_6linalg_11cython_blas_s *, int *,"
                          " __pyx_t_5scipy_6linalg_11cython_blas_s *, int *,"
                          " __pyx_t_5scipy_6linalg_11cython_blas_s *,"
                          " __pyx_t_5scipy_6linalg_11cython_blas_s *, int *)"
                        : "void (char *, char *, int *, int *, int *, "
                          "__pyx_t_5scipy_6linalg_11cython_blas_d *,"
                          " __pyx_t_5scipy_6linalg_11cython_blas_d *, int *,"
                          " __pyx_t_5scipy_6linalg_11cython_blas_d *, int *,"
                          " __pyx_t_5scipy_6linalg_11cython_blas_d *,"
                          " __pyx_t_5scipy_6linalg_11cython_blas_d *, int *)";
}

// out = X Yᵀ by the capsule's function; False if the capsule or the sizes are not its.
template <class T>
bool gemm(nb::handle capsule, Matrix<T> X, Matrix<T> Y, Output<T> out) {
  check(X.shape(1) == Y.shape(1) && out.shape(0) == X.shape(0) && out.shape(1) == Y.shape(0),
        "gemm needs (n, d), (m, d) and (n, m).");
  constexpr Index most = std::numeric_limits<int>::max();
  if (!PyCapsule_CheckExact(capsule.ptr())) return false;
  const char* name = PyCapsule_GetName(capsule.ptr());
  if (!name || std::strcmp(name, gemm_signature<T>()) != 0) return false;
  if (extent(Y.shape(0)) > most || extent(X.shape(1)) > most) return false;
  auto call = reinterpret_cast<Gemm<T>>(PyCapsule_GetPointer(capsule.ptr(), name));
  Index n = extent(X.shape(0)), d = extent(X.shape(1)), m = extent(Y.shape(0));
  if (n == 0 || m == 0) return true;
  {
    WithoutLock unlocked;
    if (d == 0) {
      std::fill(out.data(), out.data() + n * m, T{0});
      return true;
    }
    // Ctrl-C ends it in between: a piece takes about a tenth of a second on one core.
    constexpr Index work = sizeof(T) == 4 ? 4'000'000'000 : 2'000'000'000;
    const Index rows = std::clamp<Index>(work / (m * d) / 64 * 64, 64, 4096);
    for (Index i = 0; i < n; i += rows) {
      char trans = 'T', plain = 'N';
      int across = static_cast<int>(m), down = static_cast<int>(std::min(rows, n - i));
      int depth = static_cast<int>(d);
      T one = 1, zero = 0;
      call(&trans, &plain, &across, &down, &depth, &one, const_cast<T*>(Y.data()), &depth,
           const_cast<T*>(X.data()) + i * d, &depth, &zero, out.data() + i * m, &across);
      poll();
    }
  }
  return true;
}

// Rows of an array that Python keeps.
template <class T>
class DenseOriginals final : public Originals {
 public:
  explicit DenseOriginals(Matrix<T> X) : X_(X) {}
  Points<double> take(std::span<const Index> which) const override {
    Index d = extent(X_.shape(1));
    return Points<double>::of_rows(extent(which.size()), d, [&](Index r, double* to) {
      std::copy_n(X_.data() + which[r] * d, d, to);
    });
  }

 private:
  Matrix<T> X_;
};

template <class I, class T>
class SparseOriginals final : public Originals {
 public:
  SparseOriginals(Vector<I> start, Vector<I> column, Vector<T> value, Index d)
      : start_(start), column_(column), value_(value), d_(d) {}
  Points<double> take(std::span<const Index> which) const override {
    std::vector<Index> start{0}, column;
    std::vector<double> value;
    for (Index i : which) {
      for (I k = start_.data()[i]; k < start_.data()[i + 1]; ++k) {
        column.push_back(column_.data()[k]);
        value.push_back(value_.data()[k]);
      }
      start.push_back(extent(column.size()));
    }
    return Points<double>::of_csr(start.data(), column.data(), value.data(), extent(which.size()),
                                  d_);
  }

 private:
  Vector<I> start_, column_;
  Vector<T> value_;
  Index d_;
};

template <class T>
void bind_originals(nb::module_& m) {
  m.def(
      "originals",
      [](Matrix<T> X) -> std::unique_ptr<Originals> {
        return std::make_unique<DenseOriginals<T>>(X);
      },
      "X"_a);
  auto sparse = [&](auto index) {
    using I = decltype(index);
    m.def(
        "originals",
        [](Vector<I> start, Vector<I> column, Vector<T> value,
           Index d) -> std::unique_ptr<Originals> {
          return std::make_unique<SparseOriginals<I, T>>(start, column, value, d);
        },
        "start"_a, "column"_a, "value"_a, "d"_a);
  };
  sparse(std::int32_t{});
  sparse(std::int64_t{});
}

template <class T>
void bind(nb::module_& m, const char* name) {
  using P = Points<T>;
  class_of<P>(m, name, "Points packed for the core.")
      .def_prop_ro("shape", [](const P& p) { return nb::make_tuple(p.n, p.d); })
      .def_prop_ro("nbytes", [](const P& p) {
        return p.panels.size() * sizeof(T) + p.value.size() * (sizeof(T) + 4) + p.start.size() * 8 +
               p.norms.size() * sizeof(T);
      });
  m.def(
      "pack",
      [](Matrix<T> X) {
        WithoutLock unlocked;
        return P::of_dense(X.data(), extent(X.shape(0)), extent(X.shape(1)));
      },
      "X"_a);
  auto pack_csr = [&](auto index) {
    using I = decltype(index);
    m.def(
        "pack_csr",
        [](Vector<I> start, Vector<I> column, Vector<T> value, Index d) {
          check(start.shape(0) > 0 && column.shape(0) == value.shape(0) &&
                    extent(start.data()[start.shape(0) - 1]) <= extent(value.shape(0)),
                "CSR matrix is malformed: indptr, indices and data do not fit together.");
          check(d >= 0 && d <= std::numeric_limits<std::int32_t>::max(),
                "CSR matrix has more than 2**31 - 1 columns; number the columns that occur.");
          WithoutLock unlocked;
          return P::template of_csr<I>(start.data(), column.data(), value.data(),
                                       extent(start.shape(0)) - 1, d);
        },
        "start"_a, "column"_a, "value"_a, "d"_a);
  };
  pack_csr(std::int32_t{});
  pack_csr(std::int64_t{});
  m.def(
      "block",
      [](const Recipe& recipe, const P& X, const P* Y, Output<T> out) {
        const P& other = Y ? *Y : X;
        check(X.d == other.d && extent(out.shape(0)) == X.n && extent(out.shape(1)) == other.n,
              "block needs (n, d), (m, d) and out (n, m).");
        WithoutLock unlocked;
        if (Y) {
          block(recipe, X, other, out.data(), poll);
        } else {
          block(recipe, X, out.data(), poll);
        }
      },
      "recipe"_a, "X"_a, "Y"_a.none(), "out"_a);
  m.def(
      "complete",
      [](const Recipe& recipe, const P& X, const P* Y, Output<T> out) {
        const P& other = Y ? *Y : X;
        check(extent(out.shape(0)) == X.n && extent(out.shape(1)) == other.n,
              "complete needs (n, d), (m, d) and out (n, m).");
        WithoutLock unlocked;
        complete(recipe, X, other, !Y, out.data(), poll);
      },
      "recipe"_a, "X"_a, "Y"_a.none(), "out"_a);
  m.def(
      "product",
      [](const Recipe& recipe, const P& X, const P& Y, Matrix<T> v, Output<double> out) {
        check(X.d == Y.d && extent(v.shape(0)) == Y.n && extent(out.shape(0)) == X.n &&
                  out.shape(1) == v.shape(1),
              "product needs (n, d), (m, d), (m, q) and out (n, q).");
        WithoutLock unlocked;
        product(recipe, X, Y, v.data(), extent(v.shape(1)), out.data(), poll);
      },
      "recipe"_a, "X"_a, "Y"_a, "v"_a, "out"_a);
  m.def(
      "both_ways",
      [](Strided<T> tile, Matrix<T> v_rows, Matrix<T> v_columns, Output<double> of_rows,
         std::optional<Output<double>> of_columns) {
        Index n = extent(tile.shape(0)), m = extent(tile.shape(1)), q = extent(v_columns.shape(1));
        check(tile.stride(1) == 1 && extent(v_rows.shape(0)) == n && extent(v_rows.shape(1)) == q &&
                  extent(v_columns.shape(0)) == m && extent(of_rows.shape(0)) == n &&
                  extent(of_rows.shape(1)) == q &&
                  (!of_columns ||
                   (extent(of_columns->shape(0)) == m && extent(of_columns->shape(1)) == q)),
              "both_ways needs a tile (n, m) with contiguous rows, v_rows and of_rows (n, q), "
              "v_columns and of_columns (m, q).");
        WithoutLock unlocked;
        both_ways<T>(tile.data(), tile.stride(0), n, m, v_rows.data(), v_columns.data(), q,
                     of_rows.data(), of_columns ? of_columns->data() : nullptr, poll);
      },
      "tile"_a, "v_rows"_a, "v_columns"_a, "of_rows"_a, "of_columns"_a.none());
  m.def(
      "diag",
      [](const Recipe& recipe, const P& X, ResultVector<T> out) {
        check(extent(out.shape(0)) == X.n, "diag needs (n, d) and out (n,).");
        WithoutLock unlocked;
        diag(recipe, X, out.data());
      },
      "recipe"_a, "X"_a, "out"_a);
  m.def(
      "rows",
      [](const Recipe& recipe, const P& X, Vector<Index> which, Output<T> out) {
        check(out.shape(0) == which.shape(0) && extent(out.shape(1)) == X.n,
              "rows needs (n, d), (k,) and out (k, n).");
        std::span<const Index> index(which.data(), which.shape(0));
        for (Index i : index) check(i >= 0 && i < X.n, "rows needs 0 <= which < n.");
        WithoutLock unlocked;
        std::vector<T*> rows;
        for (Index r = 0; r < extent(index.size()); ++r) rows.push_back(out.data() + r * X.n);
        std::vector<double> factor(index.size(), 0.0), sums(static_cast<std::size_t>(X.n), 0.0);
        VectorRows<T>(recipe, X, poll).add(index, factor, rows, sums.data());
      },
      "recipe"_a, "X"_a, "which"_a, "out"_a);
  m.def(
      "direct", [](const Recipe& recipe, const P& X, const P& Y) { return direct(recipe, X, Y); },
      "recipe"_a, "X"_a, "Y"_a);
  m.def(
      "symmetric_product",
      [](const Recipe& recipe, const P& X, Vector<T> v, ResultVector<double> out) {
        check(extent(v.shape(0)) == X.n && extent(out.shape(0)) == X.n,
              "symmetric_product needs (n, d), (n,) and out (n,).");
        WithoutLock unlocked;
        symmetric_product(recipe, X, v.data(), out.data(), poll);
      },
      "recipe"_a, "X"_a, "v"_a, "out"_a);
  m.def(
      "entry_error",
      [](const Recipe& recipe, const P& X) {
        // Of sums in double, whatever the precision of these points.
        return entry_error(recipe, static_cast<double>(X.d), X.largest,
                           direct<double>(recipe, X.d, 2 * X.largest));
      },
      "recipe"_a, "X"_a);
  m.def("gemm", &gemm<T>, "capsule"_a, "X"_a, "Y"_a, "out"_a);
  m.def(
      "exp",
      [](Vector<T> x, ResultVector<T> out) {
        check(x.shape(0) == out.shape(0), "exp needs x and out of one size.");
        loops<T>().exp(x.data(), out.data(), extent(x.shape(0)));
      },
      "x"_a, "out"_a);
}

// What the system refuses, in words that say what to do: memory, and threads for want of it.
void translate(const std::exception_ptr& thrown, void*) {
  constexpr const char* words =
      "The compiled core ran out of memory: an allocation was refused, by the machine or by a "
      "limit "
      "on this process (RLIMIT_AS, a control group). Take fewer points, lower cache_size, or raise "
      "the limit.";
  try {
    std::rethrow_exception(thrown);
  } catch (const std::bad_alloc&) {
    PyErr_SetString(PyExc_MemoryError, words);
  } catch (const std::system_error& error) {
    if (error.code() != std::errc::not_enough_memory) throw;
    PyErr_SetString(PyExc_MemoryError, words);
  }
}

}  // namespace
}  // namespace mercer

NB_MODULE(_core, m) {
  nb::register_exception_translator(mercer::translate);
  m.doc() = "The native core: points packed for it, blocks of Gram matrices, solvers.";
  // What a daemon thread still uses at the end of the process is no leak. Set for ours only: the
  // build gives this module a domain of its own.
  nb::set_leak_warnings(false);
  mercer::instruction_set();  // a MERCER_ISA that cannot run fails the import, not a computation
  mercer::class_of<mercer::Recipe>(m, "Recipe")
      .def(
          "__init__",
          [](mercer::Recipe* self, const std::string& part, const std::string& finish, double scale,
             double offset, mercer::Index degree, bool cumulative) {
            new (self)
                mercer::Recipe(mercer::recipe_of(part, finish, scale, offset, degree, cumulative));
          },
          "part"_a, "finish"_a, "scale"_a, "offset"_a, "degree"_a, "cumulative"_a);
  mercer::bind<float>(m, "PointsFloat");
  mercer::bind<double>(m, "PointsDouble");
  m.def(
      "widen",
      [](const mercer::Points<float>& X) {
        mercer::WithoutLock unlocked;
        return mercer::widened(X);
      },
      "X"_a);
  mercer::class_of<mercer::Originals>(m, "Originals",
                                      "Points as they were given, for sums in double.");
  mercer::bind_originals<float>(m);
  mercer::bind_originals<double>(m);
  mercer::bind_smo(m);
  mercer::bind_perceptron(m);
  mercer::bind_sgd(m);
  mercer::bind_l1(m);
  mercer::bind_features(m);
  mercer::bind_strings(m);
  mercer::bind_trees(m);
  mercer::bind_walks(m);
  mercer::bind_nearest(m);
  mercer::bind_votes(m);
  mercer::bind_densities(m);
  mercer::bind_clusters(m);
  mercer::bind_tall(m);
  mercer::bind_text(m);
  m.def("threads", &mercer::threads);
  m.def(
      "limit_threads", [](int count) { return mercer::limit_threads(count); }, "count"_a,
      "The most threads for computations of this one, 0 for no limit; returns what it was.");
  m.def(
      "set_threads",
      [](int count) {
        mercer::check(count >= 1, "set_threads needs at least 1.");
        mercer::set_threads(count);
      },
      "count"_a);
  m.def("instruction_set", [] { return mercer::instruction_set().name; });
}
