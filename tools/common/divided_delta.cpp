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
MatrixView<const T> DividedDelta<T>::own_out() const {
  return {out_.data(), own_rows().last - own_rows().first, this->input_.v_head_dim};
}

template <class T>
std::span<double> DividedDelta<T>::own_deltas() {
  return std::span(delta_).subspan(static_cast<std::size_t>(own_rows().first),
                                   static_cast<std::size_t>(own_out().rows));
}

// Calls use(part), which has the own queries; null without any. Only grad_out and the gate are
// wanted, but they are read with a head, which has some keys.
template <class T>
template <class Use>
void DividedDelta<T>::with_grad_out(const Use& use) {
  const Index keys = std::min(this->plan_.gradient_block, this->whole_.keys());
  use(this->read_part({own_rows().first, own_out().rows, 0, keys}).get());
}

template <class T>
Buffer<T> DividedDelta<T>::grad_out_before_gate() {
  const MatrixView<const T> out = own_out();
  Buffer<T> grad_out(out.rows * out.cols);
  with_grad_out([&](const Head<T>* part) {
    if (part == nullptr) return;
    std::copy_n(part->grad_out().data, grad_out.size(), grad_out.data());
    if (!this->input_.gate) return;
    apply_gate<T>(*part->arrays().gate, {grad_out.data(), out.rows, out.cols});
  });
  return grad_out;
}

template <class T>
void DividedDelta<T>::show_gate_gradient(const ShowRows<T>& show) {
  if (!this->wants_.grad_gate) return;
  Buffer<T> gradient;
  with_grad_out([&](const Head<T>* part) { find_gate_gradient(part, gradient); });
  if (!this->input_.has_gate_by_query()) return show({0, 0, 1, gradient.data()});
  this->show_rows(rows_, gradient.data(), this->input_.gate->cols, show);
}

