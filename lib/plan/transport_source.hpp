#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "energy/table.hpp"
#include "gradient/dense_gradient.hpp"
#include "plan/plan_array.hpp"
#include "plan/score_matrix.hpp"
#include "score/matrix_source.hpp"
#include "score/scores.hpp"
#include "tensor/infinity.hpp"
#include "transport/derivatives.hpp"

namespace attn::plan {

/// The block of a problem as a matrix that broadcasts; nothing without the operand.
template <class T>
std::optional<BroadcastMatrix<T>> broadcast_block(const PlanArray& operand,
                                                  const TensorView<const T>& given, Index problem,
                                                  double bound = infinity) {
  if (!operand.present()) return std::nullopt;
  return BroadcastMatrix<T>(operand.block(given, problem),
                            operand.axis(0) > 1 ? operand.axis(1) : 0, operand.axis(1) > 1 ? 1 : 0,
                            bound);
}

/// The block of a problem as one vector; empty without the operand.
inline std::span<const double> vector_block(const PlanArray& operand,
                                            const TensorView<const double>& given, Index problem) {
  if (!operand.present()) return {};
  return {operand.block(given, problem),
          static_cast<std::size_t>(element_count(operand.block_shape()))};
}

/// The operands from which the scores of transport are made: exactly one of a cost, scores, and
/// points x and y. The inputs of a plan have members of these names.
class TransportSource {
 public:
  /// Throws Error(input) for shapes that do not fit, Error(usage) for an ε with scores.
  template <class Shapes>
  TransportSource(const Shapes& shapes, double epsilon)
      : epsilon_(epsilon),
        cost_("cost", shapes.cost, 2),
        scores_("scores", shapes.scores, 2),
        x_("x", shapes.x, 2),
        y_("y", shapes.y, 2) {
    require_one();
  }

  Index rows() const { return rows_; }  ///< m
  Index cols() const { return cols_; }  ///< n
  bool has_cost() const { return cost_.present(); }
  bool has_points() const { return x_.present(); }
  Index depth() const { return x_.axis(1); }  ///< of points

  /// Whether the problem has a cost or points; its results are then in units of the cost.
  bool of_cost() const { return !scores_.present(); }

  /// The unit of the cost, in units of the scores.
  double unit() const { return of_cost() ? epsilon_ : 1; }

  /// The cost or the scores, and the points; absent ones of what the problem is not made of.
  const PlanArray& matrix() const { return scores_.present() ? scores_ : cost_; }
  const PlanArray& x() const { return x_; }
  const PlanArray& y() const { return y_; }

  std::array<PlanArray*, 4> operands() { return {&cost_, &scores_, &x_, &y_}; }

  /// Throws Error(input) for arrays of other shapes, and for points that are not finite.
  template <class Inputs>
  void require(const Inputs& inputs) const {
    cost_.require(inputs.cost);
    scores_.require(inputs.scores);
    x_.require(inputs.x);
    y_.require(inputs.y);
    if (!has_points()) return;
    require_finite("x", inputs.x);
    require_finite("y", inputs.y);
  }

  /// Throws Error(input) for outputs of another shape, and Error(usage) for outputs by points if
  /// there are none.
  template <class T>
  void require_point_outputs(const std::string& x_name, const TensorView<T>& by_x,
                             const std::string& y_name, const TensorView<T>& by_y,
                             const Shape& leading) const {
    if (has_points()) {
      require_output(x_name, by_x, join(leading, {rows_, depth()}));
      require_output(y_name, by_y, join(leading, {cols_, depth()}));
    } else if (by_x || by_y) {
      throw Error(Failure::usage, x_name + " and " + y_name + " require points");
    }
  }

  /// The points of a problem, and where derivatives by them go, `of_scores` or else of minus the
  /// cost; nothing if there are no points.
  template <class T, class Inputs>
  TransportPoints<T> points(const Inputs& inputs, T* by_x, T* by_y, bool of_scores,
                            Index problem) const {
    if (!has_points()) return {};
    return {&gaussian_energy(),
            {{x_.block(inputs.x, problem), rows_, depth()},
             {y_.block(inputs.y, problem), cols_, depth()},
             {},
             of_scores ? 2 / unit() : 2},
            {{by_x, rows_, depth()}, {by_y, cols_, depth()}, {}}};
  }

  /// The sink of derivatives by the cost, or by the scores, from derivatives by the scores; nothing
  /// if `to` (m, n) is null.
  template <class T>
  std::optional<DenseGradient<T>> pairs(T* to, double unit) const {
    if (to == nullptr) return std::nullopt;
    return std::optional<DenseGradient<T>>(std::in_place, MatrixView<T>(to, rows_, cols_),
                                           of_cost() ? -1 / unit : 1);
  }

  /// Bytes that the energies of points and gradients by them take.
  std::int64_t bytes(std::size_t element_size, int threads) const;

 private:
  template <class T>
  friend class SourceScores;

  void require_one();

  double epsilon_;
  PlanArray cost_, scores_, x_, y_;
  Index rows_ = 0;
  Index cols_ = 0;
};

/// The scores of one problem, −C/ε or the given ones. The inputs must outlive the object.
template <class T>
class SourceScores {
 public:
  /// `mask` may be null. Throws Error(input) for numbers of a cost or of scores that are not
  /// allowed.
  template <class Inputs>
  SourceScores(const TransportSource& source, const Inputs& inputs, Index problem,
               const MatrixSource<std::uint8_t>* mask)
      : SourceScores(source, source.cost_.block(inputs.cost, problem),
                     source.scores_.block(inputs.scores, problem),
                     source.points<T>(inputs, nullptr, nullptr, true, problem), mask) {}

  const Scores<T>& scores() const { return *scores_; }

 private:
  SourceScores(const TransportSource& source, const T* cost, const T* scores,
               const TransportPoints<T>& points, const MatrixSource<std::uint8_t>* mask);

  std::optional<ScoreMatrix<T>> matrix_;
  std::unique_ptr<Energy<T>> energy_;
  std::optional<Scores<T>> scores_;
};

}  // namespace attn::plan
