#include "common/divided_potential.hpp"

#include <algorithm>

#include "tensor/infinity.hpp"

namespace attn::tools {

template <class T>
void DividedPotential<T>::find_columns() {
  this->look(this->blocks_of_queries(this->own_lines(), this->block_lines()));
  typename QueryBlocks<T>::Options options;
  options.partition = this->slots_.partition;
  options.first_slot = this->slots_.first(this->ranks_.own());
  options.last_slot = this->slots_.last(this->ranks_.own());
  options.largest_value = this->largest_value_;
  options.sink = this->input_.sink_of(this->problem_);
  options.hybrid = this->wants_.hybrid_of(this->problem_);
  columns_.emplace(options);
  PooledVector<double>& col = this->found_.attention.potentials.col;
  col.assign(static_cast<std::size_t>(this->whole_.keys()), minus_infinity);
  if (const auto later = this->begin_after_columns()) {
    column_rounds_ = later->column_rounds;
    return;
  }
  find_sums();
  columns_->complete_columns(
      std::span(col).subspan(static_cast<std::size_t>(columns_->own_keys().first)));
  this->complete_lines(col);
}

template <class T>
void DividedPotential<T>::find_sums() {
  const std::optional<DividedPlace> begin = this->begin(DividedStep::columns);
  const auto describe = [&](DividedState& state) {
    state.add_lines(this->slots_, columns_->state(false));
  };
  if (begin) {
    column_rounds_ = begin->column_rounds;
    this->resume_columns(false);
    DividedState state;
    describe(state);
    this->load(state);
  }
  for (int round = begin ? begin->round : 0; round < column_rounds_; ++round) {
    const Index first = this->first_line(begin, round);
    for (const TileRange& pairs :
         this->blocks_of_queries(columns_->keys(), this->block_lines(), first)) {
      this->with_part(pairs, [&](const Head<T>& part) {
        columns_->add(round, part.scores(this->wants_.scheme), this->plan_.threads);
      });
      this->after_block({DividedStep::columns, round, pairs.row0 + pairs.rows, column_rounds_},
                        describe);
    }
    columns_->end_round(round);
    if (round > 0) break;
    // Ranks without keys see no scores.
    for (const int rounds : kernel::gathered(this->ranks_, columns_->column_rounds())) {
      column_rounds_ = std::max(column_rounds_, rounds);
    }
  }
}

template <class T>
void DividedPotential<T>::describe_columns(DividedState& state, bool with_sums) {
  state.add_whole(this->found_.attention.potentials.col);
  if (with_sums) state.add_lines(this->slots_, columns_->state(true));
}

// Reads a block of queries, of which heads with a state have some, to see scores; ranks without
// keys do not.
template <class T>
void DividedPotential<T>::resume_columns(bool complete) {
  const std::vector<TileRange> blocks =
      this->blocks_of_queries(columns_->keys(), this->block_lines());
  this->with_part(blocks.front(), [&](const Head<T>& part) {
    columns_->resume(complete, part.scores(this->wants_.scheme));
  });
}

template class DividedPotential<float>;
template class DividedPotential<double>;

}  // namespace attn::tools
