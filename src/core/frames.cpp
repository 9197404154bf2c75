#include "frames.hpp"

#include <algorithm>
#include <numeric>
#include <unordered_map>

namespace mercer {
namespace {

// A production is rare where it has fewer nodes than one in so many trees. Mending a match of rare
// nodes takes as long as fifty entries of a table.
constexpr Index rare_share = 16;
// Matching pairs of nodes of a row and the columns of a span, on average; entries of a table at
// most.
constexpr double pairs_per_span = 4e6;
constexpr std::int64_t most_entries = 16'000'000;

std::vector<Index> production_counts(const Forest& forest) {
  std::vector<Index> counts(static_cast<std::size_t>(forest.productions), 0);
  for (std::int32_t p : forest.production) {
    if (p >= 0) ++counts[p];
  }
  return counts;
}

// Σ aᵢbᵢ in four sums, which do not wait for each other.
double inner(const double* a, const double* b, std::int32_t n) {
  double sum[4] = {0, 0, 0, 0};
  std::int32_t i = 0;
  for (; i + 4 <= n; i += 4) {
    for (int k = 0; k < 4; ++k) sum[k] += a[i + k] * b[i + k];
  }
  for (; i < n; ++i) sum[0] += a[i] * b[i];
  return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

}  // namespace

Index Frames::columns_per_span(const Forest& forest) {
  double pairs = 0, trees = static_cast<double>(forest.trees());
  for (Index count : production_counts(forest)) {
    pairs += static_cast<double>(count) / trees * (static_cast<double>(count) / trees);
  }
  return static_cast<Index>(std::clamp(pairs_per_span / std::max(pairs, 1.0), 1.0, trees));
}

Frames::Frames(const Forest& forest, Index first)
    : forest_(forest), first_(first), per_span_(columns_per_span(forest)) {
  std::size_t nodes = forest.label.size();
  above_.resize(nodes);
  for (Index t = 0; t < forest.trees(); ++t) {
    for (Index v = forest.start[t]; v < forest.start[t + 1]; ++v) {
      above_[v].tree = static_cast<std::int32_t>(t);
      for (std::int32_t k = 0; k < forest.arity(static_cast<std::int32_t>(v)); ++k) {
        Above& above = above_[forest.child[forest.child_start[v] + k]];
        above.parent = static_cast<std::int32_t>(v);
        above.position = k;
        above.production = forest.production[v];
      }
    }
  }
  number();
  sort_rare();
  place_.assign(nodes, 0);
  for (Index from = first; from < forest.trees(); from = span_end(from)) {
    spans_.push_back(span(from, span_end(from)));
  }
}

Index Frames::span_end(Index column) const {
  Index next = ((column - first_) / per_span_ + 1) * per_span_ + first_;
  return std::min(next, forest_.trees());
}

// Numbers for the frames of all nodes: those below others come first.
void Frames::number() {
  std::vector<Index> counts = production_counts(forest_);
  common_.resize(counts.size());
  for (std::size_t p = 0; p < counts.size(); ++p) {
    common_[p] = counts[p] * rare_share >= forest_.trees();
  }
  frame_.assign(forest_.label.size(), 0);
  production_.assign(1, -1);
  child_start_ = {0, 0};
  std::unordered_map<std::vector<std::int32_t>, std::int32_t, HashOfNumbers> known;
  std::vector<std::int32_t> key;
  for (std::size_t v = frame_.size(); v-- > 0;) {
    std::int32_t p = forest_.production[v];
    if (p < 0 || !common_[p]) continue;
    key.assign(1, p);
    for (std::int32_t k = forest_.child_start[v]; k < forest_.child_start[v + 1]; ++k) {
      key.push_back(frame_[forest_.child[k]]);
    }
    auto [at, is_new] = known.try_emplace(key, static_cast<std::int32_t>(production_.size()));
    frame_[v] = at->second;
    if (is_new) {
      production_.push_back(p);
      child_.insert(child_.end(), key.begin() + 1, key.end());
      child_start_.push_back(static_cast<std::int32_t>(child_.size()));
    }
  }
}

void Frames::sort_rare() {
  rare_start_.assign(common_.size() + 1, 0);
  std::size_t origin = static_cast<std::size_t>(forest_.start[first_]);
  auto is_rare = [&](std::size_t v) {
    return forest_.production[v] >= 0 && !common_[forest_.production[v]];
  };
  for (std::size_t v = origin; v < frame_.size(); ++v) {
    if (is_rare(v)) ++rare_start_[forest_.production[v] + 1];
  }
  std::partial_sum(rare_start_.begin(), rare_start_.end(), rare_start_.begin());
  rare_.resize(static_cast<std::size_t>(rare_start_.back()));
  above_rare_.resize(rare_.size());
  std::vector<std::int32_t> next(rare_start_.begin(), rare_start_.end() - 1);
  for (std::size_t v = origin; v < frame_.size(); ++v) {
    if (!is_rare(v)) continue;
    std::int32_t at = next[forest_.production[v]]++;
    rare_[at] = static_cast<std::int32_t>(v);
    above_rare_[at] = above_[v];
  }
}

Frames::Span Frames::span(Index from, Index to) {
  Span span;
  span.production.assign(1, -1);
  span.child_start = {0, 0};
  span.until.resize(static_cast<std::size_t>(to - from));
  std::unordered_map<std::int32_t, std::int32_t> known{{0, 0}};
  // The last trees first: then those from any tree on have the frames before some place.
  for (Index t = to; t-- > from;) {
    for (Index v = forest_.start[t + 1]; v-- > forest_.start[t];) {
      std::int32_t f = frame_[v];
      if (f == 0) continue;
      auto [at, is_new] = known.try_emplace(f, static_cast<std::int32_t>(span.production.size()));
      place_[v] = at->second;
      if (!is_new) continue;
      span.production.push_back(production_[f]);
      for (std::int32_t k = child_start_[f]; k < child_start_[f + 1]; ++k) {
        span.child.push_back(known.at(child_[k]));
      }
      span.child_start.push_back(static_cast<std::int32_t>(span.child.size()));
    }
    span.until[t - from] = static_cast<std::int32_t>(span.production.size());
  }
  return span;
}

FrameRow::FrameRow(const Frames& frames, double decay)
    : frames_(frames), forest_(frames.forest_), decay_(decay) {
  group_.resize(frames.common_.size());
  rank_.resize(frames.production_.size());
  known_.resize(forest_.label.size());
}

bool FrameRow::value(Index row, Index column, double& out) {
  if (row != row_ || column < from_ || column >= to_) {
    row_ = row;
    from_ = column;
    to_ = frames_.span_end(column);
    fits_ = compare(row, from_, to_);
  }
  if (fits_) out = values_[static_cast<std::size_t>(column - from_)];
  return fits_;
}

bool FrameRow::compare(Index row, Index from, Index to) {
  Index number = (from - frames_.first_) / frames_.per_span_;
  const Frames::Span& span = frames_.spans_[static_cast<std::size_t>(number)];
  Index begin = frames_.first_ + number * frames_.per_span_;
  Index until = span.until[static_cast<std::size_t>(from - begin)];
  enter(row);
  bool fits = lay_out(span, until);
  if (fits) {
    tabulate(span, until);
    values_.assign(static_cast<std::size_t>(to - from), 0);
    for (Index t = from; t < to; ++t) {
      double sum = 0;
      for (Index w = forest_.start[t]; w < forest_.start[t + 1]; ++w) {
        sum += sum_[frames_.place_[w]];
      }
      values_[static_cast<std::size_t>(t - from)] = sum;
    }
    mend(row, from, to);
  }
  leave();
  return fits;
}

// The frames of the row, grouped by production.
void FrameRow::enter(Index row) {
  own_.clear();
  for (Index v = forest_.start[row]; v < forest_.start[row + 1]; ++v) {
    if (frames_.frame_[v]) own_.push_back(frames_.frame_[v]);
  }
  const std::vector<std::int32_t>& production = frames_.production_;
  std::sort(own_.begin(), own_.end(), [&](auto a, auto b) {
    return std::pair(production[a], a) < std::pair(production[b], b);
  });
  own_count_.clear();
  std::size_t kept = 0;
  for (std::size_t i = 0; i < own_.size(); ++i) {
    if (i > 0 && own_[i] == own_[kept - 1]) {
      ++own_count_[kept - 1];
      continue;
    }
    std::int32_t f = own_[kept] = own_[i];
    Group& group = group_[production[f]];
    if (group.size == 0) group.first = static_cast<std::int32_t>(kept);
    rank_[f] = group.size++;
    own_count_.push_back(1);
    ++kept;
  }
  own_.resize(kept);
  below_.clear();
  below_start_.clear();
  for (std::size_t i = 0; i < own_.size();) {
    Group& group = group_[production[own_[i]]];
    group.below = static_cast<std::int32_t>(below_start_.size());
    std::int32_t arity = frames_.child_start_[own_[i] + 1] - frames_.child_start_[own_[i]];
    for (std::int32_t k = 0; k < arity; ++k) {
      below_start_.push_back(static_cast<std::int32_t>(below_.size()));
      for (std::int32_t r = 0; r < group.size; ++r) {
        std::int32_t c = frames_.child_[frames_.child_start_[own_[i + r]] + k];
        if (c != 0) below_.push_back({r, production[c], rank_[c]});
      }
    }
    below_start_.push_back(static_cast<std::int32_t>(below_.size()));
    i += static_cast<std::size_t>(group.size);
  }
}

void FrameRow::leave() {
  for (std::int32_t f : own_) group_[frames_.production_[f]].size = 0;
}

// Where the values of each frame of the span begin; false if there are too many.
bool FrameRow::lay_out(const Frames::Span& span, Index until) {
  base_.resize(static_cast<std::size_t>(until));
  std::int64_t entries = 1;
  for (Index s = 1; s < until; ++s) {
    base_[s] = static_cast<std::int32_t>(entries);
    entries += group_[span.production[s]].size;
    if (entries > most_entries) return false;
  }
  table_.resize(std::max(table_.size(), static_cast<std::size_t>(entries)));
  return true;
}

// C(r, s) = decay · Π (1 + C of the children)
void FrameRow::tabulate(const Frames::Span& span, Index until) {
  table_[0] = 0;
  sum_.assign(static_cast<std::size_t>(until), 0);
  const double* known = table_.data();
  for (Index s = 1; s < until; ++s) {
    const Group group = group_[span.production[s]];
    if (group.size == 0) continue;
    double* value = table_.data() + base_[s];
    std::fill(value, value + group.size, decay_);
    const std::int32_t* below = below_start_.data() + group.below;
    for (std::int32_t k = span.child_start[s]; k < span.child_start[s + 1]; ++k, ++below) {
      std::int32_t c = span.child[k], p = span.production[c];
      if (c == 0) continue;
      const double* child = known + base_[c];
      for (std::int32_t b = below[0]; b < below[1]; ++b) {
        if (below_[b].production == p) value[below_[b].rank] *= 1 + child[below_[b].child_rank];
      }
    }
    sum_[s] = inner(own_count_.data() + group.first, value, group.size);
  }
}

std::pair<Index, Index> FrameRow::rare(std::int32_t production, Index from, Index to) const {
  auto begin = frames_.rare_.begin(), last = begin + frames_.rare_start_[production + 1];
  auto first = std::lower_bound(begin + frames_.rare_start_[production], last, forest_.start[from]);
  return {first - begin, std::lower_bound(first, last, forest_.start[to]) - begin};
}

const double& FrameRow::tabulated(std::int32_t v, std::int32_t w) const {
  return table_[base_[frames_.place_[w]] + rank_[frames_.frame_[v]]];
}

// Nodes of rare productions that match count what they are worth; where they are below others, so
// do those, instead of what their frames are worth.
void FrameRow::mend(Index row, Index from, Index to) {
  matches_.clear();
  Index origin = forest_.start[row], nodes = forest_.start[row + 1] - origin;
  match_start_.assign(static_cast<std::size_t>(nodes) + 1, 0);
  // Those of node origin + k are [match_start_[k + 1], match_start_[k]).
  for (Index at = nodes; at-- > 0; match_start_[at] = matches_.size()) {
    auto v = static_cast<std::int32_t>(origin + at);
    std::int32_t p = forest_.production[v];
    if (p < 0) continue;
    bool common = frames_.common_[p], flat = true;
    candidates_.clear();
    for (std::int32_t k = 0; k < forest_.arity(v); ++k) {
      std::int32_t c = forest_.child[forest_.child_start[v] + k];
      if (forest_.production[c] >= 0) flat = false;
      for (std::size_t m = match_start_[c - origin + 1]; m < match_start_[c - origin]; ++m) {
        const Match& match = matches_[m];
        if (match.above.position != k || match.above.production != p) continue;
        Known& below = known_[match.node];
        below.owner = c;
        below.value = match.value;
        std::int32_t w = match.above.parent;
        if (common && known_[w].seen != v) {
          known_[w].seen = v;
          candidates_.push_back(w);
        }
      }
    }
    if (common) {
      for (std::int32_t w : candidates_) {
        double value = product(v, w);
        const Frames::Above& above = frames_.above_[w];
        matches_.push_back({w, above, value});
        values_[static_cast<std::size_t>(above.tree - from)] += value - tabulated(v, w);
      }
    } else {
      auto [first, last] = rare(p, from, to);
      for (Index i = first; i < last; ++i) {
        std::int32_t w = frames_.rare_[i];
        double value = flat ? decay_ : product(v, w);
        const Frames::Above& above = frames_.above_rare_[i];
        matches_.push_back({w, above, value});
        values_[static_cast<std::size_t>(above.tree - from)] += value;
      }
    }
  }
}

double FrameRow::product(std::int32_t v, std::int32_t w) const {
  double value = decay_;
  const std::int32_t* a = forest_.child.data() + forest_.child_start[v];
  const std::int32_t* b = forest_.child.data() + forest_.child_start[w];
  for (std::int32_t k = forest_.arity(v); k-- > 0; ++a, ++b) {
    if (known_[*b].owner == *a) {
      value *= 1 + known_[*b].value;
    } else if (frames_.frame_[*a] && forest_.production[*a] == forest_.production[*b]) {
      value *= 1 + tabulated(*a, *b);
    }
  }
  return value;
}

}  // namespace mercer
