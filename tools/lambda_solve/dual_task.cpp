#include "lambda_solve/dual_task.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "attnkit/error.hpp"
#include "cli/words.hpp"
#include "common/costs/cost_report.hpp"
#include "common/frame/bundles.hpp"
#include "common/heads/score_source.hpp"
#include "common/options/transform_names.hpp"
#include "common/runs/restart.hpp"

namespace attn::tools {
namespace {

using Source = ScoreOptions::Source;

// For given evidence and templates, which must have equal widths.
void require_one_width(const io::InputBundle& bundle, Source source) {
  const bool ready = source == Source::templates;
  const std::string rows = ready ? "t" : "k";
  const std::string queries = ready ? "z" : "q";
  if (source == Source::projection || !bundle.has(rows) || !bundle.has(queries)) return;
  const ArraySource k = bundle.dataset(rows);
  const ArraySource q = bundle.dataset(queries);
  if (k.shape().empty() || q.shape().empty() || k.shape().back() == q.shape().back()) return;
  throw Error(Failure::input, fmt::format("{}: last axis is {}, {} has {}", k.address(),
                                          k.shape().back(), q.address(), q.shape().back()));
}

// Attributes may describe an earlier run rather than the tensors.
ScoreOptions resolve_scores(const cli::Arguments& arguments, const io::InputBundle& bundle) {
  const bool earlier_run = bundle.text_attribute("attn_scheme").has_value();
  const ScoreOptions recorded = resolve_score_options(arguments, &bundle);
  ScoreOptions options = recorded;
  if (earlier_run) {
    options = resolve_score_options(arguments, nullptr);
    options.layout = recorded.layout;  // the order of axes belongs to the tensors, not to that run
  }
  if (!arguments.given("from") && bundle.has("t") && bundle.has("z")) {
    options.source = Source::templates;
  }
  const auto refuse = [&](const std::string& what, const std::string& hint = "") {
    throw Error(Failure::input,
                bundle.description() + ": " + what +
                    " makes scores that are not inner products of templates",
                hint);
  };
  if (options.softcap) refuse("softcap", "--softcap none takes the scores before the cap");
  if (options.energy != "scaled-dot" && options.energy != "dot") {
    refuse("energy " + options.energy);
  }
  if (options.source == Source::scores || options.source == Source::cost) {
    refuse("a source other than vectors");
  }
  if (options.source == Source::templates) {
    if (arguments.given("energy")) {
      throw Error(Failure::usage, "--energy has no effect on ready-made templates",
                  arguments.given("from") ? "" : "--from qk takes them from k");
    }
    options.energy = "dot";
  }
  require_one_width(bundle, options.source);
  // AttentionInput then requires the datasets of the energy dot.
  options.energy_chosen = true;
  return options;
}

void require_one_of(const cli::Arguments& arguments, const std::vector<std::string>& names) {
  std::string first;
  for (const std::string& name : names) {
    if (!arguments.given(name)) continue;
    if (!first.empty()) {
      throw Error(Failure::usage,
                  fmt::format("both --{} and --{} are given, expected one", first, name));
    }
    first = name;
  }
}

DualTaskOptions resolve(const cli::Arguments& arguments, const io::InputBundle& bundle) {
  DualTaskOptions options;
  options.scores = resolve_scores(arguments, bundle);
  if (bundle.text_attribute("attn_scheme")) {
    options.settings_left = settings_left(resolve_score_options(arguments, &bundle),
                                          resolve_score_options(arguments, nullptr));
  }
  // The bundle's attribute describes attn-compute's results.
  options.alpha = arguments.number("alpha").value_or(1);
  const bool transport = arguments.text("divergence") == "ot";
  if (arguments.given("gamma") && !transport) {
    throw Error(Failure::usage, "--gamma requires --divergence ot");
  }
  if (transport) {
    options.gamma = arguments.number("gamma");
    if (!options.gamma) throw Error(Failure::usage, "--divergence ot requires --gamma G");
  }
  options.radius = arguments.number("radius");
  require_one_of(arguments, {"alpha", "noise", "radius"});
  if (arguments.given("weight") && !arguments.given("noise")) {
    throw Error(Failure::usage, "--weight requires --noise");
  }
  if (const auto noise = arguments.number("noise")) {
    options.alpha = 1 / (arguments.number("weight").value() * *noise);
    if (!(options.alpha > 0 && std::isfinite(options.alpha))) {
      throw Error(Failure::usage, "--noise and --weight make an alpha beyond float64");
    }
  }
  if (options.radius && transport) {
    throw Error(Failure::usage, "--radius requires --divergence kl");
  }
  options.solver.gradient_tolerance = arguments.number("gradient-tolerance");
  if (options.solver.gradient_tolerance && arguments.given("tolerance")) {
    throw Error(Failure::usage,
                "both --tolerance and --gradient-tolerance are given, expected one");
  }
  options.solver.max_iterations = arguments.integer("max-iterations").value();
  const std::string values = options.scores.source == Source::projection ? "wv" : "v";
  const auto wanted = arguments.words_of("emit");
  options.emitted.insert(wanted.begin(), wanted.end());
  if (wanted.empty()) {
    for (const DualResultKind& kind : dual_result_kinds()) {
      const bool of_values = kind.name == "out" || kind.name == "out_deviation";
      if (kind.name == "p" || (of_values && !bundle.has(values))) continue;
      if (kind.name == "alpha" && !options.radius) continue;
      options.emitted.insert(kind.name);
    }
  }
  if (options.emits("alpha") && !options.radius) {
    throw Error(Failure::usage, "--emit alpha requires --radius; without it, alpha is --alpha");
  }
  if (options.emits("out") || options.emits("out_deviation")) {
    static_cast<void>(bundle.dataset(values));
  }
  return options;
}

bool has_float64_cost(const DualTaskOptions& options, const io::InputBundle& bundle) {
  return options.gamma && bundle.dataset("cost").dtype() == DType::f64;
}

}  // namespace

bool DualTask::suffices(const cli::Arguments& arguments, const io::InputBundle& bundle) {
  const Source source = resolve_score_options(arguments, &bundle).source;
  return has_scores(bundle, source) ||
         (!arguments.given("from") && has_scores(bundle, Source::templates));
}

DualTask::DualTask(const cli::Arguments& arguments, io::InputBundle section)
    : bundle(std::move(section)),
      options(resolve(arguments, bundle)),
      input(bundle, options.scores, options.emits("out") || options.emits("out_deviation"),
            {Scheme::fenchel}),
      f64(arguments.f64.value_or(input.any_float64 || has_float64_cost(options, bundle))) {
  require_no_sink(bundle, "lambda-solve");
  if (options.scores.source == Source::projection) {
    require_no_transforms(bundle, "lambda-solve takes y itself as templates, x wq wk' as evidence");
  }
  if (arguments.given("layout") && !input.v && options.scores.source == Source::projection) {
    throw Error(Failure::usage, "--layout has no effect: no q, k and v are read");
  }
  options.template_scale = options.scores.scale;
  if (options.scores.energy == "scaled-dot") {
    options.template_scale /= std::sqrt(static_cast<double>(input.depth));
  }
  if (const auto given = arguments.number("template-scale")) {
    // The scores stay the same.
    options.evidence_scale = options.template_scale / *given;
    options.template_scale = *given;
  }
  options.solver.tolerance = arguments.number("tolerance").value_or(f64 ? 1e-10 : 1e-8);
  if (options.gamma) read_cost();
}

void DualTask::read_cost() {
  cost_dataset = bundle.dataset("cost");
  require_floating(*cost_dataset);
  const Shape expected = {input.keys, input.keys};
  if (cost_dataset->shape() != expected) {
    throw Error(Failure::input, fmt::format("{} has shape {}, expected {}", cost_dataset->address(),
                                            to_string(cost_dataset->shape()), to_string(expected)));
  }
  cost = Buffer<double>(input.keys * input.keys);
  cost_dataset->read({0, 0}, expected, cost.data());
  for (Index at = 0; at < cost.size(); ++at) {
    if (!(cost[at] >= 0)) {
      refuse_element(*cost_dataset, {0, 0}, expected, at, cost[at], "numbers >= 0");
    }
    if (std::isfinite(cost[at]) && std::isinf(cost[at] / *options.gamma)) {
      throw Error(Failure::numerical,
                  fmt::format("{} has {} at {}, which over --gamma {} is beyond float64",
                              cost_dataset->address(), cost[at], element_text({0, 0}, expected, at),
                              *options.gamma));
    }
  }
  for (Index source = 0; source < input.keys; ++source) {
    bool walled = true;
    for (Index to = 0; to < input.keys; ++to) {
      walled = walled && std::isinf(cost[to * input.keys + source]);
    }
    if (walled) walled_sources.push_back(source);
  }
}

void DualTask::report_params(cli::Report& report) const {
  report_score_options(options.scores, input.causal, report);
  auto& params = report.params();
  if (options.radius) {
    params["radius"] = *options.radius;
  } else {
    params["alpha"] = options.alpha;
  }
  params["template_scale"] = options.template_scale;
  params["evidence_scale"] = options.evidence_scale;
  if (!options.solver.gradient_tolerance) params["tolerance"] = options.solver.tolerance;
  params["precision"] = f64 ? "f64" : "f32";
}

std::vector<ArraySource> DualTask::datasets() const {
  std::vector<ArraySource> all = input.datasets();
  if (cost_dataset) all.push_back(*cost_dataset);
  return all;
}

Index DualTask::axes() const {
  return options.scores.source == Source::projection ? input.k->weights->rows : input.depth;
}

DualHeading DualTask::heading() const {
  return {.leading = input.leading,
          .queries = input.queries,
          .keys = input.keys,
          .axes = axes(),
          .alpha = options.alpha,
          .radius = options.radius,
          .template_scale = options.template_scale,
          .evidence_scale = options.evidence_scale};
}

Shape DualTask::own_shape(const DualResultKind& kind) const {
  Shape shape;
  for (const std::string& axis : kind.axes) {
    if (axis == "query") shape.push_back(input.queries);
    if (axis == "template") shape.push_back(input.keys);
    if (axis == "axis") shape.push_back(axes());
    if (axis == "channel") shape.push_back(input.v_head_dim);
  }
  return shape;
}

MemoryPlan DualTask::plan(const cli::Arguments& arguments) const {
  constexpr std::size_t element = sizeof(double);
  // The fewest queries at a time; with fewer in total, bits depend on their number.
  constexpr Index least = 4 * dual_part_step;
  Index part = input.queries;
  const auto fits = [&] {
    return least_bytes(input, element, needs(part), arguments.threads) <= arguments.memory;
  };
  const bool divides = input.q && !input.q->weights;
  // A checkpoint has a unit for each block of queries, which must not depend on the memory.
  if (divides && checkpoints(arguments)) {
    constexpr Index blocks = 16;
    const Index steps = (input.queries + blocks * dual_part_step - 1) / (blocks * dual_part_step);
    part = std::min(part, std::max(least, steps * dual_part_step));
  }
  while (divides && !checkpoints(arguments) && part > least && !fits()) {
    part = std::max(least, part / 2 / dual_part_step * dual_part_step);
  }
  HeadNeeds wanted = needs(part);
  if (part < input.queries) wanted.queries = part;
  return plan_memory(input, element, wanted, arguments.threads, arguments.memory);
}

HeadNeeds DualTask::needs(Index queries) const {
  constexpr auto number = static_cast<std::int64_t>(sizeof(double));
  HeadNeeds needs;
  const Index q = queries;
  const Index n = input.keys;
  const Index d = axes();
  needs.parts = {dual_blocks(q), q};
  // For any --emit: λ, ĥ, the ĥ of the closed forms, scalars, both outputs.
  needs.result_bytes = (q * (4 * d + 7 + 2 * input.v_head_dim) + n) * number;
  if (options.emits("p")) needs.result_bytes += q * n * number;
  needs.kept_bytes = cost.size() * number + input.own_problems() * input.queries * 5 * number;
  const bool transport = options.gamma.has_value();
  // A basis of the templates of a face, for each thread.
  const std::int64_t face =
      options.radius ? std::min(n, d) * (std::min(n, d) + 16) * number : std::int64_t{0};
  // Matrices of weights besides results: for values, those of first order, and p.
  const Index weights = !input.v ? 0 : options.emits("p") ? 1 : 2;
  needs.work_bytes = [q, n, d, transport, face, weights](int threads, std::int64_t) {
    // Templates and evidence as solved, preferences per query.
    const std::int64_t own = (n * d + q * d + (1 + weights) * q * n) * number + threads * face;
    return own + dual_bytes(q, n, d, transport, threads);
  };
  return needs;
}

void report_dual_cost(const cli::Arguments& arguments, const DualTask& task, cli::Report& report) {
  const AttentionInput& input = task.input;
  const MemoryPlan plan = task.plan(arguments);
  const auto heads = static_cast<double>(input.own_problems());
  double bytes = 0;
  for (const DualResultKind& kind : dual_result_kinds()) {
    if (!task.options.emits(kind.name)) continue;
    const bool narrow = kind.computed_type && !task.f64;
    bytes += heads * static_cast<double>(element_count(task.own_shape(kind))) *
             static_cast<double>(narrow ? sizeof(float) : sizeof(double));
  }
  // Two products with the templates per iteration, besides the products of the steps.
  const double flops = 4 * heads * static_cast<double>(input.queries) *
                       static_cast<double>(input.keys) * static_cast<double>(task.axes());
  const Shape shape = join(input.leading, {input.queries, input.keys});
  auto& result = report.result();
  result["shape"] = shape;
  result["axes"] = task.axes();
  report_run_cost(
      {fmt::format("dual of {} in {}", times(shape), cli::counted(task.axes(), "axis", "axes")),
       plan.bytes, bytes, arguments.compress > 0,
       fmt::format("{:.3g} flops for each gradient of all queries", flops)},
      report);
  result["flops_per_iteration"] = flops;
}

}  // namespace attn::tools
