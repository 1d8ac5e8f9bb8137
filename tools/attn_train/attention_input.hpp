#pragma once

#include <vector>

#include "io/output.hpp"
#include "train/attention_layer.hpp"

namespace attn::tools {

/// The inputs of an attention's projections, for all sequences of a batch: the datasets x and, for
/// cross-attention, y (sequences, positions, width), padded with 0 to the longest, and query_length
/// and key_length (sequences) where these differ.
template <class T>
class AttentionInput {
 public:
  /// Adds the sequences of a slot.
  void add(const train::AttentionSite<T>& site);

  void write(io::OutputBundle& group) const;

 private:
  struct Side {
    std::vector<std::vector<T>> sequences;
    Index width = 0;

    void add(const train::Sequences& sequences, MatrixView<const T> rows);
    void write(const char* name, io::OutputBundle& group) const;
    void write_lengths(const char* name, io::OutputBundle& group) const;
  };

  Side queries_;
  Side keys_;
  bool crosses_ = false;
};

}  // namespace attn::tools
