#pragma once

#include <functional>

#include "cli/progress.hpp"
#include "common/heads.hpp"

namespace attn::tools {

/// What becomes of a head whose memory ranks divide.
template <class Result>
struct DividedSteps {
  std::function<void(Index problem, HeadFound<Result>& found)> compute;
  /// As a unit of the checkpoint, whose first parts may have been added while it was computed.
  std::function<void(SavingArchive& to, HeadFound<Result>& found)> save;
  std::function<void(LoadingArchive& from, Index problem, HeadFound<Result>& found)> load;
  std::function<void(double least_bias)> look;
  std::function<void(Index problem, Result& result)> keep;
};

/// All heads, one after the other, as for_each_head does; those that the checkpoint has, or null,
/// are not computed again.
template <class Result>
void for_each_divided_head(const AttentionInput& input, Checkpoint* checkpoint,
                           cli::Progress& progress, const DividedSteps<Result>& steps) {
  for (Index n = 0; n < input.own_problems(); ++n) {
    const Index problem = input.own_problem(n);
    HeadFound<Result> found;
    if (checkpoint != nullptr && checkpoint->has_unit()) {
      checkpoint->stop_if_asked();
      checkpoint->take_unit([&](LoadingArchive& from) { steps.load(from, problem, found); });
    } else {
      steps.compute(problem, found);
      if (checkpoint != nullptr) {
        checkpoint->add_unit([&](SavingArchive& to) { steps.save(to, found); });
        checkpoint->write_if_due();
      }
    }
    steps.look(found.least_bias);
    steps.keep(problem, found.result);
    progress.advance(1);
  }
}

}  // namespace attn::tools
