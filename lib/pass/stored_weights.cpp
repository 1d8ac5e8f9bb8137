#include "pass/stored_weights.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <string>

#include "attnkit/error.hpp"
#include "tensor/buffer.hpp"

namespace attn {
namespace {

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
                         const ObserverList<T>& observers, int threads) {
  const Partition partition = partition_of(Order::row_panels, rows, cols, sizeof(T));
  for (Observer<T>* observer : observers) observer->start(partition);
  auto storages = workspaces_for<Buffer<T>>(threads);
  const SlotShare share = share_of<T>(partition, observers);
  for_each_panel(share, threads, nullptr, storages,
                 [&](Index panel, Index slot, Buffer<T>& storage) {
                   storage.reserve(partition.panel * std::min(pass_tile_length, cols));
                   const RowRange lines = partition.lines(panel);
                   for (Index col0 = 0; col0 < cols; col0 += pass_tile_length) {
                     const TileRange range{lines.first, lines.last - lines.first, col0,
                                           std::min(pass_tile_length, cols - col0)};
                     const MatrixView<T> values(storage.data(), range.rows, range.cols);
                     weights.read(range, values);
                     const WeightTile<T> tile{range, values};
                     require_weights(tile);
                     for (Observer<T>* observer : observers) observer->observe(tile, slot);
                   }
                 });
  share_gathered<T>(observers, share);
  finish<T>(observers);
}

template void show_stored_weights(const MatrixSource<float>&, Index, Index,
                                  const ObserverList<float>&, int);
template void show_stored_weights(const MatrixSource<double>&, Index, Index,
                                  const ObserverList<double>&, int);

}  // namespace attn
