#include "plan/attention_arrays.hpp"

#include <algorithm>
#include <limits>

#include "kernel/parallel.hpp"
#include "plan/operand_list.hpp"
#include "score/projection.hpp"

namespace attn {
namespace {

// The own part of a block that broadcasts, read in place by strides.
template <class U>
BroadcastMatrix<U> broadcast(const PlannedOperand& plan, const U* data, Index problem,
                             const OwnPart& part, double bound) {
  const Index row_stride = plan.rows > 1 ? plan.cols : 0;
  const Index col_stride = plan.cols > 1 ? 1 : 0;
  const U* const first = data + plan.block(problem) * plan.size() + part.range.row0 * row_stride +
                         part.range.col0 * col_stride;
  return BroadcastMatrix<U>(first, row_stride, col_stride, bound);
}

void require_shape(const std::string& name, const std::optional<Shape>& planned,
                   const std::optional<Shape>& given) {
  if (planned == given) return;
  if (!planned) throw Error(Failure::input, name + " is given, but the plan was made without it");
  if (!given) throw Error(Failure::input, name + " is missing, which the plan was made with");
  throw Error(Failure::input, name + " has shape " + to_string(*given) + ", the plan expects " +
                                  to_string(*planned));
}

}  // namespace

RowRange own_rows(RowsAre rows, const OwnPart& part) {
  const TileRange& range = part.range;
  return rows == RowsAre::queries ? RowRange{range.row0, range.row0 + range.rows}
                                  : RowRange{range.col0, range.col0 + range.cols};
}

template <class T>
BoundVectors<T>::BoundVectors(const PlannedVectors& plan, RowsAre rows, const OwnParts& parts)
    : plan_(plan), rows_(rows), parts_(parts) {
  if (!plan.projected) return;
  const auto count = static_cast<Index>(plan.projected->products.size());
  products_ = Buffer<T>(count * plan.rows() * plan.cols());
}

template <class T>
MatrixView<T> BoundVectors<T>::product(Index n) const {
  return {products_.data() + n * plan_.rows() * plan_.cols(), plan_.rows(), plan_.cols()};
}

template <class T>
RowRange BoundVectors<T>::own(Index problem) const {
  return own_rows(rows_, parts_[static_cast<std::size_t>(problem)]);
}

template <class T>
void BoundVectors<T>::project_all(const char* what, int threads) {
  if (!plan_.projected) return;
  const auto& products = plan_.projected->products;
  const auto count = static_cast<Index>(products.size());
  const bool apart = count >= threads;
  kernel::parallel_for(count, apart ? threads : 1, [&](Index n, int) {
    const Index problem = products[static_cast<std::size_t>(n)];
    std::span<const T> added;
    if (bias) {
      const MatrixView<const T> row = bias.of(problem);
      added = {row.data, static_cast<std::size_t>(row.cols)};
    }
    const MatrixView<const T> rows = input.rows_of(problem, own(problem));
    project<T>(rows, weights.of(problem), added, product(n).row_range(0, rows.rows),
               apart ? 1 : threads, what);
  });
}

template <class T>
MatrixView<const T> BoundVectors<T>::of(Index problem) const {
  if (!plan_) return {};
  const RowRange rows = own(problem);
  if (plan_.own) return given.rows_of(problem, rows);
  return product(plan_.projected->product_of[static_cast<std::size_t>(problem)])
      .row_range(0, rows.last - rows.first);
}

template <class T>
ProjectedFrom<T> BoundVectors<T>::made_of(Index problem) const {
  if (!plan_.projected) return {};
  return {input.rows_of(problem, own(problem)), weights.of(problem)};
}

template <class T>
AttentionArrays<T>::AttentionArrays(const AttentionShapes& shapes, const AttentionLayout& layout)
    : shapes_(shapes),
      layout_(layout),
      parts_(static_cast<std::size_t>(layout.problems)),
      q_(layout.q, RowsAre::queries, parts_),
      k_(layout.k, RowsAre::keys, parts_),
      v_(layout.v, RowsAre::keys, parts_) {
  // x and y are each checked once, although several projections use them, unless queries and keys
  // have different bounds.
  const bool bounded = !layout.bounds_given().empty();
  check_vectors(layout.q, q_, RowsAre::queries, true);
  check_vectors(layout.k, k_, RowsAre::keys, layout.has_y || bounded);
  check_vectors(layout.v, v_, RowsAre::keys, false);
  scores_ = checked_matrix(layout.scores, Allowed::finite_or_minus_infinity);
  bias_ = checked_matrix(layout.bias, Allowed::finite_or_minus_infinity);
  preference_ = checked_matrix(layout.preference, Allowed::finite_not_negative);
  rel_bias_ = checked(layout.rel_bias, Allowed::finite);
  const bool gate_by_query = layout.gate && layout.gate->rows > 1;
  gate_ = checked(layout.gate, Allowed::finite, gate_by_query ? RowsAre::queries : RowsAre::none);
  for (const auto& operand : layout.energy) energy_.push_back(checked(operand, Allowed::finite));
  const Shape out_shape = join(layout.leading, {layout.queries(), layout.v_head_dim});
  gradient_numbers_.add("grad_out", out_shape, layout.queries(), layout.v_head_dim, Allowed::finite,
                        layout.problems);
}

template <class T>
BoundOperand<T> AttentionArrays<T>::checked(const std::optional<PlannedOperand>& plan,
                                            Allowed allowed, RowsAre rows) {
  return plan ? checked(*plan, allowed, rows) : BoundOperand<T>();
}

template <class T>
BoundOperand<T> AttentionArrays<T>::checked(const PlannedOperand& plan, Allowed allowed,
                                            RowsAre rows, bool by_key) {
  const bool cut = rows != RowsAre::none || by_key;
  Regions regions =
      regions_of(plan, cut ? layout_.bounds_given() : std::vector<const PlannedOperand*>());
  const std::size_t check = numbers_.add(plan.name, plan.shape, plan.rows, plan.cols, allowed,
                                         static_cast<Index>(regions.all.size()));
  checked_.push_back({check, std::move(regions), rows, by_key});
  return {&plan, nullptr, check};
}

// A matrix that broadcasts is cut along the axes that it has.
template <class T>
BoundOperand<T> AttentionArrays<T>::checked_matrix(const std::optional<PlannedOperand>& plan,
                                                   Allowed allowed) {
  if (!plan) return {};
  return checked(*plan, allowed, plan->rows > 1 ? RowsAre::queries : RowsAre::none, plan->cols > 1);
}

template <class T>
void AttentionArrays<T>::check_vectors(const PlannedVectors& plan, BoundVectors<T>& vectors,
                                       RowsAre rows, bool own_input) {
  vectors.given = checked(plan.own, Allowed::finite, rows);
  if (!plan.projected) return;
  const PlannedProjection& projected = *plan.projected;
  if (own_input) {
    vectors.input = checked(projected.input, Allowed::finite, rows);
  } else {
    vectors.input = {&projected.input, nullptr, (k_.input ? k_ : q_).input.check};
  }
  vectors.weights = checked(projected.weights, Allowed::finite);
  vectors.bias = checked(projected.bias, Allowed::finite);
}

template <class T>
void AttentionArrays<T>::require_planned(const AttentionInputs<T>& inputs) const {
  const AttentionShapes given = shapes_of(inputs);
  for_operand_pairs(shapes_, given, [](const char* name, const auto& planned, const auto& here) {
    require_shape(name, planned, here);
  });
  const auto find = [](const auto& shapes, const std::string& name) {
    const auto found = shapes.energy.find(name);
    return found == shapes.energy.end() ? std::optional<Shape>() : found->second;
  };
  for (const auto* shapes : {&std::as_const(shapes_), &given}) {
    for (const auto& operand : shapes->energy) {
      require_shape(operand.first, find(shapes_, operand.first), find(given, operand.first));
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

template <class T>
void AttentionArrays<T>::set(BoundOperand<T>& operand, const TensorView<const T>& view) {
  if (!operand) return;
  operand.data = view.data;
  numbers_.set(operand.check, view.data);
}

template <class T>
void AttentionArrays<T>::set_vectors(const AttentionInputs<T>& inputs) {
  const auto& y = layout_.has_y ? inputs.y : inputs.x;
  set(q_.given, inputs.q);
  set(q_.input, inputs.x);
  set(q_.weights, inputs.wq);
  set(q_.bias, inputs.bq);
  set(k_.given, inputs.k);
  set(k_.input, y);
  set(k_.weights, inputs.wk);
  set(k_.bias, inputs.bk);
  set(v_.given, inputs.v);
  set(v_.input, y);
  set(v_.weights, inputs.wv);
  set(v_.bias, inputs.bv);
}

template <class T>
void AttentionArrays<T>::bind(const AttentionInputs<T>& inputs, TensorView<const T> grad_out,
                              int threads) {
  require_planned(inputs);
  set_vectors(inputs);
  set(scores_, inputs.scores);
  set(bias_, inputs.bias);
  set(preference_, inputs.preference);
  set(rel_bias_, inputs.rel_bias);
  set(gate_, inputs.gate);
  for (std::size_t n = 0; n < energy_.size(); ++n) {
    if (energy_[n]) set(energy_[n], inputs.energy.at(energy_[n].plan->name));
  }
  mask_ = inputs.mask.data;
  for_bound_pairs(inputs, bounds_,
                  [](const char*, const auto& view, const Index*& data) { data = view.data; });
  hybrid_ = inputs.hybrid.data;
  sink_ = inputs.sink.data;
  grad_out_ = grad_out.data;
  require_small_numbers();
  find_parts();
  set_regions();
  numbers_.look(threads);
  if (grad_out_ != nullptr) look_at_grad_out(threads);
  q_.project_all("x wq", threads);
  k_.project_all(layout_.has_y ? "y wk" : "x wk", threads);
  v_.project_all(layout_.has_y ? "y wv" : "x wv", threads);
}

template <class T>
void AttentionArrays<T>::require_small_numbers() const {
  const auto refuse = [](const PlannedOperand& operand, Index at, const std::string& value,
                         const std::string& expected) {
    throw Error(Failure::input, operand.name + " has " + value + " at " +
                                    to_string(unravel(at, operand.shape)) + ", expected " +
                                    expected);
  };
  for_bound_pairs(
      layout_.bounds, bounds_,
      [&](const std::string& name, const std::optional<PlannedOperand>& bound, const Index* data) {
        if (!bound || name == "query_offset") return;
        const Index most = name.starts_with("query") ? layout_.queries() : layout_.keys();
        for (Index n = 0; n < bound->blocks; ++n) {
          if (data[n] >= 0 && data[n] <= most) continue;
          refuse(*bound, n, std::to_string(data[n]),
                 "a whole number in [0, " + std::to_string(most) + "]");
        }
      });
  for (Index n = 0; layout_.sink && n < layout_.sink->blocks; ++n) {
    // NaN fails the comparison.
    if (sink_[n] <= std::numeric_limits<double>::max()) continue;
    refuse(*layout_.sink, n, std::to_string(sink_[n]), "a finite number or -inf");
  }
  if (!layout_.hybrid) return;
  for (Index n = 0; n < layout_.hybrid->blocks; ++n) {
    // NaN fails the comparisons.
    if (hybrid_[n] >= 0 && hybrid_[n] <= 1) continue;
    refuse(*layout_.hybrid, n, std::to_string(hybrid_[n]), "a number in [0, 1]");
  }
}

template <class T>
void AttentionArrays<T>::find_parts() {
  const auto bound_of = [](const std::optional<PlannedOperand>& bound, const Index* data,
                           Index problem) {
    return bound ? std::optional<Index>(data[bound->block(problem)]) : std::nullopt;
  };
  for (Index problem = 0; problem < layout_.problems; ++problem) {
    const auto& planned = layout_.bounds;
    SequenceBounds bounds;
    bounds.query_length = bound_of(planned.query_length, bounds_.query_length, problem);
    bounds.key_length = bound_of(planned.key_length, bounds_.key_length, problem);
    bounds.query_start = bound_of(planned.query_start, bounds_.query_start, problem);
    bounds.key_start = bound_of(planned.key_start, bounds_.key_start, problem);
    bounds.query_offset = bound_of(planned.query_offset, bounds_.query_offset, problem);
    parts_[static_cast<std::size_t>(problem)] =
        own_part(bounds, layout_.queries(), layout_.keys(), layout_.causal);
  }
}

template <class T>
void AttentionArrays<T>::set_regions() {
  for (const Checked& checked : checked_) {
    for (std::size_t n = 0; n < checked.regions.all.size(); ++n) {
      const Regions::Region& region = checked.regions.all[n];
      const OwnPart& own = part(region.problem);
      NumberRegion numbers = numbers_.whole(checked.check, region.block);
      if (checked.rows != RowsAre::none) {
        const RowRange rows = own_rows(checked.rows, own);
        numbers.range.row0 = rows.first;
        numbers.range.rows = rows.last - rows.first;
      }
      if (checked.by_key) {
        numbers.range.col0 = own.range.col0;
        numbers.range.cols = own.range.cols;
      }
      numbers_.set_region(checked.check, static_cast<Index>(n), numbers);
    }
  }
}

template <class T>
void AttentionArrays<T>::look_at_grad_out(int threads) {
  gradient_numbers_.set(0, grad_out_);
  for (Index problem = 0; problem < layout_.problems; ++problem) {
    NumberRegion numbers = gradient_numbers_.whole(0, problem);
    numbers.range.row0 = part(problem).range.row0;
    numbers.range.rows = part(problem).range.rows;
    gradient_numbers_.set_region(0, problem, numbers);
  }
  gradient_numbers_.look(threads);
}

template <class T>
double AttentionArrays<T>::largest(const BoundOperand<T>& operand, Index problem) const {
  return numbers_.largest(operand.check, checked_[operand.check].regions.of(problem));
}

template <class T>
std::optional<BroadcastMatrix<T>> AttentionArrays<T>::source(const BoundOperand<T>& operand,
                                                             Index problem) const {
  if (!operand) return std::nullopt;
  return broadcast(*operand.plan, operand.data, problem, part(problem), largest(operand, problem));
}

template <class T>
void AttentionArrays<T>::head(Index problem, BoundHead<T>& head) const {
  HeadArrays<T>& arrays = head.arrays;
  arrays.problem = problem;
  const OwnPart& own = part(problem);
  arrays.queries = own.queries();
  arrays.keys = own.keys();
  arrays.offset = own.offset;
  arrays.q = q_.of(problem);
  arrays.k = k_.of(problem);
  arrays.v = v_.of(problem);
  for (const BoundOperand<T>& operand : energy_) {
    arrays.energy.push_back(operand ? operand.of(problem) : MatrixView<const T>());
  }
  const auto pointer = [](const auto& source) { return source ? &*source : nullptr; };
  head.scores = source(scores_, problem);
  head.bias = source(bias_, problem);
  head.preference = source(preference_, problem);
  if (layout_.mask) {
    head.mask = broadcast(*layout_.mask, mask_, problem, own, 1);
  }
  if (gate_) {
    // Its columns are channels, which are not cut.
    OwnPart rows = own;
    rows.range.col0 = 0;
    head.gate = broadcast(*layout_.gate, gate_.data, problem, rows, largest(gate_, problem));
  }
  arrays.scores = pointer(head.scores);
  arrays.bias = pointer(head.bias);
  arrays.preference = pointer(head.preference);
  arrays.mask = pointer(head.mask);
  arrays.gate = pointer(head.gate);
  head.relative = relative_bias_of<T>(
      layout_.recipe, rel_bias_ ? rel_bias_.of(problem) : MatrixView<const T>(), arrays);
  arrays.relative = pointer(head.relative);
}

template <class T>
MatrixView<const T> AttentionArrays<T>::grad_out(Index problem) const {
  const Index width = layout_.v_head_dim;
  const TileRange& own = part(problem).range;
  return {grad_out_ + (problem * layout_.queries() + own.row0) * width, own.rows, width};
}

template <class T>
double AttentionArrays<T>::hybrid(Index problem) const {
  return layout_.hybrid ? hybrid_[layout_.hybrid->block(problem)] : layout_.scheme.hybrid;
}

template <class T>
double AttentionArrays<T>::sink(Index problem) const {
  return layout_.sink ? sink_[layout_.sink->block(problem)] : no_sink;
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

template class BoundVectors<float>;
template class BoundVectors<double>;
template class AttentionArrays<float>;
template class AttentionArrays<double>;
template AttentionShapes shapes_of(const AttentionInputs<float>&);
template AttentionShapes shapes_of(const AttentionInputs<double>&);

}  // namespace attn
