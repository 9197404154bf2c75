// Reading and writing of svmlight text. Short decimals are read by one exact division (Clinger,
// "How to read floating point numbers accurately", 1990); all others by std::from_chars.
#include "svmlight.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "threads.hpp"

namespace mercer {

namespace {

constexpr Index kPiece = Index{1} << 18;  // bytes; fewer are not worth a thread
constexpr Index kRowsAtOnce = 2048;       // rows that are written together

// Everything but the line's end that separates words.
inline bool is_space(char c) {
  return c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v';
}

inline bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// Whether a word ends here.
inline bool ends_word(const char* at, const char* end) {
  return at == end || is_space(*at) || *at == '#';
}

std::string quoted(const char* begin, const char* end) {
  std::string text = "'";
  for (const char* at = begin; at != end && at - begin < 30; ++at) {
    auto byte = static_cast<unsigned char>(*at);
    char hex[8];
    std::snprintf(hex, sizeof hex, "\\x%02x", static_cast<unsigned>(byte));
    if (byte >= 32 && byte < 127) {
      text += *at;
    } else {
      text += hex;
    }
  }
  return text + (end - begin > 30 ? "...'" : "'");
}

// The word that begins here.
std::string word_at(const char* begin, const char* end) {
  const char* at = begin;
  while (!ends_word(at, end)) ++at;
  return quoted(begin, at);
}

enum class Found { number, overflow, none };

// Whether the decimal that from_chars found out of range is too large, and not too small.
bool is_large(const char* at, const char* end) {
  Index magnitude = 0;
  bool point = false, seen = false;
  for (; at != end && (is_digit(*at) || *at == '.'); ++at) {
    if (*at == '.') {
      point = true;
    } else if (*at != '0' || seen) {
      seen = true;
      magnitude += !point;
    } else if (point) {
      --magnitude;
    }
  }
  if (at != end && (*at == 'e' || *at == 'E')) {
    ++at;
    if (at != end && *at == '+') ++at;
    bool negative = at != end && *at == '-';
    if (negative) ++at;
    Index exponent = 0;
    for (; at != end && is_digit(*at); ++at)
      exponent = std::min<Index>(exponent * 10 + (*at - '0'), Index{1} << 50);
    magnitude += negative ? -exponent : exponent;
  }
  return magnitude > 0;
}

constexpr std::array<double, 16> kTens{1e0, 1e1, 1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                       1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15};

// The number at the beginning of [at, end); `at` is moved beyond it.
Found read_number(const char*& at, const char* end, double& value) {
  const char* start = at;
  bool negative = start != end && *start == '-';
  if (start != end && (*start == '-' || *start == '+')) ++start;
  const char* here = start;
  std::uint64_t digits = 0;
  while (here != end && is_digit(*here) && here - start < 16)
    digits = 10 * digits + static_cast<std::uint64_t>(*here++ - '0');
  const char* whole = here;
  Index after = 0;
  if (here != end && *here == '.') {
    ++here;
    while (here != end && is_digit(*here) && here - start < 16) {
      digits = 10 * digits + static_cast<std::uint64_t>(*here++ - '0');
      ++after;
    }
  }
  bool some = whole - start + after > 0;
  bool over = here == end || !(is_digit(*here) || *here == '.' || *here == 'e' || *here == 'E');
  // Up to 15 digits are a whole number below 2⁵³, and the power of ten is exact.
  if (some && over && whole - start + after <= 15) {
    double size = static_cast<double>(digits);
    if (after) size /= kTens[static_cast<std::size_t>(after)];
    value = negative ? -size : size;
    at = here;
    return Found::number;
  }
  if (start == end || *start == '-' || *start == '+') return Found::none;
  auto [stop, error] = std::from_chars(start, end, value);
  if (error == std::errc::invalid_argument) return Found::none;
  at = stop;
  if (error == std::errc::result_out_of_range) {
    if (is_large(start, stop)) return Found::overflow;
    value = 0;
  }
  if (negative) value = -value;
  return Found::number;
}

// Reads the lines of one piece; columns are kept as Column.
template <class Column>
class LineReader {
 public:
  LineReader(TextPiece& piece, std::vector<Column>& columns, const TextOptions& options)
      : piece_(piece), columns_(columns), options_(options) {}

