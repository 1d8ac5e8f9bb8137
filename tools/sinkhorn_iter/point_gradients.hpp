#pragma once

#include <string>
#include <vector>

#include "gradient/gradient.hpp"
#include "head/head_reader.hpp"
#include "sinkhorn_iter/transport_task.hpp"

namespace attn::tools {

/// The names of results that are derivatives by q and by k.
struct PointNames {
  const char* q;
  const char* k;

  bool wanted(const TransportTask& task) const { return task.emits(q) || task.emits(k); }
};

/// Resizes and fills the requested ones of q (Lq, d) and k (Lk, d): calls differentiate(targets),
/// which shows the derivatives by the scores to the sink of the energy with `scale`.
template <class T, class Differentiate>
void differentiate_points(const TransportTask& task, const Head<T>& head, double scale,
                          const PointNames& names, std::vector<T>& q, std::vector<T>& k,
                          const Differentiate& differentiate, int threads) {
  const auto room = [&](const char* name, MatrixView<const T> vectors, std::vector<T>& values) {
    const bool wanted = task.emits(name);
    if (wanted) values.resize(static_cast<std::size_t>(vectors.rows * vectors.cols));
    return MatrixView<T>(wanted ? values.data() : nullptr, vectors.rows, vectors.cols);
  };
  const EnergyGradients<T> gradients{room(names.q, head.q(), q), room(names.k, head.k(), k), {}};
  const auto sink =
      task.input.recipe(Scheme::sinkhorn)
          .energy->differentiate(head.arrays().energy_arguments(scale, threads), gradients);
  GradientTargets<T> targets;
  targets.energies.push_back(sink.get());
  differentiate(targets);
}

/// Throws Error(usage), with `hint`, if a gradient by points is requested and the scores are not
/// made from q and k.
void require_points(const TransportTask& task, const PointNames& names, const std::string& hint);

/// Bytes of one problem's results and of their computation, through `plans` plans.
std::int64_t point_result_bytes(const TransportTask& task, const PointNames& names,
                                std::size_t element_size);
std::int64_t point_work_bytes(const TransportTask& task, const PointNames& names, Index plans,
                              std::size_t element_size, int threads);

}  // namespace attn::tools
