#pragma once

#include <array>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "tensor/shape.hpp"

namespace attn::tools {

/// The sizes of a task's data, by split.
struct DataSizes {
  std::vector<Index>
      vocabularies;    ///< symbols of the texts; of pairs, in the source and the target
  Index outcomes = 0;  ///< how many a target may have; 0 if targets differ in this
  std::array<Index, 3> items = {};   ///< sequences, pairs or questions; 0 for an absent split
  std::array<Index, 3> tokens = {};  ///< of a running text; else 0
};

/// "65 symbols in the vocabulary; train: 1003854 tokens in 7843 sequences, valid: ...".
std::string data_words(const DataSizes& sizes);

/// By the names of the splits: items and, of a running text, tokens.
nlohmann::ordered_json data_json(const DataSizes& sizes);

}  // namespace attn::tools
