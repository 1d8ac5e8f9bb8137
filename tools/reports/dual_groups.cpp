#include "reports/dual_groups.hpp"

#include <algorithm>
#include <functional>
#include <utility>

#include <fmt/format.h>

#include "cli/words.hpp"
#include "common/tables/column_text.hpp"
#include "reports/distribution.hpp"
#include "reports/head_grid.hpp"

namespace attn::tools {
namespace {

std::string grid_of(const std::string& title, const std::vector<std::string>& labels,
                    const std::vector<DualGroup>& groups,
                    const std::function<double(const DualHead&)>& figure) {
  std::vector<GridRow> rows;
  for (std::size_t n = 0; n < groups.size(); ++n) {
    GridRow row{labels[n], {}, ""};
    DualHead all;
    Index place = 0;
    for (const DualHead& head : groups[n].heads) {
      row.heads[place++] = number(figure(head));
      all.add(head);
    }
    row.all = number(figure(all));
    rows.push_back(std::move(row));
  }
  return "\n" + head_grid(title, rows);
}

}  // namespace

DualGroup dual_group(const std::string& label, const std::vector<DualHead>& heads,
                     const Shape& leading, std::optional<std::vector<double>> averaged) {
  DualGroup group{label, {}, leading.size() > 1, std::move(averaged)};
  const std::size_t count = leading.empty() ? 1 : static_cast<std::size_t>(leading.back());
  group.heads.resize(count);
  for (std::size_t n = 0; n < heads.size(); ++n) group.heads[n % count].add(heads[n]);
  return group;
}

std::string dual_groups_text(const std::string& name, const std::vector<DualGroup>& groups) {
  std::vector<std::string> names;
  for (const DualGroup& group : groups) names.push_back(group.label);
  const std::vector<std::string> labels = group_labels(names);
  const std::string beginning = common_beginning(names);
  const auto any = [&](const auto& holds) {
    return std::any_of(groups.begin(), groups.end(), holds);
  };
  std::string text = fmt::format(
      "{}: {}{}{}\n", cli::one_line(name), cli::counted(groups.size(), "group"),
      beginning.empty() ? "" : ", names below " + printable(beginning, beginning.size()),
      any([](const DualGroup& group) { return group.pools; }) ? "; every cell pools the batch"
                                                              : "");
  text +=
      grid_of("mean relative deviation of the queries", labels, groups,
              [](const DualHead& head) { return Distribution(head.relative_deviation).mean(); });
  text += grid_of("largest relative deviation", labels, groups,
                  [](const DualHead& head) { return Distribution(head.relative_deviation).max(); });
  const auto has_outputs = [](const DualGroup& group) {
    return !group.heads.empty() && !group.heads.front().out_deviation.empty();
  };
  if (any(has_outputs)) {
    text += grid_of("mean relative deviation of the outputs", labels, groups,
                    [](const DualHead& head) { return Distribution(head.out_deviation).mean(); });
  }
  if (!groups.front().averaged) return text;
  text += "\nrelative deviation, each query's mean over the heads\n";
  std::size_t width = 8;
  for (const std::string& label : labels) width = std::max(width, characters(label) + 1);
  text += padded("group", width) + deviation_headings() + "\n";
  for (std::size_t n = 0; n < groups.size(); ++n) {
    text += padded(labels[n], width) + quantiles_text(*groups[n].averaged) + "\n";
  }
  return text;
}

}  // namespace attn::tools
