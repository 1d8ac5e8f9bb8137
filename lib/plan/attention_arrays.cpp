#include "plan/attention_arrays.hpp"

#include <algorithm>
#include <limits>

#include "kernel/parallel.hpp"
#include "plan/operand_list.hpp"
#include "score/projection.hpp"

namespace attn {
namespace {

// A block that broadcasts, read in place by strides.
template <class U>
BroadcastMatrix<U> broadcast(const PlannedOperand& plan, const U* data, Index problem,
                             double bound) {
  return BroadcastMatrix<U>(data + plan.block(problem) * plan.size(), plan.rows > 1 ? plan.cols : 0,
                            plan.cols > 1 ? 1 : 0, bound);
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

template <class T>
BoundVectors<T>::BoundVectors(const PlannedVectors& plan) : plan_(plan) {
  if (!plan.projected) return;
  const auto count = static_cast<Index>(plan.projected->products.size());
  products_ = Buffer<T>(count * plan.rows() * plan.cols());
}

template <class T>
MatrixView<T> BoundVectors<T>::product(Index n) const {
  return {products_.data() + n * plan_.rows() * plan_.cols(), plan_.rows(), plan_.cols()};
}

template <class T>
void BoundVectors<T>::project_all(const char* what, int threads) {
  if (!plan_.projected) return;
  const auto& products = plan_.projected->products;
  const auto count = static_cast<Index>(products.size());
  const bool apart = count >= threads;
  kernel::parallel_for(count, apart ? threads : 1, [&](Index n, int) {
    const auto& blocks = products[static_cast<std::size_t>(n)];
    std::span<const T> added;
    if (bias) {
      const MatrixView<const T> row = bias.block(blocks[2]);
      added = {row.data, static_cast<std::size_t>(row.cols)};
    }
    project<T>(input.block(blocks[0]), weights.block(blocks[1]), added, product(n),
               apart ? 1 : threads, what);
  });
}

template <class T>
MatrixView<const T> BoundVectors<T>::of(Index problem) const {
  if (!plan_) return {};
  if (plan_.own) return own.of(problem);
  return product(plan_.projected->product_of[static_cast<std::size_t>(problem)]);
}

template <class T>
ProjectedFrom<T> BoundVectors<T>::made_of(Index problem) const {
  if (!plan_.projected) return {};
  return {input.of(problem), weights.of(problem)};
}

template <class T>
AttentionArrays<T>::AttentionArrays(const AttentionShapes& shapes, const AttentionLayout& layout)
    : shapes_(shapes), layout_(layout), q_(layout.q), k_(layout.k), v_(layout.v) {
  check_vectors(layout.q, q_, true);
  check_vectors(layout.k, k_, layout.has_y);
  check_vectors(layout.v, v_, false);
  scores_ = checked(layout.scores, Allowed::finite_or_minus_infinity);
  bias_ = checked(layout.bias, Allowed::finite_or_minus_infinity);
  preference_ = checked(layout.preference, Allowed::finite_not_negative);
  rel_bias_ = checked(layout.rel_bias, Allowed::finite);
  for (const auto& operand : layout.energy) energy_.push_back(checked(operand, Allowed::finite));
}

template <class T>
BoundOperand<T> AttentionArrays<T>::checked(const std::optional<PlannedOperand>& plan,
                                            Allowed allowed) {
  if (!plan) return {};
  return {&*plan, nullptr, numbers_.add(plan->name, plan->shape, plan->size(), allowed)};
}

// x and y are each checked once, although several projections use them.
template <class T>
void AttentionArrays<T>::check_vectors(const PlannedVectors& plan, BoundVectors<T>& vectors,
                                       bool first_use) {
  vectors.own = checked(plan.own, Allowed::finite);
  if (!plan.projected) return;
  const PlannedProjection& projected = *plan.projected;
  if (first_use) {
    vectors.input = {&projected.input, nullptr,
                     numbers_.add(projected.input.name, projected.input.shape,
                                  projected.input.size(), Allowed::finite)};
  } else {
    vectors.input = {&projected.input, nullptr, (layout_.has_y ? k_ : q_).input.check};
  }
  vectors.weights = {&projected.weights, nullptr,
                     numbers_.add(projected.weights.name, projected.weights.shape,
                                  projected.weights.size(), Allowed::finite)};
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
  set(q_.own, inputs.q);
  set(q_.input, inputs.x);
  set(q_.weights, inputs.wq);
  set(q_.bias, inputs.bq);
  set(k_.own, inputs.k);
  set(k_.input, y);
  set(k_.weights, inputs.wk);
  set(k_.bias, inputs.bk);
  set(v_.own, inputs.v);
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
  for (std::size_t n = 0; n < energy_.size(); ++n) {
    if (energy_[n]) set(energy_[n], inputs.energy.at(energy_[n].plan->name));
  }
  mask_ = inputs.mask.data;
  key_length_ = inputs.key_length.data;
  hybrid_ = inputs.hybrid.data;
  grad_out_ = grad_out.data;
  require_small_numbers();
  numbers_.look(threads);
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
  if (layout_.key_length) {
    for (Index n = 0; n < layout_.key_length->blocks; ++n) {
      if (key_length_[n] >= 0 && key_length_[n] <= layout_.keys()) continue;
      refuse(*layout_.key_length, n, std::to_string(key_length_[n]),
             "a whole number in [0, " + std::to_string(layout_.keys()) + "]");
    }
  }
  if (!layout_.hybrid) return;
  for (Index n = 0; n < layout_.hybrid->blocks; ++n) {
    // NaN fails the comparisons.
    if (hybrid_[n] >= 0 && hybrid_[n] <= 1) continue;
    refuse(*layout_.hybrid, n, std::to_string(hybrid_[n]), "a number in [0, 1]");
  }
}

template <class T>
std::optional<BroadcastMatrix<T>> AttentionArrays<T>::source(const BoundOperand<T>& operand,
                                                             Index problem) const {
  if (!operand) return std::nullopt;
  return broadcast(*operand.plan, operand.data, problem,
                   numbers_.largest(operand.check, operand.plan->block(problem)));
}

template <class T>
void AttentionArrays<T>::head(Index problem, BoundHead<T>& head) const {
  HeadArrays<T>& arrays = head.arrays;
  arrays.problem = problem;
  arrays.queries = layout_.queries();
  arrays.keys = layout_.keys();
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
    head.mask = broadcast(*layout_.mask, mask_, problem, 1);
  }
  arrays.scores = pointer(head.scores);
  arrays.bias = pointer(head.bias);
  arrays.preference = pointer(head.preference);
  arrays.mask = pointer(head.mask);
  head.relative = relative_bias_of<T>(
      layout_.recipe, rel_bias_ ? rel_bias_.of(problem) : MatrixView<const T>(), arrays);
  arrays.relative = pointer(head.relative);
  if (layout_.key_length) arrays.key_length = key_length_[layout_.key_length->block(problem)];
}

template <class T>
MatrixView<const T> AttentionArrays<T>::grad_out(Index problem) const {
  const Index size = layout_.queries() * layout_.v_head_dim;
  return {grad_out_ + problem * size, layout_.queries(), layout_.v_head_dim};
}

template <class T>
double AttentionArrays<T>::hybrid(Index problem) const {
  return layout_.hybrid ? hybrid_[layout_.hybrid->block(problem)] : layout_.scheme.hybrid;
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