  // False where a column is beyond Column; an error is in the piece.
  bool read(std::string_view text) {
    const char *at = text.data(), *end = at + text.size();
    while (at != end) {
      const char* stop = std::find(at, end, '\n');
      ++piece_.lines;
      if (!line(at, stop)) return false;
      if (piece_.error.line) return true;
      at = stop == end ? end : stop + 1;
    }
    return true;
  }

 private:
  bool fail(const char* at, std::string reason) {
    piece_.error = {piece_.lines, at - begin_ + 1, std::move(reason)};
    return true;
  }

  static void skip(const char*& at, const char* end) {
    while (at != end && is_space(*at)) ++at;
  }

  bool line(const char* at, const char* end) {
    begin_ = at;
    skip(at, end);
    if (at == end || *at == '#') {
      if (options_.blank) return true;
      return fail(at, "there is no point on this line");
    }
    if (options_.multilabel) {
      if (!labels(at, end)) return true;
    } else {
      double value = 0;
      if (!number(at, end, value, "a label", true)) return true;
      piece_.labels.push_back(value);
    }
    skip(at, end);
    if (options_.query && end - at >= 4 && std::string_view(at, 4) == "qid:") {
      if (!query(at, end)) return true;
      skip(at, end);
    } else if (options_.query) {
      piece_.query.push_back(0);
    }
    Index last = -1;
    while (at != end && *at != '#') {
      Index index = 0;
      const char* start = at;
      if (!column(at, end, index)) return true;
      if (index <= last) return fail(start, order(index, last));
      if (index > std::numeric_limits<Column>::max()) return false;
      double value = 0;
      if (!number(at, end, value, "a value", false)) return true;
      last = index;
      columns_.push_back(static_cast<Column>(index));
      piece_.values.push_back(value);
      piece_.least = std::min(piece_.least, index);
      skip(at, end);
    }
    piece_.most = std::max(piece_.most, last);
    return finish();
  }

  bool finish() {
    if (options_.multilabel) piece_.label_ends.push_back(static_cast<Index>(piece_.labels.size()));
    piece_.row_ends.push_back(static_cast<Index>(piece_.values.size()));
    ++piece_.rows;
    return true;
  }

  static std::string order(Index index, Index last) {
    std::string shown = std::to_string(index);
    if (index == last) return "index " + shown + " is there twice";
    return "index " + shown + " comes after " + std::to_string(last) + "; indices ascend";
  }

  // A number that ends a word, or a list of them.
  bool number(const char*& at, const char* end, double& value, const char* what, bool list) {
    const char* start = at;
    Found found = read_number(at, end, value);
    if (found == Found::overflow) {
      fail(start, quoted(start, at) + " is beyond the largest number");
      return false;
    }
    if (found == Found::none ||
        !(ends_word(at, end) || (list && *at == ',' && options_.multilabel))) {
      std::string shown = word_at(start, end);
      const char* colon = std::find(start, end, ':');
      bool entry = list && found == Found::number && at == colon && !options_.multilabel;
      fail(start, shown == "''" ? std::string(what) + " is missing"
                  : entry       ? shown + " stands where a label is to be"
                                : shown + " is not " + what);
      return false;
    }
    if (!options_.not_finite && !std::isfinite(value)) {
      fail(start, quoted(start, at) + " is not a finite number");
      return false;
    }
    return true;
  }

  // None, one, or several with commas between.
  bool labels(const char*& at, const char* end) {
    const char* word = at;
    while (!ends_word(word, end)) {
      if (*word++ == ':') return true;  // an entry: there are none
    }
    for (;;) {
      double value = 0;
      if (!number(at, end, value, "a label", true)) return false;
      piece_.labels.push_back(value);
      if (ends_word(at, end)) return true;
      ++at;  // the comma
    }
  }

