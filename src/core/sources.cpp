#include "sources.hpp"

#include <algorithm>

namespace mercer {
namespace {

Index rounded_up(Index n, Index grain) { return (n + grain - 1) / grain * grain; }

template <class T>
class Tiles final : public Source<T> {
 public:
  Tiles(const Recipe& recipe, const Points<T>& X, const Points<T>& Y, int workers)
      : recipe_(recipe), X_(X), Y_(Y), scratch_(static_cast<std::size_t>(workers)) {
    Index width = native_.width;
    this->grain = width;
    double cost = static_cast<double>(X.d);
    if (recipe.part == Part::anova) cost *= static_cast<double>(recipe.degree + 1);
    // While one stretch holds all coordinates, a band of one panel is finished in the L1 cache;
    // otherwise more panels share what is read. Very long points: a tile must take < 50 ms.
    bool brief = X.d <= native_.steps;
    this->band = cost > 3e4 || brief ? width : 4 * width;
    this->columns = cost > 3e4 ? width : brief ? 20 * width : 12 * width;
    this->rows = cost > 3e4 ? width : 8 * width;
    // Small matrices: less of the diagonal's tiles is computed twice.
    this->square = cost > 3e4 ? width : X.n < 512 ? 2 * width : 6 * width;
    for (auto& s : scratch_) s.resize(static_cast<std::size_t>(native_.scratch(recipe)));
  }

  void fill(int worker, Index i, Index rows, Index j, Index columns, T* sums, Index ld) override {
    Index width = native_.width, d = X_.d;
    native_.sums(recipe_, X_.panels.data() + i * d, rounded_up(rows, width) / width,
                 Y_.panels.data() + j * d, rounded_up(columns, width) / width, d, sums, ld,
                 scratch_[worker].data());
  }

 private:
  const Loops<T>& native_ = loops<T>();
  Recipe recipe_;
  const Points<T>&X_, &Y_;
  std::vector<Buffer<T>> scratch_;
};

// Products with sparse rows: a panel of Y is laid out over the columns its points touch, and every
// non-zero of a row of X is one sweep across it.
template <class T>
class Sweeps final : public Source<T> {
 public:
  Sweeps(const Recipe& recipe, const Points<T>& X, const Points<T>& Y, int workers)
      : recipe_(recipe), X_(X), Y_(Y), state_(static_cast<std::size_t>(workers)) {
    this->grain = native_.sweep_width;
    this->columns = 4 * native_.sweep_width;
    this->band = 2 * native_.sweep_width;
    this->rows = 8 * native_.sweep_width;
    this->square = 2 * native_.sweep_width;
    for (auto& s : state_) s.scratch.resize(static_cast<std::size_t>(native_.scratch(recipe)));
  }

  void fill(int worker, Index i, Index rows, Index j, Index columns, T* sums, Index ld) override {
    Index width = native_.sweep_width;
    State& state = state_[worker];
    Index panels = rounded_up(columns, width) / width;
    if (state.first != j || static_cast<Index>(state.panels.size()) < panels) {
      state.panels.resize(static_cast<std::size_t>(panels));
      state.first = -1;
      for (Index p = 0; p < panels; ++p) {
        lay_out(state.panels[p], j + p * width, std::min(Y_.n, j + (p + 1) * width));
      }
      state.first = j;
    }
    for (Index p = 0; p < panels; ++p) {
      for (Index r = 0; r < rows; ++r) {
        one_row(state, state.panels[p], i + r, sums + r * ld + p * width);
      }
    }
  }

 private:
  // Coordinate column[k] of its points is data[k · width, (k + 1) · width).
  struct Panel {
    bool whole = false;  // all columns, in their own order
    Buffer<T> data;
    std::vector<std::int32_t> column, place;  // place[t]: where column t is, or -1
  };
  struct State {
    Index first = -1;
    std::vector<Panel> panels;
    std::vector<std::int32_t> place;
    Buffer<T> value, scratch;
  };

  void lay_out(Panel& panel, Index first, Index last) const {
    constexpr Index few = 1024;  // columns that are not worth compacting
    Index width = native_.sweep_width;
    panel.whole = X_.d <= few;
    if (!panel.whole) {
      if (panel.place.empty()) panel.place.assign(static_cast<std::size_t>(X_.d), -1);
      for (auto t : panel.column) panel.place[t] = -1;
      panel.column.clear();
      for (Index k = Y_.start[first]; k < Y_.start[last]; ++k) {
        auto& place = panel.place[Y_.column[k]];
        if (place >= 0) continue;
        place = static_cast<std::int32_t>(panel.column.size());
        panel.column.push_back(Y_.column[k]);
      }
    }
    Index local = panel.whole ? X_.d : static_cast<Index>(panel.column.size());
    panel.data.assign(static_cast<std::size_t>(local * width), T{0});
    for (Index i = first; i < last; ++i) {
      for (Index k = Y_.start[i]; k < Y_.start[i + 1]; ++k) {
        Index place = panel.whole ? Y_.column[k] : panel.place[Y_.column[k]];
        panel.data[place * width + i - first] = Y_.value[k];
      }
    }
  }

  void one_row(State& state, const Panel& panel, Index i, T* sums) const {
    Index first = X_.start[i], count = X_.start[i + 1] - first;
    if (panel.whole) {
      native_.sweep(recipe_, X_.value.data() + first, X_.column.data() + first, count,
                    panel.data.data(), sums, state.scratch.data());
      return;
    }
    if (static_cast<Index>(state.place.size()) < count + 1) {
      state.place.resize(static_cast<std::size_t>(count + 1));
      state.value.resize(static_cast<std::size_t>(count + 1));
    }
    // Kept without a branch: whether a column is there is anybody's guess.
    Index kept = 0;
    for (Index k = first; k < first + count; ++k) {
      std::int32_t place = panel.place[X_.column[k]];
      state.place[kept] = place;
      state.value[kept] = X_.value[k];
      kept += place >= 0;
    }
    native_.sweep(recipe_, state.value.data(), state.place.data(), kept, panel.data.data(), sums,
                  state.scratch.data());
  }

