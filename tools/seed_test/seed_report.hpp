#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "common/tables/table.hpp"
#include "seed_test/seed_comparison.hpp"

namespace attn::tools {

/// The report of a comparison for people.
std::string seed_text(const SeedComparison& comparison);

/// The figures of a comparison, a row of --tsv.
const Figures<SeedComparison>& seed_figures();

/// A comparison in the JSON report.
nlohmann::ordered_json seed_json(const SeedComparison& comparison);

}  // namespace attn::tools
