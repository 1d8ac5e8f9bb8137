#include "common/heads/score_source.hpp"

namespace attn::tools {

bool has_scores(const io::InputBundle& bundle, ScoreOptions::Source source) {
  switch (source) {
    case ScoreOptions::Source::scores:
      return bundle.is_dataset("scores");
    case ScoreOptions::Source::cost:
      return bundle.is_dataset("cost");
    case ScoreOptions::Source::projection:
      return bundle.is_dataset("x") && bundle.is_dataset("wq") && bundle.is_dataset("wk");
    case ScoreOptions::Source::templates:
      return bundle.is_dataset("t") && bundle.is_dataset("z");
    default:
      return bundle.is_dataset("q") && bundle.is_dataset("k");
  }
}

}  // namespace attn::tools
