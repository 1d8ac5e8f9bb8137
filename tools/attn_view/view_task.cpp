#include "attn_view/view_task.hpp"

#include <utility>

#include "common/heads/score_source.hpp"
#include "common/options/score_options.hpp"

namespace attn::tools {
namespace {

ScoreOptions options_of(const cli::Arguments& arguments, const io::InputBundle& bundle) {
  ScoreOptions options = resolve_score_options(arguments, &bundle);
  options.bf16 = bundle.text_attribute("attn_precision") == "bf16";
  return options;
}

}  // namespace

ViewTask::ViewTask(const cli::Arguments& arguments, io::InputBundle section)
    : bundle(std::move(section)),
      input(bundle, options_of(arguments, bundle), false,
            {view_schemes.begin(), view_schemes.end()}),
      f64(recorded_f64(bundle).value_or(input.any_float64)) {
  require_layout_effect(arguments, input);
  if (arguments.given("heads")) input.choose_heads(arguments.text("heads"), bundle.description());
  // Read later; requested before Sections::warn_of_root.
  bundle.has("tokens");
  bundle.has("relative_deviation");
}

bool ViewTask::suffices(const cli::Arguments& arguments, const io::InputBundle& bundle) {
  return has_scores(bundle, resolve_score_options(arguments, &bundle).source);
}

}  // namespace attn::tools
