// Rows of explicit features, compressed: how fast they are read is how fast everything on them is.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include "core.hpp"

namespace mercer {

// Φ by its rows, in few bytes. Columns are kept in two where there are not too many. Entries of
// which not more than 256 differ (counts, weights of degrees) are places in a table; where many of
// a row are the same, its columns are sorted by them and each is kept once. Where more differ, the
// arrays given are read, and have to live as long.
class SparseRows {
 public:
  // `begin` of each row, and the end of the last; all checked by who calls.
  SparseRows(std::span<const std::int32_t> begin, std::span<const std::int32_t> column,
             std::span<const double> entry, Index width);

  // What a map lists itself: entries by their codes.
  struct Parts {
    std::vector<Index> begin;
    Buffer<std::int32_t> column;
    Buffer<std::uint8_t> code;
    std::vector<double> table;
    Index width = 0;             // of these columns
    std::vector<double> own;     // the entry of each row in a column of its own, after these
    std::vector<double> factor;  // > 0, of each row; empty for 1
  };
  explicit SparseRows(Parts&& parts);

  Index size() const { return static_cast<Index>(begin_.size()) - 1; }
  Index width() const { return shared_ + static_cast<Index>(own_.size()); }
  Index entries() const { return begin_.back() + static_cast<Index>(own_.size()); }

  // use(view), with a view of Φ, or of |Φ|, in the types in which the rows are kept.
  template <class Use>
  auto visit(bool magnitudes, const Use& use) const;

  // The entries of a row from one place to the next that are the same.
  struct Run {
    std::int32_t end, code;
  };

 private:
  void group();

  std::vector<Index> begin_;
  Index shared_;  // columns that rows have in common
  Buffer<std::uint16_t> narrow_;
  Buffer<std::int32_t> wide_;             // where there are too many for `narrow_`
  std::span<const std::int32_t> column_;  // these, or those that were given
  Buffer<std::uint8_t> code_;
  std::vector<double> table_, magnitude_;  // what codes stand for; empty where `entry_` is read
  std::span<const double> entry_;
  std::vector<Index> first_run_;  // of each row, where it has long ones: then there are no codes
  std::vector<Run> run_;
  std::vector<double> own_, factor_;
};

// out = Φ_index w, or |Φ_index| w.
void times(const SparseRows& rows, std::span<const std::int32_t> index, std::span<const double> w,
           std::span<double> out, bool magnitudes, const Poll& poll = {});

// out += Φ_indexᵀ v, or |Φ_index|ᵀ v. The rows are added one after another.
void pull(const SparseRows& rows, std::span<const std::int32_t> index, std::span<const double> v,
          std::span<double> out, bool magnitudes, const Poll& poll = {});

// out += Φ_indexᵀ D Φ_index, width² numbers that are symmetric, D having these weights. Each number
// is summed in the order of the index.
void weighted(const SparseRows& rows, std::span<const std::int32_t> index,
              std::span<const double> weight, std::span<double> out, const Poll& poll = {});

// out = ‖φ‖² of each row.
void squares(const SparseRows& rows, std::span<double> out, const Poll& poll = {});

constexpr Index in_a_task = 1 << 17;      // entries, a tenth of a millisecond
constexpr Index between_polls = 1 << 22;  // entries, some milliseconds
constexpr Index ahead = 8;  // rows that are asked for before they are read, in any order

// Views of the rows

inline void prefetch(const void* begin, std::size_t bytes) {
  // The processor itself goes on with what is longer.
  const char* at = static_cast<const char*>(begin);
  bytes = std::min<std::size_t>(bytes, 1024);
  for (std::size_t done = 0; done < bytes; done += 64) __builtin_prefetch(at + done);
  if (bytes > 0) __builtin_prefetch(at + bytes - 1);
}

// Entries of two kinds: numbers, and places in a table.
struct Numbers {
  using Kept = double;
  double operator()(double entry) const { return entry; }
};
struct Magnitudes {
  using Kept = double;
  double operator()(double entry) const { return std::abs(entry); }
};
struct Coded {
  using Kept = std::uint8_t;
  const double* table;
  double operator()(std::uint8_t code) const { return table[code]; }
};

// An entry for every column.
template <class Column, class Value>
struct Listed {
  const Index* begin;
  const Column* column;
  const typename Value::Kept* entry;
  Value value;

  void prefetch_row(std::int32_t row) const {
    const auto size = static_cast<std::size_t>(begin[row + 1] - begin[row]);
    prefetch(column + begin[row], size * sizeof(Column));
    prefetch(entry + begin[row], size * sizeof(typename Value::Kept));
  }

