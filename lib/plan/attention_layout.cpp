#include "plan/attention_layout.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "energy/table.hpp"
#include "head/repeated_scores.hpp"
#include "plan/option_checks.hpp"
#include "plan/regions.hpp"
#include "scheme/scheme_description.hpp"
#include "tensor/batch.hpp"

namespace attn {
namespace {

[[noreturn]] void refuse_shape(const std::string& name, const Shape& shape,
                               const std::string& expected) {
  throw Error(Failure::input, name + " has shape " + to_string(shape) + ", expected " + expected);
}

void require_axes(const char* name, const Shape& shape, const char* expected) {
  if (shape.size() < 2) refuse_shape(name, shape, expected);
  if (shape.back() == 0) {
    throw Error(Failure::input,
                std::string(name) + " has shape " + to_string(shape) + ": its last axis is empty");
  }
}

// The input's own leading axes, if it has any, followed by an axis of length 1 for the heads.
Shape before_heads(const Shape& input) {
  Shape leading = leading_axes(input, 2);
  if (!leading.empty()) leading.push_back(1);
  return leading;
}

std::vector<Index> blocks_by_problem(const LeadingMap& map, Index problems) {
  std::vector<Index> blocks;
  // At once: more problems than fit into memory are refused before any page is touched.
  blocks.reserve(static_cast<std::size_t>(problems));
  for (Index problem = 0; problem < problems; ++problem) blocks.push_back(map(problem));
  return blocks;
}

void require_keys(const char* name, Index rows, Index keys) {
  if (rows == keys) return;
  throw Error(Failure::input, std::string(name) + " has " + std::to_string(rows) +
                                  " keys, expected " + std::to_string(keys));
}

}  // namespace

AttentionLayout::AttentionLayout(const AttentionShapes& shapes, const AttentionOptions& options) {
  require_options(shapes, options);
  take_options(options);
  switch (source_of(shapes)) {
    case ScoreSource::vectors:
      take_vectors(shapes);
      break;
    case ScoreSource::projection:
      take_projections(shapes);
      break;
    case ScoreSource::ready_made:
      take_scores(shapes);
      break;
  }
  recipe.heads = leading.empty() ? 1 : leading.back();
  if (q) take_energy(shapes, options);
  take_terms(shapes);
  repetition = options.repetition;
  if (!repetition) return;
  require_repetition(*repetition, scheme.scheme, recipe,
                     q ? std::optional(sizes.q_depth) : std::nullopt, !bias || bias->cols == 1,
                     sink.has_value());
}

void AttentionLayout::take_options(const AttentionOptions& options) {
  recipe.scale =
      options.scale * (description_of(options.scheme).has_preference() ? options.alpha : 1);
  causal = options.causal;
  recipe.causal = options.causal != Causal::none;
  recipe.window = options.window;
  recipe.same_if_rescaled = options.same_if_rescaled;
  recipe.softcap = options.softcap;
  recipe.relative = options.relative;
  static_cast<Stopping&>(scheme) = options.stopping;
  scheme.scheme = options.scheme;
  scheme.hybrid = options.hybrid;
}

PlannedOperand AttentionLayout::blocks_of(const char* name, const Shape& shape, const Shape& own,
                                          Index rows, Index cols, bool grouped) const {
  PlannedOperand operand;
  operand.name = name;
  operand.shape = shape;
  operand.rows = rows;
  operand.cols = cols;
  operand.blocks = element_count(own);
  operand.block_of = blocks_by_problem(LeadingMap(leading, own, grouped, name), problems);
  return operand;
}

PlannedOperand AttentionLayout::vectors(const char* name, const Shape& shape, bool grouped) const {
  return blocks_of(name, shape, leading_axes(shape, 2), shape[shape.size() - 2], shape.back(),
                   grouped);
}

PlannedOperand AttentionLayout::vector(const char* name, const Shape& shape, Index length,
                                       bool grouped) const {
  if (shape.empty() || shape.back() != length) {
    refuse_shape(name, shape, "(..., " + std::to_string(length) + ")");
  }
  return blocks_of(name, shape, leading_axes(shape, 1), 1, length, grouped);
}

// An operand that also broadcasts over queries and `width` keys or channels.
PlannedOperand AttentionLayout::matrix(const char* name, const Shape& shape, Index width) const {
  const std::size_t own = std::min<std::size_t>(2, shape.size());
  const Index cols = own >= 1 ? shape.back() : 1;
  const Index rows = own >= 2 ? shape[shape.size() - 2] : 1;
  if ((cols != 1 && cols != width) || (rows != 1 && rows != queries())) {
    refuse_shape(name, shape, "it to broadcast to " + to_string(join(leading, {queries(), width})));
  }
  return blocks_of(name, shape, leading_axes(shape, own), rows, cols, false);
}

void AttentionLayout::take_vectors(const AttentionShapes& shapes) {
  const Shape& q_shape = *shapes.q;
  const Shape& k_shape = *shapes.k;
  require_axes("q", q_shape, "(..., queries, d)");
  require_axes("k", k_shape, "(..., keys, d)");
  take_leading(result_axes(leading_axes(q_shape, 2), leading_axes(k_shape, 2), "q", "k"), shapes);
  q.own = vectors("q", q_shape, false);
  k.own = vectors("k", k_shape, true);
  sizes = {q.rows(), k.rows(), q.cols(), k.cols(), 0};
  if (shapes.v) take_values(*shapes.v, leading_axes(k_shape, 2));
}

void AttentionLayout::take_scores(const AttentionShapes& shapes) {
  const Shape& shape = *shapes.scores;
  if (shape.size() < 2) refuse_shape("scores", shape, "(..., queries, keys)");
  take_leading(leading_axes(shape, 2), shapes);
  sizes = {shape[shape.size() - 2], shape.back(), 0, 0, 0};
  scores = vectors("scores", shape, false);
  if (shapes.v) take_values(*shapes.v, {});
}

void AttentionLayout::take_values(const Shape& shape, const Shape& k_leading) {
  require_axes("v", shape, "(..., keys, dv)");
  require_same_heads({{"k", k_leading}, {"v", leading_axes(shape, 2)}});
  v.own = vectors("v", shape, true);
  v_head_dim = v.cols();
  require_keys("v", v.rows(), keys());
}

PlannedProjection AttentionLayout::projection(const char* names[3], const Shape& input,
                                              const Shape& weights,
                                              const std::optional<Shape>& added,
                                              bool grouped) const {
  PlannedProjection made;
  made.input =
      blocks_of(names[0], input, before_heads(input), input[input.size() - 2], input.back(), false);
  made.weights = vectors(names[1], weights, grouped);
  if (added) made.bias = vector(names[2], *added, weights.back(), grouped);
  std::vector<const PlannedOperand*> others = bounds_given();
  others.push_back(&made.weights);
  if (made.bias) others.push_back(&*made.bias);
  Regions regions = regions_of(made.input, others);
  for (const Regions::Region& region : regions.all) made.products.push_back(region.problem);
  made.product_of = std::move(regions.of_problem);
  return made;
}

void AttentionLayout::take_projections(const AttentionShapes& shapes) {
  has_y = shapes.y.has_value();
  const Shape& x = *shapes.x;
  const Shape& y = has_y ? *shapes.y : x;
  const char* const y_name = has_y ? "y" : "x";
  require_axes("x", x, "(..., queries, D)");
  require_axes(y_name, y, "(..., keys, D)");
  const auto require_weights = [](const char* name, const Shape& shape, const char* of,
                                  const Shape& input) {
    require_axes(name, shape, "(heads, D, d)");
    const Index inner = shape[shape.size() - 2];
    if (inner == input.back()) return;
    throw Error(Failure::input, std::string(name) + ": the axis before the last is " +
                                    std::to_string(inner) + ", " + of + " has " +
                                    std::to_string(input.back()));
  };
  require_weights("wq", *shapes.wq, "x", x);
  require_weights("wk", *shapes.wk, y_name, y);
  if (shapes.wv) require_weights("wv", *shapes.wv, y_name, y);
  // Every position of x with every head; the same for y.
  const Shape of_x = result_axes(before_heads(x), leading_axes(*shapes.wq, 2), "x", "wq");
  const Shape of_y = result_axes(before_heads(y), leading_axes(*shapes.wk, 2), y_name, "wk");
  take_leading(result_axes(of_x, of_y, "x wq", std::string(y_name) + " wk"), shapes);
  const char* q_names[] = {"x", "wq", "bq"};
  const char* k_names[] = {y_name, "wk", "bk"};
  const char* v_names[] = {y_name, "wv", "bv"};
  q.projected = projection(q_names, x, *shapes.wq, shapes.bq, false);
  k.projected = projection(k_names, y, *shapes.wk, shapes.bk, true);
  sizes = {q.rows(), k.rows(), q.cols(), k.cols(), 0};
  if (shapes.wv) {
    v.projected = projection(v_names, y, *shapes.wv, shapes.bv, true);
    v_head_dim = v.cols();
  }
  const auto own = [](const std::optional<Shape>& shape, std::size_t trailing) {
    return shape ? leading_axes(*shape, trailing) : Shape();
  };
  require_same_heads({{"wk", own(shapes.wk, 2)},
                      {"bk", own(shapes.bk, 1)},
                      {"wv", own(shapes.wv, 2)},
                      {"bv", own(shapes.bv, 1)}});
}

void AttentionLayout::take_energy(const AttentionShapes& shapes, const AttentionOptions& options) {
  const bool usual = options.energy.empty();
  recipe.energy = &energy_called(usual ? description_of(options.scheme).usual_energy()
                                       : std::string_view(options.energy));
  if (options.bf16) recipe.energy = &in_bf16(*recipe.energy);
  if (recipe.energy->needs_equal_depths() && q.cols() != k.cols()) {
    throw Error(Failure::input, "k: last axis is " + std::to_string(k.cols()) + ", q has " +
                                    std::to_string(q.cols()));
  }
  std::size_t known = 0;
  for (const EnergyOperand& wanted : recipe.energy->operands()) {
    const auto found = shapes.energy.find(wanted.name);
    if (found == shapes.energy.end() || !found->second) {
      if (!wanted.required) {
        energy.emplace_back();
        continue;
      }
      throw Error(Failure::input, "the energy " + std::string(recipe.energy->name()) +
                                      " needs the operand " + wanted.name);
    }
    ++known;
    const Shape& shape = *found->second;
    const char* const name = wanted.name.c_str();
    const Index cols = length_of(wanted.cols, sizes);
    if (wanted.is_vector()) {
      energy.emplace_back(vector(name, shape, cols, false));
      continue;
    }
    require_axes(name, shape, "(..., rows, columns)");
    PlannedOperand operand = vectors(name, shape, false);
    if (wanted.rows == OperandLength::hidden && sizes.hidden == 0) sizes.hidden = operand.rows;
    const Index rows = length_of(wanted.rows, sizes);
    if (operand.rows != rows || operand.cols != cols || rows == 0) {
      refuse_shape(name, shape,
                   "(..., " + (rows > 0 ? std::to_string(rows) : std::string("A")) + ", " +
                       std::to_string(cols) + ")");
    }
    energy.emplace_back(std::move(operand));
  }
  if (known == shapes.energy.size()) return;
  for (const auto& [name, shape] : shapes.energy) {
    const auto& operands = recipe.energy->operands();
    const auto same = [wanted = name](const EnergyOperand& operand) {
      return operand.name == wanted;
    };
    if (!shape || std::any_of(operands.begin(), operands.end(), same)) continue;
    throw Error(Failure::usage,
                "the energy " + std::string(recipe.energy->name()) + " has no operand " + name);
  }
}

void AttentionLayout::take_leading(const Shape& axes, const AttentionShapes& shapes) {
  leading = axes;
  problems = element_count(leading);
  take_bounds(shapes);
}

void AttentionLayout::take_bounds(const AttentionShapes& shapes) {
  for_bound_pairs(shapes, bounds,
                  [&](const char* name, const std::optional<Shape>& shape,
                      std::optional<PlannedOperand>& operand) {
                    if (!shape) return;
                    if (shape->size() > leading.size()) {
                      refuse_shape(name, *shape,
                                   "the first of the leading axes " + to_string(leading));
                    }
                    // Aligned with the first of the leading axes.
                    Shape aligned = *shape;
                    aligned.resize(leading.size(), 1);
                    operand = blocks_of(name, *shape, aligned, 1, 1, false);
                  });
}

std::vector<const PlannedOperand*> AttentionLayout::bounds_given() const {
  std::vector<const PlannedOperand*> given;
  for_bound_pairs(bounds, bounds,
                  [&](const char*, const std::optional<PlannedOperand>& operand, const auto&) {
                    if (operand) given.push_back(&*operand);
                  });
  return given;
}

void AttentionLayout::take_terms(const AttentionShapes& shapes) {
  if (shapes.mask) mask = matrix("mask", *shapes.mask, keys());
  if (shapes.bias) bias = matrix("bias", *shapes.bias, keys());
  if (shapes.preference) preference = matrix("preference", *shapes.preference, keys());
  if (shapes.sink) sink = blocks_of("sink", *shapes.sink, *shapes.sink, 1, 1, false);
  if (shapes.gate) {
    if (!v) throw Error(Failure::input, "gate needs values: there is no out to gate");
    gate = matrix("gate", *shapes.gate, v_head_dim);
  }
  if (shapes.hybrid) hybrid = blocks_of("hybrid", *shapes.hybrid, *shapes.hybrid, 1, 1, false);
  if (!shapes.rel_bias) return;
  const Shape& shape = *shapes.rel_bias;
  if (shape.size() != 2 || shape.back() != recipe.heads) {
    refuse_shape("rel_bias", shape, "(buckets, " + std::to_string(recipe.heads) + ")");
  }
  BucketRule rule;
  rule.bidirectional = !recipe.causal;
  rule.buckets = shape.front();
  require_buckets(rule);
  rel_bias = blocks_of("rel_bias", shape, {}, shape.front(), shape.back(), false);
}

}  // namespace attn
