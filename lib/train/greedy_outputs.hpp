#pragma once

#include <vector>

#include "train/decoder_output.hpp"
#include "train/mechanism_model.hpp"

namespace attn::train {

/// The output of a model from source to target for each source, without <s> and </s>: each step
/// takes the token with the largest score, the first of equal ones, until this is </s> or after
/// options.length tokens; <s> is never chosen. Sources are computed one by one, and each step anew
/// from <s>, so that an output depends on its source alone, to the last bit. options.beam is
/// ignored. Requires threads >= 1.
template <class T>
std::vector<std::vector<Index>> greedy_outputs(const MechanismModel& model, const T* weights,
                                               const std::vector<std::vector<Index>>& sources,
                                               const OutputOptions& options, int threads);

}  // namespace attn::train
