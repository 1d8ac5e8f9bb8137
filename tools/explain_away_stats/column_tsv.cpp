#include <cmath>

#include <fmt/format.h>

#include "common/column_text.hpp"
#include "explain_away_stats/column_groups.hpp"

namespace attn::tools {
namespace {

std::string field(double value) { return std::isfinite(value) ? fmt::format("{}", value) : ""; }

std::string field(const std::optional<double>& value) { return value ? field(*value) : ""; }

// A name may contain anything but a slash.
std::string field(const std::string& name) {
  std::string text;
  for (const char c : name) {
    if (c == '\t' || c == '\n' || c == '\r' || c == '\\') {
      text += c == '\t' ? "\\t" : (c == '\n' ? "\\n" : (c == '\r' ? "\\r" : "\\\\"));
    } else {
      text += c;
    }
  }
  return text;
}

std::string line(const std::vector<std::string>& fields) {
  return fmt::format("{}\n", fmt::join(fields, "\t"));
}

std::vector<std::string> fields_of(const SchemeSummaryOf& summary) {
  const ColumnSumSummary& sums = summary.sums;
  std::vector<std::string> fields = {std::to_string(sums.keys), std::to_string(sums.masked_keys),
                                     field(sums.min),           field(sums.median),
                                     field(sums.mean),          field(sums.max)};
  for (const ExplainedAway& e : sums.explained_away) {
    fields.push_back(sums.keys > 0 ? field(e.share) : "");
  }
  fields.push_back(field(summary.mean_entropy));
  fields.push_back(field(summary.bound));
  fields.push_back(field(summary.margin));
  fields.emplace_back(!summary.bound ? "" : (summary.holds ? "true" : "false"));
  return fields;
}

}  // namespace

std::string groups_tsv(const std::vector<GroupColumns>& groups, const SummaryOptions& options) {
  std::vector<std::string> names = {"group", "head",   "scheme", "keys", "masked_keys",
                                    "min",   "median", "mean",   "max"};
  for (const double epsilon : options.epsilons) {
    names.push_back(fmt::format("share_below_{}", epsilon));
  }
  for (const char* name : {"entropy", "bound", "margin", "holds"}) names.emplace_back(name);
  std::string text = line(names);
  for (const GroupColumns& group : groups) {
    for (Index head = 0; head < element_count(group.leading); ++head) {
      for (std::size_t n = 0; n < group.schemes.size(); ++n) {
        std::vector<std::string> fields = {field(group.group), head_label(group.leading, head),
                                           group.schemes[n]};
        const auto& heads = group.summaries.schemes[n].heads;
        for (std::string& found : fields_of(heads[static_cast<std::size_t>(head)])) {
          fields.push_back(std::move(found));
        }
        text += line(fields);
      }
    }
  }
  return text;
}

}  // namespace attn::tools
