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

}  // namespace mercer
