// attn-train: trains small models with every scheme, and in the space of basis paths.

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "attn_train/earlier_run.hpp"
#include "attn_train/tasks.hpp"
#include "attn_train/training.hpp"
#include "cli/memory_hint.hpp"
#include "cli/words.hpp"
#include "common/frame/bundles.hpp"
#include "common/options/dataset_words.hpp"
#include "common/process/numeric_libraries.hpp"
#include "common/process/tool_main.hpp"
#include "common/runs/ranks.hpp"
#include "common/runs/restart.hpp"
#include "parallel/ranks.hpp"
#include "system/paths.hpp"

namespace attn::tools {
namespace {

using Json = nlohmann::ordered_json;

cli::Declaration declare() {
  cli::Declaration d("attn-train", "Trains a small model that a recipe describes",
                     cli::Role::continued);
  d.about(
      "The recipe is a TOML file: model, data, objective, optimiser and schedule; --help=recipe "
      "lists its keys. Each attention has a scheme of its own: unas, dnas, hnas with trained u, "
      "sinkhorn, or fenchel and transport, which learn a preference for each position. Their W_Q "
      "and W_K may step in the scale-invariant space of basis paths. Models "
      "built on one of the other mechanisms, such as coattention, are trained in the same way: see "
      "model.kind.");
  d.about(
      "The same command continues from the last checkpoint and writes the same bytes as an "
      "uninterrupted run. A checkpoint is a bundle: the groups /layerN (one stack), or "
      "/encoder/layerN/self, /decoder/layerN/self and /decoder/layerN/cross, hold wq, wk, wv and "
      "wo for the other tools. The previous checkpoint is kept as RUN.previous.h5. No bit depends "
      "on --threads or on ranks.");
  d.words("RECIPE", "A TOML file.", 1, 1);
  d.help_topic("recipe", recipe_help);
  d.section("Training");
  d.texts("set", "KEY=VALUE",
          "Replaces a value of the recipe, such as encoder.self.scheme=dnas; may be repeated.");
  d.text(
      "from", "CHECKPOINT",
      "Begins with the weights of another run, which may have another objective, scheme or head. "
      "Tensors with the same name and shape are taken, and so is the vocabulary. The optimiser "
      "starts anew. A run that continues does not need the file again.");
  d.text(
      "log", "FILE",
      "Writes metrics as JSON lines. A run that continues cuts the file back to its checkpoint.");
  declare_requeue_status(d, "writes a checkpoint and ends");
  d.flag(
      "allow-leak",
      "Allows dnas, hnas and sinkhorn in causal attention, where later tokens change the weights "
      "of earlier ones.");
  declare_ranks(d, {.divided = "the sequences of each batch",
                    .longest = "A rank's part of a batch may take longer."});
  d.result("LAYER/wq, wk, wv", "(H, D, d)", "projections of an attention")
      .result("LAYER/wo", "(H*d, D)", "the output projection")
      .result("LAYER/hybrid", "() or (H)", "u of hnas, by attention or by head, float64")
      .result("LAYER/log_preference", "(positions)",
              "under fenchel and transport: the logarithm of each key's preference")
      .result("LAYER/x, y, query_length, key_length", "(B, L, D), (B)",
              "run.keep-inputs: the inputs of the projections for the first validation batch")
      .result("LAYER/ffn/..., LAYER/norm/..., embedding/..., softmax", "",
              "all other tensors of the model")
      .result("views/wq, wk1, wk2, viewN/col_sum", "(H, D, d), (keys)",
              "for questions; column sums with run.keep-inputs")
      .result("structured/..., alignment/..., hard/...", "",
              "the weights of a mechanism, under the names and shapes that its tool reads")
      .result(
          "weights/NAME/weights", "(pairs, H, J, I)",
          "run.keep-weights: how the words of targets attend to sources, for alignment-attention "
          "measure; without H in models of mechanisms. NAME is alignment, hard or the group of an "
          "attention. With target_length and source_length (pairs)")
      .result("vocabulary, classes", "(V), (classes)",
              "the symbols by token; source_vocabulary and target_vocabulary "
              "for pairs, with NAME_merges for byte pairs")
      .result("state/...", "", "moments of the optimiser and sums, from which a run continues");
  d.report_member("vocabularies, splits",
                  "the numbers of symbols, of pairs in the source and the target; by split, items "
                  "(sequences, pairs or questions) and, of a running text, tokens");
  d.report_member("from",
                  "of --from: digest of the file, the number of tensors taken, and by name those "
                  "that are new and those not taken")
      .report_member("parameters, steps, steps_per_epoch", "the sizes of the run")
      .report_member("cut_pairs",
                     "pairs, or texts with a class, of all splits that were cut, as they are "
                     "longer than the recipe allows")
      .report_member("working_bytes", "the most working memory, as planned")
      .report_member("step", "steps done")
      .report_member("valid, test",
                     "the last metrics: loss, accuracy and metrics of the objective");
  d.reference(doubly_normalized_reference)
      .reference(explain_away_reference)
      .reference(scale_invariant_reference);
  d.example("attn-train lm.toml -o lm.h5 --log lm.jsonl", "Train, or continue an earlier run.");
  d.example("attn-train lm.toml --set optimizer.paths=decoder.self --set seed=2 -o si.h5",
            "The same with SI-SGD or SI-Adam and another seed.");
  d.exit_status(1, "");
  d.exit_status(3, "the recipe or the data are missing, unreadable or wrong");
  d.exit_status(4, "the loss is not finite, or a ratio R of a step in paths is near 0 or negative");
  d.exit_status(5, "the output is another run, or cannot be written");
  return d;
}

// The identity of a run: names of files do not matter, their contents do.
RunIdentity identity_of(const cli::Arguments& arguments, const Recipe& recipe,
                        const std::string& data) {
  RunIdentity identity{recipe.values(), data, arguments.version, arguments.given("from"), {}};
  std::error_code unknown;
  if (identity.begins_from && std::filesystem::is_regular_file(arguments.text("from"), unknown)) {
    identity.from = print_of_file(arguments.text("from"));
  }
  for (const RecipeKey& key : recipe_keys()) {
    if (key.kind == RecipeKey::Kind::file) identity.recipe.erase(key.name);
  }
  return identity;
}

// The run that gives a new run its weights and its vocabulary; its checkpoint has this print. A run
// that goes on is its own, so that it does not need the other file again.
std::optional<EarlierRun> earlier_run(const cli::Arguments& arguments, cli::Report& report,
                                      const RunFile& file,
                                      const std::optional<std::string>& print) {
  if (!arguments.given("from")) return std::nullopt;
  const bool goes_on = file.steps_done().has_value();
  const std::string name = goes_on ? file.path() : arguments.text("from");
  if (!goes_on && !print) {
    throw Error(Failure::input, "--from is " + name + ", which is no file");
  }
  io::InputBundle::Options options = input_options(arguments, report);
  options.input = name;
  return EarlierRun(io::InputBundle(options), name);
}

// "begins with 25 tensors of lm.h5; new: class/softmax, class/softmax_bias; not taken: 9 tensors"
std::string from_words(const Json& from, const std::string& file) {
  constexpr std::size_t most_names = 6;
  std::string text =
      fmt::format("begins with {} of {}", cli::counted(from["taken"].get<Index>(), "tensor"), file);
  for (const auto& [key, words] : {std::pair("new", "new"), std::pair("not_taken", "not taken")}) {
    const auto names = from[key].get<std::vector<std::string>>();
    if (names.empty()) continue;
    text += fmt::format("; {}: {}", words,
                        names.size() > most_names ? cli::counted(std::ssize(names), "tensor")
                                                  : fmt::format("{}", fmt::join(names, ", ")));
  }
  return text;
}

template <class T>
std::unique_ptr<Task<T>> make_task(const cli::Arguments& arguments, cli::Report& report,
                                   const Recipe& recipe, const SplitTexts& texts) {
  const std::string kind = recipe.text("objective.kind");
  if (kind == "questions") return make_question_task<T>(arguments, report, recipe, texts);
  if (kind == "classes") return make_class_task<T>(recipe, texts, arguments.threads);
  if (kind == "matches") return make_match_task<T>(recipe, texts, arguments.threads);
  if (kind == "cloze") return make_cloze_task<T>(recipe, texts, arguments.threads);
  if (kind == "spans") return make_span_task<T>(recipe, texts, arguments.threads);
  const auto make = kind == "pairs" ? make_pair_task<T> : make_language_task<T>;
  return make(recipe, texts, arguments.flag("allow-leak"), arguments.threads);
}

// "valid: loss 1.52, perplexity 4.57"
std::string metrics_text(const Json& metrics) {
  std::string text;
  for (const auto& [split, values] : metrics.items()) {
    text += split + ":";
    const char* separator = " ";
    for (const auto& [name, value] : values.items()) {
      text += fmt::format("{}{} {:.6g}", separator, name, value.get<double>());
      separator = ", ";
    }
    text += "\n";
  }
  return text;
}

template <class T>
cli::Outcome train_as(const cli::Arguments& arguments, cli::Report& report, const Recipe& recipe) {
  std::shared_ptr<StopRequests> requests;
  if (!arguments.dry_run) {
    requests = catch_stops(arguments, false);
    // Before the first step there is nothing to keep, but no rank may leave the others waiting.
    if (Ranks::current() != nullptr) StopRequests::work_begins();
  }
  SplitTexts texts = read_split_texts(recipe, arguments.memory);
  const RunIdentity identity = identity_of(arguments, recipe, texts.print);
  RunFile file(arguments, report, identity);
  const auto from = earlier_run(arguments, report, file, identity.from);
  texts.from = from ? &*from : nullptr;
  const std::unique_ptr<Task<T>> task = make_task<T>(arguments, report, recipe, texts);
  texts.texts = {};
  if (from && !file.steps_done()) {
    Json shared = {{"digest", *identity.from}};
    shared.update(from->shared_with(*task));
    file.set_from(shared);
    report.note(from_words(shared, from->file()));
  }
  Training<T> training(arguments, report, recipe, *task, file, texts.from);
  Json& result = report.result();
  if (from) result["from"] = file.from();
  const DataSizes sizes = task->data_sizes();
  result["vocabularies"] = sizes.vocabularies;
  result["splits"] = data_json(sizes);
  result["parameters"] = task->parameters().size();
  result["steps"] = training.steps();
  result["steps_per_epoch"] = task->batches();
  result["cut_pairs"] = task->cut_pairs();
  result["working_bytes"] = training.working_bytes();
  if (task->cut_pairs() > 0) {
    const bool labelled = !task->classes().empty();
    report.note(cli::counted(task->cut_pairs(), labelled ? "text is" : "pair is",
                             labelled ? "texts are" : "pairs are") +
                " cut off at " + (labelled ? "" : "data.source-length or ") +
                "data.length, over all splits");
  }
  if (arguments.dry_run) {
    report.print(fmt::format(
        "{}\n{}, {} of {} an epoch\n"
        "working memory  {}, and {} for the program itself, besides the data\n",
        data_words(sizes), cli::counted(task->parameters().size(), "parameter"),
        cli::counted(training.steps(), "step"), task->batches(),
        bytes_text(static_cast<double>(training.working_bytes())), cli::memory_of_program));
    return {};
  }
  if (file.steps_done() == training.steps()) {
    requests->outlast();
    result["step"] = training.steps();
    return {0, fmt::format("{} is finished: {} steps", file.path(), training.steps())};
  }
  const bool finished = training.run();
  // Ranks wait for rank 0, which still writes.
  requests->outlast();
  result["step"] = training.step();
  result.update(training.metrics());
  report.print(metrics_text(training.metrics()));
  cli::Outcome outcome;
  outcome.summary = fmt::format("{}: {} of {}", file.path(), training.step(),
                                cli::counted(training.steps(), "step"));
  if (finished) return outcome;
  outcome.summary += ", " + stopped_by();
  outcome.status = requeue_status(arguments);
  outcome.stopped = true;
  return outcome;
}

// No output may replace an input or another output.
void require_own_names(const cli::Arguments& arguments, const Recipe& recipe, cli::Report& report) {
  if (arguments.text("log") == "-") throw Error(Failure::usage, "--log is -, expected a file");
  std::vector<std::pair<std::string, std::string>> names = {{"RECIPE", arguments.words().front()}};
  for (const RecipeKey& key : recipe_keys()) {
    if (key.kind == RecipeKey::Kind::file && recipe.given(key.name)) {
      names.emplace_back(key.name, recipe.text(key.name));
    }
  }
  const auto add_output = [&](const std::string& option, const std::string& file) {
    for (const auto& [name, other] : names) {
      if (!is_same_file(file, other)) continue;
      if (option == "--json") report.spare_json_file();
      throw Error(Failure::usage, fmt::format("{} and {} both name {}", option, name, file));
    }
    names.emplace_back(option, file);
  };
  if (arguments.given("from")) names.emplace_back("--from", arguments.text("from"));
  const std::string previous = previous_of(*arguments.output);
  for (const auto& [name, file] : names) {
    if (!is_same_file(previous, file)) continue;
    throw Error(Failure::usage, fmt::format("{} names {}, which {} replaces by its checkpoints",
                                            name, file, *arguments.output));
  }
  add_output("--output", *arguments.output);
  names.emplace_back("the previous checkpoint", previous);
  if (arguments.given("log")) add_output("--log", arguments.text("log"));
  if (arguments.json && !arguments.json->empty()) add_output("--json", *arguments.json);
}

cli::Outcome run(const cli::Arguments& arguments, cli::Report& report) {
  const Recipe recipe(arguments.words().front(), arguments.words_of("set"));
  require_own_names(arguments, recipe, report);
  return recipe.text("precision") == "f64" ? train_as<double>(arguments, report, recipe)
                                           : train_as<float>(arguments, report, recipe);
}

}  // namespace
}  // namespace attn::tools

int main(int argc, char** argv) {
  return attn::tools::tool_main(argc, argv, attn::tools::declare(), attn::tools::run,
                                attn::tools::numeric_libraries);
}
