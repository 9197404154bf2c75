// Text of points, and models read from text, for Python: types of arrays, the lock, signals.
#include <nanobind/stl/string.h>

#include <cstring>

#include "bind.hpp"
#include "ordered.hpp"
#include "svmlight.hpp"

using namespace nanobind::literals;

namespace mercer {

namespace {

SparseRowsView rows_of(const Vector<Index>& ends, const Vector<Index>& columns,
                       const Vector<double>& values) {
  Index rows = extent(ends.shape(0)) - 1, entries = extent(values.shape(0));
  bool good = rows >= 0 && entries == extent(columns.shape(0)) && ends.data()[0] == 0 &&
              ends.data()[rows] == entries;
  for (Index r = 0; good && r < rows; ++r) good = ends.data()[r] <= ends.data()[r + 1];
  check(good, "Rows need ends from 0 to the number of entries, never falling.");
  return {rows, ends.data(), columns.data(), values.data()};
}

void check_columns(const SparseRowsView& X, Index columns) {
  bool good = true;
  for (Index e = 0; e < X.ends[X.rows]; ++e)
    good = good && X.columns[e] >= 0 && X.columns[e] < columns;
  check(good, "A column is beyond the number of columns.");
}

// Copies what all pieces have of one kind behind one another; `moved` takes a number, and how many
// of what it counts came before its piece.
template <class T, class Member, class Moved>
void gather(const ParsedText& text, Member member, ResultVector<T> out, Moved moved) {
  T* to = out.data();
  T* limit = to + out.shape(0);
  T before = 0;
  for (const TextPiece& piece : text.pieces) {
    const std::vector<T>& from = piece.*member;
    check(static_cast<Index>(from.size()) <= limit - to, "There is no room for all of it.");
    for (T value : from) *to++ = moved(value, before);
    if (!from.empty()) before += from.back();
  }
  check(to == limit, "There is more room than numbers.");
}

template <class T, class Member>
void gather_numbers(const ParsedText& text, Member member, ResultVector<T> out) {
  gather<T>(text, member, out, [](T value, T) { return value; });
}

template <class Member>
void gather_ends(const ParsedText& text, Member member, ResultVector<Index> out, Index first) {
  gather<Index>(text, member, out,
                [first](Index value, Index before) { return first + before + value; });
}

template <class T>
void gather_columns(const ParsedText& text, ResultVector<T> out, Index shift) {
  T* to = out.data();
  T* limit = to + out.shape(0);
  for (const TextPiece& piece : text.pieces) {
    check(static_cast<Index>(piece.values.size()) <= limit - to, "There is no room for all of it.");
    for (std::int32_t value : piece.columns) *to++ = static_cast<T>(value - shift);
    for (Index value : piece.wide) *to++ = static_cast<T>(value - shift);
  }
  check(to == limit, "There is more room than numbers.");
}

void bind_parsed(nb::module_& m) {
  class_of<ParsedText>(m, "ParsedText", "Points read from lines of text.")
      .def_prop_ro("rows",
                   [](const ParsedText& text) {
                     return text.total([](const TextPiece& piece) { return piece.rows; });
                   })
      .def_prop_ro("lines",
                   [](const ParsedText& text) {
                     return text.total([](const TextPiece& piece) { return piece.lines; });
                   })
      .def_prop_ro("entries",
                   [](const ParsedText& text) {
                     return text.total([](const TextPiece& p) { return extent(p.values.size()); });
                   })
      .def_prop_ro("n_labels",
                   [](const ParsedText& text) {
                     return text.total([](const TextPiece& p) { return extent(p.labels.size()); });
                   })
      .def_prop_ro("with_query",
                   [](const ParsedText& text) {
                     return text.total([](const TextPiece& piece) { return piece.with_query; });
                   })
      .def_prop_ro("least",
                   [](const ParsedText& text) {
                     Index least = std::numeric_limits<Index>::max();
                     for (const TextPiece& piece : text.pieces)
                       least = std::min(least, piece.least);
                     return least;
                   })
      .def_prop_ro("most",
                   [](const ParsedText& text) {
                     Index most = -1;
                     for (const TextPiece& piece : text.pieces) most = std::max(most, piece.most);
                     return most;
                   })
      .def_prop_ro("error",
                   [](const ParsedText& text) {
                     return nb::make_tuple(text.error.line, text.error.column, text.error.reason);
                   })
      .def("labels",
           [](const ParsedText& text, ResultVector<double> out) {
             gather_numbers(text, &TextPiece::labels, out);
           })
      .def("values",
           [](const ParsedText& text, ResultVector<double> out) {
             gather_numbers(text, &TextPiece::values, out);
           })
      .def("query", [](const ParsedText& text,
                       ResultVector<Index> out) { gather_numbers(text, &TextPiece::query, out); })
      .def("row_ends", [](const ParsedText& text, ResultVector<Index> out,
                          Index first) { gather_ends(text, &TextPiece::row_ends, out, first); })
      .def("label_ends", [](const ParsedText& text, ResultVector<Index> out,
                            Index first) { gather_ends(text, &TextPiece::label_ends, out, first); })
      .def("columns", &gather_columns<std::int32_t>)
      .def("columns", &gather_columns<Index>);
  m.def(
      "parse_text",
      [](nb::bytes text, bool multilabel, bool query, bool blank, bool not_finite,
         Index largest_index) {
        check(largest_index >= 0 && largest_index <= Index{1} << 59,
              "parse_text needs a largest index of at most 2**59.");
        TextOptions options{multilabel, query, blank, not_finite, largest_index};
        std::string_view view(text.c_str(), text.size());
        WithoutLock unlocked;
        return parse_text(view, options, poll);
      },
      "text"_a, "multilabel"_a, "query"_a, "blank"_a, "not_finite"_a, "largest_index"_a);
}

nb::bytes joined(const std::vector<std::string>& parts) {
  std::size_t size = 0;
  for (const std::string& part : parts) size += part.size();
  nb::bytes text(nullptr, size);
  char* to = const_cast<char*>(text.c_str());  // new, and nobody else's
  for (const std::string& part : parts) {
    std::memcpy(to, part.data(), part.size());
    to += part.size();
  }
  return text;
}

}  // namespace

void bind_text(nb::module_& m) {
  bind_parsed(m);
  m.def(
      "parse_table",
      [](nb::bytes text, Index first, char divider, Output<double> out) {
        check(first >= 0 && first <= extent(text.size()), "parse_table begins inside of the text.");
        std::string_view view(text.c_str(), text.size());
        view.remove_prefix(static_cast<std::size_t>(first));
        WithoutLock unlocked;
        check(count_lines(view) == extent(out.shape(0)),
              "parse_table needs a row of its output for each line.");
        return parse_table(view, divider, extent(out.shape(1)), out.data(), poll);
      },
      "text"_a, "first"_a, "divider"_a, "out"_a);
  m.def(
      "format_text",
      [](Vector<Index> ends, Vector<Index> columns, Vector<double> values, Matrix<double> labels,
         Vector<Index> query, Index first_column, int label_precision, int value_precision,
         bool trailing_space) {
        SparseRowsView X = rows_of(ends, columns, values);
        check(extent(labels.shape(0)) == X.rows, "format_text needs labels for each row.");
        check(query.shape(0) == 0 || extent(query.shape(0)) == X.rows,
              "format_text needs a query for each row, or none.");
        check(label_precision >= 0 && label_precision <= 17 && value_precision >= 0 &&
                  value_precision <= 17,
              "format_text needs a precision from 0 to 17.");
        TextRows rows{X.rows,
                      X.ends,
                      X.columns,
                      X.values,
                      labels.data(),
                      extent(labels.shape(1)),
                      query.shape(0) ? query.data() : nullptr,
                      first_column,
                      label_precision,
                      value_precision,
                      trailing_space};
        std::vector<std::string> parts;
        {
          WithoutLock unlocked;
          parts = format_text(rows, poll);
        }
        return joined(parts);
      },
      "ends"_a, "columns"_a, "values"_a, "labels"_a, "query"_a, "first_column"_a,
      "label_precision"_a, "value_precision"_a, "trailing_space"_a);
  m.def(
      "ordered_values",
      [](int kernel, double gamma, double coef0, Index degree, Vector<Index> ends,
         Vector<Index> columns, Vector<double> values, Vector<Index> serial, Vector<Index> first,
         Matrix<double> coef, Vector<double> rho, Vector<Index> x_ends, Vector<Index> x_columns,
         Vector<double> x_values, Index n_columns, Output<double> out) {
        SparseRowsView vectors = rows_of(ends, columns, values);
        SparseRowsView X = rows_of(x_ends, x_columns, x_values);
        check(kernel >= 0 && kernel <= 4, "ordered_values needs a kernel from 0 to 4.");
        check_columns(vectors, n_columns);
        check_columns(X, n_columns);
        bool precomputed = kernel == 4;
        Index n = precomputed ? extent(serial.shape(0)) : vectors.rows;
        vectors.rows = n;
        for (Index place : view(serial))
          check(place >= 0 && place < n_columns, "A column is beyond the number of columns.");
        Index classes = extent(first.shape(0)) - 1;  // -1 or 0: one function
        classes = std::max<Index>(classes, 0);
        Index functions = classes ? classes * (classes - 1) / 2 : 1;
        bool sorted = !classes || (first.data()[0] == 0 && first.data()[classes] == n);
        for (Index c = 0; c < classes; ++c)
          sorted = sorted && first.data()[c] <= first.data()[c + 1];
        check(sorted && extent(coef.shape(1)) == n &&
                  extent(coef.shape(0)) == (classes ? classes - 1 : 1) &&
                  extent(rho.shape(0)) == functions && extent(out.shape(0)) == X.rows &&
                  extent(out.shape(1)) == functions,
              "ordered_values needs coefficients, rho and a column of values that fit together.");
        OrderedModel model{static_cast<OrderedKernel>(kernel),
                           gamma,
                           coef0,
                           degree,
                           vectors,
                           serial.data(),
                           classes,
                           first.data(),
                           coef.data(),
                           rho.data(),
                           n_columns};
        WithoutLock unlocked;
        ordered_values(model, X, out.data(), poll);
      },
      "kernel"_a, "gamma"_a, "coef0"_a, "degree"_a, "ends"_a, "columns"_a, "values"_a, "serial"_a,
      "first"_a, "coef"_a, "rho"_a, "x_ends"_a, "x_columns"_a, "x_values"_a, "n_columns"_a,
      "out"_a);
  m.def(
      "ordered_probabilities",
      [](Matrix<double> values, Vector<double> A, Vector<double> B, Output<double> out) {
        Index k = extent(out.shape(1)), m = extent(out.shape(0)), pairs = k * (k - 1) / 2;
        check(extent(values.shape(0)) == m && extent(values.shape(1)) == pairs &&
                  extent(A.shape(0)) == pairs && extent(B.shape(0)) == pairs,
              "ordered_probabilities needs a value, A and B for each pair of classes.");
        WithoutLock unlocked;
        return ordered_probabilities(k, m, values.data(), A.data(), B.data(), out.data(), poll);
      },
      "values"_a, "A"_a, "B"_a, "out"_a);
}

}  // namespace mercer
