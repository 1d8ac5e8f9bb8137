#include "plan/option_checks.hpp"

#include <cmath>

namespace attn {
namespace {

void require(bool holds, const std::string& message) {
  if (!holds) throw Error(Failure::usage, message);
}

bool is_scheme(Scheme scheme) {
  switch (scheme) {
    case Scheme::unas:
    case Scheme::dnas:
    case Scheme::hnas:
    case Scheme::fenchel:
    case Scheme::sinkhorn:
      return true;
  }
  return false;
}

void require_sinkhorn(const Stopping& stopping, Scheme scheme) {
  require(scheme == Scheme::sinkhorn || (!stopping.iterations && !stopping.tolerance),
          "iterations and a tolerance go with the scheme sinkhorn");
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
          "there is nothing to make scores of: neither q and k, nor scores, nor x, wq and wk");
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
  const bool hnas = options.scheme == Scheme::hnas;
  const bool fenchel = options.scheme == Scheme::fenchel;
  const bool t5 = options.relative == RelativePositions::t5;
  require(is_scheme(options.scheme), "there is no such scheme");
  require(options.causal == Causal::none || options.causal == Causal::top_left ||
              options.causal == Causal::bottom_right,
          "there is no such alignment of causality");
  require(options.relative == RelativePositions::none ||
              options.relative == RelativePositions::alibi || t5,
          "there are no such relative positions");
  require(std::isfinite(options.scale), "the scale is not finite");
  require(std::isfinite(options.alpha), "alpha is not finite");
  require(fenchel || options.alpha == 1, "alpha goes with the scheme fenchel");
  require(fenchel || !shapes.preference, "the operand preference goes with the scheme fenchel");
  require(options.hybrid >= 0 && options.hybrid <= 1, "hybrid is not in [0, 1]");
  require(hnas || options.hybrid == AttentionOptions().hybrid,
          "the option hybrid goes with the scheme hnas");
  require(hnas || !shapes.hybrid, "the operand hybrid goes with the scheme hnas");
  require(t5 || !shapes.rel_bias, "the operand rel_bias goes with T5's positions");
  require(!t5 || shapes.rel_bias, "T5's relative positions need the operand rel_bias");
  require(!options.softcap || (*options.softcap > 0 && std::isfinite(*options.softcap)),
          "the soft cap is not a finite number > 0");
  require(!options.window || *options.window >= 1, "the window is below 1");
  require(options.kept_bytes >= 0, "kept_bytes is negative");
  require(options.scheme == Scheme::sinkhorn || options.kept_bytes == 0,
          "kept_bytes goes with the scheme sinkhorn");
  require_sinkhorn(options.stopping, options.scheme);
  const bool ready_made = source_of(shapes) == ScoreSource::ready_made;
  require(!ready_made || options.energy.empty(), "ready-made scores have no energy");
  require(!ready_made || shapes.energy.empty(), "ready-made scores have no operands of an energy");
}

}  // namespace attn
