#include "basis_paths/path_list.hpp"

#include "basis_paths/path_numbers.hpp"
#include "tensor/buffer.hpp"

namespace attn::tools {
namespace {

// The axes of a list after the heads' axes.
Shape own_axes(const Operand& list) {
  const Shape& shape = list.dataset.shape();
  return {shape.begin() + list.leading.size(), shape.end()};
}

}  // namespace

Index paths_in_row(const Operand& list) {
  const Shape own = own_axes(list);
  return own.size() > 2 ? own[1] : 1;
}

std::vector<Path> read_paths(const PathTask& task, const Operand& list, Index problem, Index first,
                             Index rows) {
  Shape start = join(unravel(list.block(problem), list.leading), Shape(own_axes(list).size(), 0));
  Shape count = join(Shape(list.leading.size(), 1), own_axes(list));
  const std::size_t row = list.leading.size();
  start[row] = first;
  count[row] = rows;
  const Buffer<std::int64_t> numbers(element_count(count));
  list.dataset.read(start, count, numbers.data());
  std::vector<Path> paths(static_cast<std::size_t>(numbers.size() / 3));
  const Index ends[] = {task.input.rows, task.input.rows, task.input.columns};
  for (Index n = 0; n < numbers.size(); ++n) {
    if (numbers[n] < 0 || numbers[n] >= ends[n % 3]) {
      refuse_index(list.dataset, {start, count}, n, numbers[n], "an index", ends[n % 3]);
    }
    if (n % 3 == 2) {
      paths[static_cast<std::size_t>(n / 3)] = {numbers[n - 2], numbers[n - 1], numbers[n]};
    }
  }
  return paths;
}

std::vector<Path> asked_paths(const PathTask& task, Index problem, Index first, Index count) {
  const Operand* const stored = task.operand("path");
  if (stored != nullptr) return read_paths(task, *stored, problem, first, count);
  const auto from = task.listed.begin() + first;
  return {from, from + count};
}

}  // namespace attn::tools
