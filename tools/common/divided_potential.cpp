#include "common/divided_potential.hpp"

#include "tensor/infinity.hpp"

namespace attn::tools {

template <class T>
void DividedPotential<T>::find_columns() {
  this->look(this->blocks_of_queries(this->own_lines(), this->plan_.block));
  typename QueryBlocks<T>::Options options;
  options.partition = this->slots_.partition;
  options.first_slot = this->slots_.first(this->ranks_.own());
  options.last_slot = this->slots_.last(this->ranks_.own());
  options.largest_value = this->largest_value_;
  options.sink = this->input_.sink_of(this->problem_);
  options.hybrid = this->wants_.hybrid_of(this->problem_);
  columns_.emplace(options);
  for (int round = 0; round < columns_->column_rounds(); ++round) {
    for (const TileRange& pairs : this->blocks_of_queries(columns_->keys(), this->plan_.block)) {
      this->with_part(pairs, [&](const Head<T>& part) {
        columns_->add(round, part.scores(this->wants_.scheme), this->plan_.threads);
      });
    }
    columns_->end_round(round);
  }
  PooledVector<double>& col = this->found_.attention.potentials.col;
  col.assign(static_cast<std::size_t>(this->whole_.keys()), minus_infinity);
  columns_->complete_columns(
      std::span(col).subspan(static_cast<std::size_t>(columns_->own_keys().first)));
  this->complete_lines(col);
}

template class DividedPotential<float>;
template class DividedPotential<double>;

}  // namespace attn::tools
