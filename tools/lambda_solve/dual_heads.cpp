#include "lambda_solve/dual_steps.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "attnkit/error.hpp"
#include "common/heads/input_warnings.hpp"
#include "common/heads/own_rows.hpp"
#include "common/outputs/head_outputs.hpp"
#include "fenchel/attention_operands.hpp"
#include "fenchel/queries.hpp"
#include "tensor/owned_matrix.hpp"

namespace attn::tools {
namespace {

// The results of a head, or of some of its queries.
struct HeadResult {
  RowRange queries;  // counted from the first that is not padding
  Buffer<double> lambda, h, p, h_first_order, h_second_order, out;
  Buffer<double> relative_deviation, out_deviation;
  std::vector<double> gap, gradient_norm, alpha;  // of each query; alpha only with a radius
  std::vector<std::int64_t> iterations;
  DualHead figures;
};

template <class Archive>
void archive(Archive& with, HeadResult& result) {
  for (Buffer<double>* const numbers :
       {&result.lambda, &result.h, &result.p, &result.h_first_order, &result.h_second_order,
        &result.out, &result.relative_deviation, &result.out_deviation}) {
    archive(with, *numbers);
  }
  archive(with, result.queries.first);
  archive(with, result.queries.last);
  archive(with, result.gap);
  archive(with, result.gradient_norm);
  archive(with, result.alpha);
  archive(with, result.iterations);
  archive(with, result.figures);
}

// Templates, evidence and preferences of one head, as the solver takes them.
struct HeadProblem {
  OwnedMatrix<double> templates, evidence, preference;
  DualProblem problem;
};

OwnedMatrix<double> times(MatrixView<const double> matrix, double factor) {
  OwnedMatrix<double> made(matrix.rows, matrix.cols);
  for (Index i = 0; i < matrix.rows; ++i) {
    std::transform(matrix.row(i), matrix.row(i) + matrix.cols, made.row(i),
                   [&](double value) { return factor * value; });
  }
  return made;
}

// A source without an allowed target must have no preference. Keys are counted from `first` on.
void require_ways_out(const DualTask& task, Index first, MatrixView<const double> preference) {
  for (const Index source : task.walled_sources) {
    if (source < first || source >= first + preference.cols) continue;
    for (Index row = 0; row < preference.rows; ++row) {
      if (!(preference(row, source - first) > 0)) continue;
      throw Error(
          Failure::numerical,
          fmt::format("{}: source {} has a preference but no allowed target: column {} is inf",
                      task.cost_dataset->address(), source, source));
    }
  }
}

HeadProblem problem_of(const DualTask& task, const Head<double>& head) {
  const AttentionInput& input = task.input;
  const DualTaskOptions& options = task.options;
  const Index queries = head.part.queries();
  const Index keys = head.part.keys();
  HeadProblem made;
  if (input.options.source == ScoreOptions::Source::projection) {
    // FD 20: templates are the layer's input, evidence is the query times both matrices.
    const ProjectedFrom<double>& from = head.made_of_k();
    made.templates = times(from.input, options.template_scale);
    made.evidence = evidence_of(head.q(), from.weights, options.evidence_scale);
  } else {
    made.templates = times(head.k(), options.template_scale);
    made.evidence = times(head.q(), options.evidence_scale);
  }
  made.preference = preferences_of(head.scores(Scheme::fenchel).terms(), queries, keys);
  require_ways_out(task, head.part.range.col0, made.preference.read());
  DualProblem& problem = made.problem;
  problem.templates = made.templates.read();
  problem.evidence = made.evidence.read();
  problem.preference = made.preference.read();
  problem.alpha = options.alpha;
  problem.all_queries = input.part(head.problem).queries();
  problem.first_query = head.part.range.row0 - input.part(head.problem).range.row0;
  if (options.gamma) {
    problem.transport =
        TransportCost{by_pair(MatrixView<const double>(task.cost.data(), input.keys, input.keys),
                              {head.part.range.col0, keys, head.part.range.col0, keys}),
                      *options.gamma};
  }
  return made;
}

// The figures of a head; empty queries have deviations of 0 and are not counted elsewhere.
DualHead figures_of(const PooledVector<DualSummary>& summaries, const HeadResult& result) {
  DualHead figures;
  figures.queries = static_cast<Index>(summaries.size());
  figures.by_query.assign(summaries.size(), std::numeric_limits<double>::quiet_NaN());
  for (Index q = 0; q < figures.queries; ++q) {
    const DualSummary& summary = summaries[static_cast<std::size_t>(q)];
    if (summary.status == DualStatus::empty) {
      ++figures.empty;
      continue;
    }
    figures.by_query[static_cast<std::size_t>(q)] = result.relative_deviation[q];
    DualHead one;
    if (!result.alpha.empty()) one.alpha = {summary.alpha};
    one.relative_deviation = {result.relative_deviation[q]};
    if (result.out_deviation.size() > 0) one.out_deviation = {result.out_deviation[q]};
    one.converged = summary.status == DualStatus::converged ? 1 : 0;
    one.max_gap = summary.gap;
    one.max_relative_gap = summary.gap / (1 + std::abs(summary.primal));
    one.max_gradient_norm = summary.gradient_norm;
    one.max_certificate_error = summary.certificate_error;
    one.max_iterations = one.iterations = summary.iterations;
    one.convergence = summary.convergence;
    if (summary.status == DualStatus::converged) one.convergence.reset();
    figures.add(one);
  }
  return figures;
}

void require_float32(const DualTask& task, const Buffer<double>& out) {
  for (const double value : out) {
    if (std::abs(value) <= std::numeric_limits<float>::max()) continue;
    throw Error(Failure::numerical,
                fmt::format("{} makes an out of {}, which is beyond float32",
                            task.input.v->address(), value),
                "--precision f64");
  }
}

HeadResult solve_head(const DualTask& task, const Head<double>& head, int threads) {
  HeadResult result;
  const Index queries = head.part.queries();
  result.queries.first = head.part.range.row0 - task.input.part(head.problem).range.row0;
  result.queries.last = result.queries.first + queries;
  if (queries == 0 || head.part.keys() == 0) {
    result.figures.queries = result.figures.empty = queries;
    return result;
  }
  const HeadProblem made = problem_of(task, head);
  const DualTaskOptions& options = task.options;
  const Index axes = task.axes();
  const auto target = [&](Buffer<double>& values, bool wanted, Index width) {
    if (!wanted) return MatrixView<double>();
    values = Buffer<double>(queries * width);
    return MatrixView<double>(values.data(), queries, width);
  };
  QueryTargets targets;
  targets.lambda = target(result.lambda, options.emits("lambda"), axes);
  targets.h = target(result.h, options.emits("h"), axes);
  targets.p = target(result.p, options.emits("p"), head.part.keys());
  targets.closed_forms = {target(result.h_first_order, options.emits("h_first_order"), axes),
                          {},
                          target(result.h_second_order, options.emits("h_second_order"), axes)};
  targets.relative_deviation = target(result.relative_deviation, true, 1);
  // v is read only if one of these two is wanted.
  targets.out = target(result.out, options.emits("out"), head.v().cols);
  targets.out_deviation = target(result.out_deviation, task.input.v.has_value(), 1);
  const PooledVector<DualSummary> summaries =
      solve_queries(made.problem, options.radius, options.solver, head.v(), threads, targets);
  if (!task.f64) require_float32(task, result.out);
  for (const DualSummary& summary : summaries) {
    result.gap.push_back(summary.gap);
    result.gradient_norm.push_back(summary.gradient_norm);
    result.iterations.push_back(summary.iterations);
    if (!options.radius) continue;
    result.alpha.push_back(summary.at_limit ? std::numeric_limits<double>::infinity()
                                            : summary.alpha);
  }
  result.figures = figures_of(summaries, result);
  return result;
}

// Padding has results of 0. Padding is written with the neighbouring queries.
void write_head(const DualTask& task, Index problem, HeadResult& result, HeadOutputs& outputs) {
  const AttentionInput& input = task.input;
  const TileRange& own = input.part(problem).range;
  const Index first = result.queries.first;
  const Index last = result.queries.last;
  const RowRange lines = {first == 0 ? 0 : own.row0 + first,
                          last == own.rows ? input.queries : own.row0 + last};
  const auto write = [&]<class Values>(const char* name, Values& values, const Shape& each) {
    if (!task.options.emits(name)) return;
    spread_rows(values, own.row0 + first - lines.first, lines.last - lines.first,
                element_count(each), 0);
    outputs.write_lines(name, problem, lines.first, lines.last - lines.first, values.data());
  };
  const Shape by_axis = {task.axes()};
  write("lambda", result.lambda, by_axis);
  write("h", result.h, by_axis);
  write("gap", result.gap, {});
  write("gradient_norm", result.gradient_norm, {});
  write("iterations", result.iterations, {});
  write("h_first_order", result.h_first_order, by_axis);
  write("h_second_order", result.h_second_order, by_axis);
  write("out", result.out, {input.v_head_dim});
  write("relative_deviation", result.relative_deviation, {});
  write("out_deviation", result.out_deviation, {});
  write("alpha", result.alpha, {});
  if (!task.options.emits("p")) return;
  const Index count = lines.last - lines.first;
  spread_pairs(result.p, {own.row0 + first - lines.first, last - first, own.col0, own.cols},
               {0, count, 0, input.keys});
  outputs.write_lines("p", problem, lines.first, count, result.p.data());
}

// Uses names of its own: attributes without "dual" describe attn-compute's results, which the
// bundle may also hold. attn_status explains why a tool exited with 1.
void record_results(const DualTask& task, bool converged, io::OutputBundle& output) {
  const std::string not_converged = "not_converged";
  output.attribute("attn_dual_divergence", std::string(task.options.gamma ? "ot" : "kl"));
  if (task.options.radius) {
    output.attribute("attn_dual_radius", *task.options.radius);
    output.remove_attribute("attn_dual_alpha");
  } else {
    output.attribute("attn_dual_alpha", task.options.alpha);
    output.remove_attribute("attn_dual_radius");
  }
  output.attribute("attn_dual_scale", task.options.template_scale);
  output.attribute("attn_dual_evidence_scale", task.options.evidence_scale);
  if (task.options.gamma) {
    output.attribute("attn_dual_gamma", *task.options.gamma);
  } else {
    output.remove_attribute("attn_dual_gamma");
  }
  output.attribute("attn_dual_status", converged ? "converged" : not_converged);
  if (task.input.share) {
    task.input.share->rank({{"attn_dual_status", "attn_status"}, {converged ? 0.0 : 1.0}});
  }
  if (!converged) {
    output.attribute("attn_status", not_converged);
  } else if (task.bundle.text_attribute("attn_dual_status") == not_converged &&
             task.bundle.text_attribute("attn_status") == not_converged) {
    output.remove_attribute("attn_status");
  }
}

}  // namespace

std::vector<DualHead> solve_section(const cli::Arguments& arguments, const DualTask& task,
                                    std::optional<io::OutputBundle> output, Checkpoint* checkpoint,
                                    cli::Progress& progress, cli::Report& report) {
  const AttentionInput& input = task.input;
  if (!task.options.settings_left.empty()) {
    warn_of_settings_left(task.options.settings_left, report);
  }
  warn_of_input({Scheme::fenchel}, task.bundle, input, report);
  std::optional<HeadOutputs> outputs;
  if (output) outputs.emplace(*output, input.leading, report, input.share.get());
  for (const DualResultKind& kind : dual_result_kinds()) {
    if (!outputs || !task.options.emits(kind.name)) continue;
    const DType type = kind.name == "iterations"         ? DType::i64
                       : kind.computed_type && !task.f64 ? DType::f32
                                                         : DType::f64;
    const bool inside =
        kind.name == "out" && input.options.layout == ScoreOptions::Layout::heads_inside;
    outputs->create(kind.name, type, task.own_shape(kind), kind.axes, {}, inside);
  }
  const MemoryPlan plan = task.plan(arguments);
  std::vector<DualHead> heads;
  bool converged = true;
  const double seconds = for_each_head<double, HeadResult>(
      input, plan, progress, [](double) {},
      [&](const Head<double>& head, int threads) {
        return naming_head(input, head, [&] { return solve_head(task, head, threads); });
      },
      [&](Index problem, HeadResult& result) {
        const OwnPart& part = input.part(problem);
        converged = converged && result.figures.converged == result.figures.problems();
        if (result.queries.first == 0) {
          heads.emplace_back();
          heads.back().padding = {input.queries - part.queries(), input.keys - part.keys()};
        }
        heads.back().add(result.figures);
        heads.back().by_query.insert(heads.back().by_query.end(), result.figures.by_query.begin(),
                                     result.figures.by_query.end());
        if (outputs) write_head(task, problem, result, *outputs);
      },
      checkpoint);
  report.add_compute_seconds(seconds);
  if (output) record_results(task, converged, *output);
  return heads;
}

}  // namespace attn::tools
