#pragma once

#include <vector>

#include "train/decoder_output.hpp"
#include "train/mechanism_model.hpp"

namespace attn::train {

/// The output of a model from source to target for each source, without <s> and </s>: in each step
/// the token of the largest score, the first of equal ones, until it is </s> or after
/// options.length tokens; <s> is never chosen. Each source is computed by itself and each step anew
/// from <s>, so that an output depends on its source alone, to the last bit. options.beam is not
/// looked at. Requires threads >= 1.
template <class T>
std::vector<std::vector<Index>> greedy_outputs(const MechanismModel& model, const T* weights,
                                               const std::vector<std::vector<Index>>& sources,
                                               const OutputOptions& options, int threads);

}  // namespace attn::train
