#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/head_reader.hpp"
#include "io/input.hpp"
#include "scheme/scheme.hpp"

namespace attn::tools {

/// What a bundle holds of weights: themselves (dataset weights), else the potentials to make them
/// again from, three of them (unas_row_potential) for hnas.
class StoredAttention {
 public:
  /// `scheme` is the recorded one, `hybrid` its u per head (hnas only). Throws Error(input) where
  /// the datasets are missing or have other shapes than `input`'s problems, which must outlive
  /// this.
  StoredAttention(const io::InputBundle& bundle, const AttentionInput& input,
                  std::optional<Scheme> scheme, std::vector<double> hybrid,
                  std::int64_t dense_limit);

  /// Shows the weights of one head. Thread-safe. Throws Error(input) naming a weight that is no
  /// number >= 0.
  template <class T>
  void show(const Head<T>& head, const std::vector<Observer<T>*>& observers, int threads) const;

  /// Beside weights that attn-compute has made, what its col_potential says of each key: non-zero
  /// where no query may attend to it. Empty where there is none.
  std::vector<std::uint8_t> closed_keys(Index problem) const;

  /// Whether these are the weights themselves.
  bool holds_weights() const { return weights_.has_value(); }

  /// Whether rows may have any sum: sinkhorn-iter was given what they are to add up to.
  bool has_marginals() const { return has_marginals_; }

  /// "a.h5:/weights, head [0, 3]".
  std::string place(Index problem) const;

  /// Bytes that show takes per thread; see matrix_source.
  static std::int64_t bytes(const io::InputBundle& bundle, const AttentionInput& input,
                            std::size_t element_size, std::int64_t dense_limit);

 private:
  std::vector<double> vector(const Operand& operand, Index problem) const;

  const AttentionInput& input_;
  Scheme scheme_;
  std::vector<double> hybrid_;
  std::int64_t dense_limit_;
  bool has_marginals_;
  std::optional<Operand> weights_, row_, col_, unas_row_;
};

}  // namespace attn::tools
