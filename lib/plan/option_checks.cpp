#include "plan/option_checks.hpp"

#include <cmath>

#include "head/own_part.hpp"
#include "scheme/scheme_description.hpp"

namespace attn {
namespace {

void require(bool holds, const std::string& message) {
  if (!holds) throw Error(Failure::usage, message);
}

void require_stopping(const Stopping& stopping, const SchemeDescription& scheme) {
  require(scheme.is_iterated() || (!stopping.iterations && !stopping.tolerance),
          "iterations and a tolerance require the scheme sinkhorn");
  require(!stopping.iterations || *stopping.iterations >= 1, "the number of iterations is below 1");
  require(!stopping.tolerance || (*stopping.tolerance > 0 && std::isfinite(*stopping.tolerance)),
          "the tolerance is " + std::to_string(stopping.tolerance.value_or(0)) +
              ", expected a finite number > 0");
}

}  // namespace

ScoreSource source_of(const AttentionShapes& shapes) {
  const bool vectors = shapes.q || shapes.k;
  const bool projection = shapes.x || shapes.y || shapes.wq || shapes.wk || shapes.wv ||
                          shapes.bq || shapes.bk || shapes.bv;
  const bool ready_made = shapes.scores.has_value();
  require(vectors || projection || ready_made,
          "nothing gives scores: expected q and k, or scores, or x, wq and wk");
  require(vectors + projection + ready_made == 1,
          "scores are made of q and k, of scores, or of x, wq and wk: only one of them is given");
  if (vectors) {
    require(shapes.q && shapes.k, shapes.q ? "q needs k" : "k needs q");
    return ScoreSource::vectors;
  }
  if (ready_made) return ScoreSource::ready_made;
  require(shapes.x && shapes.wq && shapes.wk, "a projection needs x, wq and wk");
  require(!shapes.bv || shapes.wv, "bv needs wv");
  require(!shapes.v, "v is made by projection: give wv in its place");
  return ScoreSource::projection;
}

void require_options(const AttentionShapes& shapes, const AttentionOptions& options) {
  const SchemeDescription& scheme = description_of(options.scheme);
  const bool t5 = options.relative == RelativePositions::t5;
  require(options.causal == Causal::none || options.causal == Causal::top_left ||
              options.causal == Causal::bottom_right,
          "there is no such alignment of causality");
  require(options.relative == RelativePositions::none ||
              options.relative == RelativePositions::alibi || t5,
          "there are no such relative positions");
  require(std::isfinite(options.scale), "the scale is not finite");
  require(std::isfinite(options.alpha), "alpha is not finite");
  require(scheme.has_preference() || options.alpha == 1,
          "alpha requires the scheme fenchel or transport");
  require(scheme.has_preference() || !shapes.preference,
          "the operand preference requires the scheme fenchel or transport");
  require(scheme.is_transport() || !shapes.cost, "the operand cost requires the scheme transport");
  require(!scheme.is_transport() || shapes.cost, "the scheme transport needs the operand cost");
  require(options.gamma > 0 && std::isfinite(options.gamma), "gamma is not a finite number > 0");
  require(scheme.is_transport() || options.gamma == 1, "gamma requires the scheme transport");
  require(options.hybrid >= 0 && options.hybrid <= 1, "hybrid is not in [0, 1]");
  require(scheme.is_mixture() || options.hybrid == AttentionOptions().hybrid,
          "the option hybrid requires the scheme hnas");
  require(scheme.is_mixture() || !shapes.hybrid, "the operand hybrid requires the scheme hnas");
  require(scheme.has_sink() || !shapes.sink,
          "the scheme " + std::string(scheme.name()) + " has no operand sink");
  require(t5 || !shapes.rel_bias, "the operand rel_bias requires T5's positions");
  require(!t5 || shapes.rel_bias, "T5's relative positions need the operand rel_bias");
  require(!options.softcap || (*options.softcap > 0 && std::isfinite(*options.softcap)),
          "the soft cap is not a finite number > 0");
  require(options.window.left.value_or(0) >= 0 && options.window.right.value_or(0) >= 0,
          "the window reaches fewer than 0 keys to one side");
  const bool by_position = options.causal != Causal::none || !options.window.is_open() ||
                           options.relative != RelativePositions::none;
  require(!shapes.query_offset || by_position,
          "the operand query_offset requires causality, a window or relative positions");
  require(!shapes.query_offset || options.causal != Causal::bottom_right,
          "causality to the bottom right has an offset of its own: query_offset requires top_left");
  require(shapes.cu_seqlens_q.has_value() == shapes.cu_seqlens_k.has_value(),
          "cu_seqlens_q and cu_seqlens_k go together");
  if (shapes.cu_seqlens_q) {
    for (const auto* starts : {&shapes.cu_seqlens_q, &shapes.cu_seqlens_k}) {
      require((*starts)->size() == 1 && (*starts)->front() > 0 && *starts == shapes.cu_seqlens_q,
              "cu_seqlens_q and cu_seqlens_k have not the shape (sequences + 1)");
    }
    for_bound_pairs(shapes, shapes, [](const std::string& name, const auto& shape, const auto&) {
      require(!shape, "the operand " + name + " has no effect on packed sequences");
    });
  }
  require(options.tuning.kept_bytes >= 0, "kept_bytes is negative");
  require(scheme.is_iterated() || options.tuning.kept_bytes == 0,
          "kept_bytes requires the scheme sinkhorn");
  require_stopping(options.stopping, scheme);
  require(!options.tuning.bf16 || source_of(shapes) == ScoreSource::vectors,
          "bfloat16 products require the operands q and k");
  require(!options.tuning.bf16 || !options.repetition,
          "bfloat16 products do not go with a repetition");
  const bool ready_made = source_of(shapes) == ScoreSource::ready_made;
  require(!ready_made || options.energy.empty(), "ready-made scores have no energy");
  require(!ready_made || shapes.energy.empty(), "ready-made scores have no operands of an energy");
}

}  // namespace attn
