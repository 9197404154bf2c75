// Text of one point a line, `label index:value ...`, as LIBSVM and SVMlight write it: read and
// written with all threads. Numbers are those nearest to the text, whatever the locale.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core.hpp"

namespace mercer {

struct TextOptions {
  bool multilabel = false;  // a list of labels, 1,2,5, or none at all, begins a line
  bool query = false;       // whether qid:n may stand after the label
  bool blank = true;        // whether lines without a point are passed over
  bool not_finite = false;  // whether nan and inf are numbers
  Index largest_index = 0;  // that a column may have
};

// Why a line cannot be read, and where: lines and columns count from 1.
struct TextError {
  Index line = 0, column = 0;
  std::string reason;
};

// A run of lines. Row r has the entries from row_ends[r - 1] to row_ends[r], and with several
// labels those from label_ends[r - 1] to label_ends[r].
struct TextPiece {
  std::vector<double> labels, values;
  std::vector<Index> row_ends, label_ends, query;
  std::vector<std::int32_t> columns;
  std::vector<Index> wide;  // in place of columns, where one of them is beyond 32 bits
  Index lines = 0, rows = 0, least = std::numeric_limits<Index>::max(), most = -1;
  Index with_query = 0;  // rows that have one
  TextError error;
};

struct ParsedText {
  std::vector<TextPiece> pieces;
  TextError error;  // the first one; its line counts from the first line of the text

  Index total(Index (*of)(const TextPiece&)) const;
};

// The points of whole lines; the last one may lack its end.
ParsedText parse_text(std::string_view text, const TextOptions&, const Poll& = {});

// The lines of a text, the last of which may lack its end.
Index count_lines(std::string_view text);

// A table of decimal numbers, as many on each line, with a character between them; ' ' for any
// spaces and tabs. Fills out, (lines, columns), and returns whether all of the text is such a
// table: no cell is empty, quoted or anything but a finite number, perhaps between spaces.
bool parse_table(std::string_view text, char divider, Index columns, double* out, const Poll& = {});

// Lines of `label index:value ...`, or of entries alone where there are no labels. Digits are those
// of printf's %.{precision}g; with precision 0 the fewest that read back to the same number.
struct TextRows {
  Index rows = 0;
  const Index* ends = nullptr;  // rows + 1 of them
  const Index* columns = nullptr;
  const double* values = nullptr;
  const double* labels = nullptr;
  Index labels_per_row = 1;  // or 0
  const Index* query = nullptr;
  Index first_column = 0;  // is added to each
  int label_precision = 0, value_precision = 0;
  bool trailing_space = false;
};

std::vector<std::string> format_text(const TextRows&, const Poll& = {});

}  // namespace mercer
