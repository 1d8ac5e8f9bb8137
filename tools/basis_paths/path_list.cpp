#include "basis_paths/path_list.hpp"

#include <algorithm>

#include "basis_paths/path_numbers.hpp"
#include "tensor/buffer.hpp"

namespace attn::tools {
namespace {

// The axes of a list after those of the heads.
Shape own_axes(const Operand& list) {
  const Shape& shape = list.dataset.shape();
  return {shape.begin() + static_cast<std::ptrdiff_t>(list.leading.size()), shape.end()};
}

}  // namespace

Index paths_in_row(const Operand& list) {
  const Shape own = own_axes(list);
  return own.size() > 2 ? own[1] : 1;
}

void for_each_block(const PathTask& task, const Operand& list, Index problem, Index rows,
                    const std::function<void(Index first, std::span<const Path> paths)>& body) {
  const Index most = std::min(rows, list.rows) * paths_in_row(list);
  const Buffer<std::int64_t> numbers(most * 3);
  std::vector<Path> paths(static_cast<std::size_t>(most));
  Shape start = join(unravel(list.block(problem), list.leading), Shape(own_axes(list).size(), 0));
  Shape count = join(Shape(list.leading.size(), 1), own_axes(list));
  const std::size_t row = list.leading.size();
  const Index ends[] = {task.input.rows, task.input.rows, task.input.columns};
  for (start[row] = 0; start[row] < list.rows; start[row] += count[row]) {
    count[row] = std::min(rows, list.rows - start[row]);
    list.dataset.read(start, count, numbers.data());
    const Index found = element_count(count);
    for (Index n = 0; n < found; ++n) {
      if (numbers[n] < 0 || numbers[n] >= ends[n % 3]) {
        refuse_index(list.dataset, {start, count}, n, numbers[n], "an index", ends[n % 3]);
      }
      if (n % 3 == 2) {
        paths[static_cast<std::size_t>(n / 3)] = {numbers[n - 2], numbers[n - 1], numbers[n]};
      }
    }
    body(start[row], {paths.data(), static_cast<std::size_t>(found / 3)});
  }
}

}  // namespace attn::tools
