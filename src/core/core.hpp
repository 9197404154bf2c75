// The native interface of mercer: points packed for the core, kernels on them, blocks of their
// Gram matrix. Knows nothing of Python; everything here may be called with the lock released.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace mercer {

using Index = std::int64_t;

// k(x, y) = finish(Σₜ part(xₜ, yₜ)).
enum class Part { product, square, absolute, chi2, minimum, anova };
enum class Finish { identity, power, exp };

struct Recipe {
  Part part = Part::product;
  Finish finish = Finish::identity;
  double scale = 1;  // power: (scale·s + offset)^degree; exp: exp(scale·s)
  double offset = 0;
  Index degree = 1;         // of power; of anova the order
  bool cumulative = false;  // anova: the sum of the orders 1..degree
};

// Tells the system that large pages are welcome in storage that begins on one (points.cpp).
void welcome_large_pages(void* storage, std::size_t bytes);

// Tells the system that it may have the pages back, and what they hold is not needed (points.cpp).
void release_pages(void* storage, std::size_t bytes);

// Storage; where the system refuses it, once more without what is kept between solves (kept.cpp).
void* allocated(std::size_t bytes, std::align_val_t boundary);

// Storage on cache lines, because panels are read a whole vector at a time, and on large pages
// once it fills some: new memory costs more than what is done to it, page by small page. Not so
// where `large` is false: hundreds of megabytes of large pages make the system tidy its memory
// first, which took longer than filling them.
template <class T, bool large = true>
struct CacheLines {
  using value_type = T;
  static constexpr std::size_t line = 64, large_page = std::size_t{1} << 21;
  template <class U>
  struct rebind {
    using other = CacheLines<U, large>;
  };
  CacheLines() = default;
  template <class U>
  CacheLines(const CacheLines<U, large>&) {}
  T* allocate(std::size_t count) {
    if (count > std::numeric_limits<std::size_t>::max() / sizeof(T)) throw std::bad_alloc();
    void* storage = allocated(count * sizeof(T), boundary(count));
    if (fills_some(count)) welcome_large_pages(storage, count * sizeof(T));
    return static_cast<T*>(storage);
  }
  void deallocate(T* p, std::size_t count) { ::operator delete(p, boundary(count)); }
  static std::align_val_t boundary(std::size_t count) {
    return std::align_val_t{fills_some(count) ? large_page : line};
  }
  static bool fills_some(std::size_t count) { return large && count * sizeof(T) >= 2 * large_page; }
  // resize() leaves new numbers as they are: every user writes before reading.
  template <class U>
  void construct(U* p) {
    ::new (static_cast<void*>(p)) U;
  }
  template <class U, class... Args>
  void construct(U* p, Args&&... args) {
    ::new (static_cast<void*>(p)) U(static_cast<Args&&>(args)...);
  }
  bool operator==(const CacheLines&) const { return true; }
};

template <class T>
using Buffer = std::vector<T, CacheLines<T>>;
template <class T>
using RowBuffer = std::vector<T, CacheLines<T, false>>;

// n points of dimension d, as the core wants to read them. A panel holds `width` consecutive
// points (the width of the chosen instruction set), coordinate by coordinate: xᵢₜ is
// panels[(i / width · d + t) · width + i % width], and the last panel is filled up with zeros.
// Points may be held as panels, as sparse rows (columns ascending, no zero stored), or as both.
template <class T>  // float or double
struct Points {
  Index n = 0, d = 0;
  bool dense = false;   // panels are there
  bool sparse = false;  // sparse rows are there, and products should use them
  bool finite = true;   // no NaN, no infinity
  Buffer<T> panels;
  std::vector<Index> start;  // n + 1; row i is column/value[start[i], start[i + 1])
  std::vector<std::int32_t> column;
  Buffer<T> value;
  Buffer<T> norms;     // ‖xᵢ‖², summed as a product is; one panel of zeros beyond the end
  double largest = 0;  // the largest of them, NaN ignored

