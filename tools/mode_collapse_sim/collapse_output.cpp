#include "mode_collapse_sim/collapse_output.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "attnkit/error.hpp"
#include "common/runs/run_identity.hpp"
#include "tensor/buffer.hpp"

namespace attn::tools {

std::optional<io::InputBundle> open_points(const cli::Arguments& arguments, cli::Report& report) {
  if (!arguments.input && arguments.named_inputs.empty()) return std::nullopt;
  return open_input(arguments, report);
}

std::set<std::string> emitted_of(const cli::Arguments& arguments,
                                 const std::vector<std::string>& usual) {
  const std::vector<std::string> wanted = arguments.words_of("emit");
  for (const std::string& name : wanted) {
    if (std::find(usual.begin(), usual.end(), name) != usual.end()) continue;
    throw Error(Failure::usage, fmt::format("--emit lists {}, but the results of {} are {}", name,
                                            arguments.verb, fmt::join(usual, ", ")));
  }
  const std::vector<std::string>& chosen = wanted.empty() ? usual : wanted;
  return {chosen.begin(), chosen.end()};
}

namespace {

RunEffect effect_of(const cli::Arguments& arguments, const PointSets& sets,
                    const std::set<std::string>& emitted, const std::vector<std::string>& groups) {
  RunEffect effect;
  effect.tool = arguments.tool + " " + arguments.verb;
  effect.replaced.insert(groups.begin(), groups.end());
  const std::set<std::string> points = {"x", "label", "start"};
  // Drawn points differ from the input's, whether or not they are written.
  if (sets.drawn()) effect.changed = {"x", "label"};
  for (const std::string& name : emitted) {
    if (name == "x" || name == "label") {
      if (sets.drawn()) effect.replaced.insert(name);
      continue;
    }
    for (const std::string& group : groups) effect.results[group + "/" + name] = points;
  }
  return effect;
}

}  // namespace

io::OutputBundle CollapseOutput::take(cli::Report& report) {
  warn_of_left_out({plan}, report);
  write_marks(plan, bundle);
  if (share != nullptr) share->mark(bundle, report);
  return std::move(bundle);
}

CollapseOutput open_collapse_output(const cli::Arguments& arguments,
                                    const std::optional<io::InputBundle>& input,
                                    const PointSets& sets, const std::set<std::string>& emitted,
                                    const std::vector<std::string>& groups, SectionShare* share) {
  if (!sets.drawn() && arguments.given("emit")) {
    for (const char* name : {"x", "label"}) {
      if (emitted.count(name) == 0) continue;
      throw Error(Failure::usage,
                  fmt::format("--emit {} is for drawn points, but {} has a dataset x", name,
                              input->description()));
    }
  }
  const RunEffect effect = effect_of(arguments, sets, emitted, groups);
  if (share != nullptr) {
    cli::Arguments whole = arguments;
    whole.only = false;
    share->add({}, 1, input ? plan_results(whole, *input, effect) : ResultPlan{});
  }
  if (input) {
    ResultPlan plan = plan_results(arguments, *input, effect);
    return {open_output_like(arguments, *input, plan.without), std::move(plan), share};
  }
  const io::InputBundle nothing{io::InputBundle::Options()};
  io::OutputBundle output = open_output(arguments);
  output.add_history(arguments.command_line, arguments.version);
  return {std::move(output), plan_results(arguments, nothing, effect), share};
}

std::optional<SectionShare> divide_sets(const cli::Arguments& arguments, PointSets& sets) {
  const std::optional<Shard> shard = shard_of(arguments);
  if (!shard) return std::nullopt;
  SectionShare share(arguments, *shard);
  // All sets have the same shape.
  share.divide(ProblemUnits(sets.sets),
               std::vector<double>(static_cast<std::size_t>(sets.sets), 1));
  sets.share = share.problems();
  return share;
}

void keep_notes(ReportNotes notes, cli::Report& report, SectionShare& share) {
  notes.params = params_text(report);
  share.keep(std::move(notes));
}

cli::Outcome write_empty_shard(const cli::Arguments& arguments,
                               const std::optional<io::InputBundle>& input, SectionShare& share,
                               cli::Report& report) {
  share.add({}, 1);
  io::OutputBundle output = open_output(arguments);
  if (input) output.copy_attributes_from(*input);
  output.add_history(arguments.command_line, arguments.version);
  share.mark(output, report);
  cli::Outcome outcome;
  outcome.summary = share.without_work();
  outcome.commit = commit_of(std::move(output), report);
  return outcome;
}

template <class T>
void write_drawn_points(const PointSets& sets, const std::set<std::string>& emitted,
                        io::OutputBundle& bundle, HeadOutputs& outputs, cli::Report& report) {
  if (!sets.drawn()) return;
  const Shape own = {sets.points, sets.dimension};
  if (emitted.count("x") > 0) {
    outputs.create("x", sizeof(T) == sizeof(double) ? DType::f64 : DType::f32, own,
                   {"point", "dimension"});
    const Buffer<T> points(sets.points * sets.dimension);
    for (Index n = 0; n < sets.own_sets(); ++n) {
      const Index set = sets.own_set(n);
      sets.read(set, points.data());
      outputs.write("x", set, points.data());
    }
  }
  if (emitted.count("label") > 0) {
    const std::vector<std::int64_t> labels = sets.labels(0);
    bundle.create("label", DType::i64, {sets.points}, {"point"})
        .write({0}, {sets.points}, labels.data());
    report.output("label", bundle.address_of("label"), {sets.points}, DType::i64);
  }
}

template void write_drawn_points<float>(const PointSets&, const std::set<std::string>&,
                                        io::OutputBundle&, HeadOutputs&, cli::Report&);
template void write_drawn_points<double>(const PointSets&, const std::set<std::string>&,
                                         io::OutputBundle&, HeadOutputs&, cli::Report&);

}  // namespace attn::tools
