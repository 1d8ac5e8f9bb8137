#include "common/options/transform_names.hpp"

#include <fmt/format.h>

#include "attnkit/error.hpp"

namespace attn::tools {

const std::vector<std::string>& transform_names() {
  static const std::vector<std::string> names = {"q_norm",
                                                 "k_norm",
                                                 "q_layer_norm",
                                                 "k_layer_norm",
                                                 "q_layer_norm_bias",
                                                 "k_layer_norm_bias",
                                                 "norm_epsilon",
                                                 "rotary",
                                                 "rotary_interleaved"};
  return names;
}

void require_no_transforms(const io::InputBundle& bundle, const std::string& who) {
  for (const std::string& name : transform_names()) {
    if (!bundle.has(name)) continue;
    throw Error(Failure::usage,
                fmt::format("{} is not read: {}", bundle.dataset(name).address(), who));
  }
}

}  // namespace attn::tools
