#include "explain_away_stats/column_task.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "attnkit/error.hpp"
#include "common/costs/cost_report.hpp"
#include "common/frame/bundles.hpp"
#include "common/heads/key_names.hpp"
#include "common/runs/restart.hpp"
#include "common/shards/shard.hpp"
#include "explain_away_stats/column_plan.hpp"
#include "explain_away_stats/line_table.hpp"
#include "explain_away_stats/stored_attention.hpp"
#include "scheme/scheme_description.hpp"

namespace attn::tools {
namespace {

// Column sums over some queries would be mistaken for those over all.
void require_all_rows(const io::InputBundle& bundle, const ColumnOptions& options) {
  if (!options.wants(stored) || !bundle.has("weights") || !bundle.has("queries") ||
      !bundle.text_attribute("attn_scheme")) {
    return;
  }
  throw Error(
      Failure::input,
      bundle.dataset("weights").address() + " holds rows for only some queries, expected all",
      "attn-compute without --queries writes them");
}

std::vector<ColumnPoint> points_of(const cli::Arguments& arguments, const io::InputBundle& bundle) {
  std::vector<ColumnPoint> points;
  for (const SweepPoint& at : sweep_points(arguments)) {
    const cli::Arguments own = at_point(arguments, at);
    ColumnOptions options = resolve_column_options(own, bundle);
    AttentionInput input(bundle, options.scores, options.sinks.has_value(),
                         options.scored_schemes());
    complete_column_options(own, bundle, input, options);
    points.push_back({at, std::move(options), std::move(input)});
  }
  return points;
}

}  // namespace

void ColumnTask::require_effect_of_sinks(const cli::Arguments& arguments) const {
  if (arguments.given("rest") && !(options().wants(stored) && bundle.has("weights"))) {
    throw Error(Failure::usage, "--rest has no effect without stored weights", "--scheme stored");
  }
  if (!options().sinks) return;
  if (rows_of(arguments) == RowsOf::heads) return;
  throw Error(Failure::usage, "--sinks has no figures by " + arguments.text("rows"));
}

ColumnTask::ColumnTask(const cli::Arguments& arguments, io::InputBundle section)
    : bundle(std::move(section)),
      points(points_of(arguments, bundle)),
      input(points.front().input) {
  require_layout_effect(arguments, input);
  require_effect_of_sinks(arguments);
  if (!input.front.empty() && shard_of(arguments)) {
    throw Error(Failure::usage,
                bundle.description() + " has packed sequences, which shards do not divide",
                "run it without --shard");
  }
  bundle.has("tokens");  // read later; requested before Sections::warn_of_root
  if (arguments.given("heads")) input.choose_heads(arguments.text("heads"), bundle.description());
  const RowsOf rows = rows_of(arguments);
  const Index lines = rows == RowsOf::keys ? input.keys : input.queries;
  table_bytes = line_table_bytes(
      rows, input.own_problems() * lines * static_cast<Index>(options().schemes.size()));
  require_all_rows(bundle, options());
  if (!options().wants(stored)) return;
  if (points.size() > 1) {
    throw Error(Failure::usage, "a sweep has no effect on stored weights",
                "--scheme without stored, or one value of --scale and --hybrid");
  }
  const StoredAttention look(bundle, input, options().recorded, options().hybrid, 0);
}

bool ColumnTask::suffices(const cli::Arguments& arguments, const io::InputBundle& bundle) {
  return suffices_for_columns(arguments, bundle);
}

void ColumnTask::report_params(cli::Report& report) const {
  auto& params = report.params();
  // The values of a sweep stay lists.
  const auto scales = params["scale"];
  report_score_options(input.options, input.causal, report);
  if (scales.is_array() && scales.size() > 1) params["scale"] = scales;
  if (params["hybrid"].is_array() && params["hybrid"].size() == 1) {
    params["hybrid"] = params["hybrid"].front();
  }
  params["precision"] = precision_name(options().scores, options().f64);
  params["scheme"] = options().schemes;
}

namespace {

/// Whether each `count` consecutive problems have the keys of the same sequence.
bool has_equal_keys(const AttentionInput& input, Index count) {
  for (Index n = 0; n < input.problems; ++n) {
    const TileRange& own = input.part(n).range;
    const TileRange& first = input.part(n / count * count).range;
    if (own.col0 != first.col0 || own.cols != first.cols) return false;
  }
  return true;
}

}  // namespace

void read_key_names(const io::InputBundle& bundle, const AttentionInput& input,
                    ColumnStatistics& statistics, cli::Report& report) {
  KeyNames found = read_key_names(bundle, input.stored_axes(), input.stored_keys, report);
  statistics.heads_per_name = found.heads_per_list;
  if (input.front.empty() || found.names.empty()) {
    statistics.names = std::move(found.names);
    return;
  }
  // A list for each sequence and batch of the bundle, as long as the longest sequence.
  statistics.names.clear();
  const Index heads = input.problems / input.front.front();
  const Index per_list = has_equal_keys(input, found.heads_per_list)
                             ? found.heads_per_list
                             : std::min(found.heads_per_list, heads / input.stored_axes().front());
  statistics.heads_per_name = per_list;
  for (Index s = 0; s < input.front.front(); ++s) {
    for (Index head = 0; head < heads; head += per_list) {
      const TileRange& own = input.part(s * heads + head).range;
      const auto first =
          found.names.begin() + head / found.heads_per_list * input.stored_keys + own.col0;
      statistics.names.insert(statistics.names.end(), first, first + own.cols);
      statistics.names.resize(statistics.names.size() +
                              static_cast<std::size_t>(input.keys - own.cols));
    }
  }
}

void report_column_cost(const cli::Arguments& arguments, const ColumnTask& task,
                        cli::Report& report) {
  const AttentionInput& input = task.input;
  const std::int64_t working =
      plan_memory(input, task.options().f64 ? sizeof(double) : sizeof(float),
                  column_needs(task, checkpoints(arguments), arguments.ranks), arguments.threads,
                  arguments.memory)
          .bytes;
  const Shape shape = join(input.axes.leading, {input.queries, input.keys});
  const auto heads = static_cast<double>(input.own_problems());
  double flops = 0;
  const auto points = static_cast<double>(task.points.size());
  for (const std::string& name : task.options().schemes) {
    const SchemeDescription* const scheme = scheme_called(name);
    if (scheme == nullptr) {
      flops += points * input.score_flops(Scheme::unas, 1);
      continue;
    }
    const SchemeOptions options = task.options().scheme_options(scheme->scheme(), 0);
    flops += points * input.score_flops(options.scheme, scheme->score_passes(options));
  }
  const auto vectors = static_cast<double>(static_cast<Index>(task.options().schemes.size()) *
                                               (input.queries + input.keys) +
                                           input.keys);
  const double bytes = arguments.output ? heads * vectors * sizeof(double) : 0;
  report.result()["shape"] = shape;
  report_run_cost({fmt::format("column sums of {} in {}", times(shape),
                               precision_words(task.options().scores, task.options().f64)),
                   working, bytes, arguments.compress > 0, fmt::format("{:.3g} flops", flops)},
                  report);
  report.result()["flops"] = flops;
}

}  // namespace attn::tools
