#include "attn_train/recipe_keys.hpp"

#include <map>

#include <fmt/format.h>

#include "cli/words.hpp"

namespace attn::tools {
namespace {

using Kind = RecipeKey::Kind;
using Keys = std::vector<RecipeKey>;

constexpr double no_limit = std::numeric_limits<double>::infinity();
// Counts beyond this are typing errors.
constexpr double many = 1e9;
constexpr double most_layers = 1000;
// Exact in float64.
constexpr double most_seeds = 9007199254740992;

const std::vector<std::string> attention_names = {"encoder.self", "decoder.self", "decoder.cross"};

RecipeKey integer(const std::string& name, double low, const nlohmann::ordered_json& fallback,
                  const std::string& help, double high = many) {
  return {.name = name,
          .kind = Kind::integer,
          .help = help,
          .fallback = fallback,
          .low = low,
          .high = high};
}

RecipeKey number(const std::string& name, double low, double high, double fallback,
                 const std::string& help) {
  return {.name = name,
          .kind = Kind::number,
          .help = help,
          .fallback = fallback,
          .low = low,
          .high = high,
          .high_open = high < no_limit};
}

RecipeKey positive(const std::string& name, double fallback, const std::string& help) {
  return {.name = name, .kind = Kind::number, .help = help, .fallback = fallback, .low_open = true};
}

RecipeKey choice(const std::string& name, const std::vector<std::string>& words,
                 const std::string& help) {
  return {
      .name = name, .kind = Kind::choice, .help = help, .fallback = words.front(), .words = words};
}

RecipeKey flag(const std::string& name, const std::string& help) {
  return {.name = name, .kind = Kind::flag, .help = help, .fallback = false};
}

RecipeKey file(const std::string& name, const std::string& help) {
  return {.name = name, .kind = Kind::file, .help = help, .fallback = ""};
}

// Adds keys that apply to some objectives only; with `models`, only to these models.
void add_for(Keys& keys, const std::vector<std::string>& objectives, Keys more,
             const std::vector<std::string>& models = {}) {
  for (RecipeKey& key : more) {
    key.objectives = objectives;
    key.models = models;
    keys.push_back(std::move(key));
  }
}

const std::vector<std::string> any = {};
const std::vector<std::string> of_tokens = {"causal", "masked", "pairs"};
const std::vector<std::string> of_transformers = {"causal", "masked", "pairs", "classes"};
const std::vector<std::string> of_texts = {"causal",  "masked", "pairs", "classes",
                                           "matches", "cloze",  "spans"};
const std::vector<std::string> of_columns = {"pairs", "matches"};

const std::vector<std::string> transformer = {"transformer"};
const std::vector<std::string> with_heads = {"transformer", "multi-view"};
const std::vector<std::string> with_inner = {
    "transformer",    "multi-view",           "intra-attention",       "alignment-attention",
    "hard-attention", "structured-attention", "decomposable-attention"};
const std::vector<std::string> with_cells = {"structured-attention", "attention-over-attention",
                                             "alignment-attention", "hard-attention"};

void add_run(Keys& keys) {
  keys.push_back(integer(
      "seed", 0, 1, "seed of the start, the order of the data, masks and dropout", most_seeds));
  keys.push_back(choice("precision", {"f32", "f64"}, "type of weights and computation"));
}

void add_data(Keys& keys) {
  add_for(keys, of_texts,
          {file("data.text", "one UTF-8 text, divided by data.split"),
           {.name = "data.split",
            .kind = Kind::numbers,
            .help = "shares of data.text for training, validation and test, by position",
            .fallback = {90, 5, 5},
            .low = 0}});
  keys.push_back(file("data.train",
                      "training data: a text, for questions a bundle of tensor-gen scenes. Some "
                      "objectives need lines of columns with tabs between: pairs and matches, two "
                      "columns; classes, a class and a text; spans, a document, a question and the "
                      "first and the last position of the answer, as in 3-5"));
  keys.push_back(
      file("data.valid", "the same for validation, which runs every run.evaluate-every steps"));
  keys.push_back(file("data.test", "the same for the test at the end"));
  add_for(keys, of_texts,
          {choice("data.tokens", {"characters", "words", "byte-pairs"},
                  "what a token is; byte pairs are learned from the training data. Cloze questions "
                  "need words"),
           integer("data.vocabulary", 0, 0,
                   "number of symbols, special ones included; the most frequent ones are kept. 0: "
                   "all")});
  add_for(
      keys, {"causal", "masked", "pairs", "classes", "matches"},
      {integer("data.length", 1, 128,
               "tokens of a segment; for pairs, the most tokens of a target, its start included; "
               "for classes, the most of a text; for matches, the most of a second column")});
  add_for(keys, {"causal", "masked"},
          {{.name = "data.line-ends",
            .kind = Kind::flag,
            .help = "the end of a line is a token (words and byte pairs)",
            .fallback = true}});
  add_for(
      keys, of_columns,
      {integer("data.source-length", 1, 128, "the most tokens of a source"),
       flag("data.joint", "one vocabulary for both columns; for matches, also the same vectors")});
}

void add_model(Keys& keys) {
  keys.push_back(
      {.name = "model.kind",
       .kind = Kind::choice,
       .help = "the model, which depends on the objective: a Transformer (causal, masked, pairs, "
               "classes), attention between several views (questions), or a model built on the "
               "mechanism of "
               "the tool with this name: intra-attention (causal), alignment-attention and "
               "hard-attention (pairs), structured-attention (classes), decomposable-attention "
               "(matches), attention-over-attention (cloze), coattention (spans)",
       .fallback = nullptr,
       .words = {"transformer", "multi-view", "intra-attention", "alignment-attention",
                 "hard-attention", "structured-attention", "decomposable-attention",
                 "attention-over-attention", "coattention"},
       .default_words = "the first one that goes with the objective"});
  RecipeKey encoder =
      integer("model.encoder-layers", 1, nullptr, "layers of the encoder", most_layers);
  encoder.default_words = "as model.layers";
  add_for(keys, of_transformers,
          {integer("model.layers", 1, 1, "layers; for pairs, of the decoder", most_layers)},
          transformer);
  add_for(keys, {"pairs"}, {encoder}, transformer);
  keys.push_back(integer("model.width", 1, 128,
                         "width D of the vectors; in models of mechanisms, also of the states of "
                         "each direction of a recurrent network"));
  add_for(keys, any, {integer("model.heads", 1, 4, "heads; they divide the width")}, with_heads);
  add_for(keys, any,
          {integer("model.inner", 1, 256,
                   "width of the feed-forward layer; for questions, of pooling and classifier; in "
                   "models of mechanisms, of energies and networks of two layers")},
          with_inner);
  add_for(keys, any, {choice("model.cell", {"lstm", "gru"}, "the cell of recurrent networks")},
          with_cells);
  add_for(keys, of_transformers,
          {choice("model.positions", {"learned", "sinusoidal"}, "vectors of positions"),
           choice("model.norm", {"post", "pre"}, "layer norm after or before a sub-layer"),
           choice("model.activation", {"relu", "gelu"}, "of the feed-forward layer")},
          transformer);
  add_for(keys, of_tokens, {flag("model.tied", "the softmax has the matrix of the embedding")},
          transformer);
  keys.push_back(choice(
      "model.start", {"xavier", "normal"},
      "matrices start as normal numbers with this deviation. normal: model.deviation. xavier: "
      "1/sqrt(D) in a Transformer, sqrt(2/(rows + columns)) in other models. In a Transformer, the "
      "deviation of W_O and of the second feed-forward matrix is divided by sqrt(2 layers)"));
  keys.push_back(positive("model.deviation", 0.02, "see model.start"));
}

void add_mechanisms(Keys& keys) {
  add_for(keys, any,
          {integer("structured.hops", 1, 4, "R, the weighted means of a text"),
           number("structured.penalty", 0, no_limit, 0,
                  "the weight of |A A' - I|^2 in the loss of a text")},
          {"structured-attention"});
  add_for(keys, any,
          {{.name = "alignment.terms",
            .kind = Kind::choices,
            .help = "what the alignment sees besides the words: positions, and the weights of the "
                    "word before",
            .fallback = nlohmann::ordered_json::array(),
            .words = {"position", "previous"}},
           integer("alignment.reach", 1, 2, "K: how far the weights of the word before reach"),
           number("alignment.agreement", 0, no_limit, 0,
                  "above 0, also learns the other direction and adds this times -sum_ji A_ji A'_ij "
                  "to the loss, where A and A' are the weights of the two directions")},
          {"alignment-attention"});
  add_for(
      keys, any,
      {choice("hard.gradient", {"enumeration", "sampled", "sampled-baseline"},
              "the gradient of hard attention: exact, from all choices; or an estimate from one "
              "sample for each word (REINFORCE), without or with a baseline b, which a step uses "
              "and then replaces by 0.9 b + 0.1 log p")},
      {"hard-attention"});
  add_for(
      keys, any,
      {integer("cloze.lines", 1, 20, "lines of a document; the line with the missing word follows"),
       integer("cloze.letters", 1, 4, "the fewest letters of a missing word")},
      {"attention-over-attention"});
  add_for(keys, any,
          {integer("coattention.iterations", 1, 4, "the most iterations of the decoder", 1000),
           choice("coattention.end", {"any", "after-start"}, "which ends the decoder looks at"),
           integer("coattention.pieces", 1, 4,
                   "P, the pieces of the maxima in the decoder's networks")},
          {"coattention"});
}

Keys attention(const std::string& table, const std::string& where) {
  const std::string help = "normalisation of " + where + "; none: the sub-layer is left out";
  return {choice(table + ".scheme", {"unas", "dnas", "hnas", "sinkhorn", "none"}, help),
          integer(table + ".iterations", 1, 1, "iterations of sinkhorn"),
          {.name = table + ".hybrid",
           .kind = Kind::number,
           .help = "u of hnas at the start",
           .fallback = 0.5,
           .low = 0,
           .high = 1,
           .low_open = true,
           .high_open = true},
          choice(table + ".hybrid-by", {"layer", "head"}, "what has a u of its own")};
}

// Attention among tokens: their positions have learned preferences under fenchel and transport.
Keys token_attention(const std::string& table, const std::string& where) {
  Keys keys = attention(table, where);
  keys.front().words.insert(keys.front().words.end(), {"fenchel", "transport"});
  // With these, costs and finite scores in float32 remain far below the largest number in float64.
  constexpr double least = 1e-30;
  keys.push_back(
      number(table + ".gamma", least, no_limit, 1, "by which transport divides scores and costs"));
  keys.push_back(number(table + ".reach", least, no_limit, 1,
                        "R of transport, whose cost from position i to j is ((i - j)/R)^2"));
  return keys;
}

void add_attentions(Keys& keys) {
  add_for(keys, {"masked", "pairs", "classes"},
          token_attention("encoder.self", "self-attention in the encoder"), transformer);
  add_for(keys, {"causal", "pairs"},
          token_attention("decoder.self", "self-attention in the decoder"), transformer);
  add_for(keys, {"pairs"},
          token_attention("decoder.cross", "the decoder's attention to the encoder"), transformer);
  Keys views = attention("views", "");
  views.front().help =
      "normalisation of the attention of the first view to each other view; none: no attention, "
      "the boxes of all views side by side";
  views.front().words = {"unas", "dnas", "hnas", "sinkhorn", "em", "none"};
  views[1].help = "iterations of sinkhorn and em";
  views.push_back(flag("views.estimate-variance",
                       "em estimates the variance of each box of the first view, which else is 1"));
  views.push_back(choice("views.pooling", {"softmax", "sum"},
                         "how a question weighs the boxes of its scene. softmax: a mean. sum: each "
                         "box has a gate in (0, 1) of its own"));
  add_for(keys, {"questions"}, views);
}

void add_objective(Keys& keys) {
  keys.push_back(
      choice("objective.kind",
             {"causal", "masked", "pairs", "questions", "classes", "matches", "cloze", "spans"},
             "causal language model, masked language model, "
             "pairs (from source to target), questions about scenes that "
             "several detectors saw, classes of texts, matches (do both columns of a "
             "pair belong together? half of them are shuffled), cloze questions "
             "(which word of the lines before is missing in a line?), or spans (where "
             "in a document is the answer to a question?)"));
  add_for(keys, {"masked"},
          {flag("objective.order",
                "also learns whether the two halves of a segment are in order or swapped")});
  add_for(keys, any, {number("objective.smoothing", 0, 1, 0, "label smoothing")},
          {"transformer", "multi-view", "intra-attention", "alignment-attention",
           "structured-attention", "decomposable-attention"});
  add_for(keys, {"pairs"},
          {integer("objective.beam", 1, 1, "width of the beam of outputs; 1: greedy", 1024)},
          transformer);
}

void add_optimizer(Keys& keys) {
  keys.push_back(choice("optimizer.rule", {"adam", "sgd", "lamb"}, "how weights step"));
  keys.push_back(number("optimizer.momentum", 0, 1, 0, "of sgd"));
  keys.push_back(number("optimizer.beta1", 0, 1, 0.9, "of adam and lamb"));
  keys.push_back(number("optimizer.beta2", 0, 1, 0.999, "of adam and lamb"));
  RecipeKey epsilon = positive("optimizer.epsilon", 1e-8, "of adam and lamb");
  epsilon.fallback = nullptr;
  epsilon.default_words = "1e-8, for lamb 1e-6";
  keys.push_back(epsilon);
  keys.push_back(number("optimizer.decay", 0, no_limit, 0, "weight decay of matrices"));
  keys.push_back(number("optimizer.clip", 0, no_limit, 0,
                        "the largest norm of all gradients together; 0: no limit"));
  add_for(
      keys, of_transformers,
      {{.name = "optimizer.paths",
        .kind = Kind::choices,
        .help = "attentions whose W_Q and W_K step in the space of basis paths (SI-SGD, SI-Adam)",
        .fallback = nlohmann::ordered_json::array(),
        .words = attention_names},
       choice("optimizer.start", {"keep", "ones"},
              "the weights of the skeletons at the start: as they are, or 1"),
       choice("optimizer.rescale", {"none", "factors", "powers"},
              "rescales the columns of W_Q by c and of W_K by 1/c at the start: c uniform in "
              "[0.5, 3] with a random sign, or a signed power of two from 1/8 to 8"),
       {.name = "optimizer.start-of",
        .kind = Kind::choices,
        .help = "attentions that optimizer.start and optimizer.rescale change",
        .fallback = nullptr,
        .words = attention_names,
        .default_words = "those of optimizer.paths"},
       choice("optimizer.singular", {"stop", "skip"},
              "what happens where a ratio R is below optimizer.min-ratio: the run ends with "
              "status 4, or that column stays for this step"),
       positive("optimizer.min-ratio", 1e-3, "see optimizer.singular")},
      transformer);
}

void add_schedule(Keys& keys) {
  keys.push_back(positive("schedule.rate", 1e-3, "learning rate"));
  keys.push_back(integer("schedule.warm-up", 0, 0, "steps over which the rate rises linearly"));
  keys.push_back(choice("schedule.decay", {"constant", "steps", "cosine"}, "how the rate falls"));
  keys.push_back(positive("schedule.factor", 0.1, "steps: multiplies the rate at each milestone"));
  keys.push_back({.name = "schedule.milestones",
                  .kind = Kind::numbers,
                  .help = "steps: shares of all steps",
                  .fallback = {0.4, 0.8},
                  .low = 0,
                  .high = 1});
}

void add_steps(Keys& keys) {
  RecipeKey steps = integer("run.steps", 1, nullptr, "number of steps");
  steps.default_words = "those of run.epochs";
  keys.push_back(steps);
  keys.push_back(positive("run.epochs", 1,
                          "passes over the training data, unless run.steps is given; --set of one "
                          "of the two also replaces the other one in the file"));
  keys.push_back(integer("run.batch", 1, 16, "segments, pairs, scenes or texts of a step"));
  keys.push_back(number("run.dropout", 0, 1, 0,
                        "dropout of embeddings and of the outputs of sub-layers; in models of "
                        "mechanisms, of embeddings and of the softmax's input"));
  add_for(keys, any, {number("run.weight-dropout", 0, 1, 0, "of attention weights")}, with_heads);
  keys.push_back(integer("run.evaluate-every", 1, 200, "steps between evaluations"));
  keys.push_back(integer("run.log-every", 1, 50, "steps between lines of the log"));
  keys.push_back(integer("run.checkpoint-every", 1, 500, "steps between checkpoints"));
  add_for(keys, any,
          {flag("run.keep-inputs",
                "checkpoints hold x (and y) of every attention for the first validation batch")},
          with_heads);
  add_for(keys, {"pairs"},
          {choice("run.keep-weights", {"none", "train", "valid", "test"},
                  "the last checkpoint holds, for all pairs of this split, the weights by which "
                  "each word of the target, given those before it, attends to the source")});
}

Keys all_keys() {
  Keys keys;
  add_run(keys);
  add_data(keys);
  add_model(keys);
  add_attentions(keys);
  add_mechanisms(keys);
  add_objective(keys);
  add_optimizer(keys);
  add_schedule(keys);
  add_steps(keys);
  return keys;
}

std::string interval(const RecipeKey& key) {
  if (key.high == no_limit) {
    return fmt::format(" {} {}", key.low_open ? ">" : ">=", key.low);
  }
  return fmt::format(" in {}{}, {:.16g}{}", key.low_open ? "(" : "[", key.low, key.high,
                     key.high_open ? ")" : "]");
}

std::string default_text(const RecipeKey& key) {
  if (!key.default_words.empty()) return key.default_words;
  if (key.fallback.is_null() || key.fallback == "") return "";
  return key.fallback.is_string() ? key.fallback.get<std::string>() : key.fallback.dump();
}

// Makes the text begin with a capital letter and end with a full stop.
std::string sentence(std::string words) {
  if (words.front() >= 'a' && words.front() <= 'z') {
    words.front() = static_cast<char>(words.front() - 'a' + 'A');
  }
  return words + ".";
}

}  // namespace

std::string RecipeKey::expectation() const {
  switch (kind) {
    case Kind::file:
      return "a file";
    case Kind::choice:
      return fmt::format("one of {}", fmt::join(words, ", "));
    case Kind::choices:
      return fmt::format("a list of {}", fmt::join(words, ", "));
    case Kind::integer:
      return "an integer" + interval(*this);
    case Kind::number:
      return "a number" + interval(*this);
    case Kind::numbers:
      return "a list of numbers" + interval(*this);
    case Kind::flag:
      return "true or false";
  }
  return {};
}

const std::vector<std::string>& models_of(const std::string& objective) {
  static const std::map<std::string, std::vector<std::string>> models = {
      {"causal", {"transformer", "intra-attention"}},
      {"masked", {"transformer"}},
      {"pairs", {"transformer", "alignment-attention", "hard-attention"}},
      {"questions", {"multi-view"}},
      {"classes", {"structured-attention", "transformer"}},
      {"matches", {"decomposable-attention"}},
      {"cloze", {"attention-over-attention"}},
      {"spans", {"coattention"}}};
  return models.at(objective);
}

const std::vector<RecipeKey>& recipe_keys() {
  static const std::vector<RecipeKey> keys = all_keys();
  return keys;
}

std::string recipe_help() {
  std::string text =
      "A recipe is a TOML file. model.width is the key width in the table [model]; on the "
      "command\nline it is --set model.width=256, with lists separated by commas. Paths of files "
      "are relative\nto the recipe, paths in --set to the current folder.\n";
  std::string table;
  for (const RecipeKey& key : recipe_keys()) {
    const std::size_t dot = key.name.rfind('.');
    const std::string own = dot == std::string::npos ? "" : key.name.substr(0, dot);
    if (own != table || &key == &recipe_keys().front()) {
      text += own.empty() ? "\n" : "\n[" + own + "]\n";
      table = own;
    }
    std::string words = sentence(key.help);
    if (!key.objectives.empty() && !key.models.empty()) {
      words += fmt::format(" Only {} with {}.", fmt::join(key.objectives, ", "),
                           fmt::join(key.models, ", "));
    } else if (!key.objectives.empty() || !key.models.empty()) {
      words += fmt::format(" Only {}.",
                           fmt::join(key.models.empty() ? key.objectives : key.models, ", "));
    }
    words += " " + sentence(key.expectation());
    words.pop_back();
    const std::string usual = default_text(key);
    if (!usual.empty()) words += " (default " + usual + ")";
    const std::string name = dot == std::string::npos ? key.name : key.name.substr(dot + 1);
    text += fmt::format("  {:<16}  {}\n", name, cli::wrapped(words + ".", 62, 20));
  }
  return text;
}

}  // namespace attn::tools
