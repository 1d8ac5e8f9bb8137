#include "explain_away_stats/column_gather.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "attnkit/error.hpp"
#include "common/heads/input_warnings.hpp"
#include "explain_away_stats/column_plan.hpp"
#include "explain_away_stats/column_result.hpp"
#include "explain_away_stats/stored_attention.hpp"
#include "scheme/scheme_description.hpp"
#include "stats/observers.hpp"
#include "stats/sink_figures.hpp"
#include "tensor/error_fall.hpp"

namespace attn::tools {
namespace {

// Far larger than any rounding, even of float16: detects potentials computed for other scores, and
// weights that are not normalised. A query may have no allowed key. `on_sink` is empty without one.
void require_row_sums(const std::vector<double>& row_sums, const PooledVector<double>& on_sink,
                      const StoredAttention& in_bundle, Index problem) {
  if (in_bundle.has_marginals()) return;
  constexpr double tolerance = 0.01;
  for (std::size_t query = 0; query < row_sums.size(); ++query) {
    const double sum = row_sums[query] + (on_sink.empty() ? 0 : on_sink[query]);
    if (row_sums[query] == 0 || std::abs(sum - 1) <= tolerance) continue;
    throw Error(
        Failure::input,
        fmt::format(
            "{}: the weights of query {} add up to {:.6g}, expected 1{}", in_bundle.place(problem),
            query, sum,
            in_bundle.holds_weights() ? "" : ": the potentials were computed for other scores"),
        in_bundle.holds_weights() && sum < 1 ? "--rest sink, if the rest is the weight of a sink"
                                             : "");
  }
}

// Without scores, masked keys follow from the column potentials or, under a scheme that bounds
// them, from column sums of 0.
void close_unattended(const std::vector<double>& column_sums,
                      const std::vector<std::uint8_t>& closed, bool bounded, PointResult& result) {
  for (std::size_t key = 0; key < column_sums.size(); ++key) {
    const bool known = closed.empty() ? bounded : closed[key] != 0;
    if (known && column_sums[key] == 0) result.masked[key] = 1;
  }
}

void require_masked(const std::vector<double>& column_sums, const AllowedCounts& allowed,
                    const StoredAttention& in_bundle, Index problem) {
  for (std::size_t key = 0; key < column_sums.size(); ++key) {
    if (allowed.queries_of_key[key] > 0 || column_sums[key] == 0) continue;
    throw Error(Failure::input,
                fmt::format("{}: key {} has a column sum of {:.6g}, but no query may attend to it",
                            in_bundle.place(problem), key, column_sums[key]),
                "check that mask, bias and --causal match the stored weights");
  }
}

template <class T>
void append(const std::vector<T>& more, std::vector<T>& all) {
  all.insert(all.end(), more.begin(), more.end());
}

/// The figures of the first keys of a head, if they are wanted.
template <class T>
class FirstKeys {
 public:
  template <class Observers>
  FirstKeys(const ColumnOptions& options, const Head<T>& head, const AllowedCounts& allowed,
            Observers& observers)
      : wanted_(options.sinks.has_value()), allowed_(allowed) {
    if (!wanted_) return;
    keys_ = first_open_keys(allowed.queries_of_key, *options.sinks);
    if (head.v().data == nullptr) return;
    outputs_.emplace(head.v(), head.part.queries(), keys_);
    observers.insert(observers.end(), {&outputs_->output(), &outputs_->without()});
  }

  /// `scores` may be null.
  std::optional<SinkFigures> figures(const std::vector<double>& sums, const Scores<T>* scores,
                                     int threads) const {
    if (!wanted_) return std::nullopt;
    SinkFigures found;
    if (outputs_) {
      found = outputs_->figures(allowed_.queries_of_key);
    } else {
      found.norms = found.other_norms = SinkFigures::unknown;
    }
    if (scores != nullptr) found.largest_score = largest_score(*scores, threads);
    return sink_figures(found, allowed_, keys_, sums);
  }

