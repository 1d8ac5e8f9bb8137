#include "basis_paths/basis_found.hpp"

#include <fmt/format.h>

#include "cli/words.hpp"

namespace attn::tools {

std::string BasisFound::text() const {
  const auto yes_or_no = [](bool holds) { return holds ? "yes" : "NO"; };
  return fmt::format("{} of rank {}, independent: {}, complete: {}", cli::counted(paths, "path"),
                     rank, yes_or_no(independent()), yes_or_no(complete()));
}

nlohmann::ordered_json json_or_null(const std::optional<Index>& count) {
  return count ? nlohmann::ordered_json(*count) : nlohmann::ordered_json();
}

std::string count_text(const std::optional<Index>& count) {
  return count ? std::to_string(*count) : "beyond 64 bits";
}

}  // namespace attn::tools
