#include "common/divided_columns.hpp"

#include <utility>

#include <fmt/format.h>

#include "common/block_plan.hpp"
#include "plan/output_gate.hpp"
#include "tensor/infinity.hpp"

namespace attn::tools {

template <class T>
std::optional<DividedHead> DividedColumns<T>::run(const ShowRows<T>& show) {
  this->find_columns();
  this->start_rows();
  for (const TileRange& pairs : this->blocks_of_queries(this->columns_->keys())) {
    if (!complete_rows(pairs, show)) return std::nullopt;
  }
  this->close_rows();
  return std::move(this->found_);
}

template <class T>
bool DividedColumns<T>::complete_rows(const TileRange& pairs, const ShowRows<T>& show) {
  const Index width = this->wants_.out ? this->input_.v_head_dim : 0;
  const Buffer<T> rows(pairs.rows * width);
  const MatrixView<T> out(this->wants_.out ? rows.data() : nullptr, pairs.rows, width);
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
  if (!this->wants_.out || this->ranks_.own() > 0) return true;
  if (this->input_.gate) {
    this->with_part(pairs, [&](const Head<T>& part) { apply_gate<T>(*part.arrays().gate, out); });
  }
  show(pairs.row0, pairs.rows, rows.data());
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
