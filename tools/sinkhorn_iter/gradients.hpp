#pragma once

#include <cstdint>
#include <vector>

#include "common/outputs/gradient_kind.hpp"
#include "common/outputs/gradient_writer.hpp"
#include "common/outputs/head_outputs.hpp"
#include "head/head_reader.hpp"
#include "sinkhorn_iter/transport_task.hpp"
#include "transport/derivatives.hpp"

/// Results that are derivatives by the inputs of a problem. Their names begin with a prefix:
///
///   dual_grad_NAME  of the dual value at the potentials, for each problem; by the cost it is the
///                   plan
///   grad_NAME       of a number L, through the solution. L is given by its derivatives by the
///                   results, the datasets grad_plan, grad_row_potential and so on. L is one number
///                   of all problems, so that problems that share a dataset are summed
namespace attn::tools {

inline constexpr const char* of_dual = "dual_grad_";
inline constexpr const char* of_solution = "grad_";

/// The derivatives of one kind that --emit requests, of a problem's own lines; others are empty.
/// Derivatives by the cost and by scores are written as they are computed.
template <class T>
struct InputGradients {
  InputGradients() = default;

  /// Room for the derivatives of `head` whose names begin with `prefix`, and for derivatives by a
  /// matrix that problems share.
  InputGradients(const TransportTask& task, const char* prefix, const Head<T>& head);

  std::vector<double> a, b;     ///< a of histograms is (K, Lk)
  std::vector<double> weights;  ///< of histograms (K)
  std::vector<T> q, k;          ///< (Lq, d), (Lk, d)
  std::vector<T> pairs;         ///< (all Lq, all Lk), by a cost or scores that problems share
};

/// For a checkpoint (common/runs/checkpoint_record.hpp), which is refused with derivatives by
/// pairs.
template <class Archive, class T>
void archive(Archive& with, InputGradients<T>& gradients) {
  archive(with, gradients.a);
  archive(with, gradients.b);
  archive(with, gradients.weights);
  archive(with, gradients.q);
  archive(with, gradients.k);
}

/// Throws Error(usage) if --emit requests a gradient for which inputs are missing.
void require_gradients(const TransportTask& task);

/// q and k of a head, and where the derivatives by them go: by the scores, or with `of_cost` by
/// minus the cost; nothing if the scores are not made from q and k.
template <class T>
TransportPoints<T> points_of(const TransportTask& task, const Head<T>& head, bool of_cost,
                             InputGradients<T>& to, int threads);

/// The derivatives through the solution that --emit requests, each with its dataset: by masses,
/// which are float64, and others. Default marginals have no dataset.
struct SolutionKinds {
  std::vector<GradientKind> masses, others;
};
SolutionKinds solution_kinds(const TransportTask& task);

/// The derivative by pairs that is requested, grad_cost or grad_scores; null: none. It is written
/// as it is computed, unless problems share the matrix.
const char* pair_gradient(const TransportTask& task);
bool sums_pairs(const TransportTask& task);

/// Creates the datasets that are requested, and writes the derivatives of each problem.
template <class T>
class GradientOutputs {
 public:
  GradientOutputs(HeadOutputs& outputs, io::OutputBundle& bundle, const TransportTask& task,
                  cli::Report& report);

  /// Takes derivatives by pairs to where they go: to `through`, which must outlive the sink, if
  /// problems share the matrix. Null: none are requested.
  std::unique_ptr<GradientSink<T>> pair_sink(const Head<T>& head, InputGradients<T>& through) const;

  /// Writes zeros as derivatives by pairs, for a problem without queries or keys.
  void write_no_pairs(Index problem) const;

  /// Writes the gradients of a problem, whose padding has the gradient 0. Problems in their order.
  void write(Index problem, InputGradients<T>& dual, InputGradients<T>& through);

 private:
  void add(Index problem, InputGradients<T>& through);

  HeadOutputs& outputs_;
  const TransportTask& task_;
  SolutionKinds kinds_;
  GradientWriter<double> masses_;
  GradientWriter<T> others_;
};

/// Bytes of one problem's gradients of both kinds, without what is written as it is computed; of
/// sums over problems; of all gradients in the file; and of the computation of either kind.
std::int64_t gradient_result_bytes(const TransportTask& task, std::size_t element_size);
std::int64_t gradient_sum_bytes(const TransportTask& task);
double gradient_file_bytes(const TransportTask& task, std::size_t element_size);
std::int64_t dual_gradient_work_bytes(const TransportTask& task, std::size_t element_size,
                                      int threads);
std::int64_t solution_gradient_work_bytes(const TransportTask& task, std::size_t element_size,
                                          int threads, std::int64_t dense_limit);

}  // namespace attn::tools
