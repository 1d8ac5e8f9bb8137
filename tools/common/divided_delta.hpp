#pragma once

#include "common/divided_potential.hpp"
#include "gradient/output_centre.hpp"
#include "pass/weight_blocks.hpp"

namespace attn::tools {

/// A head with gradients, which begin with δ_i = <dO_i, out_i> of the output of centred values, for
/// hnas of both parts. Each rank has neighbouring keys and their values, and other neighbouring
/// queries and their output.
template <class T>
class DividedDelta : public DividedPotential<T> {
 public:
  using DividedPotential<T>::DividedPotential;

 protected:
  /// Reads the values of the own keys, as far as they are in use.
  void read_values(RowRange keys);

  /// Reads the gradient of the output before the gate. Each rank has its `rows` of the output.
  /// Shows the gradient of the gate, if it is wanted.
  void read_grad_out(const RankSlots& rows, const Buffer<T>& out, const ShowRows<T>& show_gate);

  /// After that: finds δ of all queries, and centres the values if CentredValues would. The
  /// potentials are known.
  void find_delta(const RankSlots& rows, Buffer<T> out);

  MatrixView<T> values() const;

  bool is_mixture() const { return this->wants_.scheme == Scheme::hnas; }

  static std::span<const double> own_part(std::span<const double> all, RowRange lines) {
    return all.subspan(static_cast<std::size_t>(lines.first),
                       static_cast<std::size_t>(lines.last - lines.first));
  }

  PooledVector<double> delta_, unas_delta_;  ///< of all queries
  T largest_value_in_use_ = 0;
  T largest_grad_out_ = 0;
  bool near_zero_ = false;

 private:
  T largest(T own) const;
  void find_gate_gradient(const Head<T>* part, MatrixView<const T> out, Buffer<T>& gradient);
  bool centre(const OutputRows<T>& own, RowRange queries, Buffer<T>& centred_out);
  void find_deltas_of_parts(MatrixView<const T> grad_out, RowRange queries, Buffer<T>& room);
  void make_output(const QueryPotentials& potentials, std::span<const double> g, RowRange queries,
                   MatrixView<T> out);

  Buffer<T> grad_out_;  // of the own queries, before the gate
  RowRange keys_;
  Buffer<T> v_;                         // of keys_
  std::optional<OutputCentre> centre_;  // if values are measured from it
};

}  // namespace attn::tools
