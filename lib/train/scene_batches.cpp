#include "train/scene_batches.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "attnkit/error.hpp"

namespace attn::train {
namespace {

constexpr std::int64_t asks_for_colour = 0;

void require_size(std::size_t got, Index want, const std::string& what) {
  if (static_cast<Index>(got) == want) return;
  throw Error(Failure::input, "the scenes have " + std::to_string(got) + " " + what +
                                  ", expected " + std::to_string(want));
}

void require_below(std::int64_t value, Index end, const std::string& what, std::size_t scene) {
  if (value >= 0 && value < end) return;
  throw Error(Failure::input, what + " of scene " + std::to_string(scene) + " is " +
                                  std::to_string(value) + ", expected 0 to " +
                                  std::to_string(end - 1));
}

}  // namespace

SceneBatches::SceneBatches(SceneData scenes, Index batch)
    : BatchesOf<ViewBatch>(std::ssize(scenes.kinds), batch), scenes_(std::move(scenes)) {
  check();
}

void SceneBatches::check() const {
  const SceneData& s = scenes_;
  const Index scenes = std::ssize(s.kinds);
  if (scenes == 0) throw Error(Failure::input, "there are no scenes");
  require_size(s.features.size(), scenes * s.views * s.boxes * s.width, "features");
  require_size(s.counts.size(), scenes * s.views, "counts of boxes");
  require_size(s.arguments.size(), scenes, "arguments");
  require_size(s.answers.size(), scenes, "answers");
  for (std::size_t n = 0; n < s.kinds.size(); ++n) {
    require_below(s.kinds[n], question_kinds, "the kind of the question", n);
    const bool colour = s.kinds[n] == asks_for_colour;
    require_below(s.arguments[n], colour ? s.object_kinds : s.colours,
                  "the argument of the question", n);
    require_below(s.answers[n], colour ? s.colours : s.objects + 1, "the answer", n);
  }
  for (std::size_t n = 0; n < s.counts.size(); ++n) {
    require_below(s.counts[n], s.boxes + 1, "the number of boxes",
                  n / static_cast<std::size_t>(s.views));
  }
  const auto wrong =
      std::find_if(s.features.begin(), s.features.end(), [](float x) { return !std::isfinite(x); });
  if (wrong != s.features.end()) {
    throw Error(Failure::input,
                "a feature of scene " +
                    std::to_string((wrong - s.features.begin()) / (s.views * s.boxes * s.width)) +
                    " is not finite");
  }
}

ViewBatch SceneBatches::slot(std::span<const Index> items, const std::optional<Epoch>&) const {
  const SceneData& s = scenes_;
  const Index size = s.boxes * s.width;
  ViewBatch slot;
  for (Index v = 0; v < s.views; ++v) {
    Boxes boxes;
    boxes.sequences = {std::ssize(items), s.boxes};
    for (const Index item : items) {
      const auto first = s.features.begin() + (item * s.views + v) * size;
      boxes.features.insert(boxes.features.end(), first, first + size);
      boxes.lengths.push_back(s.counts[static_cast<std::size_t>(item * s.views + v)]);
    }
    slot.views.push_back(std::move(boxes));
  }
  for (const Index item : items) {
    const auto at = static_cast<std::size_t>(item);
    const bool colour = s.kinds[at] == asks_for_colour;
    slot.kinds.push_back(s.kinds[at]);
    slot.questions.push_back(s.kinds[at]);
    slot.questions.push_back(question_kinds + (colour ? 0 : s.object_kinds) + s.arguments[at]);
    slot.targets.rows.push_back(std::ssize(slot.targets.rows));
    slot.targets.tokens.push_back((colour ? 0 : s.colours) + s.answers[at]);
  }
  return slot;
}

}  // namespace attn::train
