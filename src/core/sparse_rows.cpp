#include "sparse_rows.hpp"

#include <algorithm>
#include <bit>
#include <limits>

#include "pairs.hpp"
#include "threads.hpp"

namespace mercer {
namespace {

constexpr std::size_t most_codes = 256;
constexpr Index long_run = 8;  // entries of a run, in the mean, that is worth it

// The table of what differs, and a code for each entry; empty where too much differs.
std::vector<double> coded(std::span<const double> entry, Buffer<std::uint8_t>& code) {
  constexpr std::size_t slots = 4 * most_codes;
  std::array<std::int16_t, slots> place;
  place.fill(-1);
  std::vector<double> table;
  code.resize(entry.size());
  for (std::size_t e = 0; e < entry.size(); ++e) {
    std::uint64_t bits = std::bit_cast<std::uint64_t>(entry[e]);
    std::size_t slot = (bits * 0x9e3779b97f4a7c15ull) >> 54;
    while (place[slot] >= 0 && std::bit_cast<std::uint64_t>(table[place[slot]]) != bits) {
      slot = (slot + 1) % slots;
    }
    if (place[slot] < 0) {
      if (table.size() == most_codes) {
        code.clear();
        code.shrink_to_fit();
        return {};
      }
      place[slot] = static_cast<std::int16_t>(table.size());
      table.push_back(entry[e]);
    }
    code[e] = static_cast<std::uint8_t>(place[slot]);
  }
  return table;
}

std::vector<double> absolute(std::span<const double> numbers) {
  std::vector<double> out;
  for (const double x : numbers) out.push_back(std::abs(x));
  return out;
}

}  // namespace

SparseRows::SparseRows(std::span<const std::int32_t> begin, std::span<const std::int32_t> column,
                       std::span<const double> entry, Index width)
    : begin_(begin.begin(), begin.end()), shared_(width) {
  if (width <= Index{std::numeric_limits<std::uint16_t>::max()} + 1) {
    narrow_.assign(column.begin(), column.end());
  } else {
    column_ = column;
  }
  table_ = coded(entry, code_);
  if (table_.empty()) entry_ = entry;
  magnitude_ = absolute(table_);
  group();
}

SparseRows::SparseRows(Parts&& parts)
    : begin_(std::move(parts.begin)),
      shared_(parts.width),
      wide_(std::move(parts.column)),
      code_(std::move(parts.code)),
      table_(std::move(parts.table)),
      own_(std::move(parts.own)),
      factor_(std::move(parts.factor)) {
  column_ = wide_;
  magnitude_ = absolute(table_);
}

// Sorts the columns of each row by the entries, where that makes long runs.
void SparseRows::group() {
  if (table_.empty()) return;
  std::array<std::int32_t, most_codes> often{};
  std::vector<std::uint8_t> met;
  auto tally = [&](Index row) {
    met.clear();
    for (Index e = begin_[row]; e < begin_[row + 1]; ++e) {
      if (often[code_[e]]++ == 0) met.push_back(code_[e]);
    }
    std::sort(met.begin(), met.end());
  };
  Index runs = 0;
  for (Index row = 0; row < size(); ++row) {
    tally(row);
    runs += static_cast<Index>(met.size());
    for (const std::uint8_t code : met) often[code] = 0;
  }
  if (long_run * runs > begin_.back()) return;
  if (narrow_.empty() && wide_.empty()) wide_.assign(column_.begin(), column_.end());
  std::vector<std::int32_t> some;
  first_run_.assign(1, 0);
  for (Index row = 0; row < size(); ++row) {
    tally(row);
    std::int32_t end = 0;
    for (const std::uint8_t code : met) {
      const std::int32_t many = std::exchange(often[code], end);
      run_.push_back({end += many, code});
    }
    some.resize(static_cast<std::size_t>(end));
    auto sorted = [&](auto& columns) {
      for (Index e = begin_[row]; e < begin_[row + 1]; ++e) some[often[code_[e]]++] = columns[e];
      std::copy(some.begin(), some.end(), columns.begin() + begin_[row]);
    };
    if (narrow_.empty()) {
      sorted(wide_);
    } else {
      sorted(narrow_);
    }
    for (const std::uint8_t code : met) often[code] = 0;
    first_run_.push_back(static_cast<Index>(run_.size()));
  }
  column_ = wide_;
  code_.clear();
  code_.shrink_to_fit();
}

namespace {

// use(row, k) for the rows of an index, k counting them.
template <class Rows, class Use>
void for_each(const Rows& rows, std::span<const std::int32_t> index, const Poll& poll,
              const Use& use) {
  std::int64_t read = 0;
  for (std::size_t k = 0; k < index.size(); ++k) {
    if (k + ahead < index.size()) rows.prefetch_row(index[k + ahead]);
    use(index[k], k);
    read += rows.length(index[k]) + 8;
    if (read > between_polls) {
      read = 0;
      if (poll) poll();
    }
  }
}

// The same by several threads, none of which writes what another one reads.
template <class Rows, class Use>
void in_parallel(const Rows& rows, Index entries, std::span<const std::int32_t> index,
                 const Poll& poll, const Use& use) {
  const auto n = static_cast<Index>(index.size());
  const Index mean = entries / std::max<Index>(1, n) + 8, step = in_a_task / mean + 1;
  Stop stop(poll);
  parallel((n + step - 1) / step, threads(),
           [&](Index task, int) {
             const Index end = std::min(n, (task + 1) * step);
             for (Index k = task * step; k < end; ++k) {
               if (k + ahead < end) rows.prefetch_row(index[k + ahead]);
               use(index[k], k);
             }
           },
           [&] { stop.asked(); });
}

}  // namespace

void times(const SparseRows& rows, std::span<const std::int32_t> index, std::span<const double> w,
           std::span<double> out, bool magnitudes, const Poll& poll) {
  rows.visit(magnitudes, [&](const auto& view) {
    in_parallel(view, rows.entries(), index, poll,
                [&](std::int32_t row, Index k) { out[k] = view.product(row, w.data()); });
  });
}

void pull(const SparseRows& rows, std::span<const std::int32_t> index, std::span<const double> v,
          std::span<double> out, bool magnitudes, const Poll& poll) {
  rows.visit(magnitudes, [&](const auto& view) {
    for_each(view, index, poll, [&](std::int32_t row, std::size_t k) {
      if (v[k] != 0) view.add(row, v[k], out.data());
    });
  });
}

namespace {

// Some rows with their columns in order.
struct SortedRows {
  std::vector<Index> begin{0};
  Buffer<std::int32_t> column;
  Buffer<double> entry;
};

SortedRows sorted_rows(const SparseRows& rows, std::span<const std::int32_t> index) {
  SortedRows out;
  rows.visit(false, [&](const auto& view) {
    std::vector<std::pair<std::int32_t, double>> row;
    for (const std::int32_t i : index) {
      out.begin.push_back(out.begin.back() + view.length(i) + (view.own ? 1 : 0));
    }
    out.column.resize(static_cast<std::size_t>(out.begin.back()));
    out.entry.resize(out.column.size());
    for (std::size_t k = 0; k < index.size(); ++k) {
      row.clear();
      view.each(index[k],
                [&](Index j, double x) { row.emplace_back(static_cast<std::int32_t>(j), x); });
      std::sort(row.begin(), row.end());
      auto at = static_cast<std::size_t>(out.begin[k]);
      for (const auto& [j, x] : row) {
        out.column[at] = j;
        out.entry[at++] = x;
      }
    }
  });
  return out;
}

// Lines of the square that stay in the cache while all rows are read.
constexpr Index lines_of_task = 64;
// So many rows at a time: their entries are what is held beside the square.
constexpr std::size_t rows_at_a_time = 1 << 14;

}  // namespace

void weighted(const SparseRows& rows, std::span<const std::int32_t> index,
              std::span<const double> weight, std::span<double> out, const Poll& poll) {
  const Index width = rows.width();
  Stop stop(poll);
  for (std::size_t first = 0; first < index.size(); first += rows_at_a_time) {
    const std::size_t many = std::min(rows_at_a_time, index.size() - first);
    const SortedRows some = sorted_rows(rows, index.subspan(first, many));
    parallel((width + lines_of_task - 1) / lines_of_task, threads(),
             [&](Index task, int) {
               const Index from = task * lines_of_task;
               const Index to = std::min(width, from + lines_of_task);
               for (std::size_t k = 0; k < many; ++k) {
                 const std::int32_t* column = some.column.data() + some.begin[k];
                 const double* entry = some.entry.data() + some.begin[k];
                 const Index size = some.begin[k + 1] - some.begin[k];
                 Index e = std::lower_bound(column, column + size, from) - column;
                 for (; e < size && column[e] < to; ++e) {
                   double* line = out.data() + width * column[e];
                   const double x = weight[first + k] * entry[e];
                   for (Index f = e; f < size; ++f) line[column[f]] += x * entry[f];
                 }
               }
             },
             [&] { stop.asked(); });
  }
  // What is below the diagonal.
  parallel((width + lines_of_task - 1) / lines_of_task, threads(),
           [&](Index task, int) {
             const Index from = task * lines_of_task;
             const Index to = std::min(width, from + lines_of_task);
             for (Index j = 0; j < to; j += lines_of_task) {
               for (Index i = std::max(from, j); i < to; ++i) {
                 const Index end = std::min(i, j + lines_of_task);
                 for (Index l = j; l < end; ++l) out[width * i + l] = out[width * l + i];
               }
             }
           },
           [&] { stop.asked(); });
}

void squares(const SparseRows& rows, std::span<double> out, const Poll& poll) {
  std::vector<std::int32_t> index(out.size());
  for (std::size_t k = 0; k < index.size(); ++k) index[k] = static_cast<std::int32_t>(k);
  rows.visit(false, [&](const auto& view) {
    in_parallel(view, rows.entries(), index, poll, [&](std::int32_t row, Index k) {
      double sum = 0;
      view.each(row, [&](Index, double x) { sum += x * x; });
      out[k] = sum;
    });
  });
}

}  // namespace mercer
