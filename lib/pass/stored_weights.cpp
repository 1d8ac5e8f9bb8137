#include "pass/stored_weights.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <string>

#include "attnkit/error.hpp"
#include "kernel/parallel.hpp"
#include "tensor/buffer.hpp"

namespace attn {
namespace {

constexpr Index tile_length = 512;

/// The fewest digits that read back as `value`.
template <class T>
std::string shortest(T value) {
  const double size = std::abs(static_cast<double>(value));
  const bool needs_exponent = size != 0 && (size < 1e-4 || size >= 1e16);
  std::array<char, 64> digits;
  const auto end =
      std::to_chars(digits.begin(), digits.end(), value,
                    needs_exponent ? std::chars_format::scientific : std::chars_format::fixed);
  return {digits.begin(), end.ptr};
}

template <class T>
void require_weights(const WeightTile<T>& tile) {
  for (Index i = 0; i < tile.range.rows; ++i) {
    for (Index j = 0; j < tile.range.cols; ++j) {
      const T weight = tile.weights(i, j);
      // NaN fails the comparison.
      if (weight >= 0 && weight <= std::numeric_limits<T>::max()) continue;
      throw Error(Failure::input, "the weight of query " + std::to_string(tile.range.row0 + i) +
                                      " and key " + std::to_string(tile.range.col0 + j) + " is " +
                                      shortest(weight) + ", expected a number >= 0");
    }
  }
}

}  // namespace

template <class T>
void show_stored_weights(const MatrixSource<T>& weights, Index rows, Index cols,
                         const std::vector<Observer<T>*>& observers, int threads) {
  const Partition partition = partition_of(Order::row_panels, rows, cols, sizeof(T));
  for (Observer<T>* observer : observers) observer->start(partition);
  kernel::parallel_for(partition.slots, threads, [&](Index slot, int) {
    Buffer<T> storage(partition.panel * std::min(tile_length, cols));
    for (Index p = partition.first_panel(slot); p < partition.first_panel(slot + 1); ++p) {
      const Index row0 = p * partition.panel;
      const Index count = std::min(partition.panel, rows - row0);
      for (Index col0 = 0; col0 < cols; col0 += tile_length) {
        const TileRange range{row0, count, col0, std::min(tile_length, cols - col0)};
        const MatrixView<T> values(storage.data(), range.rows, range.cols);
        weights.read(range, values);
        const WeightTile<T> tile{range, values};
        require_weights(tile);
        for (Observer<T>* observer : observers) observer->observe(tile, slot);
      }
    }
  });
  for (Observer<T>* observer : observers) observer->finish();
}

template void show_stored_weights(const MatrixSource<float>&, Index, Index,
                                  const std::vector<Observer<float>*>&, int);
template void show_stored_weights(const MatrixSource<double>&, Index, Index,
                                  const std::vector<Observer<double>*>&, int);

}  // namespace attn