  static Points of_dense(const T* x, Index n, Index d);
  // The same of rows that `row(i, to)` writes, some at a time.
  static Points of_rows(Index n, Index d, const std::function<void(Index, T*)>& row);
  // Columns need not ascend and may repeat (repeated entries are added).
  template <class I>  // std::int32_t or std::int64_t
  static Points of_csr(const I* start, const I* column, const T* value, Index n, Index d);
  // Some of them; where they are held both ways, only as sparse rows if so asked.
  Points take(std::span<const Index> which, bool only_rows = false) const;
  // The same for two sets, the points of the second being numbered after those of the first.
  static Points take(const Points& first, const Points& second, std::span<const Index> which,
                     bool only_rows = false);
  Points as_sparse() const;  // the same points with their sparse rows
};

Points<double> widened(const Points<float>&);

// Asked every 50 ms or so by the thread that called, between two pieces of work; may throw, and the
// exception then ends the computation.
using Poll = std::function<void()>;

// out[i·m + j] = k(xᵢ, yⱼ). Entries do not depend on the number of threads, and where the same sums
// are taken (see `direct` in blocks.cpp) not on the block they stand in either.
template <class T>
void block(const Recipe&, const Points<T>& X, const Points<T>& Y, T* out, const Poll& = {});

// The same with rows `ld` apart, and its mirror image at `turned`: out[i·ld + j] = turned[j·ld +
// i].
template <class T>
void block_both_ways(const Recipe&, const Points<T>& X, const Points<T>& Y, T* out, T* turned,
                     Index ld, const Poll& = {});

// The same for Y = X: out is symmetric bit for bit, its diagonal that of `diag`.
template <class T>
void block(const Recipe&, const Points<T>& X, T* out, const Poll& = {});

// out[i·q + c] = Σⱼ k(xᵢ, yⱼ) v[j·q + c]. A fixed run of columns is summed in T, the runs in
// double.
template <class T>
void product(const Recipe&, const Points<T>& X, const Points<T>& Y, const T* v, Index q,
             double* out, const Poll& = {});

// For an n × m tile of a symmetric matrix, its rows `ld` apart, above or below the diagonal:
// of_rows[i·q + c] += Σⱼ tile(i, j) v_columns[j·q + c], and what its mirror image adds,
// of_columns[j·q + c] += Σᵢ tile(i, j) v_rows[i·q + c], unless of_columns is null. Short runs are
// summed in T, the runs in double, and the sums do not depend on the number of threads.
template <class T>
void both_ways(const T* tile, Index ld, Index n, Index m, const T* v_rows, const T* v_columns,
               Index q, double* of_rows, double* of_columns, const Poll& = {});

// out[i] = Σⱼ k(xᵢ, xⱼ) v[j], every pair of points met once. The sums do not depend on the number
// of threads.
template <class T>
void symmetric_product(const Recipe&, const Points<T>& X, const T* v, double* out,
                       const Poll& = {});

// What the rounding of one entry is at most, in units of eps/2 · max k(x, x), where `terms` is how
// many coordinates of a point are not zero (or its root, for what to expect of roundings that are
// independent of each other), and `largest` the largest ‖x‖². `differences` as `direct` says.
double entry_error(const Recipe&, double terms, double largest, bool differences);

// out[i] = k(xᵢ, xᵢ).
template <class T>
void diag(const Recipe&, const Points<T>& X, T* out);

// In place on an n × m matrix of products ⟨xᵢ, yⱼ⟩ (from a BLAS): the rest of the recipe, whose
// part is `product`, or `square` where `direct` below says no. `symmetric` as in the second
// `block`.
template <class T>
void complete(const Recipe&, const Points<T>& X, const Points<T>& Y, bool symmetric, T* matrix,
              const Poll& = {});

// Whether Σ(x - y)² must be summed as it stands, instead of as ‖x‖² + ‖y‖² - 2⟨x, y⟩; for points of
// d coordinates with ‖x‖² + ‖y‖² of at most `largest`.
template <class T>
bool direct(const Recipe&, Index d, double largest);
template <class T>
bool direct(const Recipe& recipe, const Points<T>& X, const Points<T>& Y) {
  return direct<T>(recipe, X.d, X.largest + Y.largest);
}

