#include "common/divided_gradient.hpp"

#include <algorithm>
#include <utility>

#include "gradient/adjoints.hpp"
#include "gradient/folded_rows.hpp"
#include "plan/output_gate.hpp"
#include "scheme/gradient.hpp"

namespace attn::tools {

template <class T>
void DividedGradient<T>::differentiate(const RankSlots& rows, Buffer<T> out,
                                       const ShownRows<T>& show) {
  const OwnPart& whole = this->whole_;
  const DividedWants& wants = this->wants_;
  if (whole.queries() == 0 || whole.keys() == 0) return show_zeros(show);
  if (wants.gradients_of_lines()) {
    const bool scores = wants.gradients_of_scores();
    const int own = this->ranks_.own();
    slots_of_keys_ = this->slots_for(
        GradientBlocks<T>::partition(wants.scheme, scores, whole.queries(), whole.keys()));
    gradients_.emplace(typename GradientBlocks<T>::Options{
        slots_of_keys_.partition, slots_of_keys_.first(own), slots_of_keys_.last(own), wants.scheme,
        scores, wants.hybrid_of(this->problem_)});
    this->read_values(gradients_->keys());
  }
  this->read_grad_out(rows, out, show.grad_gate);
  // Without gradients of lines there is a sink, and δ is that of the values as they are.
  if (gradients_ || wants.grad_sink) this->find_delta(rows, std::move(out));
  if (wants.grad_sink) show_sink(show.grad_sink);
  if (!gradients_) return;
  use_keys();
  const RowRange keys = gradients_->keys();
  const std::vector<TileRange> blocks = this->blocks_of_queries(keys, this->plan_.gradient_block);
  for (const TileRange& pairs : blocks) {
    if (!gradients_->needs_columns()) break;
    this->with_part(pairs, [&](const Head<T>& part) {
      gradients_->add_columns(block(part, pairs), this->plan_.threads);
    });
  }
  for (const TileRange& pairs : blocks) add_block(pairs, show.grad_q);
  if (by_key_) by_key_->finish();
  const Index before = gradients_->own_keys().first - keys.first;
  const auto gather = [&](Buffer<T>& of, Index columns, const ShowRows<T>& to) {
    this->show_rows(slots_of_keys_, of.data() + before * columns, columns, to);
  };
  if (wants.grad_k) gather(grad_k_, this->input_.depth, show.grad_k);
  if (wants.grad_v) gather(grad_v_, this->input_.v_head_dim, show.grad_v);
}

// The gate is read in blocks, as no more queries need fit into memory besides.
template <class T>
void DividedGradient<T>::show_output(const RankSlots& rows, const Buffer<T>& out,
                                     const ShowRows<T>& show) {
  const Index width = this->input_.v_head_dim;
  const RowRange own = rows.lines(this->ranks_.own());
  const bool copies = this->input_.gate && this->wants_.gradients();
  Buffer<T> gated(copies ? out.size() : 0);
  if (copies) std::copy(out.begin(), out.end(), gated.begin());
  const T* const shown = copies ? gated.data() : out.data();
  const MatrixView<T> all(copies ? gated.data() : out.data(), own.last - own.first, width);
  const Index block = this->plan_.block;
  for (Index first = 0; this->input_.gate && first < all.rows; first += block) {
    const Index count = std::min(block, all.rows - first);
    this->with_part({own.first + first, count, 0, std::min(block, this->whole_.keys())},
                    [&](const Head<T>& part) {
                      apply_gate<T>(*part.arrays().gate, all.row_range(first, count));
                    });
  }
  this->show_rows(rows, shown, width, show);
}

// Makes room for the gradients of the own keys.
template <class T>
void DividedGradient<T>::use_keys() {
  const DividedWants& wants = this->wants_;
  const RowRange keys = gradients_->keys();
  const Index count = keys.last - keys.first;
  const Index width = this->input_.v_head_dim;
  SchemeOptions options;
  options.scheme = wants.scheme;
  options.sink = this->input_.sink_of(this->problem_);
  typename GradientBlocks<T>::Keys of_keys;
  of_keys.v = this->values();
  if (!is_softmax(wants.scheme))
    of_keys.g = this->own_part(this->found_.attention.potentials.col, keys);
  of_keys.folds =
      folds_rows(options, this->near_zero_, static_cast<double>(this->largest_grad_out_),
                 static_cast<double>(this->largest_value_in_use_));
  if (wants.grad_k) grad_k_ = Buffer<T>(count * this->input_.depth);
  if (wants.grad_v) {
    grad_v_ = Buffer<T>(count * width);
    of_keys.grad_v = {grad_v_.data(), count, width};
  }
  gradients_->use(of_keys);
}

// Of a head without pairs.
template <class T>
void DividedGradient<T>::show_zeros(const ShownRows<T>& show) const {
  const auto zeros = [&](Index rows, Index width, const ShowRows<T>& to) {
    const std::vector<T> row(static_cast<std::size_t>(width), T{0});
    for (Index i = 0; i < rows; ++i) to({0, i, 1, row.data()});
  };
  const DividedWants& wants = this->wants_;
  if (wants.grad_q) zeros(this->whole_.queries(), this->input_.depth, show.grad_q);
  if (wants.grad_k) zeros(this->whole_.keys(), this->input_.depth, show.grad_k);
  if (wants.grad_v) zeros(this->whole_.keys(), this->input_.v_head_dim, show.grad_v);
  if (wants.grad_gate) {
    const Index rows = this->input_.has_gate_by_query() ? this->whole_.queries() : 1;
    zeros(rows, this->input_.gate->cols, show.grad_gate);
  }
  if (wants.grad_sink) zeros(1, 1, show.grad_sink);
}

template <class T>
void DividedGradient<T>::show_sink(const ShowRows<T>& show) const {
  const Potentials& potentials = this->found_.attention.potentials;
  const double u = this->wants_.hybrid_of(this->problem_);
  PooledVector<WeightAdjoint<T>> adjoints = {row_adjoint<T>(potentials.row, {}, u, this->delta_)};
  if (this->is_mixture()) {
    adjoints.push_back(row_adjoint<T>(potentials.unas_row, {}, 1 - u, this->unas_delta_));
  }
  const auto found = static_cast<T>(sink_gradient(this->input_.sink_of(this->problem_), adjoints));
  show({0, 0, 1, &found});
}

template <class T>
typename DividedGradient<T>::Block DividedGradient<T>::block(const Head<T>& part,
                                                             const TileRange& pairs) {
  const RowRange queries{pairs.row0, pairs.row0 + pairs.rows};
  const Potentials& potentials = this->found_.attention.potentials;
  Block block;
  block.scores = &part.scores(this->wants_.scheme);
  block.grad_out = part.grad_out();
  if (this->input_.gate) {
    grad_out_of_block_ = through_gate<T>(*part.arrays().gate, part.grad_out());
    block.grad_out.data = grad_out_of_block_.data();
  }
  block.f = this->own_part(potentials.row, queries);
  block.delta = this->own_part(this->delta_, queries);
  if (this->is_mixture()) {
    block.unas_f = this->own_part(potentials.unas_row, queries);
    block.unas_delta = this->own_part(this->unas_delta_, queries);
  }
  return block;
}

template <class T>
std::unique_ptr<GradientSink<T>> DividedGradient<T>::sink(const Head<T>& part, T* grad_q,
                                                          T* grad_k) const {
  const ScoreRecipe recipe = this->input_.recipe(this->wants_.scheme);
  auto made = recipe.energy->differentiate(
      part.arrays().energy_arguments(recipe.scale, this->plan_.threads),
      {{grad_q, part.q().rows, part.q().cols}, {grad_k, part.k().rows, part.k().cols}, {}});
  made->start(gradients_->slots());
  return made;
}

// dQ of a block is a sum over the slots of all ranks.
template <class T>
void DividedGradient<T>::add_block(const TileRange& pairs, const ShowRows<T>& show) {
  const DividedWants& wants = this->wants_;
  Buffer<T> sums(wants.grad_q ? pairs.rows * this->input_.depth : 0);
  std::fill(sums.begin(), sums.end(), T{0});
  std::unique_ptr<GradientSink<T>> by_query;
  this->with_part(pairs, [&](const Head<T>& part) {
    PooledVector<GradientSink<T>*> sinks;
    if (wants.grad_q) {
      by_query = sink(part, sums.data(), nullptr);
      sinks.push_back(by_query.get());
    }
    if (wants.grad_k) {
      if (by_key_) {
        by_key_->go_on(part.q());
      } else {
        // Its view of the keys stays valid, as the reader keeps the block that all parts share.
        by_key_ = sink(part, nullptr, grad_k_.data());
      }
      sinks.push_back(by_key_.get());
    }
    gradients_->add(block(part, pairs), sinks, this->plan_.threads);
  });
  if (!wants.grad_q) return;
  this->add_up_for_first(
      [&](const kernel::RankShare::Visit& visit) {
        visit(std::as_writable_bytes(std::span(sums.begin(), sums.end())));
      },
      [&] {
        for (Index slot = 0; by_query && slot < gradients_->slots(); ++slot)
          by_query->merge(slot, {});
      });
  if (this->ranks_.own() == 0) by_query->finish();
  show({0, pairs.row0, pairs.rows, sums.data()});
}

template class DividedGradient<float>;
template class DividedGradient<double>;

}  // namespace attn::tools
