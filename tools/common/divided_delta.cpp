#include "common/divided_delta.hpp"

#include <algorithm>
#include <utility>

#include "gradient/adjoints.hpp"
#include "gradient/hybrid_deltas.hpp"
#include "plan/output_gate.hpp"
#include "score/centred_pair.hpp"

namespace attn::tools {

template <class T>
T DividedDelta<T>::largest(T own) const {
  const std::vector<T> all = kernel::gathered(this->ranks_, own);
  return *std::max_element(all.begin(), all.end());
}

template <class T>
MatrixView<T> DividedDelta<T>::values() const {
  return {v_.data(), keys_.last - keys_.first, this->input_.v_head_dim};
}

template <class T>
void DividedDelta<T>::read_values(RowRange keys) {
  keys_ = keys;
  const Index queries = std::min(this->plan_.gradient_block, this->whole_.queries());
  // Only values are wanted, but they are read with a head, which has some queries.
  this->with_part({0, queries, keys.first, keys.last - keys.first}, [&](const Head<T>& part) {
    near_zero_ = part.scores(this->wants_.scheme).near_zero();
    const auto used = std::span(this->found_.attention.allowed.queries_of_key)
                          .subspan(static_cast<std::size_t>(keys.first),
                                   static_cast<std::size_t>(keys.last - keys.first));
    if (values_in_use<T>(part.v(), used, v_).data == v_.data()) return;
    v_ = Buffer<T>(part.v().rows * part.v().cols);
    std::copy_n(part.v().data, v_.size(), v_.data());
  });
  largest_value_in_use_ = largest(kernel::largest_magnitude(MatrixView<const T>(values())));
}

template <class T>
void DividedDelta<T>::read_grad_out(const RankSlots& rows, const Buffer<T>& out,
                                    const ShowRows<T>& show_gate) {
  const RowRange own = rows.lines(this->ranks_.own());
  const Index count = own.last - own.first;
  const Index width = this->input_.v_head_dim;
  const MatrixView<const T> of_out(out.data(), count, width);
  grad_out_ = Buffer<T>(count * width);
  Buffer<T> of_gate;
  {
    // Only grad_out and the gate are wanted, but they are read with a head, which has some keys.
    const Index keys = std::min(this->plan_.gradient_block, this->whole_.keys());
    const auto part = this->read_part({own.first, count, 0, keys});
    if (this->wants_.grad_gate) find_gate_gradient(part.get(), of_out, of_gate);
    if (part != nullptr) {
      std::copy_n(part->grad_out().data, grad_out_.size(), grad_out_.data());
      if (this->input_.gate) {
        apply_gate<T>(*part->arrays().gate, {grad_out_.data(), count, width});
      }
    }
  }
  if (!this->wants_.grad_gate) return;
  if (!this->input_.has_gate_by_query()) return show_gate({0, 0, 1, of_gate.data()});
  this->show_rows(rows, of_gate.data(), this->input_.gate->cols, show_gate);
}

// Of the own queries, which `part` has unless there are none, or of all that share the gate.
template <class T>
void DividedDelta<T>::find_gate_gradient(const Head<T>* part, MatrixView<const T> out,
                                         Buffer<T>& gradient) {
  const Index channels = this->input_.gate->cols;
  if (this->input_.has_gate_by_query()) {
    gradient = Buffer<T>(out.rows * channels);
    if (part == nullptr) return;
    return differentiate_gate<T>(*part->arrays().gate, out, part->grad_out(),
                                 {gradient.data(), out.rows, channels});
  }
  PooledVector<double> sums(static_cast<std::size_t>(channels), 0.0);
  this->add_up(
      [&](const kernel::RankShare::Visit& visit) {
        visit(std::as_writable_bytes(std::span(sums)));
      },
      [&] {
        if (part == nullptr) return;
        add_gate_gradient<T>(*part->arrays().gate, out, part->grad_out(), sums);
      });
  gradient = Buffer<T>(channels);
  std::transform(sums.begin(), sums.end(), gradient.begin(),
                 [](double sum) { return static_cast<T>(sum); });
}

template <class T>
void DividedDelta<T>::find_delta(const RankSlots& rows, Buffer<T> out) {
  const RowRange own = rows.lines(this->ranks_.own());
  const Index count = own.last - own.first;
  const Index width = this->input_.v_head_dim;
  const Buffer<T> grad_out = std::move(grad_out_);
  OutputRows<T> of_rows{{out.data(), count, width},
                        {grad_out.data(), count, width},
                        own_part(this->found_.attention.potentials.row, own)};
  largest_grad_out_ = largest(kernel::largest_magnitude(of_rows.grad_out));
  Buffer<T> centred_out;
  if (this->input_.sink_of(this->problem_) == no_sink) {
    centred_out = Buffer<T>(count * width);
    if (centre(of_rows, own, centred_out)) of_rows.out = {centred_out.data(), count, width};
  }
  delta_.assign(static_cast<std::size_t>(this->whole_.queries()), 0.0);
  const PooledVector<double> of_own = inner_products(of_rows.grad_out, of_rows.out);
  std::copy(of_own.begin(), of_own.end(), delta_.begin() + own.first);
  if (is_mixture()) find_deltas_of_parts(of_rows.grad_out, own, out);
  this->complete_lines(delta_, rows);
  if (is_mixture()) this->complete_lines(unas_delta_, rows);
}

// Takes delta_ of the mixture. `room` is as large as the own rows of the output.
template <class T>
void DividedDelta<T>::find_deltas_of_parts(MatrixView<const T> grad_out, RowRange queries,
                                           Buffer<T>& room) {
  const Potentials& potentials = this->found_.attention.potentials;
  const double u = this->wants_.hybrid_of(this->problem_);
  const MatrixView<T> out(room.data(), grad_out.rows, grad_out.cols);
  if (HybridDeltas::makes_dnas(u)) {
    make_output({own_part(potentials.row, queries)}, potentials.col, queries, out);
  } else {
    make_output({own_part(potentials.unas_row, queries)}, {}, queries, out);
  }
  const auto first = delta_.begin() + queries.first;
  const HybridDeltas deltas =
      hybrid_deltas(u, inner_products(grad_out, MatrixView<const T>(out)),
                    PooledVector<double>(first, delta_.begin() + queries.last));
  std::copy(deltas.dnas.begin(), deltas.dnas.end(), first);
  unas_delta_.assign(delta_.size(), 0.0);
  std::copy(deltas.unas.begin(), deltas.unas.end(), unas_delta_.begin() + queries.first);
}

// What CentredValues does, with the own rows of the output.
template <class T>
bool DividedDelta<T>::centre(const OutputRows<T>& own, RowRange queries, Buffer<T>& centred_out) {
  OutputCentre centre(this->input_.v_head_dim);
  this->add_up([&](const kernel::RankShare::Visit& visit) { centre.visit(visit); },
               [&] { centre.add(own); });
  centre.complete();
  OutputCentre::Distances all;
  for (const auto& of_rank : kernel::gathered(this->ranks_, centre.distances(own))) {
    all.join(of_rank);
  }
  if (!centre.centres(all, largest_value_in_use_)) return false;
  centred<T>(values(), centre.mean(), v_);
  largest_value_in_use_ = largest(kernel::largest_magnitude(MatrixView<const T>(values())));
  centre_ = std::move(centre);
  if (!centre_->hides(all)) {
    centred(own.out, centre_->mean(), centred_out);
    return true;
  }
  const Potentials& potentials = this->found_.attention.potentials;
  QueryPotentials of_queries{own_part(potentials.row, queries)};
  if (is_mixture()) {
    of_queries.unas_f = own_part(potentials.unas_row, queries);
    of_queries.hybrid = this->wants_.hybrid_of(this->problem_);
  }
  make_output(of_queries, potentials.col, queries,
              {centred_out.data(), own.out.rows, own.out.cols});
  return true;
}

// The own rows of the output under these potentials, of centred values. An empty g means zeros.
template <class T>
void DividedDelta<T>::make_output(const QueryPotentials& potentials, std::span<const double> g,
                                  RowRange queries, MatrixView<T> out) {
  set_to_zero(out);
  WeightBlocks<T> blocks(potentials, out, largest_value_in_use_);
  Index count = 0;
  for (Index key = 0; key < this->whole_.keys(); key += count) {
    count = std::min(this->plan_.gradient_block, this->whole_.keys() - key);
    this->with_part({queries.first, out.rows, key, count}, [&](const Head<T>& part) {
      const auto used =
          std::span(this->found_.attention.allowed.queries_of_key)
              .subspan(static_cast<std::size_t>(key), static_cast<std::size_t>(count));
      Buffer<T> in_use;
      Buffer<T> from_centre(centre_ ? count * out.cols : 0);
      MatrixView<const T> v = values_in_use<T>(part.v(), used, in_use);
      if (centre_) v = centred(v, centre_->mean(), from_centre);
      blocks.add(part.scores(this->wants_.scheme), v,
                 g.empty() ? g : own_part(g, {key, key + count}), this->plan_.threads);
    });
  }
  blocks.finish();
}

template class DividedDelta<float>;
template class DividedDelta<double>;

}  // namespace attn::tools
