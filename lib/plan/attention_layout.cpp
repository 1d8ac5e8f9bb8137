#include "plan/attention_layout.hpp"

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <utility>

#include "energy/table.hpp"
#include "head/repeated_scores.hpp"
#include "plan/option_checks.hpp"
#include "plan/regions.hpp"
#include "scheme/scheme_description.hpp"

namespace attn {
namespace {

// An operand of a plan before its numbers are there.
class UnboundArray final : public ArraySource::Impl {
 public:
  UnboundArray(const std::string& operand, const Shape& planned, DType type) {
    name = address = operand;
    shape = planned;
    dtype = type;
  }
  void read_stored(const Shape&, const Shape&, void*) const override {
    throw std::logic_error("the numbers of a plan's operand are not there yet");
  }
};

ArraySource unbound(const std::string& name, const Shape& shape, DType type = DType::f64) {
  return ArraySource(std::make_shared<UnboundArray>(name, shape, type));
}

std::optional<ArraySource> unbound(const std::string& name, const std::optional<Shape>& shape) {
  return shape ? std::optional(unbound(name, *shape)) : std::nullopt;
}

PlannedOperand planned(const Operand& operand, Index problems) {
  PlannedOperand made;
  made.name = operand.dataset.address();
  made.shape = operand.dataset.shape();
  made.rows = operand.rows;
  made.cols = operand.cols;
  made.blocks = element_count(operand.leading);
  // At once: more problems than fit into memory are refused before any page is touched.
  made.block_of.reserve(static_cast<std::size_t>(problems));
  for (Index problem = 0; problem < problems; ++problem) {
    made.block_of.push_back(operand.block(problem));
  }
  return made;
}

}  // namespace

AttentionLayout::AttentionLayout(const AttentionShapes& shapes, const AttentionOptions& options) {
  require_options(shapes, options);
  take_options(options);
  AttentionSources sources;
  take_scores(shapes, sources);
  leading = sources.leading;
  problems = sources.problems;
  take_bounds(shapes);
  recipe.heads = sources.heads();
  if (sources.q) take_energy(shapes, options, sources);
  take_terms(shapes, sources);
  sizes = sources.sizes();
  v_head_dim = sources.v_head_dim;
  take_operands(sources);
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

void AttentionLayout::take_scores(const AttentionShapes& shapes, AttentionSources& sources) {
  switch (source_of(shapes)) {
    case ScoreSource::vectors:
      sources.take_vectors(unbound("q", *shapes.q), unbound("k", *shapes.k), unbound("v", shapes.v),
                           HeadLayout::heads_first);
      break;
    case ScoreSource::projection: {
      has_y = shapes.y.has_value();
      const ArraySource x = unbound("x", *shapes.x);
      sources.take_projections({x, has_y ? unbound("y", *shapes.y) : x, unbound("wq", *shapes.wq),
                                unbound("wk", *shapes.wk), unbound("wv", shapes.wv),
                                unbound("bq", shapes.bq), unbound("bk", shapes.bk),
                                unbound("bv", shapes.bv)});
      break;
    }
    case ScoreSource::ready_made:
      sources.take_scores(unbound("scores", *shapes.scores), false);
      if (shapes.v) sources.take_values(unbound("v", *shapes.v), HeadLayout::heads_first);
      break;
  }
}

void AttentionLayout::take_energy(const AttentionShapes& shapes, const AttentionOptions& options,
                                  AttentionSources& sources) {
  const bool usual = options.energy.empty();
  recipe.energy = &energy_called(usual ? description_of(options.scheme).usual_energy()
                                       : std::string_view(options.energy));
  if (options.bf16) recipe.energy = &in_bf16(*recipe.energy);
  sources.with_plain = true;
  sources.plain = recipe;
  const std::string of_energy = "the energy " + std::string(recipe.energy->name());
  sources.take_energy_operands([&](const EnergyOperand& wanted) -> std::optional<ArraySource> {
    const auto found = shapes.energy.find(wanted.name);
    if (found != shapes.energy.end() && found->second) return unbound(wanted.name, *found->second);
    if (!wanted.required) return std::nullopt;
    throw Error(Failure::input, of_energy + " needs the operand " + wanted.name);
  });
  for (const auto& [name, shape] : shapes.energy) {
    const auto& operands = recipe.energy->operands();
    const auto same = [wanted = name](const EnergyOperand& operand) {
      return operand.name == wanted;
    };
    if (!shape || std::any_of(operands.begin(), operands.end(), same)) continue;
    throw Error(Failure::usage, of_energy + " has no operand " + name);
  }
}

void AttentionLayout::take_terms(const AttentionShapes& shapes, AttentionSources& sources) {
  if (shapes.mask) sources.take_mask(unbound("mask", *shapes.mask, DType::u8));
  if (shapes.bias) sources.take_bias(unbound("bias", *shapes.bias));
  if (shapes.preference) sources.take_preference(unbound("preference", *shapes.preference), false);
  if (shapes.gate) {
    if (!sources.v) throw Error(Failure::input, "gate needs values: there is no out to gate");
    sources.take_gate(unbound("gate", *shapes.gate), HeadLayout::heads_first);
  }
  const auto number = [&](const char* name, const std::optional<Shape>& shape,
                          std::optional<PlannedOperand>& operand) {
    if (shape) operand = number_operand(name, *shape, *shape);
  };
  number("sink", shapes.sink, sink);
  number("hybrid", shapes.hybrid, hybrid);
  if (!shapes.rel_bias) return;
  sources.take_relative_bias(unbound("rel_bias", *shapes.rel_bias));
  BucketRule rule;
  rule.bidirectional = !recipe.causal;
  rule.buckets = shapes.rel_bias->front();
  require_buckets(rule);
}

// Operands as problems use them.
void AttentionLayout::take_operands(const AttentionSources& sources) {
  const auto take = [&](const std::optional<Operand>& from, std::optional<PlannedOperand>& to) {
    if (from) to = planned(*from, problems);
  };
  const auto take_vectors = [&](const std::optional<Vectors>& from, PlannedVectors& to) {
    if (!from) return;
    if (from->weights) {
      to.projected = projection(*from);
    } else {
      to.own = planned(from->input, problems);
    }
  };
  take_vectors(sources.q, q);
  take_vectors(sources.k, k);
  take_vectors(sources.v, v);
  take(sources.scores, scores);
  take(sources.mask, mask);
  take(sources.bias, bias);
  take(sources.preference, preference);
  take(sources.gate, gate);
  take(sources.rel_bias, rel_bias);
  for (const auto& operand : sources.energy_operands) take(operand, energy.emplace_back());
}

PlannedProjection AttentionLayout::projection(const Vectors& vectors) const {
  PlannedProjection made;
  made.input = planned(vectors.input, problems);
  made.weights = planned(*vectors.weights, problems);
  if (vectors.bias) made.bias = planned(*vectors.bias, problems);
  std::vector<const PlannedOperand*> others = bounds_given();
  others.push_back(&made.weights);
  if (made.bias) others.push_back(&*made.bias);
  Regions regions = regions_of(made.input, others);
  for (const Regions::Region& region : regions.all) made.products.push_back(region.problem);
  made.product_of = std::move(regions.of_problem);
  return made;
}

// A number for each position of `aligned`, which broadcasts to the leading axes.
PlannedOperand AttentionLayout::number_operand(const char* name, const Shape& shape,
                                               const Shape& aligned) const {
  return planned({unbound(name, shape), aligned, 1, 1, LeadingMap(leading, aligned, false, name)},
                 problems);
}

void AttentionLayout::take_bounds(const AttentionShapes& shapes) {
  for_bound_pairs(shapes, bounds,
                  [&](const char* name, const std::optional<Shape>& shape,
                      std::optional<PlannedOperand>& operand) {
                    if (!shape) return;
                    if (shape->size() > leading.size()) {
                      throw Error(Failure::input, std::string(name) + " has shape " +
                                                      to_string(*shape) +
                                                      ", expected the first of the leading axes " +
                                                      to_string(leading));
                    }
                    // Aligned with the first of the leading axes.
                    Shape aligned = *shape;
                    aligned.resize(leading.size(), 1);
                    operand = number_operand(name, *shape, aligned);
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

}  // namespace attn
