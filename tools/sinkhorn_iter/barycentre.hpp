#pragma once

#include <cstdint>

#include "sinkhorn_iter/transport_result.hpp"
#include "sinkhorn_iter/transport_task.hpp"

namespace attn::tools {

/// Says in `result` that the histograms have no barycentre.
void refuse_histograms(const TransportTask& task, const OwnHistograms& histograms,
                       TransportResult& result);

/// The figures of a barycentre in the form of transport.
TransportProblem as_transport(BarycentreResult found);

/// Bytes that the computation takes besides its result and gradients by points or through the
/// solution.
std::int64_t averaging_bytes(const TransportTask& task, std::size_t element_size, int threads);

}  // namespace attn::tools
