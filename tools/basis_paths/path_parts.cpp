#include "basis_paths/path_parts.hpp"

#include <utility>

#include "common/costs/block_plan.hpp"
#include "common/outputs/block_output.hpp"

namespace attn::tools {

void PathPart::write(const HeadOutputs& outputs) const {
  for (const Block& block : blocks_) {
    std::visit(
        [&](const auto& numbers) {
          outputs.dataset(block.name)
              .write_stored(block.place.start, block.place.count, numbers.data());
        },
        block.numbers);
  }
}

void PathPart::save(SavingArchive& to) {
  std::uint64_t count = blocks_.size();
  archive(to, count);
  for (Block& block : blocks_) {
    archive(to, block.name);
    archive(to, block.place.start);
    archive(to, block.place.count);
    std::visit(
        [&](auto& numbers) {
          std::uint64_t bytes = static_cast<std::size_t>(numbers.size()) * sizeof(numbers[0]);
          archive(to, bytes);
          to.bytes(numbers.data(), bytes);
        },
        block.numbers);
  }
}

void PathPart::load(LoadingArchive& from, std::int64_t memory) {
  std::uint64_t count = 0;
  archive(from, count);
  std::int64_t all_bytes = 0;
  for (std::uint64_t n = 0; n < count; ++n) {
    Block block;
    archive(from, block.name);
    archive(from, block.place.start);
    archive(from, block.place.count);
    std::uint64_t bytes = 0;
    archive(from, bytes);
    from.require(bytes, 1);
    all_bytes += static_cast<std::int64_t>(bytes);
    require_memory("a part of the checkpoint", all_bytes, memory);
    Buffer<std::byte> numbers(static_cast<Index>(bytes));
    from.bytes(numbers.data(), bytes);
    block.numbers = std::move(numbers);
    blocks_.push_back(std::move(block));
  }
}

void PathWork::for_each_problem(const std::function<void(Index problem)>& body) {
  for (Index n = 0; n < problems_.own_problems(); ++n) {
    body(problems_.own_problem(n));
    progress_.advance(1);
  }
}

std::future<void> PathWork::write_later(PathPart part) {
  return std::async(std::launch::async | std::launch::deferred,
                    [this, part = std::move(part)] { part.write(outputs); });
}

void PathWork::write_once(const std::string& name, DType type, const Shape& shape,
                          const std::int64_t* numbers) {
  std::vector<Index> block_of(static_cast<std::size_t>(problems_.problems), -1);
  if (!block_of.empty()) block_of.front() = 0;
  ProblemShare* const share = problems_.share.get();
  BlockOutput output(bundle, type, {.name = name, .shape = shape}, share, report, block_of);
  if (share == nullptr || !share->blocks(block_of).empty()) output.write(0, numbers);
}

Buffer<std::int32_t> stored_indices(const std::vector<Index>& indices) {
  Buffer<std::int32_t> stored(std::ssize(indices));
  std::transform(indices.begin(), indices.end(), stored.begin(),
                 [](Index index) { return static_cast<std::int32_t>(index); });
  return stored;
}

}  // namespace attn::tools
