#pragma once

#include <string>
#include <vector>

#include "reports/column_statistics.hpp"

/// The parts of a report of explain-away-stats that one bundle and a dump share.
namespace attn::tools {

/// Histograms of the schemes side by side, one line for each bin, without empty bins at the ends;
/// preceded by an empty line. Empty without counts. All have the same edges. `of_keys`: "at least 6
/// queries", what the counted keys have, or "" if all keys are counted.
std::string histograms_text(const std::vector<std::string>& schemes,
                            const std::vector<Histogram>& histograms, const std::string& of_keys);

/// "12.5%".
std::string percent(double share);

/// "dnas: c >= 0.0833 is proven; it holds, the least margin is 6.9 times the bound."
std::string proven_text(const std::string& scheme, double bound, bool holds, double margin);

/// A key in a list, with the group and the head that it belongs to.
struct ListedKey {
  std::string group;  ///< "" if there are no groups
  std::string head;
  ColumnSummaries::KeySums sums;
};

/// "keys with the least attention under unas": the keys with their column sums under all schemes,
/// and these divided by the number of queries; preceded by an empty line. Empty without keys.
/// `of_keys` as above.
std::string keys_text(const std::string& which, const std::vector<std::string>& schemes,
                      const std::vector<ListedKey>& keys, const std::string& of_keys);

/// The numbers of keys that a scheme explains away, of all keys and of keys with enough queries.
struct ExplainedKeys {
  std::string scheme;
  Index count = 0;
  Index keys = 0;
  Index enough_count = 0;
  Index enough_keys = 0;

  void add(const ExplainedKeys& more);
};

/// A figure of the first keys, --sinks, in tables by head.
struct SinkField {
  const char* heading;
  const char* title;
  /// `attention` is that of all keys and of the sink.
  std::string (*text)(const SinkFigures& of, double attention);
};
const std::vector<SinkField>& sink_fields();

/// What the figures leave out, a line each: masked keys, padding, and queries without keys.
std::string left_out_text(Index masked_keys, Index padded_keys, Index padded_queries,
                          Index empty_queries);

/// "unas explains away 5 of 1024 keys (c < 1e-8), dnas none." If some keys have few queries: "Among
/// the 900 keys with ENOUGH, unas explains away 2 (c < 1e-8), dnas none. Among all 1024 keys: unas
/// 5, dnas none."
std::string conclusion_text(const std::vector<ExplainedKeys>& found, double epsilon,
                            const std::string& enough);

/// One line if most of the keys that a scheme explains away have few queries, else "".
std::string tail_note(const ExplainedKeys& found, double epsilon, const std::string& enough);

}  // namespace attn::tools