// Points as they were given, in double: what packing in single precision rounded is there.
struct Originals {
  virtual ~Originals() = default;
  virtual Points<double> take(std::span<const Index> which) const = 0;
};

// k(x, y) is at most base + slope (‖x‖ + ‖y‖) from its value at the points as they were given, in
// units of half an epsilon times the largest k(x, x). `squares` are ‖x‖², where there is a slope.
template <class T>
struct WorstError {
  double base = std::numeric_limits<double>::infinity(), slope = 0;
  std::span<const T> squares = {};
};

// Sums of kernel values in double, on the points as they were given.
struct ExactSums {
  virtual ~ExactSums() = default;
  // sums[a] = Σᵣ factor[r] k(which[r], at[a]), `at` being the points of `which`, if `themselves`,
  // and then the others.
  virtual void sum(std::span<const Index> which, std::span<const double> factor, bool themselves,
                   std::span<const Index> others, double* sums) = 0;
};

// What there is to know of the rows of a matrix beside their values.
template <class T>
struct RowFacts {
  double cost = 1;  // of one entry, in multiplications and the like
  // `entry_error` with the root of the number of terms: what to expect, times the norm of the
  // factors.
  double typical_error = 1;
  WorstError<T> worst_error = {};
  std::unique_ptr<ExactSums> exact = {};  // none where there are no such values
};

// Rows of an n × n matrix K that are made one at a time, and only those that a solver reads.
template <class T>
struct RowsOnDemand {
  virtual ~RowsOnDemand() = default;
  // Which of them are not there yet.
  virtual std::span<const std::uint8_t> missing() const = 0;
  // Writes row i to its place in the matrix `all`; it is then there.
  virtual void make(Index i, T* all) = 0;
  // sums = Kβ, from what is known of some other β, and from rows, made where they are missing.
  // Returns the differences that are not 0.
  virtual std::vector<double> sum(std::span<const double> beta, T* all, double* sums) = 0;
};

// Rows of a symmetric matrix K, computed on demand, a block at a time: all that a solver sees of a
// kernel and its points. K does not change, and the same entry has the same bits in `add` each
// time. Called by one thread at a time.
template <class T>  // float or double: one precision for rows and diagonal
class Rows {
 public:
  virtual ~Rows() = default;
  // Null: they come by `add` and `among` alone.
  virtual RowsOnDemand<T>* on_demand() { return nullptr; }
  Index size() const { return static_cast<Index>(diagonal_.size()); }
  std::span<const T> diagonal() const { return diagonal_; }
  // The block of rows `which`, different from each other: sums[j] += Σᵣ factor[r] k(which[r], j),
  // and row which[r] is written to keep[r] too, unless that is null. The sums do not depend on the
  // number of threads.
  virtual void add(std::span<const Index> which, std::span<const double> factor,
                   std::span<T* const> keep, double* sums) = 0;
  // out = K[which, which].
  virtual void among(std::span<const Index> which, std::span<T> out) = 0;
  // What `add` has put off is added: sums of points without a variable.
  virtual void complete(double* /*sums*/) {}

  const RowFacts<T> facts;

 protected:
  Rows(std::vector<T> diagonal, RowFacts<T> given)
      : facts(std::move(given)), diagonal_(std::move(diagonal)) {}

 private:
  std::vector<T> diagonal_;
};

// sums[j] += Σᵣ factor[r] k(xᵣ, yⱼ); row r is written to keep[r] too, unless that is null. Where xᵣ
// is a point of Y itself, own[r] is which one, and value[r] stands for k(xᵣ, xᵣ); otherwise own[r]
// < 0.
template <class T>
struct Additions {
  std::span<const double> factor;
  std::span<T* const> keep;
  std::span<const Index> own;
  std::span<const T> value;
};
template <class T>
void add_rows_of(const Recipe&, const Points<T>& X, const Points<T>& Y, const Additions<T>&,
                 double* sums, const Poll&);

// Whether products of sparse rows with panels serve for this recipe on these points.
template <class T>
bool by_products(const Recipe& recipe, const Points<T>& X, const Points<T>& Y) {
  return recipe.part == Part::product || (recipe.part == Part::square && !direct(recipe, X, Y));
}

