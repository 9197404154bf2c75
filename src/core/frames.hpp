// Subset trees of one tree against many at once.
//
// Most nodes that match have one of a few productions. The frame of a node is what is below it, cut
// where a production is rare. Two nodes compare as their frames do unless nodes of a rare
// production match below them, and a collection has far fewer frames than nodes: C is tabulated for
// pairs of frames, then mended upwards from the rare nodes that match.
#pragma once

#include <utility>
#include <vector>

#include "trees.hpp"

namespace mercer {

// The frames of a forest, and those of its columns, the trees from `first` on, in spans of so many
// trees. Numbers of frames begin at 1; 0 is no frame.
class Frames {
 public:
  Frames(const Forest& forest, Index first);

  // How many columns a span has: so many that a table of one row is neither large nor tiny.
  static Index columns_per_span(const Forest& forest);
  // The first column after those of the span of this one.
  Index span_end(Index column) const;

 private:
  friend class FrameRow;

  // The frames in the columns of a span, those below others first, and among them those that the
  // last trees have.
  struct Span {
    std::vector<std::int32_t> production, child_start, child;  // by place in the span
    std::vector<std::int32_t> until;  // by tree: frames of it and of the trees after it
  };

  // Where a node hangs.
  struct Above {
    std::int32_t parent = -1, position = -1, production = -1;  // of the parent; -1 for roots
    std::int32_t tree = 0;
  };

  void number();
  void sort_rare();
  Span span(Index from, Index to);

  const Forest& forest_;
  Index first_, per_span_;
  std::vector<char> common_;                       // by production
  std::vector<Above> above_;                       // by node
  std::vector<std::int32_t> frame_;                // by node
  std::vector<std::int32_t> production_;           // by frame; -1 for none
  std::vector<std::int32_t> child_start_, child_;  // by frame
  std::vector<std::int32_t> rare_start_, rare_;    // nodes of a rare production, in order
  std::vector<Above> above_rare_;                  // and where they hang
  std::vector<std::int32_t> place_;                // by node of a column: the same
  std::vector<Span> spans_;
};

// k of one tree and the columns of a span. One thread's room.
class FrameRow {
 public:
  FrameRow(const Frames& frames, double decay);

  // k(row, column), from a table made for all columns from this one to the end of its span when the
  // first of them is asked for; false where that would be too large. Not finite where double is
  // not enough.
  bool value(Index row, Index column, double& out);

 private:
  // Frames of the row with one production: a run of own_count_.
  struct Group {
    std::int32_t first = 0, size = 0, below = 0;
  };
  // Child k of a frame of the row, where it has one with a frame: the rank of both.
  struct Below {
    std::int32_t rank, production, child_rank;
  };
  struct Match {
    std::int32_t node;
    Frames::Above above;
    double value;
  };
  // What a node of a column matched last.
  struct Known {
    std::int32_t owner = -1, seen = -1;  // nodes of the row: itself, and through a child of it
    double value = 0;
  };

  bool compare(Index row, Index from, Index to);
  void enter(Index row);
  void leave();
  bool lay_out(const Frames::Span& span, Index until);
  void tabulate(const Frames::Span& span, Index until);
  void mend(Index row, Index from, Index to);
  double product(std::int32_t v, std::int32_t w) const;
  const double& tabulated(std::int32_t v, std::int32_t w) const;
  std::pair<Index, Index> rare(std::int32_t production, Index from, Index to) const;

  const Frames& frames_;
  const Forest& forest_;
  double decay_;
  Index row_ = -1, from_ = 0, to_ = 0;
  bool fits_ = false;
  std::vector<double> values_;  // of the columns from_ to to_ - 1

  // The frames of the row, by (production, number).
  std::vector<std::int32_t> own_;
  std::vector<double> own_count_;
  std::vector<Group> group_;               // by production
  std::vector<std::int32_t> rank_;         // by frame of the row: its place in its group
  std::vector<Below> below_;               // child 0 of the frames of a group, child 1, ...
  std::vector<std::int32_t> below_start_;  // from Group::below on, one more than children

  // The table: C of frame s of the span and the frames of the row with its production.
  std::vector<double> table_;       // table_[0] = 0 for those that do not match
  std::vector<std::int32_t> base_;  // by place in the span
  std::vector<double> sum_;         // the same over the nodes of the row

  // Nodes of columns that match a node of the row and have more below than their frames.
  std::vector<Match> matches_;
  std::vector<std::size_t> match_start_;  // by node of the row, from its end
  std::vector<std::int32_t> candidates_;
  std::vector<Known> known_;  // by node
};

}  // namespace mercer
