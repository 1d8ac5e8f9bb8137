#include "alignment_attention/measured.hpp"

#include <algorithm>
#include <cmath>

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

std::vector<Cell> measure_cells(const AlignmentCounts& counts) {
  return {counts.links,    counts.error_rate(), counts.precision(),
          counts.recall(), counts.match(),      counts.mass()};
}

const std::vector<std::string> measure_names = {"links",  "aer",   "precision",
                                                "recall", "match", "mass"};

// The shifts of a head to show.
std::size_t rows_of(const MeasuredHead& head) {
  return std::max<std::size_t>(1, head.counts.size());
}

// Links, measures and agreement; the agreement belongs to unmoved words.
void append_figures(const MeasuredHead& head, std::size_t shift, std::vector<Cell>& row) {
  if (head.counts.empty()) {
    row.resize(row.size() + measure_names.size());
  } else {
    for (Cell& cell : measure_cells(head.counts[shift])) row.push_back(std::move(cell));
  }
  row.push_back(shift == 0 ? cell(head.agreement) : Cell());
}

std::string table_text(const Measured& measured) {
  const bool one = measured.heads.size() == 1;
  std::vector<TableColumn> columns = {{"head"}, {"moved"}};
  for (const std::string& name : measure_names) columns.push_back({name});
  columns.push_back({"agreement"});
  Table table(columns);
  for (const MeasuredHead& head : measured.heads) {
    for (std::size_t n = 0; n < (one ? rows_of(head) : 1); ++n) {
      std::vector<Cell> row(2);
      if (!one) row[0] = fmt::format("{}", fmt::join(head.index, ","));
      if (one && rows_of(head) > 1) row[1] = moved_words(measured.shifts[n]);
      append_figures(head, n, row);
      table.add(std::move(row));
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
  for (const char* const name : {"axis", "shift"}) columns.push_back({name});
  for (const char* const name : {"pairs", "words", "sure"}) columns.push_back({name, false});
  for (const std::string& name : measure_names) columns.push_back({name});
  columns.push_back({"agreement"});
  return columns;
}

std::vector<std::vector<Cell>> measured_rows(const Measured& measured, const SectionName& section) {
  std::vector<std::vector<Cell>> rows;
  for (const MeasuredHead& head : measured.heads) {
    for (std::size_t n = 0; n < rows_of(head); ++n) {
      const WordShift& shift = measured.shifts[n];
      std::vector<Cell> row = place_cells(section.file, section.group, head.index);
      row.emplace_back(axis_of(shift));
      row.emplace_back(places_of(shift));
      row.emplace_back(measured.pairs);
      row.push_back(cell(measured.words));
      row.push_back(head.counts.empty() ? Cell() : Cell(head.counts[n].sure));
      append_figures(head, n, row);
      rows.push_back(std::move(row));
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
      entry["shifts"].push_back({{"source", shift.source},
                                 {"target", shift.target},
                                 {"links", counts.links},
                                 {"sure", counts.sure},
                                 {"links_sure", counts.links_sure},
                                 {"links_possible", counts.links_possible},
                                 {"aer", counts.error_rate()},
                                 {"precision", counts.precision()},
                                 {"recall", counts.recall()},
                                 {"match", counts.match()},
                                 {"mass", counts.mass()}});
    }
    result["heads"].push_back(std::move(entry));
  }
  return result;
}

}  // namespace attn::tools
