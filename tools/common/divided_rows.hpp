#pragma once

#include "common/divided_gradient.hpp"
#include "pass/key_blocks.hpp"

namespace attn::tools {

/// A head with the queries of the own slots and blocks of keys: under a softmax, and under dnas
/// and hnas where g is known and weights must be seen.
template <class T>
class DividedRows : public DividedGradient<T> {
 public:
  using DividedGradient<T>::DividedGradient;

  DividedHead run(const ShownRows<T>& show);

 private:
  bool find_g();
  typename KeyBlocks<T>::Options options(bool near_zero);
  void describe(int round, DividedState& state);
  void resume(const DividedPlace& begin);
  void after_block(int round, const TileRange& pairs);
  void complete_rows(const std::optional<DividedPlace>& begin);
  void show_weights(const std::optional<DividedPlace>& begin);
  void add_column_sums(const TileRange& pairs, const Buffer<double>& of_slots);
  void forward();
  void finish();

  std::unique_ptr<KeyBlocks<T>> blocks_;
};

}  // namespace attn::tools
