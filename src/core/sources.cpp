#include "sources.hpp"

#include <algorithm>
#include <limits>

#include "threads.hpp"

namespace mercer {
namespace {

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
    // Kept without a branch: whether a column is there cannot be predicted.
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

// How many bits are in `its` and not in `all`.
inline __attribute__((always_inline)) Index bits_beyond(const std::uint64_t* its,
                                                        const std::uint64_t* all, Index words) {
  Index count = 0;
  for (Index w = 0; w < words; ++w) count += __builtin_popcountll(its[w] & ~all[w]);
  return count;
}
using Beyond = Index (*)(const std::uint64_t*, const std::uint64_t*, Index);
Index beyond_plain(const std::uint64_t* its, const std::uint64_t* all, Index words) {
  return bits_beyond(its, all, words);
}
#if defined(__x86_64__)
__attribute__((target("popcnt"))) Index beyond_counted(const std::uint64_t* its,
                                                       const std::uint64_t* all, Index words) {
  return bits_beyond(its, all, words);
}
const Beyond beyond = __builtin_cpu_supports("popcnt") ? beyond_counted : beyond_plain;
#else
const Beyond beyond = beyond_plain;
#endif

// Products of sparse rows with full panels: rows that are zero in much the same columns are taken
// four at a time, and only the columns count in which one of them is not.
template <class T>
class Strips final : public Source<T> {
 public:
  Strips(const Points<T>& X, const Points<T>& Y, int workers) : Y_(Y) {
    Index width = native_.width;
    this->grain = width;
    this->columns = 20 * width;
    // The more rows there are to choose from, the more alike four of them are.
    constexpr Index most = 480, most_square = 96;
    Index bands = (X.n + most - 1) / most;
    bool symmetric = &X == &Y;
    this->band = symmetric ? rounded_up(most_square, width)
                           : rounded_up((X.n + bands - 1) / std::max<Index>(1, bands), width);
    this->rows = this->square = this->band;
    bands_.resize(static_cast<std::size_t>((X.n + this->band - 1) / this->band));
    auto lay_out = [&](Index b, int) {
      bands_[b].lay_out(X, b * this->band, std::min(X.n, (b + 1) * this->band));
    };
    parallel(static_cast<Index>(bands_.size()), workers, lay_out, {});
  }

  void fill(int, Index i, Index, Index j, Index columns, T* sums, Index ld) override {
    const Band& band = bands_[static_cast<std::size_t>(i / this->band)];
    Index width = native_.width, strips = static_cast<Index>(band.strips.size());
    for (Index p = 0; p < columns; p += width) {
      const T* panel = Y_.panels.data() + (j + p) * Y_.d;
      bool fresh = true;
      for (const Stretch& stretch : band.stretches) {
        for (Index k = 0; k < strips; ++k) {
          const Strip& strip = band.strips[k];
          Index first = stretch.start[k], count = stretch.start[k + 1] - first;
          if (count == 0 && !fresh) continue;
          native_.strip(stretch.value.data() + first * strip_rows, stretch.column.data() + first,
                        count, panel, strip.row, strip.rows, fresh, sums + p, ld);
        }
        fresh = false;
      }
    }
  }

  // Multiplications there are, for each that has to be.
  double waste() const {
    double done = 0, needed = 0;
    for (const Band& band : bands_) {
      for (const Stretch& stretch : band.stretches) {
        done += static_cast<double>(stretch.value.size());
      }
      needed += static_cast<double>(band.nonzeros);
    }
    return done / std::max(1.0, needed);
  }

 private:
  struct Strip {
    Index rows = 0;
    std::int32_t row[strip_rows] = {};
  };
  // So many columns that their part of a panel stays in the L1 cache; strip k has those from
  // column[start[k]] on.
  struct Stretch {
    std::vector<Index> start = {0};
    std::vector<std::int32_t> column;
    Buffer<T> value;
  };
  struct Band {
    std::vector<Strip> strips;
    std::vector<Stretch> stretches;
    Index nonzeros = 0;

    void lay_out(const Points<T>& X, Index first, Index last) {
      // Which columns a row touches, in at most 1024 bits.
      Index words = std::min<Index>(16, (X.d + 63) / 64);
      Index bucket = (X.d + words * 64 - 1) / (words * 64);
      Index n = last - first;
      Index steps = 5 * loops<T>().steps / 2;  // about as many columns are skipped as are not
      stretches.resize(static_cast<std::size_t>(std::max<Index>(1, (X.d + steps - 1) / steps)));
      std::vector<std::uint64_t> bits(static_cast<std::size_t>(n * words), 0);
      std::vector<Index> left;
      for (Index r = 0; r < n; ++r) {
        for (Index k = X.start[first + r]; k < X.start[first + r + 1]; ++k) {
          Index bit = X.column[k] / bucket;
          bits[r * words + bit / 64] |= std::uint64_t{1} << (bit % 64);
        }
        left.push_back(r);
      }
      nonzeros = X.start[last] - X.start[first];
      auto length = [&](Index r) { return X.start[first + r + 1] - X.start[first + r]; };
      std::sort(left.begin(), left.end(), [&](Index a, Index b) {
        return std::pair(length(a), a) > std::pair(length(b), b);
      });
      std::vector<std::uint64_t> all(static_cast<std::size_t>(words));
      while (!left.empty()) {
        // The shortest row, and then whichever adds the fewest columns.
        Strip strip;
        strip.row[strip.rows++] = static_cast<std::int32_t>(left.back());
        std::copy_n(bits.data() + left.back() * words, words, all.data());
        left.pop_back();
        while (strip.rows < strip_rows && !left.empty()) {
          Index best = 0, least = std::numeric_limits<Index>::max();
          for (Index c = static_cast<Index>(left.size()) - 1; c >= 0; --c) {
            Index added = beyond(bits.data() + left[c] * words, all.data(), words);
            if (added < least) {
              least = added;
              best = c;
            }
          }
          Index r = left[best];
          for (Index w = 0; w < words; ++w) all[w] |= bits[r * words + w];
          strip.row[strip.rows++] = static_cast<std::int32_t>(r);
          left.erase(left.begin() + best);
        }
        merge(X, first, strip);
        strips.push_back(strip);
      }
    }

