#pragma once

#include <algorithm>

#include "attn_view/view_task.hpp"
#include "common/heads/heads.hpp"
#include "common/heads/input_warnings.hpp"
#include "head/attend_head.hpp"

namespace attn::tools {

/// for_each_head, with memory for a head's attention under the schemes of the page, and
/// `result_bytes` for its Result.
template <class T, class Result>
void for_each_view(const cli::Arguments& arguments, const ViewTask& task, std::int64_t result_bytes,
                   const std::function<Result(const Head<T>& head, int threads)>& compute,
                   const std::function<void(Index problem, Result& result)>& keep,
                   cli::Progress& progress, cli::Report& report) {
  const AttentionInput& input = task.input;
  HeadNeeds needs;
  needs.result_bytes = result_bytes;
  needs.parts = attend_parts(Scheme::dnas, false, input.queries, input.keys, sizeof(T));
  needs.work_bytes = [&input](int threads, std::int64_t) {
    std::int64_t most = 0;
    for (const Scheme scheme : view_schemes) {
      most = std::max(most, attend_bytes(scheme, input.queries, input.keys, sizeof(T), threads));
    }
    return most;
  };
  const MemoryPlan plan = plan_memory(input, sizeof(T), needs, arguments.threads, arguments.memory);
  const auto look = [&](double least_bias) {
    warn_of_finite_masks(least_bias, {view_schemes.begin(), view_schemes.end()}, report);
  };
  report.add_compute_seconds(for_each_head<T, Result>(input, plan, progress, look, compute, keep));
}

/// Computes a head under `scheme`, as `work`; see attend_head.
template <class T>
void attend_under(Scheme scheme, const AttentionInput& input, const Head<T>& head,
                  const HeadTargets<T>& targets, int threads, HeadWork<T>& work) {
  SchemeOptions options;
  options.scheme = scheme;
  begin_head(work, head, input, options, options.hybrid, std::nullopt);
  naming_head(input, head, [&] { attend_head(work, targets, false, threads); });
}

}  // namespace attn::tools
