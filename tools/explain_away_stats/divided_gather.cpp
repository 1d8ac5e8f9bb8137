#include "explain_away_stats/divided_gather.hpp"

#include <optional>
#include <utility>

#include "common/divided_head.hpp"
#include "common/divided_heads.hpp"

namespace attn::tools {
namespace {

// Adds what ranks that divide the memory of a head have found for a scheme.
void add_divided(const ColumnTask& task, Scheme scheme, Index problem, DividedHead head,
                 HeadResult& result) {
  const AllowedCounts& allowed = head.attention.allowed;
  if (result.points.empty()) {
    result.queries_of_key.assign(allowed.queries_of_key.begin(), allowed.queries_of_key.end());
    result.points = {point_of(allowed)};
  }
  PointResult& at = result.points.front();
  SchemeOptions made = task.options().scheme_options(scheme, problem);
  made.sink = task.input.sink_of(problem);
  at.schemes.push_back(
      result_of(head.attention, made, {std::move(head.col_sum), std::move(head.row_entropy)}));
  complete(task.options(), task.input, problem, allowed, scheme, at.empty_queries,
           at.schemes.back());
}

template <class Archive>
void archive_found(Archive& with, HeadFound<HeadResult>& found) {
  archive(with, found.result);
  archive(with, found.least_bias);
}

// A head whose memory ranks divide, scheme after scheme. Returns the seconds.
template <class T>
double compute_divided(const ColumnTask& task, const std::vector<DividedScheme>& schemes,
                       Index problem, Checkpoint* checkpoint, HeadFound<HeadResult>& found) {
  DividedProgress progress;
  if (const auto before = checkpoint ? divided_progress(*checkpoint) : std::nullopt) {
    progress.part = before->part;
    if (progress.part > 0) {
      load_archived(before->results, [&](LoadingArchive& from) { archive_found(from, found); });
    }
  }
  double seconds = 0;
  for (; progress.part < std::ssize(schemes); ++progress.part) {
    progress.results.clear();
    if (progress.part > 0 && checkpoint != nullptr && checkpoint->writes()) {
      progress.results = archived_bytes([&](SavingArchive& to) { archive_found(to, found); });
    }
    const auto& [wants, plan] = schemes[static_cast<std::size_t>(progress.part)];
    HeadDivision<T> division(task.input, wants, plan, checkpoint);
    // Not left to be computed whole, as weights are seen.
    DividedHead head = division.compute(problem, {}, progress).value();
    seconds += division.seconds();
    found.least_bias = head.least_bias;
    add_divided(task, wants.scheme, problem, std::move(head), found.result);
  }
  spread(task.input, task.input.part(problem), found.result);
  return seconds;
}

}  // namespace

template <class T>
double gather_divided(const ColumnTask& task, const std::vector<DividedScheme>& schemes,
                      cli::Progress& progress, const std::function<void(double least_bias)>& look,
                      const std::function<void(Index problem, HeadResult& result)>& keep,
                      Checkpoint* checkpoint) {
  double seconds = 0;
  DividedSteps<HeadResult> steps;
  steps.compute = [&](Index problem, HeadFound<HeadResult>& found) {
    seconds += compute_divided<T>(task, schemes, problem, checkpoint, found);
  };
  steps.save = [](SavingArchive& to, HeadFound<HeadResult>& found) { archive_found(to, found); };
  steps.load = [](LoadingArchive& from, Index, HeadFound<HeadResult>& found) {
    archive_found(from, found);
  };
  steps.look = look;
  steps.keep = keep;
  for_each_divided_head(task.input, checkpoint, progress, steps);
  return seconds;
}

template double gather_divided<float>(
    const ColumnTask& task, const std::vector<DividedScheme>& schemes, cli::Progress& progress,
    const std::function<void(double least_bias)>& look,
    const std::function<void(Index problem, HeadResult& result)>& keep, Checkpoint* checkpoint);
template double gather_divided<double>(
    const ColumnTask& task, const std::vector<DividedScheme>& schemes, cli::Progress& progress,
    const std::function<void(double least_bias)>& look,
    const std::function<void(Index problem, HeadResult& result)>& keep, Checkpoint* checkpoint);

}  // namespace attn::tools
