#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "train/vocabulary.hpp"

namespace attn::tools {

/// Metrics of generated texts against one reference each, as lib/train/metrics.hpp defines them:
/// character_error_rate over characters; word_accuracy, the share of texts that are exact; bleu,
/// rouge_1, rouge_2 and rouge_l over characters where tokens are characters, else over words.
nlohmann::ordered_json output_metrics(const std::vector<std::string>& outputs,
                                      const std::vector<std::string>& references,
                                      train::TokenKind tokens);

}  // namespace attn::tools
