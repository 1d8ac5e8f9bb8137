#include "common/divided_gradient.hpp"

#include <algorithm>
#include <utility>

#include "gradient/adjoints.hpp"
#include "gradient/folded_rows.hpp"
#include "plan/output_gate.hpp"
#include "scheme/gradient.hpp"

namespace attn::tools {

template <class T>
void DividedGradient<T>::complete(const ShownRows<T>& show) {
  const OwnPart& whole = this->whole_;
  const DividedWants& wants = this->wants_;
  const bool differentiates = wants.gradients() && whole.queries() > 0 && whole.keys() > 0;
  const bool at_end = differentiates && wants.stops;
  if (!at_end) show_output(show.out);
  if (!wants.gradients()) return;
  if (!differentiates) return show_zeros(show);
  // Rows that were shown would be lost to a run that goes on.
  if (!at_end) this->show_gate_gradient(show.grad_gate);
  find_gradients(show.grad_q);
  if (at_end) show_output(show.out);
  show_found(show);
  if (at_end) this->show_gate_gradient(show.grad_gate);
}

// The gate is read in blocks, as no more queries need fit into memory besides. Gradients need the
// output before it.
template <class T>
void DividedGradient<T>::show_output(const ShowRows<T>& show) {
  if (!this->wants_.out) return;
  Buffer<T>& out = this->out_;
  const RankSlots& rows = this->rows_;
  const Index width = this->input_.v_head_dim;
  const RowRange own = rows.lines(this->ranks_.own());
  const bool copies = this->input_.gate && this->wants_.gradients();
  Buffer<T> gated(copies ? out.size() : 0);
  if (copies) std::copy(out.begin(), out.end(), gated.begin());
  const MatrixView<T> all(copies ? gated.data() : out.data(), own.last - own.first, width);
  const Index block = this->plan_.block;
  for (Index first = 0; this->input_.gate && first < all.rows; first += block) {
    const Index count = std::min(block, all.rows - first);
    this->with_part({own.first + first, count, 0, std::min(block, this->whole_.keys())},
                    [&](const Head<T>& part) {
                      apply_gate<T>(*part.arrays().gate, all.row_range(first, count));
                    });
  }
  this->show_rows(rows, all.data, width, show);
}

template <class T>
void DividedGradient<T>::find_gradients(const ShowRows<T>& show_grad_q) {
  const DividedWants& wants = this->wants_;
  if (wants.gradients_of_lines()) {
    const int own = this->ranks_.own();
    slots_of_keys_ = this->slots_for(divided_partition(
        wants, DividedStep::gradients, this->whole_.queries(), this->whole_.keys(), sizeof(T)));
    gradients_.emplace(typename GradientBlocks<T>::Options{
        slots_of_keys_.partition, slots_of_keys_.first(own), slots_of_keys_.last(own), wants.scheme,
        wants.gradients_of_scores(), wants.hybrid_of(this->problem_)});
    this->read_values(gradients_->keys());
  } else if (!wants.grad_sink) {
    return;
  }
  // Without gradients of lines there is a sink, and δ is that of the values as they are.
  this->find_delta();
  if (!gradients_) return;
  if (!wants.stops) this->out_ = Buffer<T>();
  use_keys();
  complete_sums();
  add_lines(show_grad_q);
}

// All that is wanted, but for what is shown before.
template <class T>
void DividedGradient<T>::show_found(const ShownRows<T>& show) {
  const DividedWants& wants = this->wants_;
  const Index depth = this->input_.depth;
  const Index width = this->input_.v_head_dim;
  if (wants.grad_q && wants.stops) this->show_rows(this->rows_, grad_q_.data(), depth, show.grad_q);
  if (wants.grad_k) {
    this->show_rows(slots_of_keys_, from_own_key(grad_k_, depth), depth, show.grad_k);
  }
  if (wants.grad_v) {
    this->show_rows(slots_of_keys_, from_own_key(grad_v_, width), width, show.grad_v);
  }
  if (wants.grad_sink) show_sink(show.grad_sink);
}

// Of numbers by key of gradients_->keys().
template <class T>
T* DividedGradient<T>::from_own_key(Buffer<T>& of, Index columns) const {
  return of.data() + (gradients_->own_keys().first - gradients_->keys().first) * columns;
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
  const auto zeros = [&](bool wanted, Index rows, Index width, const ShowRows<T>& to) {
    if (!wanted) return;
    if (rows == 0) return to({});
    const Index at_once = std::min(rows, rows_of_piece(width * static_cast<Index>(sizeof(T))));
    const std::vector<T> numbers(static_cast<std::size_t>(at_once * width), T{0});
    for (Index first = 0; first < rows; first += at_once) {
      to({0, first, std::min(at_once, rows - first), numbers.data()});
    }
  };
  const DividedWants& wants = this->wants_;
  const AttentionInput& input = this->input_;
  const Index queries = this->whole_.queries();
  const Index keys = this->whole_.keys();
  zeros(wants.grad_q, queries, input.depth, show.grad_q);
  zeros(wants.grad_k, keys, input.depth, show.grad_k);
  zeros(wants.grad_v, keys, input.v_head_dim, show.grad_v);
  zeros(wants.grad_sink, 1, 1, show.grad_sink);
  zeros(wants.grad_gate, input.has_gate_by_query() ? queries : 1, input.gate ? input.gate->cols : 0,
        show.grad_gate);
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

// Blocks begin at multiples of gradient_tile_rows.
template <class T>
std::vector<TileRange> DividedGradient<T>::blocks(Index first) const {
  const Index lines =
      this->block_beside(slots_of_keys_, this->plan_.gradient_block, gradient_tile_rows);
  return this->blocks_of_queries(gradients_->keys(), lines, first);
}

template <class T>
void DividedGradient<T>::describe_sums(DividedState& state) {
  this->describe_deltas(state);
  if (gradients_->needs_columns()) state.add_lines(slots_of_keys_, gradients_->column_sums());
}

template <class T>
void DividedGradient<T>::describe_lines(DividedState& state) {
  describe_sums(state);
  const RowRange own = gradients_->own_keys();
  const auto add = [&](Buffer<T>& of, Index columns) {
    const std::span<T> numbers(from_own_key(of, columns),
                               static_cast<std::size_t>((own.last - own.first) * columns));
    state.add_lines(slots_of_keys_, LineNumbers::of(numbers, columns));
  };
  const DividedWants& wants = this->wants_;
  if (wants.grad_k) add(grad_k_, this->input_.depth);
  if (wants.grad_v) add(grad_v_, this->input_.v_head_dim);
  if (wants.grad_q) state.add_lines(this->rows_, LineNumbers::of(grad_q_, this->input_.depth));
}

template <class T>
void DividedGradient<T>::complete_sums() {
  if (!gradients_->needs_columns() || this->is_done(GradientRound::columns)) return;
  const auto describe = [&](DividedState& state) { describe_sums(state); };
  const Index first = this->resume_round(GradientRound::columns, describe);
  for (const TileRange& pairs : blocks(first)) {
    this->with_part(pairs, [&](const Head<T>& part) {
      gradients_->add_columns(block(part, pairs), this->plan_.threads);
    });
    this->after_gradient_block(GradientRound::columns, pairs.row0 + pairs.rows, describe);
  }
}

template <class T>
void DividedGradient<T>::add_lines(const ShowRows<T>& show_grad_q) {
  const bool keeps = this->wants_.grad_q && this->wants_.stops;
  const Index depth = this->input_.depth;
  if (keeps) {
    const RowRange own = this->rows_.lines(this->ranks_.own());
    grad_q_ = Buffer<T>((own.last - own.first) * depth);
    std::fill(grad_q_.begin(), grad_q_.end(), T{0});
  }
  const ShowRows<T> keep = [&](const GatheredRows<T>& rows) {
    send_to_keepers(
        this->ranks_, rows, depth, [&](int rank) { return this->rows_.lines(rank); },
        grad_q_.data());
  };
  const auto describe = [&](DividedState& state) { describe_lines(state); };
  const auto begin = this->begin_of(GradientRound::lines);
  if (begin && this->wants_.grad_k) {
    // Gradients of keys start as zeros, so before those of the state are loaded.
    this->with_part(blocks(0).front(),
                    [&](const Head<T>& part) { by_key_ = sink(part, nullptr, grad_k_.data()); });
  }
  const Index first = this->resume_round(GradientRound::lines, describe);
  for (const TileRange& pairs : blocks(first)) {
    add_block(pairs, keeps ? keep : show_grad_q);
    this->after_gradient_block(GradientRound::lines, pairs.row0 + pairs.rows, describe);
  }
  if (by_key_) by_key_->finish();
}

// dQ of a block is a sum over the slots of all ranks.
template <class T>
void DividedGradient<T>::add_block(const TileRange& pairs, const ShowRows<T>& show_grad_q) {
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
  show_grad_q({0, pairs.row0, pairs.rows, sums.data()});
}

template class DividedGradient<float>;
template class DividedGradient<double>;

}  // namespace attn::tools