// `ExactSums` of k on some points of many, which `take` gives in double.
class PointSums final : public ExactSums {
 public:
  using Take = std::function<Points<double>(std::span<const Index> which)>;
  PointSums(const Recipe& recipe, Take take, Poll poll)
      : recipe_(recipe), take_(std::move(take)), poll_(std::move(poll)) {}
  void sum(std::span<const Index> which, std::span<const double> factor, bool themselves,
           std::span<const Index> others, double* sums) override;

 private:
  Recipe recipe_;
  Take take_;
  Poll poll_;
};

// Of values in T, the rounding of the points to T included.
template <class T>
WorstError<T> worst_error(const Recipe&, const Points<T>&);

// What there is to know of the rows of k on points, with sums in double on `originals`, the same
// points in double; without them, on those of `points` where they are. Holds both by reference.
template <class T>
RowFacts<T> facts_of(const Recipe&, const Points<T>& points, const Poll&, const Originals*);

// Rows of k on points. Holds the points by reference.
template <class T>
class VectorRows final : public Rows<T> {
 public:
  // `originals` are the same points in double; without them, those of `points` are.
  VectorRows(const Recipe& recipe, const Points<T>& points, Poll poll = {},
             const Originals* originals = nullptr);
  void add(std::span<const Index> which, std::span<const double> factor, std::span<T* const> keep,
           double* sums) override;
  void among(std::span<const Index> which, std::span<T> out) override;
  static double cost_on(const Points<T>& points);

 private:
  Recipe recipe_;
  const Points<T>& points_;
  Poll poll_;
};

// A working set of `size` variables, those of group 0 before `split`; arrays padded by variables
// that cannot move (lower = upper) to whole vectors in each group.
template <class T>
struct WorkingSet {
  Index size = 0, split = 0, ld = 0;
  const T* matrix = nullptr;
  const T* diagonal = nullptr;
  T* gradient = nullptr;             // in, out
  T *up = nullptr, *down = nullptr;  // scratch
  double* beta = nullptr;            // in, out
  const double *lower = nullptr, *upper = nullptr, *tube = nullptr;
  double tol = 0;
  Index max_steps = 0;
  Index steps = 0;          // out
  bool indefinite = false;  // out: a pair with a negative curvature was met
  // Rows that are made when they are first read: make(maker, i) for the i with missing[i]. Null:
  // the matrix has all of them.
  const std::uint8_t* missing = nullptr;
  void (*make)(void* maker, Index row) = nullptr;
  void* maker = nullptr;
};

constexpr int strip_rows = 4;

// What is compiled once per instruction set: the innermost loops, on plain pointers (a standard
// template instantiated there could be linked into code that older machines run).
template <class T>
struct Loops {
  Index width;        // points in a panel
  Index sweep_width;  // points in the panel of a sweep
  Index steps;        // coordinates summed at a stretch, so that two panels stay in the L1 cache

  // One panel of `rows` points x (row-major), zeros for the rest; returns how many numbers are
  // zero, or -1 if any is NaN or infinite.
  Index (*pack)(const T* x, Index rows, Index d, T* panel);
  // sums[i·ld + j] = Σₜ part(xᵢₜ, yⱼₜ) for `a_panels` panels at a and `b_panels` at b.
  void (*sums)(const Recipe&, const T* a, Index a_panels, const T* b, Index b_panels, Index d,
               T* sums, Index ld, T* scratch);
  // sums[j], j < sweep_width, for one sparse row and a panel of sweep_width points: entry k of the
  // row meets the points' coordinates panel[place[k] .. place[k] + sweep_width).
  void (*sweep)(const Recipe&, const T* value, const std::int32_t* place, Index count,
                const T* panel, T* sums, T* scratch);
  // sums[row[i]·ld + j] = Σₖ value[k·strip_rows + i] panel[column[k]·width + j] for i < rows: a few
  // rows and a panel, over the columns in which one of the rows is not zero. Sums that are not
  // fresh go on from where they are.
  void (*strip)(const T* value, const std::int32_t* column, Index count, const T* panel,
                const std::int32_t* row, Index rows, bool fresh, T* sums, Index ld);
  // sums[i] = Σₜ part(xᵢₜ, xᵢₜ) for one panel; of_row for one sparse row.
  void (*self)(const Recipe&, const T* panel, Index d, T* sums, T* scratch);
  T (*self_of_row)(const Recipe&, const T* value, Index count, T* scratch);

