// Where the sums Σₜ part(xₜ, yₜ) of a tile come from: panels, sparse rows, or both made local.
#pragma once

#include <memory>

#include "core.hpp"

namespace mercer {

// The least multiple of `grain` that is at least n, and how many grains that is.
inline Index rounded_up(Index n, Index grain) {
  return (n + grain - 1) / grain * grain;
}
inline Index pieces_of(Index n, Index grain) {
  return (n + grain - 1) / grain;
}

template <class T>
struct Source {
  virtual ~Source() = default;
  // sums[r·ld + c] for the points i + r of X, r < rows, and j + c of Y, c < columns; rows and
  // columns beyond, up to whole grains, may be written with anything. i, j: multiples of grain.
  virtual void fill(int worker, Index i, Index rows, Index j, Index columns, T* sums, Index ld) = 0;

  Index grain = 1;        // i, j and inner sizes of tiles are multiples of it
  Index band = 1;         // rows that one call to fill does best
  Index columns = 1;      // columns that one call to fill does best
  Index rows = 1;         // rows after which another run of columns may come
  Index square = 1;       // side of the tiles of a symmetric matrix
  bool products = false;  // the sums are ⟨x, y⟩ although the recipe wants squared distances
};

// For `workers` threads. Holds X and Y by reference.
template <class T>
std::unique_ptr<Source<T>> source(const Recipe&, const Points<T>& X, const Points<T>& Y,
                                  int workers);

}  // namespace mercer
