#include "tensor_join/piece_join.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "attnkit/error.hpp"
#include "cli/words.hpp"
#include "common/shards/shard_marks.hpp"
#include "tensor/buffer.hpp"
#include "tensor/pieces.hpp"
#include "tensor_join/held_twice.hpp"

namespace attn::tools {
namespace {

[[noreturn]] void refuse_part(const std::string& why) { throw Error(Failure::input, why); }

// Whether the bytes of such a dataset can be counted.
bool is_countable(const Shape& shape) {
  auto bytes = static_cast<Index>(sizeof(double));
  return std::none_of(shape.begin(), shape.end(),
                      [&](Index axis) { return __builtin_mul_overflow(bytes, axis, &bytes); });
}

// The blocks of some parts may end early: the whole dataset is as long as the longest block.
BlockLayout whole_layout(const std::vector<PieceJoin::Part>& parts) {
  const auto has_blocks = [](const PieceJoin::Part& part) { return !part.piece->blocks.empty(); };
  const auto first = std::find_if(parts.begin(), parts.end(), has_blocks);
  BlockLayout whole = (first == parts.end() ? parts.front() : *first).piece->layout;
  if (!whole.padded) return whole;
  for (const PieceJoin::Part& part : parts) {
    const Shape& shape = part.piece->layout.shape;
    if (!has_blocks(part) || shape.size() != whole.shape.size()) continue;
    for (const std::size_t axis : whole.own_axes()) {
      whole.shape[axis] = std::max(whole.shape[axis], shape[axis]);
    }
    if (!is_countable(whole.shape)) {
      refuse_part(
          fmt::format("{} makes {} too large: {}", part.file, whole.name, to_string(whole.shape)));
    }
  }
  return whole;
}

// The number of blocks from the n-th on that also follow each other in the whole dataset.
Index run_length(const BlockLayout& layout, const std::vector<Index>& blocks, std::size_t n) {
  const Shape positions = layout.positions();
  if (layout.axes != first_axes(positions.size()) || positions.empty()) return 1;
  const Index room = positions.back() - blocks[n] % positions.back();
  Index length = 1;
  while (length < room && n + static_cast<std::size_t>(length) < blocks.size() &&
         blocks[n + static_cast<std::size_t>(length)] == blocks[n] + length) {
    ++length;
  }
  return length;
}

void fill_with_nan(const BlockLayout& layout, Index block, io::OutputDataset& whole) {
  const BlockBox box = box_of(layout, block);
  const Index limit = piece_elements(sizeof(double));
  const std::vector<double> nothing(
      static_cast<std::size_t>(std::min(limit, element_count(layout.own()))),
      std::numeric_limits<double>::quiet_NaN());
  for_each_piece(box.count, limit, [&](const Piece& piece) {
    Shape start = box.start;
    for (std::size_t axis = 0; axis < start.size(); ++axis) start[axis] += piece.start[axis];
    whole.write(start, piece.count, nothing.data());
  });
}

}  // namespace

PieceJoin::PieceJoin(std::string group, std::vector<Part> parts)
    : group_(std::move(group)),
      parts_(std::move(parts)),
      layout_(whole_layout(parts_)),
      path_(path_in(group_, layout_.name)) {
  for (const Part& part : parts_) require_part(part);
  require_each_block_once();
}

void PieceJoin::require_part(const Part& part) const {
  BlockLayout like = part.piece->layout;
  if (layout_.padded && like.shape.size() == layout_.shape.size()) {
    for (const std::size_t axis : layout_.own_axes()) {
      like.shape[axis] = std::max(like.shape[axis], layout_.shape[axis]);
    }
  }
  if (like != layout_) {
    refuse_part(fmt::format("{} is part of a {} {}, but {} of a {} {}", part.file, layout_.name,
                            to_string(part.piece->layout.shape), parts_.front().file, layout_.name,
                            to_string(layout_.shape)));
  }
  if (!part.bundle->is_dataset(path_)) {
    refuse_part(part.file + " lacks its dataset " + path_);
  }
  const ArraySource found = part.bundle->dataset(path_);
  const Shape expected =
      join({static_cast<Index>(part.piece->blocks.size())}, part.piece->layout.own());
  if (found.shape() != expected) {
    refuse_part(fmt::format("{} has shape {}, expected {} as its marks say", found.address(),
                            to_string(found.shape()), to_string(expected)));
  }
  if (size_of(found.dtype()) == 0 || found.dtype() == DType::bf16 ||
      (layout_.padded && !is_floating(found.dtype()))) {
    refuse_part(fmt::format("{} has type {}, expected numbers", found.address(), found.type()));
  }
  const ArraySource first = parts_.front().bundle->dataset(path_);
  if (found.dtype() == first.dtype()) return;
  refuse_part(fmt::format("{} has type {}, but {} has {}", found.address(), found.type(),
                          first.address(), first.type()));
}

void PieceJoin::require_each_block_once() const {
  const auto count = static_cast<std::size_t>(element_count(layout_.positions()));
  std::size_t found = 0;
  for (const Part& part : parts_) found += part.piece->blocks.size();
  if (found < count) {
    refuse_part(fmt::format("the shards have only {} of the {} of {}", found,
                            cli::counted(count, "block"), path_));
  }
  std::vector<const std::vector<Index>*> lists;
  for (const Part& part : parts_) lists.push_back(&part.piece->blocks);
  if (const auto twice = held_twice(lists, static_cast<Index>(count))) {
    refuse_part(fmt::format("{} and {} both hold block {} of {}", parts_[twice->first].file,
                            parts_[twice->second].file, twice->number, path_));
  }
}

bool can_be_virtual(DType type, const Shape& shape) {
  const bool numbers = type == DType::f32 || type == DType::f64 || type == DType::i64;
  return numbers && !shape.empty() && element_count(shape) > 0;
}

void PieceJoin::write(io::OutputBundle& output) const {
  const Part& first = parts_.front();
  io::OutputBundle group = output.group(group_);
  const ArraySource dataset = first.bundle->dataset(path_);
  if (!first.source.empty() && can_be_virtual(dataset.dtype(), layout_.shape)) {
    std::vector<io::VirtualBlock> all;
    for (const Part& part : parts_) {
      for (io::VirtualBlock& block : blocks(part)) all.push_back(std::move(block));
    }
    group.create_virtual(layout_.name, dataset.dtype(), layout_.shape, layout_.labels, all);
  } else {
    io::OutputDataset whole =
        group.create(layout_.name, dataset.dtype(), layout_.shape, layout_.labels, layout_.chunk);
    for (const Part& part : parts_) copy(part, whole);
  }
  group.copy_dataset_attributes(layout_.name, *first.bundle, path_, false);
}

std::vector<io::VirtualBlock> PieceJoin::blocks(const Part& part) const {
  std::vector<io::VirtualBlock> found;
  const std::vector<Index>& numbers = part.piece->blocks;
  const Shape own = part.piece->layout.own();
  const Shape shape = join({static_cast<Index>(numbers.size())}, own);
  for (std::size_t n = 0; n < numbers.size();) {
    const Index length = run_length(layout_, numbers, n);
    // Blocks that end early take only the beginning of their place.
    BlockLayout ends = layout_;
    ends.shape = part.piece->layout.shape;
    BlockBox box = box_of(ends, numbers[n]);
    if (!layout_.axes.empty()) box.count[layout_.axes.back()] = length;
    const Shape from_count = join({length}, own);
    Shape from_start(from_count.size(), 0);
    from_start.front() = static_cast<Index>(n);
    found.push_back(
        {part.source, "/" + path_, shape, from_start, from_count, box.start, box.count});
    n += static_cast<std::size_t>(length);
  }
  return found;
}

void PieceJoin::copy(const Part& part, io::OutputDataset& whole) const {
  const ArraySource from = part.bundle->dataset(path_);
  const std::vector<Index>& blocks = part.piece->blocks;
  const Shape own = part.piece->layout.own();
  const bool ends_early = own != layout_.own();
  const std::size_t size = size_of(from.dtype());
  const Index limit = piece_elements(size);
  const Buffer<char> buffer(limit * static_cast<Index>(size));
  std::size_t n = 0;
  while (n < blocks.size()) {
    const Index length = run_length(layout_, blocks, n);
    for (Index more = 0; ends_early && more < length; ++more) {
      fill_with_nan(layout_, blocks[n] + more, whole);
    }
    for_each_piece(join({length}, own), limit, [&](const Piece& piece) {
      Shape start = piece.start;
      start.front() += static_cast<Index>(n);
      from.read_stored(start, piece.count, buffer.data());
      // The same along the axes of the whole dataset.
      BlockBox box = box_of(layout_, blocks[n] + piece.start.front());
      std::size_t next = 1;
      for (const std::size_t axis : layout_.own_axes()) {
        box.start[axis] = piece.start[next];
        box.count[axis] = piece.count[next++];
      }
      if (!layout_.axes.empty()) box.count[layout_.axes.back()] = piece.count.front();
      whole.write_stored(box.start, box.count, buffer.data());
    });
    n += static_cast<std::size_t>(length);
  }
}

}  // namespace attn::tools
