#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gradient/gradient_sink.hpp"
#include "score/energy.hpp"

namespace attn {

/// The sizes of the operands from which the energy of a single head is computed.
struct EnergySizes {
  Index queries = 0;
  Index keys = 0;
  Index q_depth = 0;  ///< length of a query
  Index k_depth = 0;  ///< length of a key
  Index hidden = 0;   ///< A, a length that only the energy's own operands have; 0: unknown as yet
};

/// The length of an axis of an operand.
enum class OperandLength {
  one,          ///< no axis: the operand is a vector
  query_depth,  ///< d_q
  key_depth,    ///< d_k
  both_depths,  ///< d_q + d_k
  hidden,       ///< A, free; all operands that have it agree
};

/// An operand of an energy besides q and k; it broadcasts over heads.
struct EnergyOperand {
  std::string name;  ///< name of the dataset, as "w"; its gradient is "grad_w"
  OperandLength rows = OperandLength::one;
  OperandLength cols = OperandLength::one;
  bool required = true;
  std::string help = {};  ///< the text after "with --energy NAME: " in the help

  bool is_vector() const { return rows == OperandLength::one; }
};

/// The arguments of an energy. `operands` has one matrix for each of EnergyDescription::operands: a
/// vector is one row, and an absent optional operand has no data.
template <class T>
struct EnergyArguments {
  MatrixView<const T> q;  ///< (Lq, d_q)
  MatrixView<const T> k;  ///< (Lk, d_k)
  std::span<const MatrixView<const T>> operands;
  double scale = 1;
  int threads = 1;  ///< for products before the first tile and after the last one
};

/// Where the gradients of an energy's arguments go, contiguous. A gradient whose view has no data
/// is not computed; without `operands`, no gradient of an operand is.
template <class T>
struct EnergyGradients {
  MatrixView<T> q;
  MatrixView<T> k;
  std::span<const MatrixView<T>> operands;

  MatrixView<T> operand(std::size_t n) const {
    return operands.empty() ? MatrixView<T>() : operands[n];
  }

  /// Whether any gradient is requested.
  bool any() const {
    bool wanted = q.data != nullptr || k.data != nullptr;
    for (const MatrixView<T>& operand : operands) wanted = wanted || operand.data != nullptr;
    return wanted;
  }
};

/// Floating-point operations: `before` once, before the first tile, and `per_pair` for every pair
/// in every pass.
struct EnergyFlops {
  double before = 0;
  double per_pair = 0;
};

/// The description of an energy of queries and keys, s_ij = energy(q_i, k_j) before mask, bias and
/// soft cap: its name, its operands, how it is computed and differentiated, and its cost. Each
/// energy is one object in a file of its own; `energies` lists them all.
class EnergyDescription {
 public:
  virtual ~EnergyDescription() = default;

  /// The name on the command line, as "scaled-dot".
  virtual std::string_view name() const = 0;

  /// The formula that follows the name in the help, without scale, as "<q,k>".
  virtual std::string_view formula() const = 0;

  /// The operands besides q and k, in a fixed order.
  virtual const std::vector<EnergyOperand>& operands() const = 0;

  /// Whether d_q = d_k is required.
  virtual bool needs_equal_depths() const = 0;

  /// The scale at which the energy is minus a cost of points, as 2 for −|q−k|²/2, whose cost is the
  /// squared distance. Such a cost is symmetric and 0 for equal points. 0: the energy is no cost.
  virtual double cost_scale() const { return 0; }

  /// Requires arguments whose shapes agree. The viewed arrays must outlive the energy. Queries and
  /// keys without a defined energy are in Energy::undefined.
  virtual std::unique_ptr<Energy<float>> make(const EnergyArguments<float>& arguments) const = 0;
  virtual std::unique_ptr<Energy<double>> make(const EnergyArguments<double>& arguments) const = 0;

  /// The adjoint of `make`: takes tiles of dE, the gradient with respect to the scaled energies.
  /// Requires `gradients.any()`.
  virtual std::unique_ptr<GradientSink<float>> differentiate(
      const EnergyArguments<float>& arguments, const EnergyGradients<float>& gradients) const = 0;
  virtual std::unique_ptr<GradientSink<double>> differentiate(
      const EnergyArguments<double>& arguments, const EnergyGradients<double>& gradients) const = 0;

  /// Bytes that `make` allocates, for float32 (element_size 4) or float64 (8).
  virtual std::int64_t bytes(const EnergySizes& sizes, std::size_t element_size) const = 0;

  /// Bytes that `differentiate` allocates if all gradients are requested, for tiles on `lanes`
  /// lanes.
  virtual std::int64_t gradient_bytes(const EnergySizes& sizes, std::size_t element_size,
                                      Index lanes) const = 0;

  /// A tanh counts as one operation.
  virtual EnergyFlops flops(const EnergySizes& sizes) const = 0;
};

/// The length of an axis; 0 if it is `hidden` and still unknown.
Index length_of(OperandLength length, const EnergySizes& sizes);

/// All energies, in the order in which the help lists them.
const std::vector<const EnergyDescription*>& energies();

/// The energy called `name`. If there is none, throws Error(usage) that lists all energies.
const EnergyDescription& energy_called(std::string_view name);

}  // namespace attn
