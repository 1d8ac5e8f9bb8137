#include "common/head_reader.hpp"

#include <cmath>
#include <span>

#include "score/projection.hpp"

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
HeadReader<T>::HeadReader(const AttentionInput& input, std::int64_t dense_limit, int threads)
    : input_(input), dense_limit_(dense_limit), threads_(threads) {}

template <class T>
std::shared_ptr<Block<T>> HeadReader<T>::block(const Operand& operand, Index problem, Last& last) {
  const Index index = operand.block(problem);
  if (last && last->index == index) return last;
  auto block = std::make_shared<Block<T>>();
  block->index = index;
  block->rows = operand.rows;
  block->cols = operand.cols;
  block->values = Buffer<T>(operand.rows * operand.cols);
  const BlockAxes axes(operand, index, 0, operand.rows, 0, operand.cols);
  operand.dataset.read(axes.start, axes.count, block->values.data());
  require_finite(operand.dataset, axes.start, axes.count, block->values, block->values.size());
  last = block;
  return block;
}

template <class T>
std::shared_ptr<Block<T>> HeadReader<T>::vectors(const Vectors& vectors, Index problem,
                                                 Last& last_input, Last& last) {
  if (!vectors.weights) return block(vectors.input, problem, last);
  const Index index = vectors.input.block(problem);
  const Index second = vectors.weights->block(problem);
  if (last && last->index == index && last->second == second) return last;
  Last none;
  const auto x = block(vectors.input, problem, last_input);
  const auto w = block(*vectors.weights, problem, none);
  Last bias;
  if (vectors.bias) {
    Last no_bias;
    bias = block(*vectors.bias, problem, no_bias);
  }
  auto made = std::make_shared<Block<T>>();
  made->index = index;
  made->second = second;
  made->rows = vectors.rows;
  made->cols = vectors.cols;
  made->values = Buffer<T>(vectors.rows * vectors.cols);
  made->input = x;
  made->weights = w;
  project<T>(
      x->view(), w->view(),
      bias ? std::span<const T>(bias->values.begin(), bias->values.end()) : std::span<const T>(),
      MatrixView<T>(made->values.data(), vectors.rows, vectors.cols), threads_,
      problem_place(vectors.address(), input_.leading, problem));
  last = made;
  return made;
}

template <class T>
MlpWeights<T> Head<T>::mlp_weights() const {
  const auto all_of = [](const Block<T>& block) {
    return std::span<const T>(block.values.begin(), block.values.end());
  };
  MlpWeights<T> weights;
  weights.w1 = w1_block_->view();
  weights.w2 = all_of(*w2_block_);
  if (b1_block_) weights.bias = all_of(*b1_block_);
  return weights;
}

template <class T>
void HeadReader<T>::read_energy_weights(Head<T>& head) {
  if (input_.w) head.w_block_ = block(*input_.w, head.problem, last_w_);
  if (input_.w1) head.w1_block_ = block(*input_.w1, head.problem, last_w1_);
  if (input_.w2) head.w2_block_ = block(*input_.w2, head.problem, last_w2_);
  if (input_.b1) head.b1_block_ = block(*input_.b1, head.problem, last_b1_);
}

template <class T>
std::unique_ptr<Energy<T>> HeadReader<T>::energy(const Head<T>& head, ScoreOptions::Energy kind,
                                                 double scale) {
  if (input_.scores) {
    const bool of_cost = input_.options.source == ScoreOptions::Source::cost;
    return make_stored_energy<T>(*head.stored_, input_.queries, input_.keys, scale,
                                 of_cost ? input_.options.epsilon : 1);
  }
  if (!input_.q) return make_zero_energy<T>(input_.queries, input_.keys);
  const MatrixView<const T> q = head.q();
  const MatrixView<const T> k = head.k();
  switch (kind) {
    case ScoreOptions::Energy::dot:
      return make_product_energy<T>(EnergyKind::dot, q, k, scale);
    case ScoreOptions::Energy::scaled_dot:
      return make_product_energy<T>(EnergyKind::scaled_dot, q, k, scale);
    case ScoreOptions::Energy::gaussian:
      return make_product_energy<T>(EnergyKind::gaussian, q, k, scale);
    case ScoreOptions::Energy::bilinear:
      return make_bilinear_energy<T>(q, k, head.w(), scale, threads_);
    case ScoreOptions::Energy::mlp:
      break;
  }
  return make_mlp_energy<T>(q, k, head.mlp_weights(), scale, threads_);
}