  // ⟨φ, w⟩, in four sums that do not wait for each other.
  double product(std::int32_t row, const double* w) const {
    const Column* c = column + begin[row];
    const auto* x = entry + begin[row];
    const Index size = begin[row + 1] - begin[row];
    std::array<double, 4> sum{};
    Index e = 0;
    for (; e + 4 <= size; e += 4) {
      for (int k = 0; k < 4; ++k) sum[k] += value(x[e + k]) * w[c[e + k]];
    }
    for (; e < size; ++e) sum[0] += value(x[e]) * w[c[e]];
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
  }

  // use(column, entry)
  template <class Use>
  void each(std::int32_t row, const Use& use) const {
    const Column* c = column + begin[row];
    const auto* x = entry + begin[row];
    const Index size = begin[row + 1] - begin[row];
    for (Index e = 0; e < size; ++e) use(c[e], value(x[e]));
  }
};

// Columns of the same entry one after another.
template <class Column>
struct Grouped {
  const Index* begin;
  const Column* column;
  const Index* first_run;
  const SparseRows::Run* run;
  const double* table;

  void prefetch_row(std::int32_t row) const {
    prefetch(column + begin[row],
             static_cast<std::size_t>(begin[row + 1] - begin[row]) * sizeof(Column));
    prefetch(run + first_run[row],
             static_cast<std::size_t>(first_run[row + 1] - first_run[row]) * sizeof(*run));
  }

  double product(std::int32_t row, const double* w) const {
    const Column* c = column + begin[row];
    double total = 0;
    std::int32_t e = 0;
    for (Index r = first_run[row]; r < first_run[row + 1]; ++r) {
      std::array<double, 4> sum{};
      const std::int32_t end = run[r].end;
      for (; e + 4 <= end; e += 4) {
        for (int k = 0; k < 4; ++k) sum[k] += w[c[e + k]];
      }
      for (; e < end; ++e) sum[0] += w[c[e]];
      total += table[run[r].code] * ((sum[0] + sum[1]) + (sum[2] + sum[3]));
    }
    return total;
  }

  template <class Use>
  void each(std::int32_t row, const Use& use) const {
    const Column* c = column + begin[row];
    std::int32_t e = 0;
    for (Index r = first_run[row]; r < first_run[row + 1]; ++r) {
      const double entry = table[run[r].code];
      for (; e < run[r].end; ++e) use(c[e], entry);
    }
  }
};

// Rows of either kind, each with its factor and its own column.
template <class Shared>
struct RowView {
  Shared shared;
  Index first_own;
  const double *own, *factor;  // null for none

  std::int32_t length(std::int32_t row) const {
    return static_cast<std::int32_t>(shared.begin[row + 1] - shared.begin[row]);
  }
  void prefetch_row(std::int32_t row) const { shared.prefetch_row(row); }

  // ⟨φ, w⟩
  double product(std::int32_t row, const double* w) const {
    double sum = shared.product(row, w);
    if (own) sum += own[row] * w[first_own + row];
    return factor ? factor[row] * sum : sum;
  }

  // w += change φ
  void add(std::int32_t row, double change, double* w) const {
    if (factor) change *= factor[row];
    shared.each(row, [&](auto column, double entry) { w[column] += change * entry; });
    if (own) w[first_own + row] += change * own[row];
  }

  // use(column, entry)
  template <class Use>
  void each(std::int32_t row, const Use& use) const {
    const double by = factor ? factor[row] : 1.0;
    shared.each(row, [&](auto column, double entry) { use(Index{column}, by * entry); });
    if (own) use(first_own + row, by * own[row]);
  }
};

template <class Use>
auto SparseRows::visit(bool magnitudes, const Use& use) const {
  auto all = [&](const auto& shared) {
    return use(RowView<std::remove_cvref_t<decltype(shared)>>{
        shared, shared_, own_.empty() ? nullptr : own_.data(),
        factor_.empty() ? nullptr : factor_.data()});
  };
  auto with = [&](const auto* column) {
    using Column = std::remove_cvref_t<decltype(*column)>;
    const Index* begin = begin_.data();
    const double* table = (magnitudes ? magnitude_ : table_).data();
    if (!first_run_.empty()) {
      return all(Grouped<Column>{begin, column, first_run_.data(), run_.data(), table});
    }
    if (!table_.empty()) return all(Listed<Column, Coded>{begin, column, code_.data(), {table}});
    if (magnitudes) return all(Listed<Column, Magnitudes>{begin, column, entry_.data(), {}});
    return all(Listed<Column, Numbers>{begin, column, entry_.data(), {}});
  };
  return narrow_.empty() ? with(column_.data()) : with(narrow_.data());
}

}  // namespace mercer
