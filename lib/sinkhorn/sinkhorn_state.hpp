#pragma once

#include <limits>
#include <vector>

#include "tensor/error_fall.hpp"
#include "tensor/pooled_vector.hpp"

/// The state of Sinkhorn's iterations, which a long solution keeps so that another process can
/// resume it, to the same bits.
namespace attn {

/// An iteration that is about to begin.
struct IterationState {
  bool refers_to_zero = false;  ///< whether the kernel's reference is zero
  /// The kernel's reference potentials, unless they are zero; empty: there is no reference.
  PooledVector<double> row_reference, col_reference;
  /// While iterations are products: the factors of rows and columns relative to the reference. Else
  /// empty.
  PooledVector<double> row_factor, col_factor;
  PooledVector<double> row, col;  ///< the potentials, unless there are factors
  double relaxation = 1;
  bool have_row = false;  ///< whether the potentials or factors of the rows are known

  bool in_products() const { return !col_factor.empty(); }
};

/// The relaxation of each iteration: ω while errors fall.
struct RelaxationState {
  double wanted = 1;  ///< ω, or 1 once over-relaxation has ended
  double least = std::numeric_limits<double>::infinity();  ///< the smallest error so far
  Index since = 0;                                         ///< iterations since the smallest error
};

/// A solution in progress.
struct SinkhornState {
  double temperature = 1;  ///< of annealing; 1 after or without it
  int closer = 0;          ///< how often the plan was iterated further
  double aim = 0;          ///< the error to reach, if there is a tolerance
  Index most = 0;          ///< iterations at which the present run of iterations ends
  Index iterations = 0;
  double last_error = std::numeric_limits<double>::infinity();
  ErrorFall fall;  ///< of the present run
  RelaxationState relaxation;
  std::vector<double> errors;
  IterationState iteration;
};

/// Keeps the states of a long solution.
class SinkhornProgress {
 public:
  virtual ~SinkhornProgress() = default;

  /// The state from which to resume; null: from the beginning.
  virtual const SinkhornState* start() const = 0;

  /// Called before each iteration. Returns whether a state should be kept now.
  virtual bool is_due() = 0;

  /// Called if a state is due, and before Stopped leaves the solver.
  virtual void keep(SinkhornState& state) = 0;
};

}  // namespace attn