// Of the own queries, which `part` has unless there are none, or of all that share the gate.
template <class T>
void DividedDelta<T>::find_gate_gradient(const Head<T>* part, Buffer<T>& gradient) {
  const Index channels = this->input_.gate->cols;
  const MatrixView<const T> out = own_out();
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
void DividedDelta<T>::describe_forward(DividedState& state) {
  Potentials& potentials = this->found_.attention.potentials;
  if (!is_softmax(this->wants_.scheme)) this->describe_columns(state, false);
  state.add_whole(potentials.row);
  state.add_whole(potentials.unas_row);
  state.add_whole(this->found_.col_sum);
  state.add_whole(this->found_.row_entropy);
  state.add_lines(rows_, LineNumbers::of(out_, this->input_.v_head_dim));
}

template <class T>
void DividedDelta<T>::resume_forward() {
  if (this->wants_.row_entropy) {
    this->found_.row_entropy.assign(static_cast<std::size_t>(this->whole_.queries()), 0.0);
  }
  DividedState state;
  describe_forward(state);
  this->load(state);
}

template <class T>
void DividedDelta<T>::describe_deltas(DividedState& state) {
  state.add_whole(delta_);
  state.add_whole(unas_delta_);
}

template <class T>
void DividedDelta<T>::find_delta() {
  const Buffer<T> grad_out = grad_out_before_gate();
  const MatrixView<const T> out = own_out();
  OutputRows<T> of_rows{out,
                        {grad_out.data(), out.rows, out.cols},
                        own_part(this->found_.attention.potentials.row, own_rows())};
  largest_grad_out_ = largest(kernel::largest_magnitude(of_rows.grad_out));
  Buffer<T> centred_out;
  if (this->input_.sink_of(this->problem_) == no_sink) {
    centred_out = Buffer<T>(grad_out.size());
    if (centre(of_rows, centred_out)) of_rows.out = {centred_out.data(), out.rows, out.cols};
  }
  delta_.assign(static_cast<std::size_t>(this->whole_.queries()), 0.0);
  if (is_mixture()) unas_delta_ = delta_;
  // Those of a later round's state follow when that round goes on.
  if (is_done(GradientRound::part)) return;
  const PooledVector<double> of_own = inner_products(of_rows.grad_out, of_rows.out);
  std::copy(of_own.begin(), of_own.end(), own_deltas().begin());
  if (is_mixture()) find_deltas_of_parts(of_rows.grad_out);
  this->complete_lines(delta_, rows_);
  if (is_mixture()) this->complete_lines(unas_delta_, rows_);
}

// Takes delta_ of the mixture.
template <class T>
void DividedDelta<T>::find_deltas_of_parts(MatrixView<const T> grad_out) {
  const Potentials& potentials = this->found_.attention.potentials;
  const double u = this->wants_.hybrid_of(this->problem_);
  // Unless it is shown later, the output is no longer needed.
  const Buffer<T> room(this->wants_.stops ? out_.size() : 0);
  const MatrixView<T> out(this->wants_.stops ? room.data() : out_.data(), grad_out.rows,
                          grad_out.cols);
  const std::span<double> own = own_deltas();
  const auto describe = [&](DividedState& state) { state.add_lines(rows_, LineNumbers::of(own)); };
  const bool dnas = HybridDeltas::makes_dnas(u);
  const RowRange rows = own_rows();
  make_output(GradientRound::part, {own_part(dnas ? potentials.row : potentials.unas_row, rows)},
              dnas ? potentials.col : std::span<const double>(), out, describe);
  const HybridDeltas deltas = hybrid_deltas(u, inner_products(grad_out, MatrixView<const T>(out)),
                                            PooledVector<double>(own.begin(), own.end()));
  std::copy(deltas.dnas.begin(), deltas.dnas.end(), own.begin());
  std::copy(deltas.unas.begin(), deltas.unas.end(), unas_delta_.begin() + rows.first);
}

// What CentredValues does, with the own rows of the output.
template <class T>
bool DividedDelta<T>::centre(const OutputRows<T>& own, Buffer<T>& centred_out) {
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
  if (is_done(GradientRound::output)) return false;
  if (!centre_->hides(all)) {
    centred(own.out, centre_->mean(), centred_out);
    return true;
  }
  const Potentials& potentials = this->found_.attention.potentials;
  QueryPotentials of_queries{own_part(potentials.row, own_rows())};
  if (is_mixture()) {
    of_queries.unas_f = own_part(potentials.unas_row, own_rows());
    of_queries.hybrid = this->wants_.hybrid_of(this->problem_);
  }
  make_output(GradientRound::output, of_queries, potentials.col,
              {centred_out.data(), own.out.rows, own.out.cols}, [](DividedState&) {});
  return true;
}

// The own rows of the output under these potentials, of centred values. An empty g means zeros.
// States hold these rows and, before them, what describe(state) adds.
template <class T>
template <class Describe>
void DividedDelta<T>::make_output(GradientRound round, const QueryPotentials& potentials,
                                  std::span<const double> g, MatrixView<T> out,
                                  const Describe& describe) {
  const std::span<T> numbers(out.data, static_cast<std::size_t>(out.rows * out.cols));
  const auto with_rows = [&](DividedState& state) {
    describe(state);
    state.add_lines(rows_, LineNumbers::of(numbers, out.cols));
  };
  std::fill(numbers.begin(), numbers.end(), T{0});
  const Index begin = this->resume_round(round, with_rows);
  WeightBlocks<T> blocks(potentials, out, largest_value_in_use_, begin == 0);
  const Index step = this->block_beside(rows_, this->plan_.gradient_block, divided_block_step);
  for (const TileRange& pairs : this->blocks_of_keys(own_rows(), step, begin)) {
    this->with_part(pairs, [&](const Head<T>& part) {
      const RowRange keys{pairs.col0, pairs.col0 + pairs.cols};
      const auto used =
          std::span(this->found_.attention.allowed.queries_of_key)
              .subspan(static_cast<std::size_t>(keys.first), static_cast<std::size_t>(pairs.cols));
      Buffer<T> in_use;
      Buffer<T> from_centre(centre_ ? pairs.cols * out.cols : 0);
      MatrixView<const T> v = values_in_use<T>(part.v(), used, in_use);
      if (centre_) v = centred(v, centre_->mean(), from_centre);
      blocks.add(part.scores(this->wants_.scheme), v, g.empty() ? g : own_part(g, keys),
                 this->plan_.threads);
    });
    this->after_gradient_block(round, pairs.col0 + pairs.cols, with_rows);
  }
  blocks.finish();
}

template class DividedDelta<float>;
template class DividedDelta<double>;

}  // namespace attn::tools
