#include "tensor_convert/model_names.hpp"

#include <algorithm>
#include <filesystem>
#include <set>
#include <string_view>

#include <fmt/format.h>

#include "attnkit/error.hpp"
#include "tensor_convert/model_index.hpp"

namespace attn::tools {

ModelNames names_in(const ModelLayer& wanted) {
  const Index n = wanted.layer;
  if (wanted.model == "gpt2") {
    const std::string all = fmt::format("h.{}.attn.c_attn", n);
    return {fmt::format("h.{}.attn.", n), all, all, all, {}};
  }
  if (wanted.model == "bert") {
    const std::string base = fmt::format("encoder.layer.{}.attention.self.", n);
    return {base, base + "query", base + "key", base + "value", {}};
  }
  if (wanted.model == "llama") {
    const std::string base = fmt::format("layers.{}.self_attn.", n);
    return {base, base + "q_proj", base + "k_proj", base + "v_proj", {}};
  }
  const bool cross = wanted.part == "cross";
  const std::string stack = wanted.part == "encoder" ? "encoder" : "decoder";
  const std::string base = fmt::format("{}.block.{}.layer.{}.", stack, n,
                                       cross ? "1.EncDecAttention" : "0.SelfAttention");
  const std::string bias = stack + ".block.0.layer.0.SelfAttention.relative_attention_bias.weight";
  return {base, base + "q", base + "k", base + "v", cross ? "" : bias};
}

namespace {

constexpr const char* prefixes[] = {
    "", "bert.", "transformer.", "model.", "model.language_model.", "language_model.model."};

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
    for (std::string& name : bundle.names()) all.insert(std::move(name));
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
    if (there.count(names_in(wanted).q + ".weight") != 0) layers.insert(number);
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
  const std::filesystem::path index =
      std::filesystem::path(wanted.config).parent_path() / "model.safetensors.index.json";
  for (const auto& [stored, file] : read_model_index(index.string())) {
    if (without_prefix(stored) != name) continue;
    return fmt::format("{} says that it is in {}: name that, too, or the index itself",
                       index.string(), file);
  }
  const std::set<std::string> names = all_names(bundles);
  const std::set<Index> layers = layers_in(names, wanted);
  if (layers.count(wanted.layer) != 0) {
    return "a checkpoint in several files needs all of them on the command line";
  }
  if (layers.size() == 1) return fmt::format("its only layer is {}", *layers.begin());
  if (!layers.empty()) {
    return fmt::format("its layers are {} to {}", *layers.begin(), *layers.rbegin());
  }
  const std::vector<std::string> other = attention_in(names, wanted.layer);
  if (!other.empty()) {
    return fmt::format(
        "layer {} has {}; fused projections and other names are not read by --model {}",
        wanted.layer, some_of(other), wanted.model);
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

void refuse_unread_tensors(const std::vector<io::InputBundle>& bundles, const ModelLayer& wanted) {
  const ModelNames names = names_in(wanted);
  std::set<std::string> read = {names.relative_bias};
  for (const std::string& name : {names.q, names.k, names.v}) {
    read.insert({name + ".weight", name + ".bias"});
  }
  // Tensors used after the weights, or constants: the output, masks, and the angles of rotary
  // positions.
  for (const char* other : {"o_proj.weight", "o_proj.bias", "o.weight", "c_proj.weight",
                            "c_proj.bias", "bias", "masked_bias", "rotary_emb.inv_freq"}) {
    read.insert(names.base + other);
  }
  std::vector<std::string> unread;
  for (const std::string& stored : all_names(bundles)) {
    const std::string name = without_prefix(stored);
    if (name.starts_with(names.base) && read.count(name) == 0) unread.push_back(stored);
  }
  if (unread.empty()) return;
  throw Error(Failure::input,
              fmt::format("{} has {}, which --model {} does not compute", place_of(bundles),
                          some_of(unread), wanted.model),
              "the projections alone are not the queries and keys that this model compares");
}

void refuse_layer(const std::vector<io::InputBundle>& bundles, const ModelLayer& wanted,
                  const std::string& name) {
  throw Error(Failure::input,
              fmt::format("{}: no dataset {}, with or without bert., transformer. "
                          "or model. before it",
                          place_of(bundles), name),
              hint_of_missing(bundles, wanted, name));
}

}  // namespace attn::tools
