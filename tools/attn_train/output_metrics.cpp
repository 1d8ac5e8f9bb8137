#include "attn_train/output_metrics.hpp"

#include <map>

#include "train/metrics.hpp"
#include "train/symbols.hpp"

namespace attn::tools {
namespace {

// Numbers for the parts of texts, so that equal parts have equal numbers.
class Numbering {
 public:
  std::vector<Index> of(const std::vector<std::string_view>& parts) {
    std::vector<Index> numbers;
    for (const std::string_view part : parts) {
      numbers.push_back(
          known_.emplace(std::string(part), static_cast<Index>(known_.size())).first->second);
    }
    return numbers;
  }

 private:
  std::map<std::string, Index> known_;
};

}  // namespace

nlohmann::ordered_json output_metrics(const std::vector<std::string>& outputs,
                                      const std::vector<std::string>& references,
                                      train::TokenKind tokens) {
  const bool by_character = tokens == train::TokenKind::characters;
  Numbering characters;
  Numbering units;
  train::EditRate edits;
  train::Bleu bleu;
  train::RougeMean rouge;
  for (std::size_t n = 0; n < outputs.size(); ++n) {
    edits.add(characters.of(train::points_of(outputs[n])),
              characters.of(train::points_of(references[n])));
    const auto parts = [&](const std::string& text) {
      return units.of(by_character ? train::points_of(text) : train::words_of(text, false));
    };
    const std::vector<Index> output = parts(outputs[n]);
    const std::vector<Index> reference = parts(references[n]);
    bleu.add(output, reference);
    rouge.add(output, reference);
  }
  nlohmann::ordered_json metrics;
  metrics["character_error_rate"] = edits.character_error_rate();
  metrics["word_accuracy"] = edits.word_accuracy();
  metrics["bleu"] = bleu.score();
  metrics["rouge_1"] = rouge.mean().rouge_1;
  metrics["rouge_2"] = rouge.mean().rouge_2;
  metrics["rouge_l"] = rouge.mean().rouge_l;
  return metrics;
}

}  // namespace attn::tools