  bool query(const char*& at, const char* end) {
    const char* start = at;
    at += 4;
    Index value = 0;
    auto [stop, error] = std::from_chars(at, end, value);
    at = stop;
    if (error != std::errc() || !ends_word(at, end)) {
      fail(start, word_at(start, end) + " is not qid: and a whole number");
      return false;
    }
    piece_.query.push_back(value);
    ++piece_.with_query;
    return true;
  }

  // index: of an entry.
  bool column(const char*& at, const char* end, Index& index) {
    const char* start = at;
    auto fails = [&](const char* why) {
      fail(start, word_at(start, end) + why);
      return false;
    };
    if (*at == '-') {
      ++at;
      while (at != end && is_digit(*at)) ++at;
      if (at != end && *at == ':') return fails(" has a negative index");
      return fails(" is not index:value");
    }
    const char* digits = at;
    for (; at != end && is_digit(*at); ++at) {
      index = 10 * index + (*at - '0');
      if (index > options_.largest_index) return fails(" has too large an index");
    }
    if (at != digits && at != end && *at == ':') {
      ++at;
      return true;
    }
    if (std::string_view(start, static_cast<std::size_t>(end - start)).starts_with("qid:"))
      return fails(" stands where index:value is to be");
    return fails(" is not index:value");
  }

