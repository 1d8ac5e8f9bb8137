#include "common/divided_rows.hpp"

#include <utility>

#include "pass/one_pass.hpp"
#include "plan/output_gate.hpp"
#include "tensor/infinity.hpp"

namespace attn::tools {

template <class T>
DividedHead DividedRows<T>::run(const ShownRows<T>& show) {
  const bool near_zero = begin();
  blocks_ = KeyBlocks<T>::make(options(near_zero));
  complete_rows();
  if (blocks_->shows_weights()) show_weights();
  finish();
  if (this->wants_.out) show_output(show.out);
  if (this->wants_.gradients()) {
    blocks_.reset();
    this->differentiate(this->slots_, std::move(out_), show);
  }
  return std::move(this->found_);
}

// Finds g if there is one. Returns false if exponentials of scores and of g cannot be taken alone.
template <class T>
bool DividedRows<T>::begin() {
  if (divided_steps(this->wants_).front() != DividedStep::columns) {
    this->look(this->blocks_of_keys(this->own_lines()));
    for (const Index of_key : this->found_.attention.allowed.queries_of_key) {
      this->found_.attention.potentials.col.push_back(of_key == 0 ? minus_infinity : 0.0);
    }
    return true;
  }
  this->find_columns();
  bool near_zero = is_near_zero(this->found_.attention.potentials.col);
  // Of ranks without keys, which see no scores, there is one.
  for (const int rounds : kernel::gathered(this->ranks_, this->columns_->column_rounds())) {
    near_zero = near_zero && rounds == 1;
  }
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
  out_ = Buffer<T>(rows * this->input_.v_head_dim);
  std::fill(out_.begin(), out_.end(), T{0});
  options.out = {out_.data(), rows, this->input_.v_head_dim};
  return options;
}

template <class T>
void DividedRows<T>::complete_rows() {
  for (int round = 0; round < blocks_->rounds(); ++round) {
    for (const TileRange& pairs : this->blocks_of_keys(blocks_->queries())) {
      this->with_part(pairs, [&](const Head<T>& part) {
        blocks_->add(round, pairs.col0, part.scores(this->wants_.scheme), part.v(),
                     this->plan_.threads);
      });
    }
  }
  this->start_rows();
  Potentials& potentials = this->found_.attention.potentials;
  const auto first = static_cast<std::size_t>(blocks_->queries().first);
  blocks_->complete(this->lines_from(potentials.row, first),
                    this->lines_from(potentials.unas_row, first));
  this->complete_lines(potentials.row);
  if (!potentials.unas_row.empty()) this->complete_lines(potentials.unas_row);
  this->close_rows();
}

template <class T>
void DividedRows<T>::show_weights() {
  std::vector<double>& all = this->found_.col_sum;
  if (this->wants_.col_sum) all.assign(static_cast<std::size_t>(this->whole_.keys()), 0.0);
  for (const TileRange& pairs : this->blocks_of_keys(blocks_->queries())) {
    Buffer<double> of_slots;
    this->with_part(pairs, [&](const Head<T>& part) {
      of_slots = blocks_->show(pairs.col0, part.scores(this->wants_.scheme), part.v(),
                               this->plan_.threads);
    });
    if (!this->wants_.col_sum) continue;
    const auto sums = std::span(all).subspan(static_cast<std::size_t>(pairs.col0),
                                             static_cast<std::size_t>(pairs.cols));
    this->add_up(
        [&](const kernel::RankShare::Visit& visit) { visit(std::as_writable_bytes(sums)); },
        [&] {
          for (Index n = 0; n < of_slots.size(); ++n) {
            sums[static_cast<std::size_t>(n % pairs.cols)] += of_slots[n];
          }
        });
  }
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

template <class T>
void DividedRows<T>::show_output(const ShowRows<T>& show) {
  const RowRange own = blocks_->queries();
  const MatrixView<T> out(out_.data(), own.last - own.first, this->input_.v_head_dim);
  Buffer<T> gated;
  const T* shown = out.data;
  if (this->input_.gate) {
    this->with_part({own.first, out.rows, 0, std::min(this->plan_.block, this->whole_.keys())},
                    [&](const Head<T>& part) {
                      const MatrixSource<T>& gate = *part.arrays().gate;
                      // Gradients start from the output before the gate.
                      if (!this->wants_.gradients()) return apply_gate<T>(gate, out);
                      gated = through_gate<T>(gate, out);
                      shown = gated.data();
                    });
  }
  this->show_rows(this->slots_, shown, out.cols, show);
}

template class DividedRows<float>;
template class DividedRows<double>;

}  // namespace attn::tools
