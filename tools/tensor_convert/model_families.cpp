#include "tensor_convert/model_families.hpp"

#include <algorithm>
#include <iterator>

namespace attn::tools {
namespace {

using enum HeadNormKind;

constexpr ModelFamily families[] = {
    {.type = "gpt2", .rotates = false},
    {.type = "gpt_bigcode", .rotates = false},
    {.type = "llama"},
    {.type = "mistral"},
    {.type = "mixtral", .theta = 1e6},
    {.type = "qwen"},
    {.type = "qwen2"},
    {.type = "qwen2_moe"},
    {.type = "qwen3", .norm = rms},
    {.type = "qwen3_moe", .norm = rms},
    {.type = "gemma"},
    {.type = "gemma2", .windows = 2},
    {.type = "gemma3_text",
     .theta = 1e6,
     .norm = rms_plus_one,
     .windows = 6,
     .windows_unscaled = true,
     .window_theta = 1e4},
    {.type = "olmo"},
    {.type = "olmo2", .norm = rms, .epsilon = 1e-5},
    {.type = "olmo3", .norm = rms, .epsilon = 1e-5, .windows = 4, .windows_unscaled = true},
    {.type = "olmoe", .norm = rms, .epsilon = 1e-5},
    {.type = "phi", .fraction = 0.5, .norm = layer, .norm_if = "qk_layernorm", .epsilon = 1e-5},
    {.type = "phi3"},
    {.type = "stablelm",
     .fraction = 0.25,
     .norm = layer,
     .norm_if = "qk_layernorm",
     .epsilon = 1e-5},
    {.type = "cohere",
     .interleaved = true,
     .norm = layer,
     .norm_if = "use_qk_norm",
     .epsilon = 1e-5},
    {.type = "cohere2", .interleaved = true, .windows = 4, .rotates_windows_only = true},
    {.type = "granite"},
    {.type = "granitemoe"},
    {.type = "starcoder2"},
    {.type = "gpt_neox", .fraction = 0.25},
    {.type = "gptj", .interleaved = true, .fraction = 0},
    {.type = "falcon"},
    {.type = "chatglm", .interleaved = true, .fraction = 0.5},
    {.type = "glm", .interleaved = true, .fraction = 0.5},
    {.type = "glm4", .interleaved = true, .fraction = 0.5},
};

}  // namespace

const ModelFamily* family_called(const std::string& type) {
  const auto* const found = std::find_if(std::begin(families), std::end(families),
                                         [&](const ModelFamily& one) { return type == one.type; });
  return found == std::end(families) ? nullptr : found;
}

}  // namespace attn::tools
