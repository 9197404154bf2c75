// The loop over the tiles of a block of kernel values, each finished and used while it is in the
// cache; and the sizes of tiles and tasks.
#pragma once

#include <algorithm>
#include <vector>

#include "sources.hpp"
#include "threads.hpp"

namespace mercer {

// Numbers beyond the columns of a tile that its readers may touch; also keeps rows of a tile from
// falling on the same cache sets.
constexpr Index tile_slack = 16;

// Kernel values of some points of X and of Y: those of i + r and j + c are at row(r)[c].
template <class T>
struct Tile {
  T* values;
  Index ld;  // from one row to the next
  Index i, height, j, width;
  T* row(Index r) const { return values + r * ld; }
};

// How many threads are worth waking for the kernel values of n × m points, at `cost`
// multiplications each: waking one takes about as long as a million steps.
inline int workers_for(Index n, Index m, double cost) {
  double steps = static_cast<double>(n) * static_cast<double>(m) * (cost + 16);
  return steps < 1e6 ? 1 : threads();
}

// Tasks that keep all workers busy until the end.
inline Index enough_tasks(int workers) {
  return workers > 1 ? 4 * workers : 1;
}

// The size of a task, halved until there are `least` of them by tasks(size), or it is one grain.
template <class Tasks>
Index halved_until(Index least, Index size, Index grain, const Tasks& tasks) {
  while (size > grain && tasks(size) < least) size = rounded_up(size / 2, grain);
  return size;
}

// Tiles of at most `rows` rows and `columns` columns, one in work for each thread. Holds what it is
// given by reference.
template <class T>
class TileLoop {
 public:
  TileLoop(const Recipe& recipe, Source<T>& source, const Points<T>& X, const Points<T>& Y,
           Index rows, Index columns, int workers)
      : recipe_(recipe),
        source_(source),
        X_(X),
        Y_(Y),
        rows_(rows),
        columns_(columns),
        buffers_(static_cast<std::size_t>(workers)) {}

  // Calls use(tile) for the tiles of points i0 ≤ i < i1 of X and j0 ≤ j < j1 of Y, all those of
  // some columns before the next columns. Their values are the source's sums, which are still to be
  // finished. i0 and j0 are multiples of the source's grain.
  template <class Use>
  void sums(int worker, Index i0, Index i1, Index j0, Index j1, const Use& use) {
    Index ld = columns_ + tile_slack;
    auto& buffer = buffers_[static_cast<std::size_t>(worker)];
    if (buffer.empty()) {
      // Zeros, so that what fills tiles up to whole vectors is always a number.
      Index height = rounded_up(std::min(X_.n, rows_), source_.grain);
      buffer.assign(static_cast<std::size_t>(height * ld), T{0});
    }
    for (Index j = j0; j < j1; j += columns_) {
      Index width = std::min(columns_, j1 - j);
      for (Index i = i0; i < i1; i += rows_) {
        Index height = std::min(rows_, i1 - i);
        source_.fill(worker, i, height, j, width, buffer.data(), ld);
        use(Tile<T>{buffer.data(), ld, i, height, j, width});
      }
    }
  }

  // The same with kernel values.
  template <class Use>
  void values(int worker, Index i0, Index i1, Index j0, Index j1, const Use& use) {
    sums(worker, i0, i1, j0, j1, [&](const Tile<T>& tile) {
      finish(tile, tile.values, tile.ld, false);
      use(tile);
    });
  }

  // The kernel values of a tile of sums, at `out`, rows `stride` apart; `stream` as in Loops.
  void finish(const Tile<T>& tile, T* out, Index stride, bool stream) const {
    const T* x_norms = source_.products ? X_.norms.data() + tile.i : nullptr;
    const T* y_norms = source_.products ? Y_.norms.data() + tile.j : nullptr;
    loops<T>().finish(recipe_, tile.values, tile.ld, tile.height, tile.width, x_norms, y_norms, out,
                      stride, stream);
  }

 private:
  const Recipe& recipe_;
  Source<T>& source_;
  const Points<T>&X_, &Y_;
  Index rows_, columns_;
  std::vector<Buffer<T>> buffers_;
};

// Writes a tile of kernel values as it is.
template <class T>
void copy(const Tile<T>& tile, T* out, Index stride, bool stream) {
  loops<T>().finish(Recipe{}, tile.values, tile.ld, tile.height, tile.width, nullptr, nullptr, out,
                    stride, stream);
}

}  // namespace mercer
