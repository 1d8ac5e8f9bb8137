#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/heads/attention_input.hpp"
#include "head/head_reader.hpp"
#include "io/input.hpp"
#include "scheme/scheme.hpp"

namespace attn::tools {

/// The weights that a bundle holds: the dataset weights, else the potentials from which they are
/// computed again, three of them (unas_row_potential) for hnas.
class StoredAttention {
 public:
  /// `scheme` is the recorded one, `hybrid` its u per head (hnas only). Throws Error(input) if the
  /// datasets are missing or their shapes do not match the problems of `input`, which must outlive
  /// the object.
  StoredAttention(const io::InputBundle& bundle, const AttentionInput& input,
                  std::optional<Scheme> scheme, std::vector<double> hybrid,
                  std::int64_t dense_limit);

  /// Shows the weights of one head. Thread-safe. Throws Error(input) naming a weight that is not a
  /// number >= 0.
  template <class T>
  void show(const Head<T>& head, const std::vector<Observer<T>*>& observers, int threads) const;

  /// The sink's weight in the attention of each own query, for a problem with a sink: by the
  /// potentials, or 1 less the given sums of the stored weights; 0 for rows of zeros, whose queries
  /// have no allowed keys.
  PooledVector<double> on_sink(Index problem, std::span<const double> row_sums) const;

  /// For weights that attn-compute made: per key, according to col_potential, non-zero if no query
  /// may attend to it. Empty if there is no col_potential.
  std::vector<std::uint8_t> closed_keys(Index problem) const;

  /// Whether the bundle holds the weights themselves.
  bool holds_weights() const { return weights_.has_value(); }

  /// Whether rows may have any sum, because sinkhorn-iter was given marginals.
  bool has_marginals() const { return has_marginals_; }

  /// "a.h5:/weights, head [0, 3]".
  std::string place(Index problem) const;

  /// Bytes that show needs for a head; see matrix_source.
  static std::int64_t bytes(const io::InputBundle& bundle, const AttentionInput& input,
                            std::size_t element_size, std::int64_t dense_limit);

 private:
  std::vector<double> vector(const Operand& operand, Index problem, Index first, Index count) const;
  Potentials potentials(Index problem) const;
  double hybrid(Index problem) const;

  const AttentionInput& input_;
  Scheme scheme_;
  std::vector<double> hybrid_;
  std::int64_t dense_limit_;
  bool has_marginals_;
  std::optional<Operand> weights_, row_, col_, unas_row_;
};

}  // namespace attn::tools
