#include "common/outputs/written_scores.hpp"

#include "io/result_mark.hpp"

namespace attn::tools {

bool has_written_scores(const io::InputBundle& bundle) {
  const io::InputBundle own = bundle.without_named();
  if (!own.has("scores") || !io::result_mark_of(own, "scores")) return false;
  return bundle.dataset("scores").address() == own.dataset("scores").address();
}

}  // namespace attn::tools
