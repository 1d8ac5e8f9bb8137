#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "attnkit/tensor.hpp"

namespace attn::tools {

/// The numbers of queries and keys outside the sequences.
struct Padding {
  Index queries = 0;
  Index keys = 0;

  void add(const Padding& more) {
    queries += more.queries;
    keys += more.keys;
  }
};

/// For a summary line: ", without 3 queries and 2 keys of padding", or nothing without padding.
std::string padding_words(const Padding& padding);

/// Adds `padded_queries` and `padded_keys` to a JSON object.
void add_padding(const Padding& padding, nlohmann::ordered_json& json);

/// The meaning of the two members, for the manual page.
inline constexpr const char* padding_member =
    "the numbers of queries and keys in padding, which no other number counts";

}  // namespace attn::tools
