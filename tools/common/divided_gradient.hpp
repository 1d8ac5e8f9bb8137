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
  /// Each rank has its `rows` of the output. The potentials are known.
  void differentiate(const RankSlots& rows, Buffer<T> out, const ShownRows<T>& show);

  /// Shows the output, of which each rank has its `rows`, after the gate. Without gradients, which
  /// start from it, it is changed.
  void show_output(const RankSlots& rows, const Buffer<T>& out, const ShowRows<T>& show);

 private:
  using Block = typename GradientBlocks<T>::Block;

  void show_zeros(const ShownRows<T>& show) const;
  void show_sink(const ShowRows<T>& show) const;
  void use_keys();
  Block block(const Head<T>& part, const TileRange& pairs);
  std::unique_ptr<GradientSink<T>> sink(const Head<T>& part, T* grad_q, T* grad_k) const;
  void add_block(const TileRange& pairs, const ShowRows<T>& show);

  RankSlots slots_of_keys_;
  std::optional<GradientBlocks<T>> gradients_;
  Buffer<T> grad_k_, grad_v_;    // of gradients_->keys()
  Buffer<T> grad_out_of_block_;  // before the gate, if there is one
  std::unique_ptr<GradientSink<T>> by_key_;
};

}  // namespace attn::tools
