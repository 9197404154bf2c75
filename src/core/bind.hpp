// What the files that know Python share: types of arrays, errors, signals; and their parts.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <stdexcept>

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

inline void check(bool right, const char* what) {
  if (!right) throw std::invalid_argument(what);
}

// Lets Ctrl-C end a computation; called without the lock.
inline void poll() {
  nb::gil_scoped_acquire lock;
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

void bind_perceptron(nb::module_& m);
void bind_sgd(nb::module_& m);
void bind_l1(nb::module_& m);
void bind_strings(nb::module_& m);
void bind_trees(nb::module_& m);
void bind_walks(nb::module_& m);
void bind_nearest(nb::module_& m);

}  // namespace mercer
