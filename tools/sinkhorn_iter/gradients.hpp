#pragma once

#include <cstdint>
#include <vector>

#include "common/outputs/head_outputs.hpp"
#include "head/head_reader.hpp"
#include "sinkhorn_iter/transport_task.hpp"
#include "transport/derivatives.hpp"

/// Results that are derivatives by the inputs of a problem. Their names begin with a prefix:
///
///   dual_grad_NAME  of the dual value at the potentials; by the cost it is the plan
///   grad_NAME       of a number L, through the solution. L is given by its derivatives by the
///                   results, the datasets grad_plan, grad_row_potential and so on
namespace attn::tools {

inline constexpr const char* of_dual = "dual_grad_";
inline constexpr const char* of_solution = "grad_";

/// The derivatives of one kind that --emit requests, of a problem's own lines; others are empty.
/// Derivatives by the cost and by scores are written as they are computed.
template <class T>
struct InputGradients {
  InputGradients() = default;

  /// Room for the derivatives of `head` whose names begin with `prefix`.
  InputGradients(const TransportTask& task, const char* prefix, const Head<T>& head);

  std::vector<double> a, b;     ///< a of histograms is (K, Lk)
  std::vector<double> weights;  ///< of histograms (K)
  std::vector<T> q, k;          ///< (Lq, d), (Lk, d)
};

/// For a checkpoint (common/runs/checkpoint_record.hpp).
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

/// The result that is written as it is computed, grad_cost or grad_scores; null: there is none.
const char* written_gradient(const TransportTask& task);

/// Writes derivatives by pairs to the result written_gradient, as they are computed.
template <class T>
std::unique_ptr<GradientSink<T>> gradient_writer(const TransportTask& task, const Head<T>& head,
                                                 const HeadOutputs& outputs);

/// Writes zeros in its place, for a problem without queries or keys.
template <class T>
void write_no_gradient(const TransportTask& task, Index problem, const HeadOutputs& outputs);

/// Creates the datasets that are requested.
void create_gradients(HeadOutputs& outputs, const TransportTask& task);

/// Writes the gradients of a problem; padding has the gradient 0.
template <class T>
void write_gradients(HeadOutputs& outputs, const TransportTask& task, const char* prefix,
                     Index problem, InputGradients<T>& gradients);

/// Bytes of one problem's gradients of both kinds, without the written one; of the written one in
/// the file; and of the computation of either kind.
std::int64_t gradient_result_bytes(const TransportTask& task, std::size_t element_size);
double written_gradient_bytes(const TransportTask& task, std::size_t element_size);
std::int64_t dual_gradient_work_bytes(const TransportTask& task, std::size_t element_size,
                                      int threads);
std::int64_t solution_gradient_work_bytes(const TransportTask& task, std::size_t element_size,
                                          int threads, std::int64_t dense_limit);

}  // namespace attn::tools