  const Loops<T>& native_ = loops<T>();
  Recipe recipe_;
  const Points<T>&X_, &Y_;
  std::vector<State> state_;
};

// Any part on sparse rows: the points of a tile are made dense over the columns that any of them
// touches; in all others every part is zero. Order and rounding are those of dense points.
template <class T>
class Joined final : public Source<T> {
 public:
  Joined(const Recipe& recipe, const Points<T>& X, const Points<T>& Y, int workers)
      : recipe_(recipe), X_(X), Y_(Y), state_(static_cast<std::size_t>(workers)) {
    Index width = native_.width;
    bool few = X.d <= 2048;
    this->grain = width;
    this->band = few ? 4 * width : width;
    this->columns = few ? 8 * width : width;
    this->rows = 8 * width;
    this->square = this->band;
    for (auto& s : state_) s.scratch.resize(static_cast<std::size_t>(native_.scratch(recipe)));
  }

  void fill(int worker, Index i, Index rows, Index j, Index columns, T* sums, Index ld) override {
    Index width = native_.width;
    State& state = state_[worker];
    if (state.place.empty()) state.place.assign(static_cast<std::size_t>(X_.d), -1);
    state.column.clear();
    collect(state, X_, i, i + rows);
    collect(state, Y_, j, j + columns);
    std::sort(state.column.begin(), state.column.end());
    for (std::size_t k = 0; k < state.column.size(); ++k) {
      state.place[state.column[k]] = static_cast<std::int32_t>(k);
    }
    Index local = static_cast<Index>(state.column.size());
    lay_out(state, X_, i, rows, state.x);
    lay_out(state, Y_, j, columns, state.y);
    for (auto t : state.column) state.place[t] = -1;
    native_.sums(recipe_, state.x.data(), rounded_up(rows, width) / width, state.y.data(),
                 rounded_up(columns, width) / width, local, sums, ld, state.scratch.data());
  }

 private:
  struct State {
    std::vector<std::int32_t> place, column;
    Buffer<T> x, y, scratch;
  };

  static void collect(State& state, const Points<T>& points, Index first, Index last) {
    for (Index k = points.start[first]; k < points.start[last]; ++k) {
      auto& place = state.place[points.column[k]];
      if (place >= 0) continue;
      place = 0;
      state.column.push_back(points.column[k]);
    }
  }

  void lay_out(const State& state, const Points<T>& points, Index first, Index count,
               Buffer<T>& panels) const {
    Index width = native_.width, local = static_cast<Index>(state.column.size());
    panels.assign(static_cast<std::size_t>(rounded_up(count, width) * local), T{0});
    for (Index r = 0; r < count; ++r) {
      T* x = panels.data() + r / width * width * local + r % width;
      for (Index k = points.start[first + r]; k < points.start[first + r + 1]; ++k) {
        x[state.place[points.column[k]] * width] = points.value[k];
      }
    }
  }

  const Loops<T>& native_ = loops<T>();
  Recipe recipe_;
  const Points<T>&X_, &Y_;
  std::vector<State> state_;
};

// Keeps the points that had to be made sparse for one computation.
template <class T>
class Kept final : public Source<T> {
 public:
  Kept(const Recipe& recipe, const Points<T>& X, const Points<T>& Y, int workers)
      : X_(X.sparse ? Points<T>{} : X.as_sparse()),
        Y_(Y.sparse ? Points<T>{} : Y.as_sparse()),
        inner_(source(recipe, X.sparse ? X : X_, Y.sparse ? Y : Y_, workers)) {
    static_cast<Source<T>&>(*this) = *inner_;
  }
  void fill(int worker, Index i, Index rows, Index j, Index columns, T* sums, Index ld) override {
    inner_->fill(worker, i, rows, j, columns, sums, ld);
  }

 private:
  Points<T> X_, Y_;
  std::unique_ptr<Source<T>> inner_;
};

}  // namespace

template <class T>
std::unique_ptr<Source<T>> source(const Recipe& recipe, const Points<T>& X, const Points<T>& Y,
                                  int workers) {
  bool by_norms = recipe.part == Part::square && !direct(recipe, X, Y);
  Recipe sums = recipe;
  if (by_norms) sums.part = Part::product;
  bool multiplies = sums.part == Part::product || sums.part == Part::anova;
  bool panels = X.dense && Y.dense, rows = X.sparse && Y.sparse;
  std::unique_ptr<Source<T>> made;
  if (panels && !(rows && multiplies)) {
    made = std::make_unique<Tiles<T>>(sums, X, Y, workers);
  } else if (!rows) {
    return std::make_unique<Kept<T>>(recipe, X, Y, workers);
  } else if (multiplies && X.finite && Y.finite) {
    made = std::make_unique<Sweeps<T>>(sums, X, Y, workers);
  } else {
    made = std::make_unique<Joined<T>>(sums, X, Y, workers);
  }
  made->products = by_norms;
  return made;
}

template std::unique_ptr<Source<float>> source(const Recipe&, const Points<float>&,
                                               const Points<float>&, int);
template std::unique_ptr<Source<double>> source(const Recipe&, const Points<double>&,
                                                const Points<double>&, int);

}  // namespace mercer
