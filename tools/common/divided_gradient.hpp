#pragma once

#include <memory>

#include "common/divided_potential.hpp"
#include "gradient/gradient_blocks.hpp"
#include "gradient/output_centre.hpp"

namespace attn::tools {

/// A head with gradients: after the forward run each rank has the keys of neighbouring slots and
/// their values, and all read the queries by blocks.
template <class T>
class DividedGradient : public DividedPotential<T> {
 public:
  using DividedPotential<T>::DividedPotential;

 protected:
  /// Each rank has its `rows` of the output. The potentials are known.
  void differentiate(const RankSlots& rows, Buffer<T> out, const ShownRows<T>& show);

 private:
  using Block = typename GradientBlocks<T>::Block;

  void show_zeros(const ShownRows<T>& show) const;
  void read_values();
  void use_keys();
  MatrixView<T> values() const;
  void find_delta(const RankSlots& rows, const Buffer<T>& out);
  bool centre(const OutputRows<T>& own, Index first, Buffer<T>& centred_out);
  void compute_again(const OutputCentre& centre, Index first, MatrixView<T> out);
  T largest(T own) const;
  Block block(const Head<T>& part, const TileRange& pairs) const;
  std::unique_ptr<GradientSink<T>> sink(const Head<T>& part, T* grad_q, T* grad_k) const;
  void add_block(const TileRange& pairs, const ShowRows<T>& show);
  std::span<const double> own_part(std::span<const double> all, RowRange lines) const;

  RankSlots slots_of_keys_;
  std::optional<GradientBlocks<T>> gradients_;
  Buffer<T> v_, grad_k_, grad_v_;  // of gradients_->keys()
  PooledVector<double> delta_;     // of all queries
  T largest_value_in_use_ = 0;
  T largest_grad_out_ = 0;
  bool near_zero_ = false;
  std::unique_ptr<GradientSink<T>> by_key_;
};

}  // namespace attn::tools
