#include "tensor_convert/model_names.hpp"

#include <fmt/format.h>

#include "attnkit/error.hpp"

namespace attn::tools {

ModelNames names_in(const ModelLayer& wanted) {
  const Index n = wanted.layer;
  if (wanted.model == "gpt2") {
    const std::string all = fmt::format("h.{}.attn.c_attn", n);
    return {all, all, all, {}};
  }
  if (wanted.model == "bert") {
    const std::string base = fmt::format("encoder.layer.{}.attention.self.", n);
    return {base + "query", base + "key", base + "value", {}};
  }
  if (wanted.model == "llama") {
    const std::string base = fmt::format("layers.{}.self_attn.", n);
    return {base + "q_proj", base + "k_proj", base + "v_proj", {}};
  }
  const bool cross = wanted.part == "cross";
  const std::string stack = wanted.part == "encoder" ? "encoder" : "decoder";
  const std::string base = fmt::format("{}.block.{}.layer.{}.", stack, n,
                                       cross ? "1.EncDecAttention" : "0.SelfAttention");
  const std::string bias = stack + ".block.0.layer.0.SelfAttention.relative_attention_bias.weight";
  return {base + "q", base + "k", base + "v", cross ? "" : bias};
}

std::optional<io::InputDataset> find_tensor(const std::vector<io::InputBundle>& bundles,
                                            const std::string& name) {
  for (const char* prefix : {"", "bert.", "transformer.", "model."}) {
    for (const io::InputBundle& bundle : bundles) {
      if (bundle.has(prefix + name)) return bundle.dataset(prefix + name);
    }
  }
  return std::nullopt;
}

void refuse_layer(const std::vector<io::InputBundle>& bundles, ModelLayer wanted,
                  const std::string& name) {
  const Index asked = wanted.layer;
  for (wanted.layer = 0; find_tensor(bundles, names_in(wanted).q + ".weight"); ++wanted.layer) {
  }
  const std::string where =
      bundles.size() == 1 ? bundles[0].description() : fmt::format("the {} files", bundles.size());
  const std::string hint =
      wanted.layer == 0      ? "--model selects the naming scheme: bert, gpt2, t5 or llama"
      : asked < wanted.layer ? "a checkpoint in several files needs all of them on the command line"
                             : fmt::format("its layers are 0 to {}", wanted.layer - 1);
  throw Error(Failure::input,
              fmt::format("{}: no dataset {}, with or without bert., transformer. "
                          "or model. before it",
                          where, name),
              hint);
}

}  // namespace attn::tools
