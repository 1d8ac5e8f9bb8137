#pragma once

#include <cstdint>
#include <vector>

#include "train/batches.hpp"
#include "train/view_batch.hpp"

namespace attn::train {

/// Scenes with questions, as written by `tensor-gen scenes`.
struct SceneData {
  Index views = 0;
  Index boxes = 0;  ///< the most of a view
  Index width = 0;
  std::vector<float> features;          ///< (scenes, views, boxes, width)
  std::vector<std::int64_t> counts;     ///< (scenes, views): boxes without padding
  std::vector<std::int64_t> kinds;      ///< (scenes): 0 asks for a colour, 1 for a number
  std::vector<std::int64_t> arguments;  ///< (scenes): the kind or colour that the question is about
  std::vector<std::int64_t> answers;    ///< (scenes): the colour, or the number

  /// The numbers of kinds and colours, and the most objects of a scene.
  Index object_kinds = 0;
  Index colours = 0;
  Index objects = 0;
};

/// Batches of scenes. A question is its kind, one of the tokens 0 and 1, and its argument: token 2
/// + κ for the kind κ, 2 + object_kinds + χ for the colour χ. Answers are the colours, followed by
/// the numbers 0 … objects. All slots are padded to the same number of boxes, so that a model needs
/// plans for few shapes.
class SceneBatches : public BatchesOf<ViewBatch> {
 public:
  /// Requires batch >= 1. Throws Error(input) if there are no scenes, for arrays whose sizes do not
  /// agree, and for a count, a kind, an argument, an answer or a feature out of range, with the
  /// scene's number.
  SceneBatches(SceneData scenes, Index batch);

  const SceneData& scenes() const { return scenes_; }

  /// The tokens of questions, and the answers, that a model needs.
  Index vocabulary() const { return question_kinds + scenes_.object_kinds + scenes_.colours; }
  Index answers() const { return scenes_.colours + scenes_.objects + 1; }

 protected:
  ViewBatch slot(std::span<const Index> items, const std::optional<Epoch>& epoch) const override;

 private:
  void check() const;

  SceneData scenes_;
};

}  // namespace attn::train
