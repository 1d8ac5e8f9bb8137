#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "common/tables/table.hpp"
#include "seed_test/seed_comparison.hpp"

namespace attn::tools {

/// The report of a comparison for people.
std::string seed_text(const SeedComparison& comparison);

/// The columns of --tsv, and the row of a comparison.
std::vector<TableColumn> seed_columns();
std::vector<Cell> seed_row(const SeedComparison& comparison);

/// A comparison in the JSON report.
nlohmann::ordered_json seed_json(const SeedComparison& comparison);

}  // namespace attn::tools
