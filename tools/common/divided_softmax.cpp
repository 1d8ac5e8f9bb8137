#include "common/divided_softmax.hpp"

#include <utility>

#include "plan/output_gate.hpp"
#include "tensor/infinity.hpp"

namespace attn::tools {

template <class T>
DividedHead DividedSoftmax<T>::run(const ShowRows<T>& show) {
  this->look(blocks_of(this->lines(this->ranks_.own())));
  complete_rows();
  if (this->wants_.col_sum) add_columns();
  if (this->wants_.out) gather_rows(show);
  return std::move(this->found_);
}

// In the order of the keys.
template <class T>
std::vector<TileRange> DividedSoftmax<T>::blocks_of(RowRange queries) const {
  std::vector<TileRange> blocks;
  const Index keys = this->whole_.keys();
  for (Index key = 0; key < keys; key += this->plan_.block) {
    blocks.push_back({queries.first, queries.last - queries.first, key,
                      std::min(this->plan_.block, keys - key)});
  }
  return blocks;
}

template <class T>
void DividedSoftmax<T>::complete_rows() {
  const RowRange own = this->lines(this->ranks_.own());
  const Index rows = own.last - own.first;
  typename KeyBlocks<T>::Options options;
  options.partition = this->partition_;
  options.first_slot = this->first_slot(this->ranks_.own());
  options.last_slot = this->last_slot(this->ranks_.own());
  options.entropies = this->wants_.row_entropy;
  options.sink = this->input_.sink_of(this->problem_);
  options.largest_value = this->largest_value_;
  if (this->wants_.out) {
    out_ = Buffer<T>(rows * this->input_.v_head_dim);
    std::fill(out_.begin(), out_.end(), T{0});
    options.out = {out_.data(), rows, this->input_.v_head_dim};
  }
  blocks_.emplace(options);
  const auto queries = static_cast<std::size_t>(this->whole_.queries());
  Potentials& potentials = this->found_.attention.potentials;
  std::vector<double>& entropy = this->found_.row_entropy;
  potentials.row.assign(queries, minus_infinity);
  if (this->wants_.row_entropy) entropy.assign(queries, 0.0);
  const auto own_part = [&](std::span<double> all) {
    return all.empty() ? all : all.subspan(static_cast<std::size_t>(own.first));
  };
  for (const TileRange& pairs : blocks_of(own)) {
    this->with_part(pairs, [&](const Head<T>& part) {
      blocks_->add(part.scores(this->wants_.scheme), part.v(), this->plan_.threads);
      if (pairs.col0 + pairs.cols < this->whole_.keys()) return;
      blocks_->complete(own_part(potentials.row), own_part(entropy));
      if (part.arrays().gate != nullptr) apply_gate<T>(*part.arrays().gate, options.out);
    });
  }
  this->complete_lines(potentials.row);
  if (this->wants_.row_entropy) this->complete_lines(entropy);
  // A query with nothing allowed attends to the sink alone.
  std::replace(potentials.row.begin(), potentials.row.end(), minus_infinity, options.sink);
  for (const Index of_key : this->found_.attention.allowed.queries_of_key) {
    potentials.col.push_back(of_key == 0 ? minus_infinity : 0.0);
  }
}

template <class T>
void DividedSoftmax<T>::add_columns() {
  std::vector<double>& all = this->found_.col_sum;
  all.assign(static_cast<std::size_t>(this->whole_.keys()), 0.0);
  for (const TileRange& pairs : blocks_of(this->lines(this->ranks_.own()))) {
    Buffer<double> of_slots;
    this->with_part(pairs, [&](const Head<T>& part) {
      of_slots = blocks_->column_sums(part.scores(this->wants_.scheme), this->plan_.threads);
    });
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

// Rank 0 takes the rows of the others in their order.
template <class T>
void DividedSoftmax<T>::gather_rows(const ShowRows<T>& show) {
  kernel::Ranks& ranks = this->ranks_;
  const Index width = this->input_.v_head_dim;
  const Index row_bytes = std::max<Index>(1, width * static_cast<Index>(sizeof(T)));
  const Index at_once = std::max<Index>(1, divided_piece_bytes / row_bytes);
  Buffer<T> of_other;
  for (int rank = 0; rank < ranks.count(); ++rank) {
    const RowRange queries = this->lines(rank);
    const bool own = rank == ranks.own();
    for (Index first = queries.first; first < queries.last; first += at_once) {
      const Index count = std::min(at_once, queries.last - first);
      if (!own && ranks.own() > 0) continue;
      if (!own) of_other.reserve(count * width);
      T* const rows = own ? out_.data() + (first - queries.first) * width : of_other.data();
      const auto bytes =
          std::as_writable_bytes(std::span(rows, static_cast<std::size_t>(count * width)));
      if (!own) ranks.receive(rank, bytes);
      if (ranks.own() > 0) {
        ranks.send(0, bytes);
      } else {
        show(first, count, rows);
      }
    }
  }
}

template class DividedSoftmax<float>;
template class DividedSoftmax<double>;

}  // namespace attn::tools
