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
    {.type = "mistral", .windows = 1, .window = 4096},
    {.type = "mixtral", .theta = 1e6, .windows = 1},
    {.type = "qwen"},
    {.type = "qwen2", .windows = 1, .window = 4096, .windows_late = true},
    {.type = "qwen2_moe"},
    {.type = "qwen3", .norm = rms, .windows = 1, .window = 4096, .windows_late = true},
    {.type = "qwen3_moe", .norm = rms},
    {.type = "gemma"},
    {.type = "gemma2", .windows = 2, .window = 4096, .scalar = 256, .cap = 50},
    {.type = "gemma3_text",
     .theta = 1e6,
     .norm = rms_plus_one,
     .windows = 6,
     .window = 4096,
     .scalar = 256,
     .windows_unscaled = true,
     .window_theta = 1e4},
    {.type = "olmo"},
    {.type = "olmo2", .norm = rms, .epsilon = 1e-5},
    {.type = "olmo3",
     .theta = 0,
     .norm = rms,
     .epsilon = 1e-5,
     .windows = 4,
     .window = 4096,
     .windows_unscaled = true},
    {.type = "olmoe", .norm = rms, .epsilon = 1e-5},
    {.type = "phi", .fraction = 0.5, .norm = layer, .norm_if = "qk_layernorm", .epsilon = 1e-5},
    {.type = "phi3", .windows = 1},
    {.type = "stablelm",
     .fraction = 0.25,
     .norm = layer,
     .norm_if = "qk_layernorm",
     .epsilon = 1e-5},
    {.type = "cohere",
     .interleaved = true,
     .theta = 0,
     .norm = layer,
     .norm_if = "use_qk_norm",
     .epsilon = 1e-5},
    {.type = "cohere2",
     .interleaved = true,
     .theta = 0,
     .windows = 4,
     .window = 4096,
     .rotates_windows_only = true},
    {.type = "granite", .multiplier = 1},
    {.type = "granitemoe", .multiplier = 1},
    {.type = "starcoder2", .windows = 1},
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