 private:
  bool wanted_;
  const AllowedCounts& allowed_;
  std::vector<Index> keys_;
  std::optional<SinkOutputs<T>> outputs_;
};

template <class T>
SchemeResult compute_stored(const ColumnOptions& options, const StoredAttention& in_bundle,
                            const AttentionInput& input, const Head<T>& head,
                            const AllowedCounts& allowed, int threads, PointResult& result) {
  SchemeResult found;
  ColumnSums<T> sums;
  RowEntropy<T> entropy;
  RowSums<T> row_sums;
  std::vector<Observer<T>*> observers = {&sums, &entropy, &row_sums};
  FirstKeys<T> first(options, head, allowed, observers);
  in_bundle.show(head, observers, threads);
  PooledVector<double> on_sink;
  if (!input.sinks.empty() || options.rest_on_sink)
    on_sink = in_bundle.on_sink(head.problem, row_sums.values());
  require_row_sums(row_sums.values(), on_sink, in_bundle, head.problem);
  require_masked(sums.values(), allowed, in_bundle, head.problem);
  if (input.options.source == ScoreOptions::Source::weights) {
    // Nothing else shows the mask; a row of zeros can only be a query without allowed keys.
    const auto& rows = row_sums.values();
    result.empty_queries = static_cast<Index>(std::count(rows.begin(), rows.end(), 0.0));
    close_unattended(sums.values(), in_bundle.closed_keys(head.problem),
                     !is_softmax(options.recorded.value_or(Scheme::unas)), result);
  }
  found.columns = {sums.values(), entropy.values()};
  if (!on_sink.empty()) take_sink(on_sink, allowed, found);
  const bool has_scores = !in_bundle.holds_weights();
  found.sinks = first.figures(found.columns.sums, has_scores ? &head.scores() : nullptr, threads);
  return found;
}

// The scores of a head at one point of a sweep: the head's own, or others of the same arrays.
template <class T>
class PointScores {
 public:
  PointScores(const ColumnPoint& point, const AttentionInput& input, const Head<T>& head,
              int threads)
      : point_(point),
        head_(head),
        threads_(threads),
        same_(point.options.scores.scale == input.options.scale) {}

  const Scores<T>& of(Scheme scheme) {
    if (same_) return head_.scores(scheme);
    HeadArrays<T> arrays = head_.arrays();
    if (!description_of(scheme).has_preference()) arrays.preference = nullptr;
    return made_.emplace(point_.input.recipe(scheme), arrays, threads_).scores();
  }

