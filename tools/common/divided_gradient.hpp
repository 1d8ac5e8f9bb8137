#pragma once

#include <memory>

#include "common/divided_delta.hpp"
#include "gradient/gradient_blocks.hpp"

namespace attn::tools {

/// A head with gradients: after the forward run each rank has the keys of neighbouring slots and
/// their values, and all read the queries by blocks.
template <class T>
class DividedGradient : public DividedDelta<T> {
 public:
  using DividedDelta<T>::DividedDelta;

 protected:
  /// After the forward run: shows the output of which each rank has rows_, and finds and shows the
  /// gradients. With a checkpoint all is shown at the end, in the order of ShownRows.
  void complete(const ShownRows<T>& show);

 private:
  using Block = typename GradientBlocks<T>::Block;

  void show_output(const ShowRows<T>& show);
  void find_gradients(const ShowRows<T>& show_grad_q);
  void show_found(const ShownRows<T>& show);
  void show_zeros(const ShownRows<T>& show) const;
  void show_sink(const ShowRows<T>& show) const;
  void use_keys();
  void complete_sums();
  void add_lines(const ShowRows<T>& show_grad_q);
  void describe_sums(DividedState& state);
  void describe_lines(DividedState& state);
  std::vector<TileRange> blocks(Index first) const;
  T* from_own_key(Buffer<T>& of, Index columns) const;
  Block block(const Head<T>& part, const TileRange& pairs);
  std::unique_ptr<GradientSink<T>> sink(const Head<T>& part, T* grad_q, T* grad_k) const;
  void add_block(const TileRange& pairs, const ShowRows<T>& show_grad_q);

  RankSlots slots_of_keys_;
  std::optional<GradientBlocks<T>> gradients_;
  Buffer<T> grad_k_, grad_v_;    // of gradients_->keys()
  Buffer<T> grad_q_;             // of rows_, if it is kept until the end
  Buffer<T> grad_out_of_block_;  // before the gate, if there is one
  std::unique_ptr<GradientSink<T>> by_key_;
};

}  // namespace attn::tools
