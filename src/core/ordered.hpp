// Decision values of LIBSVM's models with its roundings: every sum runs over ascending indices and
// over support vectors in their order, by one product and one addition at a time, so that what is
// printed of them is the same to the last digit.
#pragma once

#include "core.hpp"

namespace mercer {

struct SparseRowsView {
  Index rows = 0;
  const Index* ends = nullptr;  // rows + 1 of them
  const Index* columns = nullptr;
  const double* values = nullptr;
};

enum class OrderedKernel { linear, polynomial, rbf, sigmoid, precomputed };

// The pairs (i, j), i < j, of the classes of the support vectors, of which class c has those from
// first[c] to first[c + 1]; coef is (classes - 1) × n, as in LIBSVM. With one function alone,
// classes = 0 and coef is 1 × n.
struct OrderedModel {
  OrderedKernel kernel = OrderedKernel::linear;
  double gamma = 0, coef0 = 0;
  Index degree = 0;
  SparseRowsView vectors;  // of a precomputed kernel: the column of each, in `serial`
  const Index* serial = nullptr;
  Index classes = 0;
  const Index* first = nullptr;
  const double *coef = nullptr, *rho = nullptr;
  Index columns = 0;  // beyond every index of the support vectors and of the points
};

// values (m × functions): f of each pair of classes, or f.
void ordered_values(const OrderedModel&, const SparseRowsView& X, double* values, const Poll& = {});

// Probabilities (m × classes) from the values of f of all pairs: sigmoids of f, and with more
// than two classes the second method of Wu, Lin and Weng, JMLR 5 (2004), by its iteration.
// Returns how many of the points took all its steps.
Index ordered_probabilities(Index classes, Index m, const double* values, const double* A,
                            const double* B, double* p, const Poll& = {});

}  // namespace mercer
