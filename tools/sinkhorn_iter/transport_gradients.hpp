#pragma once

#include <cstdint>
#include <vector>

#include "common/outputs/head_outputs.hpp"
#include "head/head_reader.hpp"
#include "sinkhorn/barycentre_gradient.hpp"
#include "sinkhorn/marginal_gradient.hpp"
#include "sinkhorn_iter/transport_task.hpp"

namespace attn::tools {

/// The derivatives of a problem's dual value at its potentials that --emit requests, each of the
/// problem's own lines; others are empty. The derivative by the cost is the plan.
template <class T>
struct DualGradients {
  MarginalGradient marginals;
  std::vector<T> q, k;           ///< (Lq, d), (Lk, d)
  PooledVector<double> weights;  ///< of histograms (K)
};

/// For a checkpoint (common/runs/checkpoint_record.hpp).
template <class Archive, class T>
void archive(Archive& with, DualGradients<T>& gradients) {
  archive(with, gradients.marginals.row);
  archive(with, gradients.marginals.col);
  archive(with, gradients.q);
  archive(with, gradients.k);
  archive(with, gradients.weights);
}

/// A gradient as a matrix of the shape of its vectors; without data if it is not requested.
template <class T>
MatrixView<T> rows_like(MatrixView<const T> vectors, std::vector<T>& gradient) {
  return {gradient.empty() ? nullptr : gradient.data(), vectors.rows, vectors.cols};
}

/// Throws Error(usage) if --emit requests a gradient by q or k and the scores are not made from q
/// and k.
void require_gradients(const TransportTask& task);

template <class T>
DualGradients<T> dual_gradients(const TransportTask& task, const Head<T>& head,
                                const Potentials& potentials, const Marginals& marginals,
                                int threads);

/// The same for exact transport, from the plan that it shows. Derivatives by q and k require the
/// cost |q − k|².
template <class T>
DualGradients<T> exact_gradients(const TransportTask& task, const Head<T>& head,
                                 const ExactSolution& solution, const Marginals& marginals,
                                 int threads);

/// The same for a barycentre's value: by a (K, Lk) in the place of rows, and by the weights of
/// histograms, from `potentials` if they are requested.
template <class T>
DualGradients<T> barycentre_gradients(const TransportTask& task, const Head<T>& head,
                                      const Barycentre& found, const OwnHistograms& histograms,
                                      const HistogramPotentials& potentials, int threads);

/// Creates the datasets that are requested.
void create_gradients(HeadOutputs& outputs, const TransportTask& task);

/// Writes the gradients of a problem; padding has the gradient 0.
template <class T>
void write_gradients(HeadOutputs& outputs, const TransportTask& task, Index problem,
                     DualGradients<T>& gradients);

/// Bytes of one problem's gradients, and of their computation.
std::int64_t gradient_result_bytes(const TransportTask& task, std::size_t element_size);
std::int64_t gradient_work_bytes(const TransportTask& task, std::size_t element_size, int threads);

}  // namespace attn::tools
