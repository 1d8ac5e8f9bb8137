#include "head/head_reader.hpp"

#include <span>
#include <type_traits>

#include "kernel/bf16.hpp"
#include "kernel/ranks.hpp"
#include "pass/rank_rows.hpp"
#include "score/panel_product.hpp"
#include "score/projection.hpp"

namespace attn {
namespace {

template <class T>
bool same_rows(const Block<T>& block, RowRange rows) {
  return block.first == rows.first && block.rows == rows.last - rows.first;
}

// The block must hold bfloat16 numbers only.
void require_bf16(const Operand& operand, Index problem, const Block<float>& block) {
  const Index size = block.rows * block.cols;
  const Index bad = kernel::first_not_bf16(block.values.data(), size);
  if (bad == size) return;
  const BlockAxes axes(operand, operand.block(problem), block.first, block.rows, 0, block.cols);
  refuse_element(operand.dataset, axes.start, axes.count, bad, block.values[bad],
                 "bfloat16 numbers (--precision bf16)");
}

bool same_range(const TileRange& a, const TileRange& b) {
  return a.row0 == b.row0 && a.rows == b.rows && a.col0 == b.col0 && a.cols == b.cols;
}

}  // namespace

template <class T>
HeadReader<T>::HeadReader(const AttentionSources& input, std::int64_t dense_limit, int threads)
    : input_(input), dense_limit_(dense_limit), threads_(threads) {}

template <class T>
std::shared_ptr<Block<T>> HeadReader<T>::block(const Operand& operand, Index problem, Last& last) {
  return block(operand, problem, {0, operand.rows}, last);
}

template <class T>
std::shared_ptr<Block<T>> HeadReader<T>::block(const Operand& operand, Index problem, RowRange rows,
                                               Last& last) {
  const Index index = operand.block(problem);
  if (last && last->index == index && same_rows(*last, rows)) return last;
  auto block = std::make_shared<Block<T>>();
  block->index = index;
  block->first = rows.first;
  block->rows = rows.last - rows.first;
  block->cols = operand.cols;
  block->values = Buffer<T>(block->rows * block->cols);
  const BlockAxes axes(operand, index, block->first, block->rows, 0, block->cols);
  operand.dataset.read(axes.start, axes.count, block->values.data());
  require_finite(operand.dataset, axes.start, axes.count, block->values.data());
  last = block;
  return block;
}

template <class T>
std::shared_ptr<Block<T>> HeadReader<T>::vectors(const Vectors& vectors, Index problem,
                                                 RowRange rows, Last& last_input, Last& last) {
  if (!vectors.weights) return block(vectors.input, problem, rows, last);
  const Index index = vectors.input.block(problem);
  const Index second = vectors.weights->block(problem);
  if (last && last->index == index && last->second == second && same_rows(*last, rows)) return last;
  Last none;
  const auto x = block(vectors.input, problem, rows, last_input);
  const auto w = block(*vectors.weights, problem, none);
  Last bias;
  if (vectors.bias) {
    Last no_bias;
    bias = block(*vectors.bias, problem, no_bias);
  }
  auto made = std::make_shared<Block<T>>();
  made->index = index;
  made->second = second;
  made->first = x->first;
  made->rows = x->rows;
  made->cols = vectors.cols;
  made->values = Buffer<T>(made->rows * made->cols);
  made->input = x;
  made->weights = w;
  const MatrixView<T> product(made->values.data(), made->rows, made->cols);
  if (vectors.transposed) {
    multiply_transposed_by_panels(x->view(), w->view(), product, threads_);
  } else {
    project<T>(
        x->view(), w->view(),
        bias ? std::span<const T>(bias->values.begin(), bias->values.end()) : std::span<const T>(),
        product, threads_, problem_place(vectors.address(), input_.leading, problem));
  }
  last = made;
  return made;
}

template <class T>
void HeadReader<T>::read_vectors(Head<T>& head) {
  HeadArrays<T>& arrays = head.arrays_;
  const TileRange& own = head.part.range;
  const RowRange queries{own.row0, own.row0 + own.rows};
  const RowRange keys{own.col0, own.col0 + own.cols};
  if (input_.grad_out) {
    head.grad_out_block_ =
        vectors(*input_.grad_out, head.problem, queries, last_grad_joined_, last_grad_out_);
  }
  if (input_.q) {
    // Keys and values are projected from the same y, which may be x.
    const bool one_input = input_.q->input.dataset.address() == input_.k->input.dataset.address();
    const bool one_block = one_input && own.row0 == own.col0 && own.rows == own.cols;
    head.q_block_ = vectors(*input_.q, head.problem, queries, last_x_, last_q_);
    head.k_block_ = vectors(*input_.k, head.problem, keys, one_block ? last_x_ : last_y_, last_k_);
    arrays.k = head.k_block_->view();
    if constexpr (std::is_same_v<T, float>) {
      if (input_.bf16) {
        require_bf16(input_.q->input, head.problem, *head.q_block_);
        require_bf16(input_.k->input, head.problem, *head.k_block_);
      }
    }
    arrays.q = head.q_block_->view();
    read_energy_operands(head);
  }
  if (!input_.v) return;
  const bool of_x = input_.q &&
                    input_.q->input.dataset.address() == input_.v->input.dataset.address() &&
                    own.row0 == own.col0 && own.rows == own.cols;
  head.v_block_ = vectors(*input_.v, head.problem, keys, of_x ? last_x_ : last_y_, last_v_);
  arrays.v = head.v_block_->view();
}

template <class T>
void HeadReader<T>::read_energy_operands(Head<T>& head) {
  last_energy_.resize(input_.energy_operands.size());
  for (std::size_t n = 0; n < last_energy_.size(); ++n) {
    const auto& operand = input_.energy_operands[n];
    head.energy_blocks_.push_back(operand ? block(*operand, head.problem, last_energy_[n])
                                          : Last());
    const Last& read = head.energy_blocks_.back();
    head.arrays_.energy.push_back(read ? read->view() : MatrixView<const T>());
  }
}

template <class T>
std::optional<RelativeBias<T>> HeadReader<T>::relative(const HeadArrays<T>& arrays) {
  const ScoreRecipe recipe = input_.recipe(input_.with_plain ? Scheme::unas : Scheme::fenchel);
  if (!input_.rel_bias) return relative_bias_of<T>(recipe, {}, arrays);
  const auto table = block(*input_.rel_bias, arrays.problem, last_table_);
  return naming([&] { return input_.rel_bias->dataset.address(); },
                [&] { return relative_bias_of<T>(recipe, table->view(), arrays); });
}

template <class T>
std::shared_ptr<Head<T>> HeadReader<T>::read(Index problem) {
  return read_part(problem, input_.part(problem), 0);
}

template <class T>
std::shared_ptr<Head<T>> HeadReader<T>::read(Index problem, RowRange queries) {
  OwnPart part = input_.part(problem);
  part.range.row0 += queries.first;
  part.range.rows = queries.last - queries.first;
  part.offset += queries.first;
  return read_part(problem, part, queries.first);
}

// If the ranks of this thread hold neighbouring rows.
template <class T>
std::optional<RankPart> HeadReader<T>::rank_part(const TileRange& own) const {
  const kernel::Ranks* const ranks = kernel::Ranks::current();
  if (ranks == nullptr || kernel::Ranks::rows() != kernel::Ranks::Rows::neighbouring) return {};
  return RankPart{neighbouring_rows(own.rows, own.cols, sizeof(T), ranks->own(), ranks->count()),
                  most_neighbouring_rows(input_.queries, input_.keys, sizeof(T), ranks->count())};
}

template <class T>
std::shared_ptr<Head<T>> HeadReader<T>::read_part(Index problem, const OwnPart& part,
                                                  Index first_query) {
  auto head = std::make_shared<Head<T>>();
  head->problem = problem;
  head->part = part;
  const TileRange& own = head->part.range;
  const std::optional<RankPart> of_rank = rank_part(own);
  const auto part_source = [&]<class U>(const std::optional<Operand>& operand,
                                        const TileRange& pairs, Matrix<U>& last,
                                        const std::optional<RankPart>& rank) {
    if (!operand) return std::shared_ptr<OperandMatrix<U>>();
    const Index index = operand->block(problem);
    if (last.index != index || !same_range(last.own, pairs)) {
      last = {index, pairs, matrix_source<U>(*operand, problem, pairs, dense_limit_, rank)};
    }
    return last.source;
  };
  const auto source = [&]<class U>(const std::optional<Operand>& operand, Matrix<U>& last) {
    return part_source(operand, own, last, of_rank);
  };
  HeadArrays<T>& arrays = head->arrays_;
  arrays.problem = problem;
  arrays.queries = own.rows;
  arrays.keys = own.cols;
  arrays.offset = head->part.offset;
  arrays.first_query = first_query;
  head->stored_ = source(input_.scores, last_scores_);
  read_vectors(*head);
  head->bias_ = source(input_.bias, last_bias_);
  head->mask_ = source(input_.mask, last_mask_);
  head->preference_ = source(input_.preference, last_preference_);
  head->gate_ = part_source(input_.gate, {own.row0, own.rows, 0, input_.v_head_dim}, last_gate_,
                            std::nullopt);
  head->relative_ = relative(arrays);
  arrays.scores = head->stored_.get();
  arrays.bias = head->bias_.get();
  arrays.mask = head->mask_.get();
  arrays.gate = head->gate_.get();
  if (head->relative_) arrays.relative = &*head->relative_;
  make_scores(*head);
  return head;
}

template <class T>
void HeadReader<T>::make_scores(Head<T>& head) const {
  if (input_.with_plain) {
    head.plain_.emplace(input_.recipe(Scheme::unas), head.arrays_, threads_);
  }
  if (!input_.with_preference) return;
  head.arrays_.preference = head.preference_.get();
  head.preferring_.emplace(input_.recipe(Scheme::fenchel), head.arrays_, threads_);
}

template class Head<float>;
template class Head<double>;
template class HeadReader<float>;
template class HeadReader<double>;

}  // namespace attn
