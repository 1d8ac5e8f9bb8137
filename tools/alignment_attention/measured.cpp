#include "alignment_attention/measured.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "common/tables/table_options.hpp"

namespace attn::tools {
namespace {

using Json = nlohmann::ordered_json;

// The axis along which words are moved; empty for no shift.
std::string axis_of(const WordShift& shift) {
  return shift.source != 0 ? "source" : shift.target != 0 ? "target" : "";
}

Index places_of(const WordShift& shift) { return shift.source != 0 ? shift.source : shift.target; }

// "source -1", "none".
std::string moved_words(const WordShift& shift) {
  return axis_of(shift).empty() ? "none" : fmt::format("{} {:+}", axis_of(shift), places_of(shift));
}

// The measures of a head with the words moved by one of the shifts.
struct Shifted {
  const MeasuredHead& head;
  std::size_t shift;
};

// The agreement belongs to unmoved words.
const Figures<Shifted>& measures() {
  const auto counted = [](auto value) {
    return [value](const Shifted& of) {
      return of.head.counts.empty() ? Cell() : Cell(value(of.head.counts[of.shift]));
    };
  };
  using Of = const AlignmentCounts&;
  static const Figures<Shifted> all = {{"sure", counted([](Of of) { return of.sure; }), false},
                                       {"links", counted([](Of of) { return of.links; })},
                                       {"aer", counted([](Of of) { return of.error_rate(); })},
                                       {"precision", counted([](Of of) { return of.precision(); })},
                                       {"recall", counted([](Of of) { return of.recall(); })},
                                       {"match", counted([](Of of) { return of.match(); })},
                                       {"mass", counted([](Of of) { return of.mass(); })},
                                       {"agreement", [](const Shifted& of) {
                                          return of.shift == 0 ? cell(of.head.agreement) : Cell();
                                        }}};
  return all;
}

// The shifts of a head to show.
std::size_t rows_of(const MeasuredHead& head) {
  return std::max<std::size_t>(1, head.counts.size());
}

std::string table_text(const Measured& measured) {
  const bool one = measured.heads.size() == 1;
  Table table(columns_of(measures(), {{"head"}, {"moved"}}));
  for (const MeasuredHead& head : measured.heads) {
    for (std::size_t n = 0; n < (one ? rows_of(head) : 1); ++n) {
      std::vector<Cell> row(2);
      if (!one) row[0] = fmt::format("{}", fmt::join(head.index, ","));
      if (one && rows_of(head) > 1) row[1] = moved_words(measured.shifts[n]);
      table.add(cells_of(measures(), Shifted{head, n}, std::move(row)));
    }
  }
  return table.text();
}

// Names the shift, if any, whose error rate is below that without a shift.
std::string best_shift(const Measured& measured) {
  const std::vector<AlignmentCounts>& counts = measured.heads.front().counts;
  std::size_t best = 0;
  for (std::size_t n = 1; n < counts.size(); ++n) {
    if (counts[n].error_rate() < counts[best].error_rate()) best = n;
  }
  if (best == 0) return "";
  return fmt::format("The aer is least with the words moved: {}.\n",
                     moved_words(measured.shifts[best]));
}

}  // namespace

std::string measured_text(const Measured& measured) {
  std::string text = fmt::format("{}\nsentence pairs {}", measured.what, measured.pairs);
  if (measured.words) text += fmt::format(", target words {}", *measured.words);
  if (measured.heads.empty()) return text + "\n";
  const std::vector<AlignmentCounts>& counts = measured.heads.front().counts;
  if (!counts.empty()) text += fmt::format(", sure links {}", counts.front().sure);
  text += "\n\n" + table_text(measured);
  if (measured.heads.size() == 1) text += best_shift(measured);
  return text;
}

std::vector<TableColumn> measured_columns() {
  std::vector<TableColumn> columns = place_columns();
  columns.insert(columns.end(), {{"axis"}, {"shift"}, {"pairs", false}, {"words", false}});
  return columns_of(measures(), std::move(columns));
}

std::vector<std::vector<Cell>> measured_rows(const Measured& measured, const SectionName& section) {
  std::vector<std::vector<Cell>> rows;
  for (const MeasuredHead& head : measured.heads) {
    for (std::size_t n = 0; n < rows_of(head); ++n) {
      const WordShift& shift = measured.shifts[n];
      std::vector<Cell> row = place_cells(section.file, section.group, head.index);
      row.insert(row.end(),
                 {axis_of(shift), places_of(shift), measured.pairs, cell(measured.words)});
      rows.push_back(cells_of(measures(), Shifted{head, n}, std::move(row)));
    }
  }
  return rows;
}

Json measured_json(const Measured& measured) {
  Json result = {{"pairs", measured.pairs}};
  if (measured.words) result["words"] = *measured.words;
  result["heads"] = Json::array();
  for (const MeasuredHead& head : measured.heads) {
    Json entry = {{"index", head.index}};
    if (head.agreement) entry["agreement"] = *head.agreement;
    if (!head.counts.empty()) entry["shifts"] = Json::array();
    for (std::size_t n = 0; n < head.counts.size(); ++n) {
      const WordShift& shift = measured.shifts[n];
      const AlignmentCounts& counts = head.counts[n];
      const Shifted row{head, n};
      Json moved = {{"source", shift.source}, {"target", shift.target}};
      add_members(measures(), row, {"links", "sure"}, moved);
      moved["links_sure"] = counts.links_sure;
      moved["links_possible"] = counts.links_possible;
      add_members(measures(), row, {"aer", "precision", "recall", "match", "mass"}, moved);
      entry["shifts"].push_back(std::move(moved));
    }
    result["heads"].push_back(std::move(entry));
  }
  return result;
}

}  // namespace attn::tools
