#include "tensor_convert/model_names.hpp"

#include <algorithm>
#include <filesystem>
#include <set>
#include <string_view>

#include <fmt/format.h>

#include "attnkit/error.hpp"
#include "io/arrays/sharded_file.hpp"
#include "io/contents.hpp"

namespace attn::tools {

namespace {

/// Decoders of several families differ in little but their names, so gpt2 and llama share these;
/// those of GPT-2 first.
std::vector<ModelNames> shared_names(Index n) {
  const auto fused = [](std::string base, const char* name, Fusion fusion) {
    const std::string all = base + name;
    return ModelNames{std::move(base), all, all, all, {}, fusion};
  };
  const std::string of_gptj = fmt::format("h.{}.attn.", n);
  return {fused(of_gptj, "c_attn", Fusion::c_attn),
          {of_gptj, of_gptj + "q_proj", of_gptj + "k_proj", of_gptj + "v_proj", {}},
          fused(fmt::format("layers.{}.self_attn.", n), "qkv_proj", Fusion::blocks),
          fused(fmt::format("layers.{}.attention.", n), "query_key_value", Fusion::groups),
          fused(fmt::format("h.{}.self_attention.", n), "query_key_value", Fusion::groups),
          fused(fmt::format("encoder.layers.{}.self_attention.", n), "query_key_value",
                Fusion::blocks)};
}

/// All names under which a layer may be stored; those of the model itself first.
std::vector<ModelNames> possible_names(const ModelLayer& wanted) {
  const Index n = wanted.layer;
  if (wanted.model == "gpt2" || wanted.model == "llama") {
    std::vector<ModelNames> all = shared_names(n);
    if (wanted.model == "llama") {
      const std::string base = fmt::format("layers.{}.self_attn.", n);
      all.insert(all.begin(), {base, base + "q_proj", base + "k_proj", base + "v_proj", {}});
    }
    return all;
  }
  if (wanted.model == "bert") {
    const std::string base = fmt::format("encoder.layer.{}.attention.self.", n);
    return {{base, base + "query", base + "key", base + "value", {}}};
  }
  const bool cross = wanted.part == "cross";
  const std::string stack = wanted.part == "encoder" ? "encoder" : "decoder";
  const std::string base = fmt::format("{}.block.{}.layer.{}.", stack, n,
                                       cross ? "1.EncDecAttention" : "0.SelfAttention");
  const std::string bias = stack + ".block.0.layer.0.SelfAttention.relative_attention_bias.weight";
  return {{base, base + "q", base + "k", base + "v", cross ? "" : bias}};
}

constexpr const char* prefixes[] = {"",
                                    "bert.",
                                    "transformer.",
                                    "gpt_neox.",
                                    "model.",
                                    "model.language_model.",
                                    "language_model.model."};

std::string without_prefix(const std::string& name) {
  std::string_view longest;
  for (const std::string_view prefix : prefixes) {
    if (name.starts_with(prefix) && prefix.size() > longest.size()) longest = prefix;
  }
  return name.substr(longest.size());
}

std::set<std::string> all_names(const std::vector<io::InputBundle>& bundles) {
  std::set<std::string> all;
  for (const io::InputBundle& bundle : bundles) {
    for (std::string& name : bundle.flat_names()) all.insert(std::move(name));
    if (!bundle.flat_names().empty()) continue;
    for (io::Item& item : io::contents(bundle)) {
      std::replace(item.path.begin(), item.path.end(), '/', '.');
      if (!item.is_group) all.insert(std::move(item.path));
    }
  }
  return all;
}

std::string place_of(const std::vector<io::InputBundle>& bundles) {
  if (bundles.size() == 1) return bundles[0].description();
  return fmt::format("the {} files", bundles.size());
}

std::string some_of(const std::vector<std::string>& names) {
  constexpr std::size_t most = 4;
  const auto end = names.begin() + static_cast<std::ptrdiff_t>(std::min(most, names.size()));
  return fmt::format("{}{}", fmt::join(names.begin(), end, ", "),
                     names.size() > most ? fmt::format(" and {} more", names.size() - most) : "");
}

/// The layers with queries.
std::set<Index> layers_in(const std::set<std::string>& names, ModelLayer wanted) {
  std::set<std::string> there;
  std::set<Index> numbers;
  for (const std::string& name : names) {
    there.insert(without_prefix(name));
    for (std::size_t at = 0; (at = name.find_first_of("0123456789", at)) != std::string::npos;) {
      const std::size_t end = std::min(name.find_first_not_of("0123456789", at), name.size());
      if (end - at < 8) numbers.insert(std::stoll(name.substr(at, end - at)));
      at = end;
    }
  }
  std::set<Index> layers;
  for (const Index number : numbers) {
    wanted.layer = number;
    for (const ModelNames& possible : possible_names(wanted)) {
      if (there.count(possible.q + ".weight") != 0) layers.insert(number);
    }
  }
  return layers;
}

/// The tensors of a layer that look like attention.
std::vector<std::string> attention_in(const std::set<std::string>& names, Index layer) {
  std::vector<std::string> found;
  for (const std::string& name : names) {
    const bool here = name.find(fmt::format(".{}.", layer)) != std::string::npos;
    if (here &&
        (name.find("attn") != std::string::npos || name.find("ttention") != std::string::npos)) {
      found.push_back(name);
    }
  }
  return found;
}

std::string hint_of_missing(const std::vector<io::InputBundle>& bundles, const ModelLayer& wanted,
                            const std::string& name) {
  const std::string index =
      (std::filesystem::path(wanted.config).parent_path() / io::index_name).string();
  std::error_code none;
  if (std::filesystem::exists(index, none)) {
    for (const std::string& stored :
         io::InputBundle({.input = index, .named = {}, .tmpdir = {}}).flat_names()) {
      if (without_prefix(stored) == name) return "give " + index + ", which says where it is";
    }
  }
  const std::set<std::string> names = all_names(bundles);
  const std::set<Index> layers = layers_in(names, wanted);
  if (layers.count(wanted.layer) != 0) {
    return "a checkpoint in several files needs all of them on the command line";
  }
  if (layers.size() == 1) return fmt::format("its only layer is {}", *layers.begin());
  if (!layers.empty()) {
    const bool all = *layers.rbegin() - *layers.begin() + 1 == static_cast<Index>(layers.size());
    return all ? fmt::format("its layers are {} to {}", *layers.begin(), *layers.rbegin())
               : fmt::format("its layers are {}", fmt::join(layers, ", "));
  }
  const std::vector<std::string> other = attention_in(names, wanted.layer);
  if (!other.empty()) {
    return fmt::format("layer {} has {}; these names are not read by --model {}", wanted.layer,
                       some_of(other), wanted.model);
  }
  return "--model selects the naming scheme: bert, gpt2, t5 or llama";
}

}  // namespace

std::optional<ArraySource> find_tensor(const std::vector<io::InputBundle>& bundles,
                                       const std::string& name) {
  for (const char* prefix : prefixes) {
    for (const io::InputBundle& bundle : bundles) {
      if (bundle.has(prefix + name)) return bundle.dataset(prefix + name);
    }
  }
  return std::nullopt;
}

ModelNames names_in(const std::vector<io::InputBundle>& bundles, const ModelLayer& wanted) {
  const std::vector<ModelNames> possible = possible_names(wanted);
  for (const ModelNames& names : possible) {
    if (find_tensor(bundles, names.q + ".weight")) return names;
  }
  refuse_layer(bundles, wanted, possible.front().q + ".weight");
}

void refuse_unread_tensors(const std::vector<io::InputBundle>& bundles, const ModelLayer& wanted,
                           const ModelNames& names, std::set<std::string> read) {
  read.insert(names.relative_bias);
  for (const std::string& name : {names.q, names.k, names.v}) {
    read.insert({name + ".weight", name + ".bias"});
  }
  // The scales of numbers in 8 bits are read with them; those of inputs are for faster products.
  for (const std::string& name : {names.q, names.k, names.v, names.base + "o_proj"}) {
    for (const char* of :
         {".weight_scale_inv", ".weight_scale", ".input_scale", ".activation_scale"}) {
      read.insert(name + of);
    }
  }
  // Tensors used after the weights, or constants: the output, masks, and the angles of rotary
  // positions.
  for (const char* other : {"o_proj.weight", "o_proj.bias", "out_proj.weight", "o.weight",
                            "c_proj.weight", "c_proj.bias", "dense.weight", "dense.bias", "bias",
                            "masked_bias", "rotary_emb.inv_freq"}) {
    read.insert(names.base + other);
  }
  std::vector<std::string> unread;
  for (const std::string& stored : all_names(bundles)) {
    const std::string name = without_prefix(stored);
    if (name.starts_with(names.base) && read.count(name) == 0) unread.push_back(stored);
  }
  if (unread.empty()) return;
  throw Error(Failure::input,
              fmt::format("{} {} {}, which --model {} does not compute", place_of(bundles),
                          bundles.size() == 1 ? "has" : "have", some_of(unread), wanted.model),
              "the projections alone are not the queries and keys that this model compares");
}

void refuse_layer(const std::vector<io::InputBundle>& bundles, const ModelLayer& wanted,
                  const std::string& name) {
  throw Error(Failure::input,
              fmt::format("{}: no dataset {}, with or without a prefix such as model. before it",
                          place_of(bundles), name),
              hint_of_missing(bundles, wanted, name));
}

}  // namespace attn::tools
