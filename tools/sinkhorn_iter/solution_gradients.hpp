#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "common/outputs/head_outputs.hpp"
#include "head/head_reader.hpp"
#include "head/matrix_operand.hpp"
#include "sinkhorn/barycentre_gradient.hpp"
#include "sinkhorn/divergence_gradient.hpp"
#include "sinkhorn/implicit_gradient.hpp"
#include "sinkhorn_iter/transport_result.hpp"
#include "sinkhorn_iter/transport_task.hpp"

/// grad_NAME: derivatives of a number L by the inputs of a problem, through its solution. L is
/// given by its derivatives by the plan and the potentials, the datasets grad_plan,
/// grad_row_potential and grad_col_potential, and by a barycentre, grad_barycentre.
namespace attn::tools {

/// The gradients of one problem that --emit requests, of its own lines; others are empty. Gradients
/// by the cost and by scores are written as they are computed.
template <class T>
struct SolutionGradients {
  std::vector<double> a, b;     ///< a of a barycentre is (K, Lk)
  std::vector<T> q, k;          ///< (Lq, d), (Lk, d)
  std::vector<double> weights;  ///< of histograms (K)
};

/// For a checkpoint (common/runs/checkpoint_record.hpp).
template <class Archive, class T>
void archive(Archive& with, SolutionGradients<T>& gradients) {
  archive(with, gradients.a);
  archive(with, gradients.b);
  archive(with, gradients.q);
  archive(with, gradients.k);
  archive(with, gradients.weights);
}

/// Throws Error(usage) if --emit requests a gradient for which inputs are missing.
void require_solution_gradients(const TransportTask& task);

/// The result that is written as it is computed, for require_no_checkpoint; null: there is none.
const char* written_gradient(const TransportTask& task);

/// Writes gradients by the cost or scores, and says in `result` how well the equations were solved,
/// and whether at a solution. Matrices of up to `dense_limit` bytes are held in memory.
template <class T>
SolutionGradients<T> solution_gradients(const TransportTask& task, const Head<T>& head,
                                        SinkhornSolution& solution, const Marginals& marginals,
                                        const HeadOutputs& outputs, std::int64_t dense_limit,
                                        int threads, TransportResult& result);

/// The same for a barycentre; `potentials` are needed only for the weights.
template <class T>
SolutionGradients<T> solution_gradients(const TransportTask& task, const Head<T>& head,
                                        Barycentre& barycentre, const OwnHistograms& histograms,
                                        const HistogramPotentials& potentials,
                                        const HeadOutputs& outputs, std::int64_t dense_limit,
                                        int threads, TransportResult& result);

/// The same through the potentials of a divergence.
template <class T>
SolutionGradients<T> solution_gradients(const TransportTask& task, const Head<T>& head,
                                        const DivergenceScores<T>& scores,
                                        SinkhornDivergence& divergence, const Marginals& marginals,
                                        const HeadOutputs& outputs, int threads,
                                        TransportResult& result);

/// Writes zero gradients by the cost or scores, for a problem without queries or keys.
template <class T>
void write_no_gradient(const TransportTask& task, const Head<T>& head, const HeadOutputs& outputs);

/// Creates the datasets that are requested.
void create_solution_gradients(HeadOutputs& outputs, const TransportTask& task);

/// Writes the gradients of a problem; padding has the gradient 0.
template <class T>
void write_solution_gradients(HeadOutputs& outputs, const TransportTask& task, Index problem,
                              SolutionGradients<T>& gradients);

/// Bytes of one problem's gradients, including gradients in files, and of their computation.
std::int64_t solution_gradient_bytes(const TransportTask& task, std::size_t element_size);
double solution_gradient_file_bytes(const TransportTask& task, std::size_t element_size);
std::int64_t solution_gradient_work_bytes(const TransportTask& task, std::size_t element_size,
                                          int threads, std::int64_t dense_limit);

}  // namespace attn::tools
