#include "common/divided_state.hpp"

#include <algorithm>
#include <utility>

#include "common/checkpoint.hpp"
#include "common/gathered_rows.hpp"

namespace attn::tools {
namespace {

// In place of the number of threads, with which states of whole heads begin.
constexpr int divided_mark = -1;

// What comes before the numbers.
struct Beginning {
  int mark = divided_mark;
  DividedProgress progress;
  DividedPlace place;
};

// Nothing more is read of another kind of state.
template <class Archive>
void archive(Archive& with, Beginning& beginning) {
  archive(with, beginning.mark);
  if (beginning.mark != divided_mark) return;
  archive(with, beginning.progress.part);
  archive(with, beginning.progress.results);
  archive(with, beginning.place.step);
  archive(with, beginning.place.round);
  archive(with, beginning.place.line);
  archive(with, beginning.place.column_rounds);
}

std::optional<Beginning> beginning_of(const Checkpoint& checkpoint) {
  if (!checkpoint.has_state()) return std::nullopt;
  Beginning beginning;
  checkpoint.load_state([&](LoadingArchive& from) { archive(from, beginning); });
  return beginning.mark == divided_mark ? std::optional(std::move(beginning)) : std::nullopt;
}

// Goes through pieces as if they were one.
class Cursor {
 public:
  explicit Cursor(const LineNumbers& numbers) : pieces_(numbers.pieces) {}

  // Calls body(bytes) for the next `count` bytes, as they lie in memory.
  template <class Body>
  void next(std::size_t count, const Body& body) {
    while (count > 0) {
      const std::span<std::byte> piece = pieces_[piece_].subspan(taken_);
      const std::span<std::byte> now = piece.first(std::min(count, piece.size()));
      if (!now.empty()) body(now);
      count -= now.size();
      taken_ += now.size();
      if (taken_ == pieces_[piece_].size()) {
        ++piece_;
        taken_ = 0;
      }
    }
  }

 private:
  const std::vector<std::span<std::byte>>& pieces_;
  std::size_t piece_ = 0;
  std::size_t taken_ = 0;
};

void save_lines(const LineNumbers& numbers, const RankSlots& slots, SavingArchive& to,
                kernel::Ranks& ranks) {
  Cursor cursor(numbers);
  Buffer<std::byte> own;
  Buffer<std::byte> room;
  const Index at_once = rows_of_piece(numbers.width);
  for (int rank = 0; rank < ranks.count(); ++rank) {
    const RowRange lines = slots.lines(rank);
    for (Index first = lines.first; first < lines.last; first += at_once) {
      const Index count = std::min(at_once, lines.last - first);
      const Index bytes = count * numbers.width;
      if (rank == ranks.own()) {
        own.reserve(bytes);
        std::byte* at = own.data();
        cursor.next(static_cast<std::size_t>(bytes), [&](std::span<const std::byte> piece) {
          at = std::copy(piece.begin(), piece.end(), at);
        });
      }
      const GatheredRows<std::byte> rows{rank, first, count, own.data()};
      const std::byte* const all = at_first_rank(ranks, rows, numbers.width, room);
      if (all != nullptr) to.bytes(all, static_cast<std::size_t>(bytes));
    }
  }
}

}  // namespace

std::optional<DividedProgress> divided_progress(const Checkpoint& checkpoint) {
  std::optional<Beginning> beginning = beginning_of(checkpoint);
  return beginning ? std::optional(std::move(beginning->progress)) : std::nullopt;
}

std::optional<DividedPlace> DividedState::place_of(const Checkpoint& checkpoint, int part) {
  const std::optional<Beginning> beginning = beginning_of(checkpoint);
  if (!beginning || beginning->progress.part != part) return std::nullopt;
  return beginning->place;
}

std::int64_t DividedState::bytes() const {
  std::int64_t bytes = 0;
  for (const Part& part : parts_) {
    if (part.slots) {
      bytes += lines_of(*part.slots) * part.numbers.width;
      continue;
    }
    for (const auto& piece : part.numbers.pieces) bytes += static_cast<std::int64_t>(piece.size());
  }
  return bytes;
}

void DividedState::save(const DividedProgress& progress, DividedPlace place, Checkpoint& checkpoint,
                        kernel::Ranks& ranks) {
  Beginning beginning{divided_mark, progress, place};
  const std::vector<char> first =
      archived_bytes([&](SavingArchive& to) { archive(to, beginning); });
  const auto all = static_cast<std::int64_t>(first.size()) + bytes();
  checkpoint.write_with_state(all, [&](SavingArchive& to) {
    to.bytes(first.data(), first.size());
    for (const Part& part : parts_) {
      if (part.slots) {
        save_lines(part.numbers, *part.slots, to, ranks);
        continue;
      }
      for (const auto& piece : part.numbers.pieces) to.bytes(piece.data(), piece.size());
    }
  });
}

void DividedState::load(const Checkpoint& checkpoint, int rank) const {
  checkpoint.load_state([&](LoadingArchive& from) {
    Beginning beginning;
    archive(from, beginning);
    for (const Part& part : parts_) load_part(part, from, rank);
  });
}

void DividedState::load_part(const Part& part, LoadingArchive& from, int rank) {
  const auto read = [&](std::span<std::byte> bytes) { from.bytes(bytes.data(), bytes.size()); };
  if (!part.slots) {
    for (const auto& piece : part.numbers.pieces) read(piece);
    return;
  }
  const std::int64_t width = part.numbers.width;
  const auto skip = [&](Index lines) { from.skip(static_cast<std::size_t>(lines * width)); };
  const RowRange own = part.slots->lines(rank);
  skip(own.first);
  Cursor(part.numbers).next(static_cast<std::size_t>((own.last - own.first) * width), read);
  skip(lines_of(*part.slots) - own.last);
}

}  // namespace attn::tools
