#pragma once

#include <cstdint>
#include <vector>

#include "train/path_optimizer.hpp"

// How W_Q and W_K of layers start before their optimiser steps in paths.

namespace attn::train {

/// Sets the weights of the published skeleton (see PathOptimizer) to 1 in both matrices, as the
/// published algorithm does at the start.
template <class T>
void set_skeletons_to_one(const std::vector<PathLayer>& layers, T* weights);

/// The factors of a rescaled start.
enum class StartFactors {
  factors,  ///< uniform in [0.5, 3), with a random sign
  powers,   ///< signed powers of two from 1/8 to 8, which change no bit of the scores
};

/// Multiplies column c of W_Q of each head by a factor and divides column c of W_K by it, so that
/// the scores stay the same up to rounding. The factors are a function of (seed, name of the
/// layer).
template <class T>
void rescale_start(const std::vector<PathLayer>& layers, StartFactors kind, std::uint64_t seed,
                   T* weights);

}  // namespace attn::train