  TextPiece& piece_;
  std::vector<Column>& columns_;
  const TextOptions& options_;
  const char* begin_ = nullptr;
};

TextPiece parse_piece(std::string_view text, const TextOptions& options) {
  auto entries = static_cast<std::size_t>(std::count(text.begin(), text.end(), ':'));
  auto lines = static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')) + 1;
  auto empty = [&] {
    TextPiece piece;
    piece.values.reserve(entries);
    piece.labels.reserve(lines);
    piece.row_ends.reserve(lines);
    return piece;
  };
  TextPiece piece = empty();
  piece.columns.reserve(entries);
  if (LineReader<std::int32_t>(piece, piece.columns, options).read(text)) return piece;
  piece = empty();
  LineReader<Index>(piece, piece.wide, options).read(text);
  return piece;
}

// The numbers of one row of a table, whose line is [at, end); whether it is one.
bool table_row(const char* at, const char* end, char divider, Index columns, double* out) {
  auto skip = [&] {
    while (at != end && (*at == ' ' || *at == '\t') && (*at != divider || divider == ' ')) ++at;
  };
  for (Index j = 0; j < columns; ++j) {
    if (j && divider != ' ' && (at == end || *at++ != divider)) return false;
    const char* before = at;
    skip();
    if (j && divider == ' ' && at == before) return false;
    if (read_number(at, end, out[j]) != Found::number || !std::isfinite(out[j])) return false;
    if (divider != ' ') skip();
  }
  skip();
  return at == end;
}

// A text cut at ends of lines, into some pieces for each thread.
std::vector<std::string_view> pieces_of(std::string_view text, int workers) {
  std::vector<std::string_view> parts;
  auto size = std::max(static_cast<std::size_t>(kPiece), text.size() / (4 * workers) + 1);
  while (!text.empty()) {
    std::size_t end = text.size() <= size ? std::string_view::npos : text.find('\n', size);
    end = end == std::string_view::npos ? text.size() : end + 1;
    parts.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
  return parts;
}

// The numbers of one line after another.
class LineWriter {
 public:
  explicit LineWriter(const TextRows& rows) : rows_(rows) {}

  std::string write(Index begin, Index end) {
    text_.reserve(static_cast<std::size_t>(rows_.ends[end] - rows_.ends[begin] + end - begin) * 12);
    for (Index r = begin; r < end; ++r) line(r);
    return std::move(text_);
  }

 private:
  void line(Index r) {
    bool first = true;
    auto separate = [&] {
      if (!first && !rows_.trailing_space) text_ += ' ';
      first = false;
    };
    for (Index l = 0; l < rows_.labels_per_row; ++l) {
      separate();
      number(rows_.labels[r * rows_.labels_per_row + l], rows_.label_precision);
      if (rows_.trailing_space) text_ += ' ';
    }
    if (rows_.query) {
      separate();
      text_ += "qid:";
      whole(rows_.query[r]);
    }
    for (Index e = rows_.ends[r]; e < rows_.ends[r + 1]; ++e) {
      separate();
      whole(rows_.columns[e] + rows_.first_column);
      text_ += ':';
      number(rows_.values[e], rows_.value_precision);
      if (rows_.trailing_space) text_ += ' ';
    }
    text_ += '\n';
  }

  void whole(Index value) {
    char buffer[24];
    auto [stop, error] = std::to_chars(buffer, buffer + sizeof buffer, value);
    text_.append(buffer, stop);
  }

  void number(double value, int precision) {
    if (precision == 0 && std::abs(value) < 1e15 && value == std::trunc(value)) {
      if (value == 0 && std::signbit(value)) text_ += '-';
      return whole(static_cast<Index>(value));
    }
    char buffer[64];
    char* end = buffer + sizeof buffer;
    auto [stop, error] =
        precision == 0 ? std::to_chars(buffer, end, value)
                       : std::to_chars(buffer, end, value, std::chars_format::general, precision);
    text_.append(buffer, stop);
  }

  const TextRows& rows_;
  std::string text_;
};

}  // namespace

Index ParsedText::total(Index (*of)(const TextPiece&)) const {
  Index sum = 0;
  for (const TextPiece& piece : pieces) sum += of(piece);
  return sum;
}

ParsedText parse_text(std::string_view text, const TextOptions& options, const Poll& poll) {
  int workers = threads();
  std::vector<std::string_view> parts = pieces_of(text, workers);
  ParsedText parsed;
  parsed.pieces.resize(parts.size());
  parallel(
      static_cast<Index>(parts.size()), workers,
      [&](Index task, int) {
        auto t = static_cast<std::size_t>(task);
        parsed.pieces[t] = parse_piece(parts[t], options);
      },
      poll);
  Index before = 0;
  for (const TextPiece& piece : parsed.pieces) {
    if (piece.error.line) {
      parsed.error = piece.error;
      parsed.error.line += before;
      break;
    }
    before += piece.lines;
  }
  return parsed;
}

Index count_lines(std::string_view text) {
  Index ends = std::count(text.begin(), text.end(), '\n');
  return ends + (!text.empty() && text.back() != '\n');
}

bool parse_table(std::string_view text, char divider, Index columns, double* out,
                 const Poll& poll) {
  int workers = threads();
  std::vector<std::string_view> parts = pieces_of(text, workers);
  auto tasks = static_cast<Index>(parts.size());
  std::vector<Index> first(parts.size() + 1);
  parallel(
      tasks, workers,
      [&](Index task, int) {
        auto t = static_cast<std::size_t>(task);
        first[t + 1] = count_lines(parts[t]);
      },
      poll);
  for (std::size_t t = 0; t < parts.size(); ++t) first[t + 1] += first[t];
  std::atomic<bool> good = true;
  parallel(
      tasks, workers,
      [&](Index task, int) {
        auto t = static_cast<std::size_t>(task);
        const char *at = parts[t].data(), *end = at + parts[t].size();
        double* row = out + first[t] * columns;
        while (at != end && good.load(std::memory_order_relaxed)) {
          const char* stop = std::find(at, end, '\n');
          const char* last = stop != at && stop[-1] == '\r' ? stop - 1 : stop;
          if (!table_row(at, last, divider, columns, row)) good.store(false);
          row += columns;
          at = stop == end ? end : stop + 1;
        }
      },
      poll);
  return good;
}

std::vector<std::string> format_text(const TextRows& rows, const Poll& poll) {
  Index tasks = (rows.rows + kRowsAtOnce - 1) / kRowsAtOnce;
  std::vector<std::string> parts(static_cast<std::size_t>(tasks));
  parallel(
      tasks, threads(),
      [&](Index task, int) {
        Index begin = task * kRowsAtOnce;
        parts[static_cast<std::size_t>(task)] =
            LineWriter(rows).write(begin, std::min(begin + kRowsAtOnce, rows.rows));
      },
      poll);
  return parts;
}

}  // namespace mercer
