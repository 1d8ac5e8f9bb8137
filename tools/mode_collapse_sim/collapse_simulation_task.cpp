#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "attnkit/error.hpp"
#include "cli/words.hpp"
#include "common/frame/bundles.hpp"
#include "common/options/scheme_settings.hpp"
#include "common/options/score_options.hpp"
#include "common/runs/restart.hpp"
#include "mode_collapse_sim/collapse_output.hpp"
#include "mode_collapse_sim/collapse_simulation.hpp"

namespace attn::tools {
namespace {

const std::vector<std::string> simulate_verb = {"simulate"};

const std::vector<std::string> simulation_results = {
    "x", "label", "trajectory", "centre", "centre_distance", "spread", "modes", "log_likelihood"};

collapse::SelfAttentionOptions options_of(const cli::Arguments& arguments, Scheme scheme) {
  const SchemeDescription& description = description_of(scheme);
  collapse::SelfAttentionOptions options;
  options.scheme = scheme;
  options.energy = arguments.text("energy");
  options.scale = arguments.number("scale").value();
  options.residual = arguments.flag("residual");
  if (description.is_mixture()) {
    if (!arguments.given("hybrid")) {
      throw Error(Failure::usage,
                  fmt::format("--scheme {} requires --hybrid U", description.name()));
    }
    options.hybrid = *arguments.number("hybrid");
  }
  if (description.is_iterated()) {
    options.stopping = {arguments.integer("iterations"), arguments.number("tolerance")};
  }
  return options;
}

std::vector<Scheme> schemes_of(const std::vector<std::string>& names) {
  std::vector<Scheme> schemes;
  for (const std::string& name : names) schemes.push_back(scheme_of(name).value());
  return schemes;
}

// Rejects options that have no effect.
void require_effect(const cli::Arguments& arguments, const std::vector<Scheme>& schemes) {
  require_effect_on(arguments, "hybrid", &SchemeDescription::is_mixture, schemes);
  require_effect_on(arguments, "iterations", &SchemeDescription::is_iterated, schemes);
  require_effect_on(arguments, "tolerance", &SchemeDescription::is_iterated, schemes);
}

// The schemes that need only points.
std::vector<std::string> schemes_of_points() {
  std::vector<std::string> names;
  for (const SchemeDescription* scheme : attn::schemes()) {
    if (!scheme->has_preference()) names.emplace_back(scheme->name());
  }
  return names;
}

}  // namespace

SimulationTask::SimulationTask(const cli::Arguments& arguments, const io::InputBundle* input)
    : sets(arguments, input, true),
      names(arguments.words_of("scheme")),
      steps(arguments.integer("steps").value_or(4)),
      width(arguments.number("width").value()),
      merged(arguments.number("merged").value()),
      emitted(emitted_of(arguments, simulation_results)) {
  const std::vector<Scheme> used = schemes_of(names);
  require_effect(arguments, used);
  for (const Scheme scheme : used) schemes.push_back(options_of(arguments, scheme));
  bool any = false;
  for (std::size_t n = 0; n < schemes.size(); ++n) any = any || has_likelihood(n);
  if (any) return;
  if (!arguments.words_of("emit").empty() && emits("log_likelihood")) {
    throw Error(
        Failure::usage,
        "--emit log_likelihood requires --energy gaussian, a scale > 0 and --scheme unas or "
        "dnas");
  }
  emitted.erase("log_likelihood");
}

bool SimulationTask::has_likelihood(std::size_t scheme) const {
  const collapse::SelfAttentionOptions& one = schemes[scheme];
  return one.energy == "gaussian" && one.scale > 0 &&
         (one.scheme == Scheme::unas || one.scheme == Scheme::dnas);
}

std::string SimulationTask::energy() const { return schemes.front().energy; }

std::int64_t SimulationTask::plan_bytes(int threads) const {
  const Shape points{sets.points, sets.dimension};
  std::int64_t bytes = collapse::ClusterPlan<double>(points, {sets.points}, sets.clusters, width, 1)
                           .workspace_bytes();
  for (const collapse::SelfAttentionOptions& scheme : schemes) {
    bytes += sets.f64
                 ? collapse::SelfAttentionPlan<double>(points, scheme, threads).workspace_bytes()
                 : collapse::SelfAttentionPlan<float>(points, scheme, threads).workspace_bytes();
  }
  return bytes;
}

PointPlan SimulationTask::plan(const cli::Arguments& arguments) const {
  for (const ArraySource& dataset : sets.datasets()) {
    require_readable(dataset, arguments.memory);
  }
  const auto element = static_cast<std::int64_t>(sets.f64 ? sizeof(double) : sizeof(float));
  constexpr auto number = static_cast<std::int64_t>(sizeof(double));
  const auto runs = static_cast<Index>(schemes.size());
  const Index times = steps + 1;
  // In floating point, since the product of the user's numbers may overflow. Statistics that are
  // not written are kept for only one step.
  const double kept_distances = emits("centre_distance") ? static_cast<double>(runs * times) : 1.0;
  const double statistics =
      static_cast<double>(runs * times) *
          static_cast<double>(sets.clusters * (sets.dimension + 1) + 1) +
      kept_distances * static_cast<double>(sets.clusters) * static_cast<double>(sets.clusters);
  constexpr auto most = static_cast<double>(most_bytes);
  const double figures =
      4.0 * static_cast<double>(runs * times) * static_cast<double>(sets.own_sets()) * 2;
  const auto kept = static_cast<std::int64_t>(std::min(most, figures * number));
  // A checkpoint keeps the points of each step.
  const double trajectory = checkpoints(arguments) && emits("trajectory")
                                ? static_cast<double>(runs * times) *
                                      static_cast<double>(sets.points) *
                                      static_cast<double>(sets.dimension * element)
                                : 0;
  // Twice, since they are assembled in a second copy before they are written.
  const auto own =
      static_cast<std::int64_t>(std::min(most, 2 * (statistics * number + trajectory)));
  return plan_points(
      sets.own_sets(), sets.points, kept,
      [&](int threads) {
        return own + sets.points * (3 * sets.dimension * element + 2 * number) +
               plan_bytes(threads);
      },
      arguments.threads, arguments.memory, sets.text() + " over " + cli::counted(steps, "step"));
}

void declare_simulation(cli::Declaration& d) {
  using Range = cli::Declaration::Range;
  d.section("simulate");
  d.choices("scheme", schemes_of_points(), "Normalisations of the weights.", "unas,dnas")
      .synonym("softmax", "unas");
  d.only_with(simulate_verb);
  d.choice("energy", {"dot", "gaussian"},
           "Energy of two points x, y: dot <x,y>, gaussian -|x-y|^2/2.", "dot");
  d.only_with(simulate_verb);
  d.number("scale", "X", "Multiplies the energy.", Range::any(), 1.0);
  d.only_with(simulate_verb);
  d.flag("residual", "Adds each point to its update.");
  d.only_with(simulate_verb);
  d.number("hybrid", "U", "Share u of dnas in hnas.", {0, 1});
  d.only_with(simulate_verb);
  d.integer("iterations", "T",
            "Runs exactly T iterations of sinkhorn in each step; with --tolerance, at most T.", 1,
            Index{1} << 40)
      .default_words("at most 1000");
  d.only_with(simulate_verb);
  declare_tolerance(d);
  d.only_with(simulate_verb);
  d.number("width", "H",
           "Width H in the effective number of modes, exp(-1/C sum_c log(1/C sum_c' exp(-|m_c - "
           "m_c'|^2/(2 H^2)))) for C centres m: 1 if all coincide, C if all are far apart "
           "(Leinster & Cobbold 2012, order 1).",
           Range::positive(), 1.0);
  d.only_with(simulate_verb);
  d.number("merged", "D", "The report counts the sets that have two centres less than D apart.",
           Range::positive(), 0.1);
  d.only_with(simulate_verb);
}

void report_simulation_cost(const cli::Arguments& arguments, const SimulationTask& task,
                            cli::Report& report) {
  const PointSets& sets = task.sets;
  const PointPlan plan = task.plan(arguments);
  const auto count = static_cast<double>(sets.own_sets());
  const auto times = static_cast<double>(task.steps + 1);
  const auto n = static_cast<double>(sets.points);
  const auto d = static_cast<double>(sets.dimension);
  const auto c = static_cast<double>(sets.clusters);
  const double element = sets.f64 ? sizeof(double) : sizeof(float);
  double flops = 0;
  for (std::size_t k = 0; k < task.schemes.size(); ++k) {
    const collapse::SelfAttentionOptions& options = task.schemes[k];
    SchemeOptions scheme;
    scheme.scheme = options.scheme;
    scheme.hybrid = options.hybrid;
    scheme.stopping = options.stopping;
    const double passes = description_of(options.scheme).score_passes(scheme);
    const double after = task.has_likelihood(k) ? passes : 0;  // the likelihood of the last points
    flops += count * n * n * 2 * d * ((times - 1) * (passes + 1) + after);
  }
  double bytes = 0;
  if (task.emits("trajectory")) bytes += times * n * d * element;
  if (task.emits("centre")) bytes += times * c * d * 8;
  if (task.emits("centre_distance")) bytes += times * (sets.clusters == 2 ? 1 : c * c) * 8;
  if (task.emits("spread")) bytes += times * c * 8;
  if (task.emits("modes")) bytes += times * 8;
  if (task.emits("log_likelihood")) bytes += times * 8;
  bytes *= count * static_cast<double>(task.schemes.size());
  if (sets.drawn() && task.emits("x")) bytes += count * n * d * element;
  if (sets.drawn() && task.emits("label")) bytes += n * 8;
  report_points_cost(
      fmt::format("{} in {}, {} under {}", sets.text(), sets.f64 ? "float64" : "float32",
                  cli::counted(task.steps, "step"), fmt::join(task.names, ", ")),
      plan, bytes, flops, report);
}

}  // namespace attn::tools
