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
  bool begin();
  typename KeyBlocks<T>::Options options(bool near_zero);
  void complete_rows();
  void show_weights();
  void finish();
  void show_output(const ShowRows<T>& show);

  std::unique_ptr<KeyBlocks<T>> blocks_;
  Buffer<T> out_;  // of the own queries
};

}  // namespace attn::tools
