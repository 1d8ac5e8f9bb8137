#include "sinkhorn_iter/divergence.hpp"

#include <fmt/format.h>

#include "attnkit/error.hpp"

namespace attn::tools {

void require_divergence(const TransportTask& task) {
  const AttentionInput& input = task.input;
  const auto refuse = [](const std::string& what) {
    throw Error(Failure::usage, what + " has no meaning for a divergence");
  };
  if (!task.of_cost) {
    throw Error(Failure::usage, "divergence requires --epsilon E with a cost or points",
                "ready-made scores have no cost");
  }
  if (input.mask) refuse("a mask");
  if (input.bias) refuse("a bias");
  if (input.rel_bias || task.scores.by_position()) refuse("--causal, --window or a relative bias");
  if (!input.packings.empty()) refuse("a packing of sequences");
  if (task.scores.softcap) refuse("--softcap");
}

void require_square(const TransportTask& task, Index rows, Index cols) {
  if (task.has_points() || rows == cols) return;
  throw Error(Failure::input,
              fmt::format("a divergence requires the square cost of a common support, not {} x {}",
                          rows, cols));
}

}  // namespace attn::tools
