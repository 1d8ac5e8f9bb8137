#include "common/divided_state.hpp"

#include <algorithm>
#include <utility>

#include "common/checkpoint.hpp"
#include "common/gathered_rows.hpp"

namespace attn::tools {
namespace {

// In place of the number of threads, with which states of whole heads begin.
constexpr int divided_mark = -1;

// What comes first; then the results of earlier parts, and the numbers.
struct Beginning {
  int mark = divided_mark;
  int part = 0;
  std::optional<DividedPlace> place;
};

// Nothing more is read of another kind of state.
template <class Archive>
void archive(Archive& with, Beginning& beginning) {
  archive(with, beginning.mark);
  if (beginning.mark != divided_mark) return;
  archive(with, beginning.part);
  bool has_place = beginning.place.has_value();
  archive(with, has_place);
  if (!has_place) return;
  if constexpr (Archive::loads) beginning.place.emplace();
  archive(with, beginning.place->step);
  archive(with, beginning.place->round);
  archive(with, beginning.place->line);
  archive(with, beginning.place->column_rounds);
}

// Calls use(beginning, archive) if there is a state of a divided head.
template <class Use>
void with_state(const Checkpoint& checkpoint, const Use& use) {
  if (!checkpoint.has_state()) return;
  checkpoint.load_state([&](LoadingArchive& from) {
    Beginning beginning;
    archive(from, beginning);
    if (beginning.mark == divided_mark) use(beginning, from);
  });
}

// Goes through pieces as if they were one.
class Cursor {
 public:
  explicit Cursor(const LineNumbers& numbers) : pieces_(numbers.pieces) {}

  // Calls body(bytes) for the next `count` bytes, as they lie in memory.
  template <class Body>
  void next(std::size_t count, const Body& body) {
    while (count > 0) {
      const std::span<std::byte> piece = pieces_.at(piece_).subspan(taken_);
      const std::span<std::byte> now = piece.first(std::min(count, piece.size()));
      if (!now.empty()) body(now);
      count -= now.size();
      taken_ += now.size();
      if (now.size() == piece.size()) {
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
  std::optional<DividedProgress> progress;
  with_state(checkpoint, [&](const Beginning& beginning, LoadingArchive& from) {
    progress.emplace();
    progress->part = beginning.part;
    archive(from, progress->results);
  });
  return progress;
}

std::optional<DividedPlace> DividedState::place_of(const Checkpoint& checkpoint, int part) {
  std::optional<DividedPlace> place;
  with_state(checkpoint, [&](const Beginning& beginning, LoadingArchive&) {
    if (beginning.part == part) place = beginning.place;
  });
  return place;
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

void DividedState::save(const DividedProgress& progress, const std::optional<DividedPlace>& place,
                        Checkpoint& checkpoint, kernel::Ranks& ranks) {
  Beginning beginning{divided_mark, progress.part, place};
  std::uint64_t results = progress.results.size();
  const std::vector<char> first = archived_bytes([&](SavingArchive& to) {
    archive(to, beginning);
    archive(to, results);
  });
  const auto before = static_cast<std::int64_t>(first.size() + progress.results.size());
  checkpoint.write_with_state(before + bytes(), [&](SavingArchive& to) {
    to.bytes(first.data(), first.size());
    to.bytes(progress.results.data(), progress.results.size());
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
  with_state(checkpoint, [&](const Beginning&, LoadingArchive& from) {
    std::uint64_t results = 0;
    archive(from, results);
    from.skip(static_cast<std::size_t>(results));
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
