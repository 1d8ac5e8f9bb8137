#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "common/checkpoint_record.hpp"
#include "common/divided_plan.hpp"
#include "kernel/ranks.hpp"
#include "pass/line_numbers.hpp"

namespace attn::tools {

/// How far ranks are with a head that they divide.
struct DividedPlace {
  DividedStep step = DividedStep::rows;
  int round = 0;
  Index line = 0;         ///< where the next block of the round begins: lines before it are done
  int column_rounds = 1;  ///< of QueryBlocks, known when g is complete
};

/// A head may be divided several times, once for each scheme. These are its parts.
struct DividedProgress {
  int part = 0;                    ///< the number of the part in progress, and of those done
  std::vector<char> results = {};  ///< of the parts done; needed by the rank that writes
};

class Checkpoint;
/// The progress that a checkpoint's state holds; nothing if no state of a divided head is there.
std::optional<DividedProgress> divided_progress(const Checkpoint& checkpoint);

/// What ranks have found of a head up to a place, as the state of a checkpoint. In the file, lines
/// are in the order of the head, so that any number of ranks can go on. Memory that is added must
/// outlive it.
class DividedState {
 public:
  /// Numbers that all ranks have.
  template <class Values>
  void add_whole(Values& values) {
    parts_.push_back({LineNumbers::of(values), {}});
  }

  /// Numbers of lines, of which each rank has those of its slots.
  void add_lines(const RankSlots& slots, LineNumbers numbers) {
    parts_.push_back({std::move(numbers), slots});
  }
  void add_lines(const RankSlots& slots, std::vector<LineNumbers> numbers) {
    for (LineNumbers& lines : numbers) add_lines(slots, std::move(lines));
  }

  /// Writes the checkpoint. Called by all ranks. Without a place nothing of the part is done.
  void save(const DividedProgress& progress, const std::optional<DividedPlace>& place,
            Checkpoint& checkpoint, kernel::Ranks& ranks);

  /// Fills what was added, in the same order, or the first of that. The checkpoint has the state of
  /// a divided head.
  void load(const Checkpoint& checkpoint, int rank) const;

  /// The place of a checkpoint's state; nothing if it has none in that part of the head.
  static std::optional<DividedPlace> place_of(const Checkpoint& checkpoint, int part);

 private:
  std::int64_t bytes() const;

  struct Part {
    LineNumbers numbers;
    std::optional<RankSlots> slots;  // absent: all ranks have all
  };
  static void load_part(const Part& part, LoadingArchive& from, int rank);
  static Index lines_of(const RankSlots& slots) { return slots.lines(last_rank(slots)).last; }
  static int last_rank(const RankSlots& slots) { return static_cast<int>(slots.ends.size()) - 1; }

  std::vector<Part> parts_;
};

}  // namespace attn::tools