    void merge(const Points<T>& X, Index first, const Strip& strip) {
      Index at[strip_rows] = {}, end[strip_rows] = {};
      for (Index i = 0; i < strip.rows; ++i) {
        at[i] = X.start[first + strip.row[i]];
        end[i] = X.start[first + strip.row[i] + 1];
      }
      Index pieces = static_cast<Index>(stretches.size());
      Index length = (X.d + pieces - 1) / pieces, until = 0;
      for (Stretch& stretch : stretches) {
        until += length;
        for (;;) {
          Index next = until;
          for (Index i = 0; i < strip.rows; ++i) {
            if (at[i] < end[i]) next = std::min<Index>(next, X.column[at[i]]);
          }
          if (next == until) break;
          stretch.column.push_back(static_cast<std::int32_t>(next));
          for (Index i = 0; i < strip_rows; ++i) {
            bool here = at[i] < end[i] && X.column[at[i]] == next;
            stretch.value.push_back(here ? X.value[at[i]] : T{0});
            at[i] += here;
          }
        }
        stretch.start.push_back(static_cast<Index>(stretch.column.size()));
      }
    }
  };

  const Loops<T>& native_ = loops<T>();
  const Points<T>& Y_;
  std::vector<Band> bands_;
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

// Sums over sparse rows.
template <class T>
std::unique_ptr<Source<T>> of_rows(const Recipe& sums, const Points<T>& X, const Points<T>& Y,
                                   int workers) {
  bool multiplies = sums.part == Part::product || sums.part == Part::anova;
  if (multiplies && X.finite && Y.finite) {
    return std::make_unique<Sweeps<T>>(sums, X, Y, workers);
  }
  return std::make_unique<Joined<T>>(sums, X, Y, workers);
}

// Whether there are so many more columns than entries that a list of all columns would take longer
// to write than the columns that occur take to be sorted.
template <class T>
bool mostly_empty(const Points<T>& X, const Points<T>& Y) {
  constexpr Index few = Index{1} << 20, share = 64;
  return X.d > few && X.d / share > static_cast<Index>(X.column.size() + Y.column.size());
}

// The same sums of points whose columns are numbered anew, those that occur alone, in their order.
template <class T>
class Renumbered final : public Source<T> {
 public:
  Renumbered(const Recipe& sums, const Points<T>& X, const Points<T>& Y, int workers) {
    std::vector<std::int32_t> column(X.column);
    if (&X != &Y) column.insert(column.end(), Y.column.begin(), Y.column.end());
    std::sort(column.begin(), column.end());
    column.erase(std::unique(column.begin(), column.end()), column.end());
    X_ = renumbered(X, column);
    if (&X != &Y) Y_ = renumbered(Y, column);
    inner_ = of_rows(sums, X_, &X == &Y ? X_ : Y_, workers);
    static_cast<Source<T>&>(*this) = *inner_;
  }
  void fill(int worker, Index i, Index rows, Index j, Index columns, T* sums, Index ld) override {
    inner_->fill(worker, i, rows, j, columns, sums, ld);
  }

 private:
  static Points<T> renumbered(const Points<T>& points, const std::vector<std::int32_t>& column) {
    Points<T> out = points;
    out.d = static_cast<Index>(column.size());
    for (auto& t : out.column) {
      auto place = std::lower_bound(column.begin(), column.end(), t);
      t = static_cast<std::int32_t>(place - column.begin());
    }
    return out;
  }

  Points<T> X_, Y_;
  std::unique_ptr<Source<T>> inner_;
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
  if (sums.part == Part::product && rows && Y.dense && X.finite && Y.finite) {
    // A multiplication of a strip takes some half of the time of one of a sweep.
    constexpr double most_waste = 2;
    auto strips = std::make_unique<Strips<T>>(X, Y, workers);
    if (strips->waste() < most_waste) {
      strips->products = by_norms;
      return strips;
    }
  }
  if (panels && !(rows && multiplies)) {
    made = std::make_unique<Tiles<T>>(sums, X, Y, workers);
  } else if (!rows) {
    return std::make_unique<Kept<T>>(recipe, X, Y, workers);
  } else if (mostly_empty(X, Y)) {
    made = std::make_unique<Renumbered<T>>(sums, X, Y, workers);
  } else {
    made = of_rows(sums, X, Y, workers);
  }
  made->products = by_norms;
  return made;
}

template std::unique_ptr<Source<float>> source(const Recipe&, const Points<float>&,
                                               const Points<float>&, int);
template std::unique_ptr<Source<double>> source(const Recipe&, const Points<double>&,
                                                const Points<double>&, int);

}  // namespace mercer
