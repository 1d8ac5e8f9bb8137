#include "head/seen_of.hpp"

#include "head/attention_sources.hpp"
#include "pass/row_selection.hpp"
#include "score/band.hpp"

namespace attn {
namespace {

// The first of `count` rows for which `is_past` holds, as it does for all later ones.
template <class Past>
Index first_of(Index count, const Past& is_past) {
  Index low = 0;
  for (Index high = count; low < high;) {
    const Index middle = low + (high - low) / 2;
    if (is_past(middle)) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

// Ascending runs of rows of an array; those that touch become one.
struct Runs {
  RowRange first;             // most heads have one, which needs no memory
  std::vector<Index> bounds;  // of all, from the second on

  void add(Index begin, Index end) {
    if (begin >= end) return;
    Index& last = bounds.empty() ? first.last : bounds.back();
    if (first.first == first.last) {
      first = {begin, end};
    } else if (last == begin) {
      last = end;
    } else {
      if (bounds.empty()) bounds = {first.first, first.last};
      bounds.insert(bounds.end(), {begin, end});
    }
  }

  SeenRows seen(Index begin, Index count) const {
    if (!bounds.empty()) return SeenRows(bounds);
    if (first.first == first.last) return count == 0 ? SeenRows() : SeenRows(std::vector<Index>());
    const bool all = first.first == begin && first.last == begin + count;
    return all ? SeenRows() : SeenRows({first.first, first.last});
  }
};

}  // namespace

SeenOfProblem seen_of(const AttentionSources& sources, Index problem) {
  if (sources.cost || sources.shows_all) return {};
  const ScoreRecipe& any = sources.with_preference ? sources.preferring : sources.plain;
  const OwnPart& own = sources.part(problem);
  Runs queries, keys;
  // `row0` and `col0` are the places of the first query and key in the arrays.
  const auto add = [&](Index row0, Index rows, Index col0, Index cols, Index offset) {
    const Band band(rows, cols, {any.causal, any.window, offset});
    // Queries before these see no key yet, those behind them no longer one.
    const Index first = first_of(rows, [&](Index row) { return band.end(row) > 0; });
    const Index last = first_of(rows, [&](Index row) { return band.begin(row) == cols; });
    if (first >= last) return;
    queries.add(row0 + first, row0 + last);
    keys.add(col0 + band.begin(first), col0 + band.end(last - 1));
  };
  if (const Packing* const packing = sources.packing(problem)) {
    for (Index s = 0; s < packing->sequences(); ++s) {
      const Packing::Sequence& at = (*packing)[s];
      add(own.range.row0 + at.query, packing->queries_of(s), own.range.col0 + at.key,
          packing->keys_of(s), at.query + at.offset - at.key);
    }
  } else {
    add(own.range.row0, own.range.rows, own.range.col0, own.range.cols, own.offset);
  }
  return {queries.seen(own.range.row0, own.range.rows), keys.seen(own.range.col0, own.range.cols)};
}

}  // namespace attn
