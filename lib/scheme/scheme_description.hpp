#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "gradient/adjoints.hpp"
#include "pass/attention.hpp"
#include "pass/pass.hpp"
#include "tensor/pooled_vector.hpp"

namespace attn {

/// The number of passes over all scores, and of products with all values.
struct SchemePasses {
  double scores = 0;
  double values = 0;
};

/// What the lower bound on column sums depends on.
struct BoundOf {
  double hybrid = 0.5;
  Index most_keys = 1;  ///< the largest number of keys allowed to one query, >= 1
  double sink = no_sink;

  /// The largest sum of a row after the column step, where no entry exceeds 1.
  double largest_row_sum() const { return static_cast<double>(most_keys) + std::exp(sink); }
};

/// The description of a scheme: its name, the options, operands and results that only some schemes
/// have, how scores become weights, how weights are differentiated, and the cost. Each scheme is
/// one object in a file of its own; `schemes` lists them all.
class SchemeDescription {
 public:
  virtual ~SchemeDescription() = default;

  virtual Scheme scheme() const = 0;

  /// The name on the command line, as "dnas"; the text after "dnas: " in the help; and the formula
  /// of g or of the output in the manual page.
  virtual std::string_view name() const = 0;
  virtual std::string_view help() const = 0;
  virtual std::string_view formula() const = 0;

  /// Whether the weights are a mixture with softmax: there is an option and operand `hybrid` with a
  /// gradient, and a result unas_row_potential.
  virtual bool is_mixture() const { return false; }

  /// Whether the scheme iterates: it has the options of Stopping, and may not converge.
  virtual bool is_iterated() const { return false; }

  /// Whether there are preferences of keys and a factor α of the scores. The default energy is then
  /// dot, as FD 17 uses inner products.
  virtual bool has_preference() const { return false; }

  /// Whether preferences are moved at a cost: there are an operand `cost` and a number γ, which
  /// Scores::Terms::transport has, and the preferences are no part of the scores. The weights then
  /// do not follow from potentials, and have no adjoints.
  virtual bool is_transport() const { return false; }

  /// Whether a sink may join the sums of rows.
  bool has_sink() const { return !is_iterated() && !is_transport(); }
  std::string_view usual_energy() const { return has_preference() ? "dot" : "scaled-dot"; }

  /// Finds the potentials and shows every weight to `observers`, as `attend` says. `found` has the
  /// allowed counts, and zeros for the potentials `row` and `col`.
  virtual void solve(const Scores<float>& scores, const SchemeOptions& options,
                     const ObserverList<float>& observers, int threads, Attention& found) const = 0;
  virtual void solve(const Scores<double>& scores, const SchemeOptions& options,
                     const ObserverList<double>& observers, int threads,
                     Attention& found) const = 0;

  /// Shows the weights of the chosen queries to the observers, as `show_rows` says.
  virtual void show(const Scores<float>& scores, const SchemeOptions& options,
                    Potentials& potentials, const RowSelection& rows,
                    const ObserverList<float>& observers, int threads) const = 0;
  virtual void show(const Scores<double>& scores, const SchemeOptions& options,
                    Potentials& potentials, const RowSelection& rows,
                    const ObserverList<double>& observers, int threads) const = 0;

  /// The adjoints of the weights, made with `products` G; O(L) numbers each. At most one is open,
  /// which comes first. A mixture has the adjoints of its two parts, softmax last.
  virtual PooledVector<WeightAdjoint<float>> differentiate(const Forward<float>& forward,
                                                           const TileProduct<float>& products,
                                                           int threads) const = 0;
  virtual PooledVector<WeightAdjoint<double>> differentiate(const Forward<double>& forward,
                                                            const TileProduct<double>& products,
                                                            int threads) const = 0;

  /// The proven lower bound on column sums, see column_sum_bound.
  virtual std::optional<double> column_sum_bound(const BoundOf& of) const = 0;

  /// The partition by which a pass of `solve` gathers the output.
  virtual Partition output_partition(Index queries, Index keys, std::size_t element_size,
                                     int threads) const = 0;

  /// Bytes that `solve` takes in addition to `found`, observers and kept exponentials, and the most
  /// bytes that it can use to keep exponentials.
  virtual std::int64_t bytes(Index rows, Index cols, std::size_t element_size,
                             int threads) const = 0;
  virtual std::int64_t useful_bytes(const SchemeOptions&, Index /*rows*/, Index /*cols*/,
                                    std::size_t /*element_size*/) const {
    return 0;
  }

  /// Bytes that a gradient takes, without sinks.
  virtual std::int64_t gradient_bytes(const GradientSizes& sizes,
                                      const SchemeOptions& options) const = 0;

  /// How often `solve` evaluates all scores: an upper bound if the scheme is iterated.
  virtual double score_passes(const SchemeOptions& options) const = 0;

  /// The passes of `differentiate`, without the gradient's own.
  virtual SchemePasses gradient_passes(const SchemeOptions&) const { return {}; }

  /// Floating-point operations of products among keys for each pair of a query and a key, besides
  /// the passes; for the results, or for gradients alone.
  virtual double flops_among_keys(Index /*keys*/, bool /*gradients*/) const { return 0; }
};

/// All schemes, in the order in which the help lists them.
const std::vector<const SchemeDescription*>& schemes();

/// Throws Error(usage) for a value outside of the enumeration.
const SchemeDescription& description_of(Scheme scheme);

/// The scheme called `name`, or null.
const SchemeDescription* scheme_called(std::string_view name);

}  // namespace attn
