#include "common/divided_rows.hpp"

#include <utility>

#include "pass/one_pass.hpp"
#include "tensor/infinity.hpp"

namespace attn::tools {

template <class T>
DividedHead DividedRows<T>::run(const ShownRows<T>& show) {
  const bool near_zero = find_g();
  blocks_ = KeyBlocks<T>::make(options(near_zero));
  this->start_rows();
  if (this->wants_.col_sum) {
    this->found_.col_sum.assign(static_cast<std::size_t>(this->whole_.keys()), 0.0);
  }
  if (this->begin(DividedStep::gradients)) {
    this->resume_forward();
  } else {
    forward();
  }
  blocks_.reset();
  this->complete(show);
  return std::move(this->found_);
}

template <class T>
void DividedRows<T>::forward() {
  const std::optional<DividedPlace> begin = this->begin(DividedStep::rows);
  if (begin) resume(*begin);
  if (!begin || begin->round < blocks_->rounds()) complete_rows(begin);
  if (blocks_->shows_weights()) show_weights(begin);
  finish();
}

// Finds g if there is one. Returns false if exponentials of scores and of g cannot be taken alone.
template <class T>
bool DividedRows<T>::find_g() {
  if (divided_steps(this->wants_).front() != DividedStep::columns) {
    this->look(this->blocks_of_keys(this->own_lines(), this->block_lines()));
    for (const Index of_key : this->found_.attention.allowed.queries_of_key) {
      this->found_.attention.potentials.col.push_back(of_key == 0 ? minus_infinity : 0.0);
    }
    return true;
  }
  this->find_columns();
  if (this->begin_after_columns()) {
    DividedState g;
    this->describe_columns(g, false);
    this->load(g);
  }
  const bool near_zero =
      this->column_rounds_ == 1 && is_near_zero(this->found_.attention.potentials.col);
  this->columns_.reset();
  this->reader_.forget_keys();
  this->cut(near_zero ? DividedStep::rows : DividedStep::far_rows);
  return near_zero;
}

template <class T>
typename KeyBlocks<T>::Options DividedRows<T>::options(bool near_zero) {
  typename KeyBlocks<T>::Options options;
  options.partition = this->slots_.partition;
  options.first_slot = this->slots_.first(this->ranks_.own());
  options.last_slot = this->slots_.last(this->ranks_.own());
  if (!is_softmax(this->wants_.scheme)) options.col = this->found_.attention.potentials.col;
  options.near_zero = near_zero;
  options.hybrid = this->wants_.hybrid_of(this->problem_);
  options.column_sums = this->wants_.col_sum;
  options.entropies = this->wants_.row_entropy;
  options.sink = this->input_.sink_of(this->problem_);
  options.largest_value = this->largest_value_;
  if (!this->wants_.makes_out()) return options;
  const RowRange own = this->own_lines();
  const Index rows = own.last - own.first;
  this->rows_ = this->slots_;
  this->out_ = Buffer<T>(rows * this->input_.v_head_dim);
  std::fill(this->out_.begin(), this->out_.end(), T{0});
  options.out = {this->out_.data(), rows, this->input_.v_head_dim};
  return options;
}

// What is found after a block of that round.
template <class T>
void DividedRows<T>::describe(int round, DividedState& state) {
  Potentials& potentials = this->found_.attention.potentials;
  if (!is_softmax(this->wants_.scheme)) this->describe_columns(state, false);
  if (round == blocks_->rounds()) {
    state.add_whole(potentials.row);
    state.add_whole(potentials.unas_row);
    state.add_whole(this->found_.col_sum);
  }
  state.add_lines(this->slots_, blocks_->state(round));
  if (this->wants_.makes_out()) {
    state.add_lines(this->slots_, LineNumbers::of(this->out_, this->input_.v_head_dim));
  }
}

// A head with a state has keys.
template <class T>
void DividedRows<T>::resume(const DividedPlace& begin) {
  this->with_part(this->blocks_of_keys(blocks_->queries(), this->block_lines()).front(),
                  [&](const Head<T>& part) {
                    blocks_->resume(begin.round, part.scores(this->wants_.scheme), part.v());
                  });
  DividedState state;
  describe(begin.round, state);
  this->load(state);
}

template <class T>
void DividedRows<T>::after_block(int round, const TileRange& pairs) {
  DividedGradient<T>::after_block(
      {DividedStep::rows, round, pairs.col0 + pairs.cols, this->column_rounds_},
      [&](DividedState& state) { describe(round, state); });
}

template <class T>
void DividedRows<T>::complete_rows(const std::optional<DividedPlace>& begin) {
  for (int round = begin ? begin->round : 0; round < blocks_->rounds(); ++round) {
    const Index first = this->first_line(begin, round);
    for (const TileRange& pairs :
         this->blocks_of_keys(blocks_->queries(), this->block_lines(), first)) {
      this->with_part(pairs, [&](const Head<T>& part) {
        blocks_->add(round, pairs.col0, part.scores(this->wants_.scheme), part.v(),
                     this->plan_.threads);
      });
      after_block(round, pairs);
    }
  }
  Potentials& potentials = this->found_.attention.potentials;
  const auto first = static_cast<std::size_t>(blocks_->queries().first);
  blocks_->complete(this->lines_from(potentials.row, first),
                    this->lines_from(potentials.unas_row, first));
  this->complete_lines(potentials.row);
  if (!potentials.unas_row.empty()) this->complete_lines(potentials.unas_row);
  this->close_rows();
}

template <class T>
void DividedRows<T>::show_weights(const std::optional<DividedPlace>& begin) {
  const int round = blocks_->rounds();
  const Index first = this->first_line(begin, round);
  for (const TileRange& pairs :
       this->blocks_of_keys(blocks_->queries(), this->block_lines(), first)) {
    Buffer<double> of_slots;
    this->with_part(pairs, [&](const Head<T>& part) {
      of_slots = blocks_->show(pairs.col0, part.scores(this->wants_.scheme), part.v(),
                               this->plan_.threads);
    });
    if (this->wants_.col_sum) add_column_sums(pairs, of_slots);
    after_block(round, pairs);
  }
}

template <class T>
void DividedRows<T>::add_column_sums(const TileRange& pairs, const Buffer<double>& of_slots) {
  const auto sums =
      std::span(this->found_.col_sum)
          .subspan(static_cast<std::size_t>(pairs.col0), static_cast<std::size_t>(pairs.cols));
  this->add_up([&](const kernel::RankShare::Visit& visit) { visit(std::as_writable_bytes(sums)); },
               [&] {
                 for (Index n = 0; n < of_slots.size(); ++n) {
                   sums[static_cast<std::size_t>(n % pairs.cols)] += of_slots[n];
                 }
               });
}

template <class T>
void DividedRows<T>::finish() {
  const RowRange own = blocks_->queries();
  std::vector<double>& entropy = this->found_.row_entropy;
  if (this->wants_.row_entropy) {
    entropy.assign(static_cast<std::size_t>(this->whole_.queries()), 0.0);
  }
  blocks_->finish(this->lines_from(entropy, static_cast<std::size_t>(own.first)));
  if (!entropy.empty()) this->complete_lines(std::span<double>(entropy));
}

template class DividedRows<float>;
template class DividedRows<double>;

}  // namespace attn::tools
