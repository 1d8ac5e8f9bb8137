#pragma once

#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "attnkit/tensor.hpp"

namespace attn::tools {

/// The findings of check about the paths of one or several heads or networks.
struct BasisFound {
  Index paths = 0;
  Index rank = 0;
  Index expected = 0;  ///< the rank of a basis

  bool independent() const { return rank == paths; }
  bool complete() const { return rank == expected; }

  void add(const BasisFound& more) {
    paths += more.paths;
    rank += more.rank;
    expected += more.expected;
  }

  nlohmann::ordered_json json() const {
    return {
        {"paths", paths}, {"rank", rank}, {"independent", independent()}, {"complete", complete()}};
  }

  /// "12 paths of rank 9, independent: NO, complete: yes"
  std::string text() const;
};

/// A count is absent if it exceeds 64 bits. JSON then has null, the text "beyond 64 bits".
nlohmann::ordered_json json_or_null(const std::optional<Index>& count);
std::string count_text(const std::optional<Index>& count);

}  // namespace attn::tools
