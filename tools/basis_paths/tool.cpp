// basis-paths: the basis paths of attention weights, and training on their values.

#include <algorithm>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "attnkit/error.hpp"
#include "basis_paths/path_tool.hpp"
#include "basis_paths/path_verbs.hpp"
#include "cli/values.hpp"
#include "cli/words.hpp"
#include "common/frame/tool.hpp"
#include "common/runs/restart.hpp"

namespace attn::tools {
namespace {

constexpr Index most_axis = Index{1} << 30;

void declare_basis(cli::Declaration& d) {
  d.section("Basis");
  d.choice(
      "network", {"relu"},
      "Takes the paths of ReLU networks without biases instead: relu(x w1), relu(... w2), ..., the "
      "last without relu. Their weights w1 (..., n0, n1), w2 (..., n1, n2), ... have leading axes "
      "for independent networks. cyclic then connects node b with node b mod n of the layers "
      "before and after; largest is the path of largest magnitude. There is no si-sgd-printed.");
  d.only_with({"identify", "values", "reconstruct", "rescale", "step", "check"});
  d.choice(
       "skeleton", {"cyclic", "largest"},
       "Rows of the skeleton. cyclic: c mod d1 for column c, as published. largest: the "
       "entries of largest magnitude. step always uses the skeleton of the bundle if it has one; "
       "sgd and adam step on all weights alike, whatever the skeleton.")
      .default_words("skeleton_q and skeleton_k of the bundle, else cyclic");
  d.only_with({"identify", "values", "start", "step", "check"});
  d.flag("across-heads",
         "cyclic counts the columns of all heads, the last leading axis, as published: head h's "
         "column c has row (h d2 + c) mod d1. This is another basis, in which si-sgd takes other "
         "steps.");
  d.only_with({"identify", "values", "start", "step", "check"});
  d.text("paths", "LIST",
         "Paths, as row of wq, row of wk, column, such as \"0,1,2;3,0,2\". reconstruct: computes "
         "the values of these paths, or of all. identify: computes their exponents in the basis.");
  d.only_with({"identify", "reconstruct"});
  d.text(
      "shape", "D1xD2",
      "Checks weights of this shape instead of INPUT; with --network relu layers of these sizes, "
      "as in 784x100x10.");
  d.only_with({"check"});
  d.integer("length", "S",
            "Number of inputs of the layer; the report counts path_instances for it.", 1, most_axis)
      .default_words("that of the dataset x");
  d.only_with({"check"});
}

void declare_step(cli::Declaration& d) {
  using Range = cli::Declaration::Range;
  d.section("Step");
  const auto with_step = [&] { d.only_with({"step"}); };
  d.choice("optimizer", optimizer_names(),
           "Update rule. sgd, adam: on the weights. si-sgd, si-adam: on the values of the basis "
           "paths. si-sgd-printed: as published, correct only if the skeleton's weights are 1.",
           "si-sgd");
  with_step();
  d.number("rate", "ETA", "Learning rate.", Range::positive());
  with_step();
  d.number("min-ratio", "R",
           "A column, or a node of a network, is singular if the value of its skeleton's path "
           "after the step, divided by the value before, is below R: the learning rate is too "
           "large for a path so close to 0.",
           {0, 1, true, true}, 1e-3);
  with_step();
  d.choice(
      "on-singular", {"error", "skip", "clip"},
      "Handling of singular columns and nodes. error: nothing is written. skip: the column, or "
      "the skeleton's path through the node, is unchanged. clip: its ratio is set to "
      "--min-ratio.",
      "error");
  with_step();
  d.number("beta1", "B", "Decay rate of the first moments.", {0, 1, false, true}, 0.9);
  with_step();
  d.number("beta2", "B", "Decay rate of the second moments.", {0, 1, false, true}, 0.999);
  with_step();
  d.number("epsilon", "E", "Added to the square root of the second moments.", Range::positive(),
           1e-8);
  with_step();
  d.number("momentum", "MU",
           "sgd, si-sgd: m = MU m + G replaces the gradient G of a weight, or of a basis path's "
           "value. m is kept in the bundle.",
           {0, 1, false, true}, 0.0);
  with_step();
  d.number("weight-decay", "LAMBDA",
           "sgd, si-sgd: adds LAMBDA times the weight, or the basis path's value, to its gradient. "
           "adam, si-adam: also subtracts ETA LAMBDA times the weight or value.",
           Range::non_negative(), 0.0);
  with_step();
}

cli::Declaration declare() {
  cli::Declaration d("basis-paths",
                     "Finds the basis paths of attention weights, and trains in their space",
                     cli::Role::transform);
  d.about(
      "The weights wq and wk (..., d1, d2), with leading axes such as layers and heads, affect the "
      "scores only through the paths wq[i,c] wk[j,c]. Rescaling column c to wq[:,c] f and wk[:,c] "
      "/ f does not change these. In each column, a skeleton names one row of wq and one of wk. "
      "The "
      "paths through one of these entries are a basis: d2 (2 d1 - 1) of the d1^2 d2 paths. A "
      "gradient step on basis paths does not depend on the scale of the columns. The same for ReLU "
      "networks: --network relu.");
  d.verbs(
      "VERB",
      {{"identify",
        "Writes the skeleton and the basis paths as indices. With --paths or the dataset path "
        "(..., n, 3), also which basis paths these are products of."},
       {"values", "Writes the values of the basis paths. Fails if a weight of the skeleton is 0."},
       {"reconstruct",
        "Computes wq and wk from basis_value, the skeleton and wk_skeleton. With --paths or the "
        "dataset path (..., n, 3), computes the values of these paths instead."},
       {"rescale",
        "Multiplies the columns of wq by the dataset scale (..., d2), divides those of wk by it, "
        "and rescales bq, bk, grad_wq, grad_wk, the moments of sgd and adam and wk_skeleton to "
        "match."},
       {"start",
        "Sets the weights of the skeleton to 1 in wq and wk, where si-sgd-printed is right and "
        "published runs start. Changes the scores, and removes gradients and results of the old "
        "weights."},
       {"step",
        "Makes one update from grad_wq and grad_wk, which are then removed. The state of adam and "
        "si-adam (adam_m, adam_v, adam_step, si_adam_...) and momenta (sgd_m, si_sgd_m) are kept "
        "in "
        "the bundle. Results made from "
        "the old weights are removed."},
       {"check",
        "Counts all paths and computes their exact rank. Checks whether given paths are "
        "independent "
        "and complete: those of the dataset path (..., n, 3), else of basis_path, else the basis "
        "of "
        "the skeleton.",
        cli::Role::inspect}});
  declare_basis(d);
  declare_step(d);
  declare_sections(d, "heads (or networks)");
  d.only_with({"identify", "values", "reconstruct", "rescale", "start", "step"});  // --shard
  declare_restart(d);
  declare_path_datasets(d);
  d.example("basis-paths values layer3.h5 | basis-paths reconstruct -o again.h5",
            "Reconstruct the weights from the basis paths.");
  d.example(
      "attn-compute --from projection --emit grad_wq,grad_wk layer3.h5 |\n"
      "      basis-paths step --rate 0.001 -o next.h5",
      "An update of the weights; layer3.h5 holds x, wq, wk, wv and grad_out.");
  d.example("basis-paths check --shape 512x64", "The rank and the number of the paths.");
  d.example("basis-paths step --network relu --rate 0.001 net.h5 -o next.h5",
            "An update of a ReLU network; net.h5 holds w1, w2, grad_w1 and grad_w2.");
  d.exit_status(1, "check: the paths are not independent or not complete");
  d.exit_status(4,
                "a weight of the skeleton is 0, a column or a node is singular, or a number "
                "exceeds the format");
  return d;
}

// The numbers of --shape: two, or for a network, one for each layer of nodes.
std::vector<Index> axes_of_shape(const cli::Arguments& arguments, bool of_network) {
  std::vector<Index> axes;
  for (const std::string& part : cli::split(arguments.text("shape"), 'x')) {
    axes.push_back(cli::to_integer(part).value_or(0));
  }
  const auto wrong = [](Index axis) { return axis < 1 || axis > most_axis; };
  if (axes.size() < 2 || (axes.size() > 2 && !of_network) ||
      std::any_of(axes.begin(), axes.end(), wrong)) {
    throw Error(Failure::usage,
                "--shape is " + arguments.text("shape") + ", expected " +
                    (of_network ? "N0xN1x..., as in 784x100x10" : "D1xD2, as in 512x64"));
  }
  if (!arguments.named_inputs.empty() || *arguments.input != "-" || arguments.given("each") ||
      arguments.given("map") || arguments.given("skeleton") || arguments.given("across-heads")) {
    throw Error(Failure::usage, "--shape stands in place of an input");
  }
  return axes;
}

cli::Outcome check_shape(const cli::Arguments& arguments, cli::Report& report) {
  const std::vector<Index> axes = axes_of_shape(arguments, false);
  const bool holds =
      report_structure(arguments, axes[0], axes[1], arguments.integer("length"), report);
  if (!holds) report.status("no");
  return {holds ? 0 : 1};
}

cli::Outcome check_layers(const cli::Arguments& arguments, cli::Report& report) {
  const ReluLayers layers = layers_of(axes_of_shape(arguments, true), "--shape", Failure::usage);
  require_network_options(arguments);
  const bool holds = report_structure(arguments, layers, nullptr, report);
  if (!holds) report.status("no");
  return {holds ? 0 : 1};
}

// Scripts give all optimizers the same options.
void note_skeleton_without_effect(const cli::Arguments& arguments, cli::Report& report) {
  if (arguments.verb != "step" || steps_in_paths(read_step_options(arguments).optimizer)) return;
  std::vector<std::string> given;
  for (const char* option : {"skeleton", "across-heads", "min-ratio", "on-singular"}) {
    if (arguments.given(option)) given.push_back(fmt::format("--{}", option));
  }
  if (given.empty()) return;
  report.note(fmt::format("{} steps on all weights alike, without a skeleton: {} {} no effect",
                          arguments.text("optimizer"), fmt::join(given, ", "),
                          given.size() == 1 ? "has" : "have"));
}

cli::Outcome run(const cli::Arguments& arguments, cli::Report& report) {
  note_skeleton_without_effect(arguments, report);
  const bool network = arguments.declared("network") && arguments.given("network");
  if (arguments.given("shape")) {
    return network ? check_layers(arguments, report) : check_shape(arguments, report);
  }
  if (network) return run_tool<NetworkTask, NetworkRun>(arguments, report);
  return run_tool<PathTask, PathRun>(arguments, report);
}

}  // namespace

std::string run_verb(PathRun& run) {
  report_path_shape(run.task, run.report);
  const std::string& verb = run.task.verb;
  if (verb == "identify") return identify_paths(run);
  if (verb == "values") return find_path_values(run);
  if (verb == "reconstruct") return reconstruct_from_paths(run);
  if (verb == "rescale") return rescale_weights(run);
  if (verb == "start") return start_weights(run);
  return step_weights(run);
}

std::string run_verb(NetworkRun& run) {
  report_network_shape(run.task, run.report);
  const std::string& verb = run.task.verb;
  if (verb == "identify") return identify_paths(run);
  if (verb == "values") return find_path_values(run);
  if (verb == "reconstruct") return reconstruct_from_paths(run);
  if (verb == "rescale") return rescale_weights(run);
  return step_weights(run);
}

const ToolDefinition basis_paths = {declare, run, nullptr};

}  // namespace attn::tools
