#include "shared/head_reader.hpp"

#include <cmath>

#include "shared/matrix_operand.hpp"

namespace attn::tools {
namespace {

template <class T>
void require_finite(const io::InputDataset& dataset, const Shape& start, const Shape& count,
                    const Buffer<T>& values, Index size) {
  for (Index n = 0; n < size; ++n) {
    if (!std::isfinite(values[n])) {
      refuse_element(dataset, start, count, n, values[n], "finite numbers");
    }
  }
}

}  // namespace

template <class T>
HeadReader<T>::HeadReader(const AttentionInput& input, std::int64_t dense_limit)
    : input_(input), dense_limit_(dense_limit) {}

template <class T>
std::shared_ptr<Block<T>> HeadReader<T>::vectors(const Operand& operand, Index problem,
                                                 std::shared_ptr<Block<T>>& last) {
  const Index index = operand.block(problem);
  if (last && last->index == index) return last;
  auto block = std::make_shared<Block<T>>();
  block->index = index;
  block->values = Buffer<T>(operand.rows * operand.cols);
  const BlockAxes axes(operand, index, 0, operand.rows, 0, operand.cols);
  operand.dataset.read(axes.start, axes.count, block->values.data());
  require_finite(operand.dataset, axes.start, axes.count, block->values, block->values.size());
  last = block;
  return block;
}

template <class T>
std::shared_ptr<Head<T>> HeadReader<T>::read(Index problem) {
  auto head = std::make_shared<Head<T>>();
  head->problem = problem;
  const auto source = [&]<class U>(const Operand& operand, Matrix<U>& last) {
    const Index index = operand.block(problem);
    if (last.index != index) last = {index, matrix_source<U>(operand, problem, dense_limit_)};
    return last.source;
  };
  if (input_.scores) {
    head->stored_ = source(*input_.scores, last_scores_);
    head->energy_ =
        make_stored_energy<T>(*head->stored_, input_.queries, input_.keys, input_.options.scale);
  } else if (!input_.q) {
    head->energy_ = make_zero_energy<T>(input_.queries, input_.keys);
  } else {
    head->q_block_ = vectors(*input_.q, problem, last_q_);
    head->k_block_ = vectors(*input_.k, problem, last_k_);
    const MatrixView<const T> q(head->q_block_->values.data(), input_.queries, input_.depth);
    const MatrixView<const T> k(head->k_block_->values.data(), input_.keys, input_.depth);
    head->energy_ = make_product_energy<T>(input_.options.energy, q, k, input_.options.scale);
  }
  if (input_.v) {
    head->v_block_ = vectors(*input_.v, problem, last_v_);
    head->v_ = MatrixView<const T>(head->v_block_->values.data(), input_.keys, input_.value_depth);
  }
  typename Scores<T>::Terms terms;
  terms.energy = head->energy_.get();
  terms.causal = input_.causal;
  if (input_.bias) {
    head->bias_ = source(*input_.bias, last_bias_);
    terms.bias = head->bias_.get();
  }
  if (input_.mask) {
    head->mask_ = source(*input_.mask, last_mask_);
    terms.mask = head->mask_.get();
  }
  head->scores_.emplace(terms);
  return head;
}

template class HeadReader<float>;
template class HeadReader<double>;

}  // namespace attn::tools
