#include "common/divided_gradient.hpp"

#include "gradient/adjoints.hpp"
#include "gradient/folded_rows.hpp"
#include "pass/weight_blocks.hpp"
#include "score/centred_pair.hpp"

namespace attn::tools {

template <class T>
void DividedGradient<T>::differentiate(const RankSlots& rows, Buffer<T> out,
                                       const ShownRows<T>& show) {
  const OwnPart& whole = this->whole_;
  const DividedWants& wants = this->wants_;
  if (whole.queries() == 0 || whole.keys() == 0) return show_zeros(show);
  const bool scores = wants.gradients_of_scores();
  const int own = this->ranks_.own();
  slots_of_keys_ = this->slots_for(
      GradientBlocks<T>::partition(wants.scheme, scores, whole.queries(), whole.keys()));
  gradients_.emplace(
      typename GradientBlocks<T>::Options{slots_of_keys_.partition, slots_of_keys_.first(own),
                                          slots_of_keys_.last(own), wants.scheme, scores});
  read_values();
  find_delta(rows, out);
  out = Buffer<T>();
  use_keys();
  const RowRange keys = gradients_->keys();
  const std::vector<TileRange> blocks = this->blocks_of_queries(keys, this->plan_.gradient_block);
  for (const TileRange& pairs : blocks) {
    if (!gradients_->needs_columns()) break;
    this->with_part(pairs, [&](const Head<T>& part) {
      gradients_->add_columns(block(part, pairs), this->plan_.threads);
    });
  }
  for (const TileRange& pairs : blocks) add_block(pairs, show.grad_q);
  if (by_key_) by_key_->finish();
  const Index before = gradients_->own_keys().first - keys.first;
  const auto gather = [&](Buffer<T>& of, Index columns, const ShowRows<T>& to) {
    this->gather_rows(slots_of_keys_, of.data() + before * columns, columns, to);
  };
  if (wants.grad_k) gather(grad_k_, this->input_.depth, show.grad_k);
  if (wants.grad_v) gather(grad_v_, this->input_.v_head_dim, show.grad_v);
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
  of_keys.v = values();
  if (!is_softmax(wants.scheme)) of_keys.g = own_part(this->found_.attention.potentials.col, keys);
  of_keys.folds = folds_rows(options, near_zero_, static_cast<double>(largest_grad_out_),
                             static_cast<double>(largest_value_in_use_));
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
  if (this->ranks_.own() > 0) return;
  const auto zeros = [&](Index rows, Index width, const ShowRows<T>& to) {
    const std::vector<T> row(static_cast<std::size_t>(width), T{0});
    for (Index i = 0; i < rows; ++i) to(i, 1, row.data());
  };
  const DividedWants& wants = this->wants_;
  if (wants.grad_q) zeros(this->whole_.queries(), this->input_.depth, show.grad_q);
  if (wants.grad_k) zeros(this->whole_.keys(), this->input_.depth, show.grad_k);
  if (wants.grad_v) zeros(this->whole_.keys(), this->input_.v_head_dim, show.grad_v);
}

template <class T>
std::span<const double> DividedGradient<T>::own_part(std::span<const double> all,
                                                     RowRange lines) const {
  return all.subspan(static_cast<std::size_t>(lines.first),
                     static_cast<std::size_t>(lines.last - lines.first));
}

template <class T>
T DividedGradient<T>::largest(T own) const {
  const std::vector<T> all = kernel::gathered(this->ranks_, own);
  return *std::max_element(all.begin(), all.end());
}

template <class T>
MatrixView<T> DividedGradient<T>::values() const {
  const RowRange keys = gradients_->keys();
  return {v_.data(), keys.last - keys.first, this->input_.v_head_dim};
}

template <class T>
void DividedGradient<T>::read_values() {
  const RowRange keys = gradients_->keys();
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

// δ_i = <dO_i, out_i> of centred outputs.
template <class T>
void DividedGradient<T>::find_delta(const RankSlots& rows, const Buffer<T>& out) {
  const RowRange own = rows.lines(this->ranks_.own());
  const Index count = own.last - own.first;
  const Index width = this->input_.v_head_dim;
  Buffer<T> grad_out(count * width);
  const Index keys = std::min(this->plan_.gradient_block, this->whole_.keys());
  // Only grad_out is wanted, but it is read with a head, which has some keys.
  this->with_part({own.first, count, 0, keys}, [&](const Head<T>& part) {
    std::copy_n(part.grad_out().data, grad_out.size(), grad_out.data());
  });
  OutputRows<T> of_rows{{out.data(), count, width},
                        {grad_out.data(), count, width},
                        own_part(this->found_.attention.potentials.row, own)};
  largest_grad_out_ = largest(kernel::largest_magnitude(of_rows.grad_out));
  Buffer<T> centred_out;
  if (this->input_.sink_of(this->problem_) == no_sink) {
    centred_out = Buffer<T>(count * width);
    if (centre(of_rows, own.first, centred_out)) {
      of_rows.out = {centred_out.data(), count, width};
    }
  }
  delta_.assign(static_cast<std::size_t>(this->whole_.queries()), 0.0);
  const PooledVector<double> of_own = inner_products(of_rows.grad_out, of_rows.out);
  std::copy(of_own.begin(), of_own.end(), delta_.begin() + own.first);
  this->complete_lines(delta_, rows);
}

// What CentredValues does, with the own rows of the output, from `first` on.
template <class T>
bool DividedGradient<T>::centre(const OutputRows<T>& own, Index first, Buffer<T>& centred_out) {
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
  if (centre.hides(all)) {
    compute_again(centre, first, {centred_out.data(), own.out.rows, own.out.cols});
  } else {
    centred(own.out, centre.mean(), centred_out);
  }
  return true;
}

// The own rows of the output, of centred values.
template <class T>
void DividedGradient<T>::compute_again(const OutputCentre& centre, Index first, MatrixView<T> out) {
  const Potentials& potentials = this->found_.attention.potentials;
  set_to_zero(out);
  WeightBlocks<T> blocks(own_part(potentials.row, {first, first + out.rows}), out,
                         largest_value_in_use_);
  Index count = 0;
  for (Index key = 0; key < this->whole_.keys(); key += count) {
    count = std::min(this->plan_.gradient_block, this->whole_.keys() - key);
    this->with_part({first, out.rows, key, count}, [&](const Head<T>& part) {
      const auto used =
          std::span(this->found_.attention.allowed.queries_of_key)
              .subspan(static_cast<std::size_t>(key), static_cast<std::size_t>(count));
      Buffer<T> in_use;
      Buffer<T> v(count * out.cols);
      blocks.add(part.scores(this->wants_.scheme),
                 centred(values_in_use<T>(part.v(), used, in_use), centre.mean(), v),
                 own_part(potentials.col, {key, key + count}), this->plan_.threads);
    });
  }
  blocks.finish();
}

template <class T>
typename DividedGradient<T>::Block DividedGradient<T>::block(const Head<T>& part,
                                                             const TileRange& pairs) const {
  const RowRange queries{pairs.row0, pairs.row0 + pairs.rows};
  return {&part.scores(this->wants_.scheme), part.grad_out(),
          own_part(this->found_.attention.potentials.row, queries), own_part(delta_, queries)};
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

// dQ of a block is a sum over the slots of all ranks.
template <class T>
void DividedGradient<T>::add_block(const TileRange& pairs, const ShowRows<T>& show) {
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
        for (Index slot = 0; by_query && slot < gradients_->slots(); ++slot) by_query->merge(slot, {});
      });
  if (this->ranks_.own() > 0) return;
  by_query->finish();
  show(pairs.row0, pairs.rows, sums.data());
}

template class DividedGradient<float>;
template class DividedGradient<double>;

}  // namespace attn::tools
