#include "attn_view/half_weights.hpp"

#include <bit>
#include <cmath>

#include "attn_view/for_each_view.hpp"
#include "pass/pass.hpp"

namespace attn::tools {
namespace {

// Takes the weights by tiles, as a pass shows them.
template <class T>
class HalfObserver final : public Observer<T> {
 public:
  HalfObserver(std::vector<std::uint16_t>& all, Index keys, const TileRange& own)
      : all_(all), keys_(keys), own_(own) {}

  void observe(const WeightTile<T>& tile, Index) override {
    for (Index i = 0; i < tile.range.rows; ++i) {
      const Index row = own_.row0 + tile.range.row0 + i;
      const Index first = row * keys_ + own_.col0 + tile.range.col0;
      for (Index j = 0; j < tile.range.cols; ++j) {
        all_[static_cast<std::size_t>(first + j)] =
            half_of(static_cast<float>(tile.weights.row(i)[j]));
      }
    }
  }

 private:
  std::vector<std::uint16_t>& all_;
  Index keys_;
  TileRange own_;
};

template <class T>
HalfWeights weights_of(const AttentionInput& input, const Head<T>& head, int threads) {
  HalfWeights found;
  for (std::size_t n = 0; n < view_schemes.size(); ++n) {
    found[n].resize(static_cast<std::size_t>(input.queries * input.keys));
    HalfObserver<T> observer(found[n], input.keys, head.part.range);
    HeadTargets<T> targets;
    targets.weights = &observer;
    HeadWork<T> work;
    attend_under(view_schemes[n], input, head, targets, threads, work);
  }
  return found;
}

template <class T>
void gather_weights(const cli::Arguments& arguments, const ViewTask& task,
                    const std::function<void(Index, const HalfWeights&)>& keep,
                    cli::Progress& progress, cli::Report& report) {
  for_each_view<T, HalfWeights>(
      arguments, task, half_weights_bytes(task.input),
      [&](const Head<T>& head, int threads) { return weights_of(task.input, head, threads); }, keep,
      progress, report);
}

}  // namespace

std::uint16_t half_of(float weight) {
  // Below the least normal number, a float16 is a multiple of 2^-24.
  if (weight < 0x1p-14F) return static_cast<std::uint16_t>(std::nearbyint(weight * 0x1p24F));
  constexpr std::uint32_t exponents = (127 - 15) << 23;  // the difference of the biases
  const auto bits = std::bit_cast<std::uint32_t>(weight) - exponents;
  // Rounds the 13 bits that float16 lacks to nearest, ties to even.
  return static_cast<std::uint16_t>((bits + 0xfff + (bits >> 13 & 1)) >> 13);
}

Index half_weights_bytes(const AttentionInput& input) {
  return input.queries * input.keys *
         static_cast<Index>(sizeof(HalfWeights::value_type::value_type) * view_schemes.size());
}

void find_weights(const cli::Arguments& arguments, const ViewTask& task,
                  const std::function<void(Index problem, const HalfWeights& weights)>& keep,
                  cli::Progress& progress, cli::Report& report) {
  const auto run = task.f64 ? gather_weights<double> : gather_weights<float>;
  run(arguments, task, keep, progress, report);
}

}  // namespace attn::tools
