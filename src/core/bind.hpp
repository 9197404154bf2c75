// What the files that know Python share: types of arrays, errors, signals; and their parts.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <unistd.h>

#include <span>
#include <stdexcept>

#include "core.hpp"

namespace mercer {

namespace nb = nanobind;

template <class T>
using Matrix = nb::ndarray<const T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
template <class T>
using Strided = nb::ndarray<const T, nb::ndim<2>, nb::device::cpu>;
template <class T>
using Output = nb::ndarray<T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
template <class T>
using Vector = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T>
using ResultVector = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

inline Index extent(std::size_t n) {
  return static_cast<Index>(n);
}

// The numbers of a vector.
template <class Array>
auto view(const Array& array) {
  return std::span(array.data(), array.shape(0));
}

inline void check(bool right, const char* what) {
  if (!right) throw std::invalid_argument(what);
}

// Calls what takes Python's lock. When the interpreter ends, Python up to 3.13 ends a thread that
// asks for the lock by pthread_exit: glibc would unwind our frames, and the first destructor on its
// way ends the process in std::terminate. Such a thread stops here instead, until the process ends.
template <class Call>
void take_lock(const Call& call) noexcept {
  try {
    call();
  } catch (...) {
    for (;;) pause();
  }
}

// Python's lock is free as long as this lives.
class WithoutLock {
 public:
  WithoutLock() : state_(PyEval_SaveThread()) {}
  ~WithoutLock() {
    take_lock([this] { PyEval_RestoreThread(state_); });
  }
  WithoutLock(const WithoutLock&) = delete;
  WithoutLock& operator=(const WithoutLock&) = delete;

 private:
  PyThreadState* state_;
};

// This thread has Python's lock as long as this lives.
class WithLock {
 public:
  WithLock() {
    take_lock([this] { state_ = PyGILState_Ensure(); });
  }
  ~WithLock() { PyGILState_Release(state_); }
  WithLock(const WithLock&) = delete;
  WithLock& operator=(const WithLock&) = delete;

 private:
  PyGILState_STATE state_;
};

// Places of rows of features.
inline void check_places(Vector<std::int32_t> place, Index rows) {
  for (std::size_t k = 0; k < place.shape(0); ++k) {
    check(place(k) >= 0 && place(k) < rows, "A product needs places of rows that there are.");
  }
}

// Lets Ctrl-C end a computation; called without the lock.
inline void poll() {
  WithLock lock;
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

// The Python class of T, a member of m. A module that was deleted and is imported again finds the
// class of the first time: nanobind knows one for each T.
template <class T, class... Extra>
nb::class_<T> class_of(nb::module_& m, const char* name, const Extra&... extra) {
  nb::handle known = nb::type<T>();
  if (!known.is_valid()) return nb::class_<T>(m, name, extra...);
  m.attr(name) = known;
  return nb::borrow<nb::class_<T>>(known);
}

void bind_smo(nb::module_& m);
void bind_perceptron(nb::module_& m);
void bind_sgd(nb::module_& m);
void bind_l1(nb::module_& m);
void bind_features(nb::module_& m);
void bind_strings(nb::module_& m);
void bind_trees(nb::module_& m);
void bind_walks(nb::module_& m);
void bind_nearest(nb::module_& m);
void bind_votes(nb::module_& m);
void bind_densities(nb::module_& m);
void bind_clusters(nb::module_& m);
void bind_tall(nb::module_& m);
void bind_text(nb::module_& m);

}  // namespace mercer
