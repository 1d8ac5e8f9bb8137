#include "attn_train/model_options.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>

namespace attn::tools {
namespace {

template <class Value>
Value chosen(const Recipe& recipe, const std::string& key,
             const std::map<std::string, Value>& values) {
  return values.at(recipe.text(key));
}

}  // namespace

void require_heads(const Recipe& recipe) {
  const Index width = recipe.integer("model.width");
  const Index heads = recipe.integer("model.heads");
  if (width % heads == 0) return;
  if (recipe.is_set("model.width") && !recipe.is_set("model.heads")) {
    throw recipe.refusal("model.width", fmt::format("is {}, which the {} heads of model.heads do "
                                                    "not divide",
                                                    width, heads));
  }
  throw recipe.refusal("model.heads",
                       fmt::format("is {}, which does not divide model.width, {}", heads, width));
}

train::LayerAttention layer_attention(const Recipe& recipe, const std::string& place, bool causal) {
  train::LayerAttention attention;
  attention.scheme.scheme = chosen<Scheme>(recipe, place + ".scheme",
                                           {{"unas", Scheme::unas},
                                            {"none", Scheme::unas},
                                            {"dnas", Scheme::dnas},
                                            {"hnas", Scheme::hnas},
                                            {"sinkhorn", Scheme::sinkhorn},
                                            {"fenchel", Scheme::fenchel},
                                            {"transport", Scheme::transport}});
  attention.scheme.iterations = recipe.integer(place + ".iterations");
  if (attention.scheme.scheme == Scheme::transport) {
    attention.scheme.gamma = recipe.number(place + ".gamma");
    attention.scheme.reach = recipe.number(place + ".reach");
  }
  attention.scheme.share_by_head = recipe.text(place + ".hybrid-by") == "head";
  attention.first_share = recipe.number(place + ".hybrid");
  attention.left_out = recipe.text(place + ".scheme") == "none";
  attention.causal = causal;
  const std::vector<std::string> paths = recipe.words("optimizer.paths");
  attention.in_paths = std::count(paths.begin(), paths.end(), place) > 0;
  return attention;
}

namespace {

// In a decoder, schemes that normalise over queries also normalise over later tokens.
void require_no_leak(const Recipe& recipe, const std::string& place) {
  const std::string scheme = recipe.text(place + ".scheme");
  const train::LayerAttention attention = layer_attention(recipe, place, false);
  if (attention.left_out || is_by_query(attention.scheme.scheme)) return;
  throw recipe.refusal(
      place + ".scheme",
      "is " + scheme + ", which lets later tokens change the weights of earlier ones",
      "--allow-leak trains it nevertheless");
}

}  // namespace

train::AttentionScheme view_scheme(const Recipe& recipe) {
  if (recipe.text("views.scheme") != "em") return layer_attention(recipe, "views", false).scheme;
  train::AttentionScheme scheme;
  scheme.em = train::EmScheme{.iterations = recipe.integer("views.iterations"),
                              .estimates_variance = recipe.flag("views.estimate-variance")};
  return scheme;
}

train::TransformerOptions transformer_options(const Recipe& recipe, bool allow_leak) {
  const std::string kind = recipe.text("objective.kind");
  train::TransformerOptions options;
  require_heads(recipe);
  options.decoder_layers = recipe.integer("model.layers");
  if (kind == "pairs") {
    options.encoder_layers = recipe.integer("model.encoder-layers");
    options.encoder = layer_attention(recipe, "encoder.self", false);
    options.cross = layer_attention(recipe, "decoder.cross", false);
  }
  const bool causal = kind == "causal" || kind == "pairs";
  const std::string self = causal ? "decoder.self" : "encoder.self";
  options.decoder = layer_attention(recipe, self, causal);
  if (causal && !allow_leak) require_no_leak(recipe, self);
  if (kind == "pairs" && !allow_leak) require_no_leak(recipe, "decoder.cross");
  options.order = recipe.flag("objective.order");
  options.layer.width = recipe.integer("model.width");
  options.layer.heads = recipe.integer("model.heads");
  options.layer.inner = recipe.integer("model.inner");
  options.layer.activation =
      recipe.text("model.activation") == "gelu" ? train::Activation::gelu : train::Activation::relu;
  options.layer.order =
      recipe.text("model.norm") == "pre" ? train::NormOrder::pre : train::NormOrder::post;
  options.layer.deviation = recipe.text("model.start") == "xavier"
                                ? 1 / std::sqrt(static_cast<double>(options.layer.width))
                                : recipe.number("model.deviation");
  options.layer.out_deviation =
      options.layer.deviation / std::sqrt(2 * static_cast<double>(options.decoder_layers));
  options.positions = recipe.text("model.positions") == "sinusoidal" ? train::Positions::sinusoidal
                                                                     : train::Positions::learned;
  options.tied = recipe.flag("model.tied");
  options.smoothing = recipe.number("objective.smoothing");
  options.length = recipe.integer("data.length");
  options.source_length = recipe.integer("data.source-length");
  return options;
}

train::OptimizerOptions optimizer_options(const Recipe& recipe) {
  train::OptimizerOptions options;
  options.rule = chosen<train::Rule>(
      recipe, "optimizer.rule",
      {{"sgd", train::Rule::sgd}, {"adam", train::Rule::adam}, {"lamb", train::Rule::lamb}});
  if (options.rule == train::Rule::lamb && !recipe.words("optimizer.paths").empty()) {
    throw recipe.refusal("optimizer.paths",
                         "does not go with lamb, whose step depends on the size "
                         "of whole tensors");
  }
  options.momentum = recipe.number("optimizer.momentum");
  if (options.momentum != 0 && options.rule != train::Rule::sgd) {
    throw recipe.refusal("optimizer.momentum", "goes with sgd only");
  }
  options.beta1 = recipe.number("optimizer.beta1");
  options.beta2 = recipe.number("optimizer.beta2");
  options.epsilon = recipe.number("optimizer.epsilon");
  options.decay = recipe.number("optimizer.decay");
  options.clip = recipe.number("optimizer.clip");
  options.min_ratio = recipe.number("optimizer.min-ratio");
  return options;
}

train::Schedule schedule_of(const Recipe& recipe) {
  train::Schedule schedule;
  schedule.rate = recipe.number("schedule.rate");
  schedule.warm_up = recipe.integer("schedule.warm-up");
  schedule.decay = chosen<train::Decay>(recipe, "schedule.decay",
                                        {{"constant", train::Decay::constant},
                                         {"steps", train::Decay::steps},
                                         {"cosine", train::Decay::cosine}});
  schedule.factor = recipe.number("schedule.factor");
  schedule.milestones = recipe.numbers("schedule.milestones");
  return schedule;
}

train::DropoutRates dropout_of(const Recipe& recipe) {
  return {recipe.number("run.dropout"), recipe.number("run.weight-dropout")};
}

}  // namespace attn::tools
