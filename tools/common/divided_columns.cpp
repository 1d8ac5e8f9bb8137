#include "common/divided_columns.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "common/block_plan.hpp"
#include "plan/output_gate.hpp"
#include "tensor/infinity.hpp"

namespace attn::tools {

template <class T>
std::optional<DividedHead> DividedColumns<T>::run(const ShownRows<T>& show) {
  this->find_columns();
  this->start_rows();
  if (this->wants_.keeps_rows()) keep_rows();
  if (this->begin(DividedStep::gradients)) {
    this->resume_forward();
  } else if (!forward(show.out)) {
    return std::nullopt;
  }
  if (this->wants_.keeps_rows()) {
    this->columns_.reset();
    this->reader_.forget_keys();
    this->complete(show);
  }
  return std::move(this->found_);
}

// Returns false if the head must be computed whole.
template <class T>
bool DividedColumns<T>::forward(const ShowRows<T>& show) {
  const std::optional<DividedPlace> begin = this->begin(DividedStep::rows);
  if (begin) resume();
  if (this->whole_.queries() == 0 && shows_blocks()) show({});
  for (const TileRange& pairs : this->blocks_of_queries(this->columns_->keys(), this->block_lines(),
                                                        this->first_line(begin, 0))) {
    if (!complete_rows(pairs, show)) return false;
    this->after_block({DividedStep::rows, 0, pairs.row0 + pairs.rows, this->column_rounds_},
                      [&](DividedState& state) { describe(state); });
  }
  this->close_rows();
  return true;
}

// What is found after a block of queries.
template <class T>
void DividedColumns<T>::describe(DividedState& state) {
  Potentials& potentials = this->found_.attention.potentials;
  this->describe_columns(state, true);
  state.add_whole(potentials.row);
  state.add_whole(potentials.unas_row);
  if (this->wants_.keeps_rows()) {
    state.add_lines(this->rows_, LineNumbers::of(this->out_, this->input_.v_head_dim));
  }
}

template <class T>
void DividedColumns<T>::resume() {
  this->resume_columns(true);
  DividedState state;
  describe(state);
  this->load(state);
}

// Makes room for rows of the output: gradients start from them, and a state holds them.
template <class T>
void DividedColumns<T>::keep_rows() {
  this->rows_ = this->slots_for(row_tile_partition(this->whole_.queries(), this->whole_.keys()));
  const RowRange own = this->rows_.lines(this->ranks_.own());
  this->out_ = Buffer<T>((own.last - own.first) * this->input_.v_head_dim);
  std::fill(this->out_.begin(), this->out_.end(), T{0});
}

// Of the rows from `first` on, the own ones.
template <class T>
void DividedColumns<T>::keep(Index first, MatrixView<const T> rows) {
  const RowRange own = this->rows_.lines(this->ranks_.own());
  const Index end = std::min(own.last, first + rows.rows);
  for (Index i = std::max(own.first, first); i < end; ++i) {
    std::copy_n(rows.row(i - first), rows.cols, this->out_.data() + (i - own.first) * rows.cols);
  }
}

template <class T>
bool DividedColumns<T>::complete_rows(const TileRange& pairs, const ShowRows<T>& show) {
  const bool makes_out = this->wants_.makes_out();
  const Index width = makes_out ? this->input_.v_head_dim : 0;
  const Buffer<T> rows(pairs.rows * width);
  const MatrixView<T> out(makes_out ? rows.data() : nullptr, pairs.rows, width);
  typename QueryBlocks<T>::Sums sums(*this->columns_, pairs.rows, out);
  this->with_part(pairs, [&](const Head<T>& part) {
    this->columns_->gather(part.scores(this->wants_.scheme), part.v(), sums, this->plan_.threads);
  });
  this->add_up([&](const kernel::RankShare::Visit& visit) { sums.visit(visit); },
               [&] { this->columns_->add(sums); });
  Attention& attention = this->found_.attention;
  const auto first = static_cast<std::size_t>(pairs.row0);
  Potentials& potentials = attention.potentials;
  for (const Index i :
       this->columns_->complete_rows(sums, this->lines_from(potentials.row, first),
                                     this->lines_from(potentials.unas_row, first))) {
    if (attention.allowed.keys_of_query[first + static_cast<std::size_t>(i)] == 0) continue;
    require_whole(pairs.row0 + i);
    return false;
  }
  if (this->wants_.keeps_rows()) keep(pairs.row0, out);
  if (!shows_blocks()) return true;
  if (this->input_.gate && this->ranks_.own() == 0) {
    this->with_part(pairs, [&](const Head<T>& part) { apply_gate<T>(*part.arrays().gate, out); });
  }
  show({0, pairs.row0, pairs.rows, rows.data()});
  return true;
}

// A sum that is too small can be found from a whole head only.
template <class T>
void DividedColumns<T>::require_whole(Index query) const {
  naming([&] { return this->input_.place(this->problem_); },
         [&] {
           const char* const reason = this->wants_.scheme == Scheme::hnas
                                          ? "whose scores are far below the largest of others"
                                          : "which no key prefers";
           require_memory(fmt::format("for query {}, {}, a whole head", query, reason),
                          this->plan_.whole_bytes, this->plan_.memory);
         });
}

template class DividedColumns<float>;
template class DividedColumns<double>;

}  // namespace attn::tools