template <class T>
std::shared_ptr<RelativeBias<T>> HeadReader<T>::relative(Index problem) {
  const Index head = problem % input_.heads();
  switch (input_.options.relative) {
    case ScoreOptions::Relative::none:
      break;
    case ScoreOptions::Relative::alibi:
      return std::make_shared<RelativeBias<T>>(
          alibi_bias<T>(alibi_slopes(input_.heads())[static_cast<std::size_t>(head)],
                        input_.queries, input_.keys, input_.causal));
    case ScoreOptions::Relative::t5: {
      const auto table = block(*input_.rel_bias, problem, last_table_);
      return std::make_shared<RelativeBias<T>>(
          naming([&] { return input_.rel_bias->dataset.address(); },
                 [&] {
                   return t5_relative_bias<T>(
                       MatrixView<const T>(table->values.data(), input_.rel_bias->rows,
                                           input_.rel_bias->cols),
                       head, input_.queries, input_.keys, input_.causal);
                 }));
    }
  }
  return nullptr;
}

template <class T>
std::shared_ptr<Head<T>> HeadReader<T>::read(Index problem) {
  auto head = std::make_shared<Head<T>>();
  head->problem = problem;
  const auto source = [&]<class U>(const std::optional<Operand>& operand, Matrix<U>& last) {
    if (!operand) return std::shared_ptr<OperandMatrix<U>>();
    const Index index = operand->block(problem);
    if (last.index != index) last = {index, matrix_source<U>(*operand, problem, dense_limit_)};
    return last.source;
  };
  head->stored_ = source(input_.scores, last_scores_);
  if (input_.q) {
    // Keys and values are of one y, which may be x.
    const bool one_input = input_.q->input.dataset.address() == input_.k->input.dataset.address();
    head->q_block_ = vectors(*input_.q, problem, last_x_, last_q_);
    head->k_block_ = vectors(*input_.k, problem, one_input ? last_x_ : last_y_, last_k_);
    read_energy_weights(*head);
  }
  if (input_.v) {
    const bool of_x =
        input_.q && input_.q->input.dataset.address() == input_.v->input.dataset.address();
    head->v_block_ = vectors(*input_.v, problem, of_x ? last_x_ : last_y_, last_v_);
    head->v_ = MatrixView<const T>(head->v_block_->values.data(), input_.keys, input_.v_head_dim);
  }
  if (input_.grad_out) head->grad_out_block_ = block(*input_.grad_out, problem, last_grad_out_);
  head->bias_ = source(input_.bias, last_bias_);
  head->mask_ = source(input_.mask, last_mask_);
  head->preference_ = source(input_.preference, last_preference_);
  head->relative_ = relative(problem);

  typename Scores<T>::Terms terms;
  terms.causal = input_.causal;
  terms.bias = head->bias_.get();
  terms.mask = head->mask_.get();
  terms.relative = head->relative_.get();
  terms.window = input_.options.window;
  terms.softcap = input_.options.softcap;
  if (!input_.key_length.empty()) {
    terms.key_length = input_.key_length[static_cast<std::size_t>(problem)];
  }
  const ScoreOptions& options = input_.options;
  if (input_.with_plain) {
    head->energy_ = energy(*head, options.energy_of(Scheme::unas), options.scale);
    terms.energy = head->energy_.get();
    head->plain_.emplace(terms);
  }
  if (input_.with_fenchel) {
    head->fenchel_energy_ =
        energy(*head, options.energy_of(Scheme::fenchel), options.scale * options.alpha);
    terms.energy = head->fenchel_energy_.get();
    terms.preference = head->preference_.get();
    head->fenchel_.emplace(terms);
  }
  return head;
}

template class Head<float>;
template class Head<double>;
template class HeadReader<float>;
template class HeadReader<double>;

}  // namespace attn::tools