  // out = finish(sums) on rows × columns; where x_norms is given, the sums are products and stand
  // for ‖x‖² + ‖y‖² - 2·sum. May work in place. sums and y_norms are readable one vector beyond the
  // last column. `stream` writes past the caches.
  void (*finish)(const Recipe&, const T* sums, Index ld, Index rows, Index columns,
                 const T* x_norms, const T* y_norms, T* out, Index stride, bool stream);
  // out = transpose of a rows × columns tile, whose rows are padded to whole vectors both ways.
  void (*transpose)(const T* tile, Index ld, Index rows, Index columns, T* out, Index stride,
                    bool stream);
  // sums[i·q + c] += Σⱼ tile[i·ld + j] v(j, c), where v(j, c) is v[j·v_ld + c] padded to whole
  // vectors, or, if `by_column`, v[c·v_ld + j]; the tile is zero from `columns` to a whole vector.
  void (*times)(const T* tile, Index ld, Index rows, Index columns, const T* v, Index v_ld,
                bool by_column, Index q, double* sums);
  // sums[j·q + c] += Σᵢ tile[i·ld + j] v[i·v_ld + c], v padded to whole vectors.
  void (*times_transposed)(const T* tile, Index ld, Index rows, Index columns, const T* v,
                           Index v_ld, Index q, double* sums);
  // sums[i] += Σⱼ tile[i·ld + j] across[j], and totals[j] += Σᵢ tile[i·ld + j] down[i].
  void (*cross)(const T* tile, Index ld, Index rows, Index columns, const T* across, const T* down,
                double* sums, T* totals);
  // products[r·ld + c] = Σₜ rows[r][t] right[t·ld + c], ld being a whole number of vectors.
  void (*row_products)(const T* const* rows, Index count, Index d, const T* right, Index ld,
                       T* products);
  // out[i·q + c] = Σⱼ M[i·p + j] w[c·ld + j], w being zero from p to a whole vector; and
  // sums[c·p + j] += Σᵢ M[i·p + j] v[i·q + c], both for n rows, many, and few columns c < q.
  void (*tall_times)(const T* M, Index n, Index p, const T* w, Index ld, Index q, double* out);
  void (*tall_pull)(const T* M, Index n, Index p, const T* v, Index q, double* sums);
  // sums[i·p + j] += Σₜ left[i, t] right[j, t] over so many steps t, for j in a panel of the p
  // columns and i in that panel or a later one; panels stand one after another.
  void (*squares)(const T* left, const T* right, Index steps, Index p, double* sums);
  void (*exp)(const T* x, T* out, Index count);
  void (*solve_working_set)(WorkingSet<T>&);
  // up[t] = gradient[t] where beta[t] < upper[t], else ∞; down[t] likewise, else -∞. ends: the
  // least of up, the largest of down, and NaN where a gradient is not finite, else 0.
  void (*slopes)(const double* gradient, const double* beta, const double* lower,
                 const double* upper, Index count, double* up, double* down, double* ends);
  void (*add_rows)(double* F, const T* const* rows, const double* factors, Index count, Index from,
                   Index to);
  Index (*scratch)(const Recipe&);  // numbers of scratch that sums, sweep and self need
};

struct InstructionSet {
  const char* name;
  Loops<float> single;
  Loops<double> twice;
};

// The best this machine has, or what MERCER_ISA asks for; std::runtime_error if it cannot.
const InstructionSet& instruction_set();

template <class T>
const Loops<T>& loops() {
  if constexpr (sizeof(T) == 4) {
    return instruction_set().single;
  } else {
    return instruction_set().twice;
  }
}

}  // namespace mercer
