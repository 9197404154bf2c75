// M W and MᵀV of arrays with many rows and few columns of W and V.
#pragma once

#include "core.hpp"

namespace mercer {

// out[i·q + c] = Σⱼ M[i·p + j] W[j·q + c], summed in double.
template <class T>
void tall_times(const T* M, Index n, Index p, const T* W, Index q, double* out);

// sums[c·p + j] += Σᵢ M[i·p + j] V[i·q + c], likewise.
template <class T>
void tall_pull(const T* M, Index n, Index p, const T* V, Index q, double* sums);

// sums[i·p + j] += Σₜ h[t] M[t·p + i] M[t·p + j] for j ≤ i, h being 1 where it is null; what is
// above the diagonal is no sum. Terms of some rows are added in T, these sums in double.
template <class T>
void tall_squares(const T* M, Index n, Index p, const T* h, double* sums);

}  // namespace mercer
