#pragma once

#include <cstdint>

#include "attn_train/recipe.hpp"
#include "train/batch_pass.hpp"
#include "train/optimizer_options.hpp"
#include "train/schedule.hpp"
#include "train/transformer.hpp"

// From a recipe to the options of lib/train.

namespace attn::tools {

/// Throws Recipe::refusal unless the heads divide the width.
void require_heads(const Recipe& recipe);

/// How the attention `place`, such as "encoder.self", attends.
train::LayerAttention layer_attention(const Recipe& recipe, const std::string& place, bool causal);

/// How the first view attends to the others; not for the scheme none.
train::AttentionScheme view_scheme(const Recipe& recipe);

/// The model of an objective, without vocabularies and lengths. Throws Recipe::refusal for values
/// that do not fit together, and, unless `allow_leak`, for causal attention under a scheme other
/// than unas.
train::TransformerOptions transformer_options(const Recipe& recipe, bool allow_leak);

train::OptimizerOptions optimizer_options(const Recipe& recipe);
train::Schedule schedule_of(const Recipe& recipe);
train::DropoutRates dropout_of(const Recipe& recipe);

}  // namespace attn::tools
