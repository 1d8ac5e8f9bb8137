#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "common/frame/section_name.hpp"
#include "common/tables/table.hpp"
#include "stats/word_alignment.hpp"

namespace attn::tools {

/// The measures of one head of some weights, or of an answer of links.
struct MeasuredHead {
  Shape index = {};  ///< the head's place among the leading axes after the first
  std::vector<AlignmentCounts> counts = {};  ///< for each shift; none without gold links
  std::optional<double> agreement = {};      ///< B of two directions
};

/// The results of the verb measure for one answer.
struct Measured {
  std::string what = {};  ///< for people: "w.h5:/weights"
  Index pairs = 0;
  std::optional<Index> words = {};     ///< for weights: target words of the first head
  std::vector<WordShift> shifts = {};  ///< the first is by 0 places; words move along one axis
  std::vector<MeasuredHead> heads = {};
};

/// The report for people: every shift of one head, or several heads without shifts.
std::string measured_text(const Measured& measured);

/// The columns of --tsv, and a row for each head and shift.
std::vector<TableColumn> measured_columns();
std::vector<std::vector<Cell>> measured_rows(const Measured& measured, const SectionName& section);

/// The result in the JSON report.
nlohmann::ordered_json measured_json(const Measured& measured);

}  // namespace attn::tools