 private:
  const ColumnPoint& point_;
  const Head<T>& head_;
  int threads_;
  bool same_;
  std::optional<HeadScores<T>> made_;
};

// The result of an earlier point of the sweep for `name`, if it is the same: only mixtures depend
// on their share.
const SchemeResult* found_before(const ColumnTask& task, std::size_t point, std::size_t scheme,
                                 const HeadResult& result) {
  const ColumnOptions& options = task.points[point].options;
  const SchemeDescription* const description = scheme_called(options.schemes[scheme]);
  if (description == nullptr || description->is_mixture()) return nullptr;
  for (std::size_t n = 0; n < point; ++n) {
    if (task.points[n].options.scores.scale == options.scores.scale) {
      return &result.points[n].schemes[scheme];
    }
  }
  return nullptr;
}

template <class T>
HeadResult compute_head(const ColumnTask& task, const std::optional<StoredAttention>& in_bundle,
                        const Head<T>& head, std::int64_t useful_bytes, Checkpoint* checkpoint,
                        int threads) {
  HeadResult result;
  std::optional<HeadState> state;
  if (checkpoint != nullptr && checkpoint->takes_states()) state.emplace(*checkpoint);
  const AllowedCounts allowed = head.scores().allowed_counts();
  result.queries_of_key.assign(allowed.queries_of_key.begin(), allowed.queries_of_key.end());
  for (std::size_t n = 0; n < task.points.size(); ++n) {
    const ColumnOptions& options = task.points[n].options;
    PointScores<T> scores(task.points[n], task.input, head, threads);
    result.points.push_back(point_of(allowed));
    PointResult& at = result.points.back();
    for (std::size_t s = 0; s < options.schemes.size(); ++s) {
      if (const SchemeResult* const before = found_before(task, n, s, result)) {
        at.schemes.push_back(*before);
        continue;
      }
      SchemeResult found;
      std::optional<Scheme> scheme = scheme_of(options.schemes[s]);
      if (scheme) {
        ColumnSums<T> sums;
        RowEntropy<T> entropy;
        ObserverList<T> observers = {&sums, &entropy};
        FirstKeys<T> first(options, head, allowed, observers);
        SchemeOptions made = options.scheme_options(*scheme, head.problem);
        made.kept_bytes = useful_bytes;
        made.keeper = state ? &*state : nullptr;
        made.sink = task.input.sink_of(head.problem);
        const Attention attention = naming_head(task.input, head, [&] {
          return attend<T>(scores.of(*scheme), made, observers, threads);
        });
        if (state && description_of(*scheme).is_iterated()) state->next();
        found = result_of(attention, made, {sums.values(), entropy.values()});
        found.sinks = first.figures(found.columns.sums, &scores.of(*scheme), threads);
      } else {
        found = compute_stored(options, *in_bundle, task.input, head, allowed, threads, at);
        scheme = options.recorded;
      }
      complete(options, task.input, head.problem, allowed, scheme, at.empty_queries, found);
      at.schemes.push_back(std::move(found));
    }
  }
  // Stored weights may show more masked keys.
  const std::vector<std::uint8_t>& masked = result.points.front().masked;
  for (std::size_t key = 0; key < masked.size(); ++key) {
    if (masked[key] != 0) result.queries_of_key[key] = 0;
  }
  spread(task.input, head.problem, result);
  return result;
}

ColumnStatistics empty_statistics(const AttentionInput& input, const ColumnOptions& options,
                                  double slack) {
  ColumnStatistics statistics;
  static_cast<HeadAxes&>(statistics) = input.axes;
  statistics.queries = input.queries;
  statistics.keys = input.keys;
  statistics.packed = !input.front.empty();
  statistics.slack = slack;
  // Allocated at once: blocks allocated head by head would fragment the memory that the next head's
  // keys need.
  const auto all_keys = static_cast<std::size_t>(input.own_problems() * input.keys);
  statistics.queries_of_key.reserve(all_keys);
  statistics.masked.reserve(all_keys);
  for (const std::string& name : options.schemes) {
    statistics.schemes.push_back({name, {}, {}, {}, {}, {}, true, {}});
    statistics.schemes.back().sums.reserve(all_keys);
  }
  return statistics;
}

// Adds one head; only the sink keeps its entropies.
void add_head(const PointResult& head, const OwnPart& part,
              const std::vector<Index>& queries_of_key, ColumnStatistics& statistics) {
  append(queries_of_key, statistics.queries_of_key);
  statistics.padded_queries.push_back(statistics.queries - part.queries());
  statistics.padded_keys.push_back(statistics.keys - part.keys());
  append(head.masked, statistics.masked);
  statistics.empty_queries.push_back(head.empty_queries);
  for (std::size_t n = 0; n < statistics.schemes.size(); ++n) {
    SchemeColumns& scheme = statistics.schemes[n];
    const SchemeResult& found = head.schemes[n];
    append(found.columns.sums, scheme.sums);
    scheme.mean_entropies.push_back(found.mean_entropy);
    scheme.bounds.push_back(found.bound);
    scheme.on_sink.push_back(found.on_sink);
    if (found.sinks) scheme.sinks.push_back(*found.sinks);
    if (!found.converged) scheme.converged = false;
    scheme.convergence = slower(scheme.convergence, found.convergence);
  }
}

template <class T>
std::vector<ColumnStatistics> gather(const cli::Arguments& arguments, const ColumnTask& task,
                                     const ColumnSink& sink, Checkpoint* checkpoint,
                                     cli::Progress& progress, cli::Report& report) {
  std::vector<ColumnStatistics> statistics;
  for (const ColumnPoint& point : task.points) {
    statistics.push_back(empty_statistics(task.input, point.options, bound_slack(sizeof(T))));
  }
  const ColumnOptions& options = task.options();
  const HeadNeeds needs = column_needs(task, checkpoint != nullptr, arguments.ranks);
  const MemoryPlan plan =
      plan_memory(task.input, sizeof(T), needs, arguments.threads, arguments.memory);
  const Ranks::Use rows(Ranks::current(), needs.ranks.cut);
  std::optional<StoredAttention> in_bundle;
  if (options.wants(stored)) {
    in_bundle.emplace(task.bundle, task.input, options.recorded, options.hybrid, plan.dense_limit);
  }
  const auto look = [&](double least_bias) {
    warn_of_finite_masks(least_bias, options.scored_schemes(), report);
  };
  const auto keep = [&](Index index, HeadResult& head) {
    for (std::size_t n = 0; n < options.schemes.size(); ++n) {
      sink(options.schemes[n], index, head.queries_of_key, head.points.front().schemes[n].columns);
    }
    for (std::size_t n = 0; n < statistics.size(); ++n) {
      add_head(head.points[n], head.part, head.queries_of_key, statistics[n]);
    }
  };
  const double seconds = for_each_head<T, HeadResult>(
      task.input, plan, progress, look,
      [&](const Head<T>& head, int threads) {
        return compute_head<T>(task, in_bundle, head, plan.useful_bytes, checkpoint, threads);
      },
      keep, checkpoint);
  report.add_compute_seconds(seconds);
  return statistics;
}

}  // namespace

std::vector<ColumnStatistics> gather_columns(const cli::Arguments& arguments,
                                             const ColumnTask& task, const ColumnSink& sink,
                                             Checkpoint* checkpoint, cli::Progress& progress,
                                             cli::Report& report) {
  const auto run = task.options().f64 ? gather<double> : gather<float>;
  return run(arguments, task, sink, checkpoint, progress, report);
}

}  // namespace attn::tools
