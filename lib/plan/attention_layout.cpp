#include "plan/attention_layout.hpp"

#include <algorithm>
#include <limits>
#include <set>
#include <span>
#include <string_view>
#include <utility>

#include "energy/table.hpp"
#include "head/packed_problem.hpp"
#include "head/repeated_scores.hpp"
#include "plan/operand_list.hpp"
#include "plan/option_checks.hpp"
#include "scheme/scheme_description.hpp"

namespace attn {
namespace {

DType type_of(std::string_view operand, DType computed) {
  if (operand == "mask") return DType::u8;
  if (operand == "hybrid" || operand == "sink") return DType::f64;
  const bool integers = operand.starts_with("query_") || operand.starts_with("key_") ||
                        operand.starts_with("cu_seqlens");
  return integers ? DType::i64 : computed;
}

// A number for each position of `aligned`, which broadcasts to the leading axes.
Operand number_operand(const ArraySource& source, const Shape& leading, const Shape& aligned) {
  return {source, aligned, 1, 1, LeadingMap(leading, aligned, false, source.name())};
}

template <class X>
[[noreturn]] void refuse(const Operand& operand, Index block, X value,
                         const std::string& expected) {
  const ArraySource& source = operand.dataset;
  throw Error(Failure::input, source.name() + " has " + std::to_string(value) + " at " +
                                  index_text(unravel(block, source.shape())) + ", expected " +
                                  expected);
}

void require_shape(const std::string& name, const std::optional<Shape>& planned,
                   const std::optional<Shape>& given) {
  if (planned == given) return;
  if (!planned) throw Error(Failure::input, name + " is given, but the plan was made without it");
  if (!given) throw Error(Failure::input, name + " is missing, which the plan was made with");
  throw Error(Failure::input, name + " has shape " + to_string(*given) + ", the plan expects " +
                                  to_string(*planned));
}

// Throws Error(input) for inputs that are not of the planned shapes, and for missing data.
template <class T>
void require_planned(const AttentionShapes& planned, const AttentionInputs<T>& inputs) {
  const AttentionShapes given = shapes_of(inputs);
  for_operand_pairs(planned, given, [](const char* name, const auto& there, const auto& here) {
    require_shape(name, there, here);
  });
  const auto find = [](const auto& shapes, const std::string& name) {
    const auto found = shapes.energy.find(name);
    return found == shapes.energy.end() ? std::optional<Shape>() : found->second;
  };
  for (const auto* shapes : {&planned, &given}) {
    for (const auto& operand : shapes->energy) {
      require_shape(operand.first, find(planned, operand.first), find(given, operand.first));
    }
  }
  const auto require_data = [](const std::string& name, const auto& view) {
    const bool numbers = std::find(view.shape.begin(), view.shape.end(), 0) == view.shape.end();
    if (view.data != nullptr || !numbers || view.shape.empty()) return;
    throw Error(Failure::input, name + " has no data");
  };
  for_operand_pairs(inputs, inputs, [&](const char* name, const auto& view, const auto&) {
    require_data(name, view);
  });
  for (const auto& operand : inputs.energy) require_data(operand.first, operand.second);
}

}  // namespace

AttentionLayout::AttentionLayout(const AttentionShapes& planned, const AttentionOptions& options,
                                 DType type)
    : shapes(planned) {
  require_options(shapes, options);
  take_options(options);
  make_arrays(type);
  take_source();
  plain.heads = heads();
  // At once: more problems than fit into memory are refused before any page is touched.
  heads_to_read.reserve(static_cast<std::size_t>(problems));
  parts.reserve(static_cast<std::size_t>(problems));
  take_bounds();
  if (q) take_energy(options);
  take_terms();
  if (description_of(scheme.scheme).is_transport()) plain.gamma = options.gamma;
  preferring = plain;
  if (v) {
    const Shape out = join(leading, {queries, v_head_dim});
    grad_out_array_ = std::make_shared<MemoryArray>("grad_out", out, type);
    grad_out_operand_ =
        vectors_as_they_are(ArraySource(grad_out_array_), leading, false, HeadLayout::heads_first);
  }
  repetition = options.repetition;
  (description_of(scheme.scheme).has_preference() ? with_preference : with_plain) = !repetition;
  if (repetition) {
    require_repetition(*repetition, scheme.scheme, recipe(),
                       q ? std::optional(depth) : std::nullopt, !bias || bias->cols == 1,
                       sink.has_value());
  }
  for (Index problem = 0; problem < problems; ++problem) heads_to_read.push_back({problem});
}

void AttentionLayout::take_options(const AttentionOptions& options) {
  const SchemeDescription& description = description_of(options.scheme);
  plain.scale = options.scale * (description.has_preference() ? options.alpha : 1) /
                (description.is_transport() ? options.gamma : 1);
  causal = options.causal;
  plain.causal = options.causal != Causal::none;
  plain.window = options.window;
  plain.same_if_rescaled = options.tuning.same_if_rescaled;
  plain.softcap = options.softcap;
  plain.relative = options.relative;
  scheme.stopping = options.stopping;
  scheme.scheme = options.scheme;
  scheme.hybrid = options.hybrid;
  scheme.kept_bytes = options.tuning.kept_bytes;
}

void AttentionLayout::make_arrays(DType type) {
  for_operand_pairs(shapes, arrays,
                    [&](const char* name, const std::optional<Shape>& shape,
                        std::shared_ptr<MemoryArray>& array) {
                      if (!shape) return;
                      element_count(*shape);  // refuses axes of negative length
                      array = std::make_shared<MemoryArray>(name, *shape, type_of(name, type));
                    });
  for (const auto& [name, shape] : shapes.energy) {
    if (shape) arrays.energy[name] = std::make_shared<MemoryArray>(name, *shape, type);
  }
}

void AttentionLayout::take_source() {
  const auto source = [](const std::shared_ptr<MemoryArray>& array) {
    return array ? std::optional<ArraySource>(array) : std::nullopt;
  };
  switch (source_of(shapes)) {
    case ScoreSource::vectors:
      take_vectors(ArraySource(arrays.q), ArraySource(arrays.k), source(arrays.v),
                   HeadLayout::heads_first);
      break;
    case ScoreSource::projection: {
      const ArraySource x(arrays.x);
      take_projections({x, source(arrays.y).value_or(x), ArraySource(arrays.wq),
                        ArraySource(arrays.wk), source(arrays.wv), source(arrays.bq),
                        source(arrays.bk), source(arrays.bv)});
      break;
    }
    case ScoreSource::ready_made:
      take_scores(ArraySource(arrays.scores), false);
      if (shapes.v) take_values(ArraySource(arrays.v), HeadLayout::heads_first);
      break;
  }
}

void AttentionLayout::take_energy(const AttentionOptions& options) {
  const bool usual = options.energy.empty();
  plain.energy = &energy_called(usual ? description_of(options.scheme).usual_energy()
                                      : std::string_view(options.energy));
  if (options.tuning.bf16) plain.energy = &in_bf16(*plain.energy);
  preferring = plain;  // the energy whose operands are read
  const std::string of_energy = "the energy " + std::string(plain.energy->name());
  take_energy_operands([&](const EnergyOperand& wanted) -> std::optional<ArraySource> {
    const auto found = arrays.energy.find(wanted.name);
    if (found != arrays.energy.end()) return ArraySource(found->second);
    if (!wanted.required) return std::nullopt;
    throw Error(Failure::input, of_energy + " needs the operand " + wanted.name);
  });
  for (const auto& operand : arrays.energy) {
    const auto& operands = plain.energy->operands();
    const auto same = [&](const EnergyOperand& known) { return known.name == operand.first; };
    if (std::any_of(operands.begin(), operands.end(), same)) continue;
    throw Error(Failure::usage, of_energy + " has no operand " + operand.first);
  }
}

void AttentionLayout::take_terms() {
  if (arrays.mask) take_mask(ArraySource(arrays.mask));
  if (arrays.bias) take_bias(ArraySource(arrays.bias));
  if (arrays.preference) take_preference(ArraySource(arrays.preference), false);
  if (arrays.cost) take_transport_cost(ArraySource(arrays.cost));
  if (arrays.gate) {
    if (!v) throw Error(Failure::input, "gate needs values: there is no out to gate");
    take_gate(ArraySource(arrays.gate), HeadLayout::heads_first);
  }
  if (arrays.sink) sink = number_operand(ArraySource(arrays.sink), leading, *shapes.sink);
  if (arrays.hybrid) hybrid = number_operand(ArraySource(arrays.hybrid), leading, *shapes.hybrid);
  if (!arrays.rel_bias) return;
  take_relative_bias(ArraySource(arrays.rel_bias));
  BucketRule rule;
  rule.bidirectional = !plain.causal;
  rule.buckets = shapes.rel_bias->front();
  require_buckets(rule);
}

void AttentionLayout::take_bounds() {
  for_bound_pairs(
      arrays, bounds,
      [&](const char*, const std::shared_ptr<MemoryArray>& array, std::optional<Operand>& operand) {
        if (!array) return;
        if (array->shape.size() > leading.size()) {
          throw Error(Failure::input, array->name + " has shape " + to_string(array->shape) +
                                          ", expected the first of the leading axes " +
                                          to_string(leading));
        }
        // Aligned with the first of the leading axes.
        Shape aligned = array->shape;
        aligned.resize(leading.size(), 1);
        operand = number_operand(ArraySource(array), leading, aligned);
      });
}

namespace {

// Throws Error(input) unless the numbers are dense.
template <class X>
const X* numbers_of(const ArraySource& source) {
  if (const Shape* const strides = source.strides()) {
    require_dense(source.name(), source.shape(), *strides);
  }
  return source.in_memory<X>();
}

}  // namespace

double AttentionLayout::hybrid_of(Index problem) const {
  return hybrid ? hybrid->dataset.in_memory<double>()[hybrid->block(problem)] : scheme.hybrid;
}

std::int64_t AttentionLayout::kept_bytes() const {
  std::int64_t bytes =
      problems * static_cast<std::int64_t>(sizeof(HeadPart) + sizeof(OwnPart) + sizeof(double));
  for (const auto* vectors : {&q, &k, &v}) {
    if (!*vectors || !(*vectors)->weights) continue;
    const Vectors& made = **vectors;
    // Problems with the same blocks and the same bounds share a product.
    std::set<std::vector<Index>> products;
    for (Index problem = 0; problem < problems; ++problem) {
      std::vector<Index> blocks{made.input.block(problem), made.weights->block(problem)};
      if (made.bias) blocks.push_back(made.bias->block(problem));
      for_bound_pairs(bounds, bounds, [&](const char*, const auto& bound, const auto&) {
        if (bound) blocks.push_back(bound->block(problem));
      });
      products.insert(std::move(blocks));
    }
    const auto size = static_cast<std::int64_t>(size_of(made.input.dataset.dtype()));
    bytes += std::ssize(products) * made.rows * made.cols * size;
  }
  // Points of which some may be unseen are copied (HeadReader).
  const bool hides = plain.causal || !plain.window.is_open() || arrays.cu_seqlens_q != nullptr;
  for (const auto* points : {&q, &k}) {
    if (!hides || !compares_points()) continue;
    const Operand& input = (*points)->input;
    bytes += problems * input.rows * input.cols *
             static_cast<std::int64_t>(size_of(input.dataset.dtype()));
  }
  return bytes;
}

template <class T>
void AttentionLayout::bind(const AttentionInputs<T>& inputs, const TensorView<const T>& grad_out) {
  require_planned(shapes, inputs);
  for_operand_pairs(inputs, arrays, [](const char*, const auto& view, const auto& array) {
    if (array) array->bind(view.data, view.strides);
  });
  for (const auto& [name, array] : arrays.energy) {
    const TensorView<const T>& view = inputs.energy.at(name);
    array->bind(view.data, view.strides);
  }
  AttentionSources::grad_out = std::nullopt;
  if (grad_out.data != nullptr) {
    grad_out_array_->bind(grad_out.data, grad_out.strides);
    AttentionSources::grad_out = grad_out_operand_;
  }
  find_parts();
  find_sinks();
}

void AttentionLayout::find_parts() {
  for_bound_pairs(bounds, bounds, [&](const std::string& name, const auto& bound, const auto&) {
    if (!bound) return;
    const Index most = name.starts_with("query") ? queries : keys;
    const auto* const values = numbers_of<Index>(bound->dataset);
    for (Index n = 0; n < element_count(bound->leading); ++n) {
      if (name == "query_offset" || (values[n] >= 0 && values[n] <= most)) continue;
      refuse(*bound, n, values[n], "a whole number in [0, " + std::to_string(most) + "]");
    }
  });
  parts.clear();
  for (Index problem = 0; problem < problems; ++problem) {
    SequenceBounds own;
    for_bound_pairs(bounds, own, [&](const char*, const auto& bound, std::optional<Index>& value) {
      if (bound) value = bound->dataset.template in_memory<Index>()[bound->block(problem)];
    });
    parts.push_back(own_part(own, queries, keys, causal));
  }
  packings.clear();
  if (arrays.cu_seqlens_q) find_packing();
}

// All problems share it.
void AttentionLayout::find_packing() {
  const auto starts = [](const std::shared_ptr<MemoryArray>& array, Index length,
                         const char* side) {
    const std::span numbers(numbers_of<Index>(ArraySource(array)),
                            static_cast<std::size_t>(array->shape.front()));
    require_starts(numbers, length, array->name, side);
    return numbers;
  };
  const auto packing =
      std::make_shared<const Packing>(starts(arrays.cu_seqlens_q, queries, "queries"),
                                      starts(arrays.cu_seqlens_k, keys, "keys"), causal);
  require_packing(*packing, scheme.scheme, plain.relative);
  packings.assign(static_cast<std::size_t>(problems), packing);
  for (OwnPart& part : parts) {
    part = {{0, packing->queries(), 0, packing->keys()}, packing->common_offset().value_or(0)};
  }
}

void AttentionLayout::find_sinks() {
  if (hybrid) {
    const auto* const values = numbers_of<double>(hybrid->dataset);
    for (Index n = 0; n < element_count(hybrid->leading); ++n) {
      // NaN fails the comparisons.
      if (values[n] >= 0 && values[n] <= 1) continue;
      refuse(*hybrid, n, values[n], "a number in [0, 1]");
    }
  }
  sinks.clear();
  if (!sink) return;
  const auto* const values = numbers_of<double>(sink->dataset);
  for (Index n = 0; n < element_count(sink->leading); ++n) {
    // NaN fails the comparison.
    if (values[n] <= std::numeric_limits<double>::max()) continue;
    refuse(*sink, n, values[n], "a finite number or -inf");
  }
  for (Index problem = 0; problem < problems; ++problem) {
    sinks.push_back(values[sink->block(problem)]);
  }
}

template <class T>
AttentionShapes shapes_of(const AttentionInputs<T>& inputs) {
  AttentionShapes shapes;
  const auto take = [](const auto& view, std::optional<Shape>& shape) {
    if (view.data != nullptr || !view.shape.empty()) shape = view.shape;
  };
  for_operand_pairs(inputs, shapes,
                    [&](const char*, const auto& view, auto& shape) { take(view, shape); });
  for (const auto& operand : inputs.energy) take(operand.second, shapes.energy[operand.first]);
  return shapes;
}

#define ATTN_FOR_TYPE(T)                                         \
  template AttentionShapes shapes_of(const AttentionInputs<T>&); \
  template void AttentionLayout::bind(const AttentionInputs<T>&, const TensorView<const T>&);
ATTN_FOR_TYPE(float)
ATTN_FOR_TYPE(double)
#undef ATTN_FOR_TYPE

}  // namespace attn
