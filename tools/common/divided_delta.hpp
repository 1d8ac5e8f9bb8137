#pragma once

#include "common/divided_potential.hpp"
#include "gradient/output_centre.hpp"
#include "pass/weight_blocks.hpp"

namespace attn::tools {

/// What a rank does for gradients, one after the other; a state may be within each.
enum class GradientRound {
  output,   ///< the output of centred values, by blocks of keys
  part,     ///< under hnas that of one part, by blocks of keys
  columns,  ///< without a softmax, the sums of dS by key, by blocks of queries
  lines,    ///< the gradients of q, k and v, by blocks of queries
};

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

  /// Shows the gradient of the gate, if it is wanted.
  void show_gate_gradient(const ShowRows<T>& show);

  /// After read_values: finds δ of all queries, and centres the values if CentredValues would. The
  /// potentials are known. Without a checkpoint, takes the output.
  void find_delta();

  /// What states of the gradients hold of the forward run. `resume_forward` loads that into rows_,
  /// out_ and found_, where there is room.
  void describe_forward(DividedState& state);
  void resume_forward();
  void describe_deltas(DividedState& state);

  /// After a block of a round: keeps the forward run and what describe(state) adds.
  template <class Describe>
  void after_gradient_block(GradientRound round, Index line, const Describe& describe) {
    this->after_block({DividedStep::gradients, static_cast<int>(round), line, this->column_rounds_},
                      [&](DividedState& state) {
                        describe_forward(state);
                        describe(state);
                      });
  }

  /// The place of an earlier run's state, if it is in that round; whether it is in a later one.
  std::optional<DividedPlace> begin_of(GradientRound round) const {
    const auto begin = this->begin(DividedStep::gradients);
    return begin && begin->round == static_cast<int>(round) ? begin : std::nullopt;
  }
  bool is_done(GradientRound round) const {
    const auto begin = this->begin(DividedStep::gradients);
    return begin && begin->round > static_cast<int>(round);
  }

  /// The line from which a round goes on, after it has loaded what after_gradient_block saves.
  template <class Describe>
  Index resume_round(GradientRound round, const Describe& describe) {
    const auto begin = begin_of(round);
    if (!begin) return 0;
    DividedState state;
    describe_forward(state);
    describe(state);
    this->load(state);
    return begin->line;
  }

  MatrixView<T> values() const;

  bool is_mixture() const { return this->wants_.scheme == Scheme::hnas; }

  static std::span<const double> own_part(std::span<const double> all, RowRange lines) {
    return all.subspan(static_cast<std::size_t>(lines.first),
                       static_cast<std::size_t>(lines.last - lines.first));
  }

  RankSlots rows_;                           ///< the queries whose output each rank has,
  Buffer<T> out_;                            ///< and the own ones, before the gate
  PooledVector<double> delta_, unas_delta_;  ///< of all queries
  T largest_value_in_use_ = 0;
  T largest_grad_out_ = 0;
  bool near_zero_ = false;

 private:
  T largest(T own) const;
  RowRange own_rows() const { return rows_.lines(this->ranks_.own()); }
  MatrixView<const T> own_out() const;
  std::span<double> own_deltas();
  template <class Use>
  void with_grad_out(const Use& use);
  Buffer<T> grad_out_before_gate();
  void find_gate_gradient(const Head<T>* part, Buffer<T>& gradient);
  bool centre(const OutputRows<T>& own, Buffer<T>& centred_out);
  void find_deltas_of_parts(MatrixView<const T> grad_out);
  template <class Describe>
  void make_output(GradientRound round, const QueryPotentials& potentials,
                   std::span<const double> g, MatrixView<T> out, const Describe& describe);

  RowRange keys_;
  Buffer<T> v_;                         // of keys_
  std::optional<OutputCentre> centre_;  // if values are measured from it
};

}  // namespace attn::tools
