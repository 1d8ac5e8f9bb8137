#include "lambda_solve/dual_steps.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "attnkit/error.hpp"
#include "common/heads/own_rows.hpp"
#include "common/outputs/head_outputs.hpp"
#include "fenchel/closed_forms.hpp"
#include "fenchel/radius.hpp"
#include "kernel/gemm.hpp"
#include "kernel/tile.hpp"
#include "parallel/parallel_for.hpp"

namespace attn::tools {
namespace {

// The results of a head, or of some of its queries.
struct HeadResult {
  RowRange queries;  // counted from the first that is not padding
  Buffer<double> lambda, h, p, h_first_order, h_second_order, out;
  std::vector<double> gap, gradient_norm, relative_deviation, out_deviation;
  std::vector<double> alpha;           // of each query, with a radius
  std::vector<std::uint8_t> at_limit;  // whether alpha stands for an infinite one
  std::vector<std::int64_t> iterations;
  DualHead figures;
};

template <class Archive>
void archive(Archive& with, HeadResult& result) {
  for (Buffer<double>* const numbers : {&result.lambda, &result.h, &result.p, &result.h_first_order,
                                        &result.h_second_order, &result.out}) {
    archive(with, *numbers);
  }
  archive(with, result.queries.first);
  archive(with, result.queries.last);
  archive(with, result.gap);
  archive(with, result.gradient_norm);
  archive(with, result.relative_deviation);
  archive(with, result.out_deviation);
  archive(with, result.iterations);
  archive(with, result.alpha);
  archive(with, result.at_limit);
  archive(with, result.figures);
}

// Templates, evidence and preferences of one head, as the solver takes them.
struct HeadProblem {
  Buffer<double> templates, evidence, preference;
  DualProblem problem;
};

void scale(Buffer<double>& values, double factor) {
  for (double& value : values) value *= factor;
}

// Whether all queries have the preferences of the first.
bool rows_alike(const Scores<double>::Terms& terms) {
  const auto alike = [](const auto* source) { return source == nullptr || source->rows_alike(); };
  return !terms.band.causal && terms.band.window.is_open() && terms.relative == nullptr &&
         alike(terms.bias) && alike(terms.mask) && alike(terms.preference);
}

// u_i ∝ preference exp(bias), 0 for forbidden pairs: scores without energies.
void make_preferences(const Head<double>& head, HeadProblem& made) {
  Scores<double>::Terms terms = head.scores(Scheme::fenchel).terms();
  const Index keys = head.part.keys();
  const auto nothing = make_zero_energy<double>(head.part.queries(), keys);
  terms.energy = nothing.get();
  const Scores<double> scores(terms);
  const Index rows = rows_alike(terms) ? 1 : head.part.queries();
  made.preference = Buffer<double>(rows * keys);
  const MatrixView<double> u(made.preference.data(), rows, keys);
  Scores<double>::Scratch scratch;
  scores.fill({0, rows, 0, keys}, u, scratch);
  for (Index i = 0; i < rows; ++i) {
    const double most = kernel::row_max(u.row(i), u.cols, nullptr);
    if (std::isinf(most)) {
      std::fill_n(u.row(i), u.cols, 0.0);
    } else {
      kernel::exp_row(u.row(i), u.row(i), u.cols, nullptr, most);
    }
  }
  made.problem.preference = u;
}

Buffer<double> copy_of(MatrixView<const double> matrix) {
  Buffer<double> made(matrix.rows * matrix.cols);
  for (Index i = 0; i < matrix.rows; ++i) {
    std::copy_n(matrix.row(i), matrix.cols, made.data() + i * matrix.cols);
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
  const Index queries = head.part.queries();
  const Index keys = head.part.keys();
  HeadProblem made;
  if (input.options.source == ScoreOptions::Source::projection) {
    // FD 20: templates are the layer's input, evidence is the query times both matrices.
    const MatrixView<const double> wk = head.made_of_k().weights;
    made.templates = copy_of(head.made_of_k().input);
    made.evidence = Buffer<double>(queries * wk.rows);
    kernel::multiply_transposed(1.0, head.q(), wk, {made.evidence.data(), queries, wk.rows});
  } else {
    made.templates = copy_of(head.k());
    made.evidence = copy_of(head.q());
  }
  scale(made.templates, task.options.template_scale);
  if (task.options.evidence_scale != 1) scale(made.evidence, task.options.evidence_scale);
  made.problem.templates = {made.templates.data(), keys, task.axes()};
  made.problem.evidence = {made.evidence.data(), queries, task.axes()};
  made.problem.alpha = task.options.alpha;
  made.problem.all_queries = input.part(head.problem).queries();
  made.problem.first_query = head.part.range.row0 - input.part(head.problem).range.row0;
  if (task.options.gamma) {
    made.problem.transport =
        TransportCost{by_pair(MatrixView<const double>(task.cost.data(), input.keys, input.keys),
                              {head.part.range.col0, keys, head.part.range.col0, keys}),
                      *task.options.gamma};
  }
  make_preferences(head, made);
  require_ways_out(task, head.part.range.col0, made.problem.preference);
  return made;
}

// The figures of a head; empty queries have deviations of 0 and are not counted elsewhere.
DualHead figures_of(const std::vector<DualSummary>& summaries, const HeadResult& result) {
  DualHead figures;
  figures.queries = static_cast<Index>(summaries.size());
  figures.by_query.assign(summaries.size(), std::numeric_limits<double>::quiet_NaN());
  for (Index q = 0; q < figures.queries; ++q) {
    const DualSummary& summary = summaries[static_cast<std::size_t>(q)];

    if (summary.status == DualStatus::empty) {
      ++figures.empty;
      continue;
    }
    const auto at = static_cast<std::size_t>(q);
    figures.by_query[at] = result.relative_deviation[at];
    DualHead one;
    if (!result.alpha.empty()) one.alpha = {result.alpha[at]};
    one.relative_deviation = {result.relative_deviation[at]};
    if (!result.out_deviation.empty()) one.out_deviation = {result.out_deviation[at]};
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

// The closed forms; with a radius, with the α of each query.
void find_closed_forms(const DualProblem& problem, const std::vector<double>& alphas, int threads,
                       const ClosedForms& results) {
  if (alphas.empty()) return closed_forms(problem, threads, results);
  closed_forms(problem, alphas, threads, results);
}

// Solves all queries; with a radius, each gets an α.
std::vector<DualSummary> solve_queries(const DualProblem& problem, const DualTaskOptions& options,
                                       int threads, const DualResults& to, HeadResult& result) {
  if (!options.radius) {
    const auto found = solve_dual(problem, options.solver, threads, to);
    return {found.begin(), found.end()};
  }
  const auto found = solve_radius(problem, *options.radius, options.solver, threads, to);
  for (const DualSummary& summary : found) {
    result.alpha.push_back(summary.alpha);
    result.at_limit.push_back(summary.at_limit ? 1 : 0);
  }
  return {found.begin(), found.end()};
}

// out = p v, and its distance from the output of the first order.
void make_outputs(const HeadProblem& made, const Head<double>& head, const DualTask& task,
                  int threads, HeadResult& result) {
  const Index queries = head.part.queries();
  const Index keys = head.part.keys();
  const Index width = head.v().cols;
  // By pieces, so that parts of the queries have the same bits.
  const auto mean_of_values = [&](const Buffer<double>& p, double* out) {
    parallel_for((queries + dual_part_step - 1) / dual_part_step, threads, [&](Index n, int) {
      const Index first = n * dual_part_step;
      const Index count = std::min(dual_part_step, queries - first);
      kernel::multiply({p.data() + first * keys, count, keys}, head.v(),
                       {out + first * width, count, width});
    });
  };
  result.out = Buffer<double>(queries * width);
  mean_of_values(result.p, result.out.data());
  if (!task.f64 && task.options.emits("out")) require_float32(task, result.out);
  Buffer<double> p(queries * keys);
  Buffer<double> first(queries * width);
  find_closed_forms(made.problem, result.alpha, threads, {{}, {p.data(), queries, keys}, {}});
  mean_of_values(p, first.data());
  for (Index q = 0; q < queries; ++q) {
    // Relative to the exact result, like |λ − αz|/|λ|.
    result.out_deviation.push_back(
        relative_deviation(result.out.data() + q * width, first.data() + q * width, width, 1));
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
  const Index axes = task.axes();
  const auto view = [&](Buffer<double>& values, bool wanted, Index width) {
    if (!wanted) return MatrixView<double>();
    values = Buffer<double>(queries * width);
    return MatrixView<double>(values.data(), queries, width);
  };
  const DualTaskOptions& options = task.options;
  const bool outputs = options.emits("out") || options.emits("out_deviation");
  const std::vector<DualSummary> summaries =
      solve_queries(made.problem, options, threads,
                    {view(result.lambda, true, axes), view(result.h, options.emits("h"), axes),
                     view(result.p, options.emits("p") || outputs, head.part.keys())},
                    result);
  find_closed_forms(made.problem, result.alpha, threads,
                    {view(result.h_first_order, options.emits("h_first_order"), axes),
                     {},
                     view(result.h_second_order, options.emits("h_second_order"), axes)});
  for (const DualSummary& summary : summaries) {
    result.gap.push_back(summary.gap);
    result.gradient_norm.push_back(summary.gradient_norm);
    result.iterations.push_back(summary.iterations);
  }
  for (Index q = 0; q < queries; ++q) {
    result.relative_deviation.push_back(relative_deviation(
        result.lambda.data() + q * axes, made.problem.evidence.row(q), axes,
        result.alpha.empty() ? options.alpha : result.alpha[static_cast<std::size_t>(q)]));
    // Nothing was solved, so the distance of 0 from the tolerance is irrelevant.
    if (summaries[static_cast<std::size_t>(q)].status == DualStatus::empty) {
      result.relative_deviation.back() = 0;
    }
  }
  if (outputs) make_outputs(made, head, task, threads, result);
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
  for (std::size_t q = 0; q < result.at_limit.size(); ++q) {
    if (result.at_limit[q] != 0) result.alpha[q] = std::numeric_limits<double>::infinity();
  }
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
