// Objects seen in a picture gather the words read in it, by unas and by dnas. Most words say the
// same, and one says something of its own: softmax gives it next to nothing, doubly-normalised
// attention at least its share. Exits with 1 where that is not so.

#include "scheme/multi_view.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

#include "tensor/random.hpp"

namespace {

using attn::Index;

constexpr Index objects = 6;
constexpr Index words = 8;
constexpr Index features = 16;
constexpr Index odd_word = 5;

std::vector<double> normal(const char* name, Index count, double spread) {
  std::vector<double> values(static_cast<std::size_t>(count));
  attn::RandomStream(1, name).normal(0, count, values.data());
  for (double& value : values) value *= spread;
  return values;
}

// What each word is attended with in all: the weights anew from potentials and scores.
std::vector<double> column_sums(const attn::Attention& found, const std::vector<double>& scores) {
  std::vector<double> sums(words, 0.0);
  for (Index i = 0; i < objects; ++i) {
    for (Index j = 0; j < words; ++j) {
      const auto row = static_cast<std::size_t>(i);
      const auto col = static_cast<std::size_t>(j);
      sums[col] += std::exp((scores[row * words + col] - found.potentials.col[col]) -
                            found.potentials.row[row]);
    }
  }
  return sums;
}

}  // namespace

int main() {
  // Objects and words alike about one direction, but for the odd word, which is opposite to it.
  std::vector<double> seen = normal("seen", objects * features, 0.2);
  std::vector<double> read = normal("read", words * features, 0.2);
  for (Index i = 0; i < objects; ++i) seen[static_cast<std::size_t>(i * features)] += 3;
  for (Index j = 0; j < words; ++j) {
    read[static_cast<std::size_t>(j * features)] += j == odd_word ? -3 : 3;
  }
  const attn::MatrixView<const double> primary(seen.data(), objects, features);
  attn::SecondaryView<double> view;
  view.features = attn::MatrixView<const double>(read.data(), words, features);

  std::vector<double> scores(objects * words);
  const double scale = 4;
  for (Index i = 0; i < objects; ++i) {
    for (Index j = 0; j < words; ++j) {
      double sum = 0;
      for (Index c = 0; c < features; ++c) sum += primary(i, c) * view.features(j, c);
      scores[static_cast<std::size_t>(i * words + j)] =
          scale * sum / std::sqrt(static_cast<double>(features));
    }
  }

  bool as_expected = true;
  for (const attn::Scheme scheme : {attn::Scheme::unas, attn::Scheme::dnas}) {
    attn::MultiViewOptions<double> options;
    options.scheme.scheme = scheme;
    options.scale = scale;
    std::vector<double> out(seen.size());
    const auto found =
        attn::multi_view<double>(primary, {}, {&view, 1}, options,
                                 attn::MatrixView<double>(out.data(), objects, features), 1);
    const auto sums = column_sums(found[0], scores);
    const double odd = sums[odd_word];
    const bool unas = scheme == attn::Scheme::unas;
    std::printf("%s: the odd word gets %.2g of %.3g, the others %.2g or more\n",
                unas ? "unas" : "dnas", odd, static_cast<double>(objects),
                *std::min_element(sums.begin(), sums.begin() + odd_word));
    const double bound = 1.0 / static_cast<double>(words);
    as_expected = as_expected && (unas ? odd < 1e-6 : odd >= (1 - 1e-6) * bound);
    // Each row is a layer norm: of mean 0.
    for (Index i = 0; i < objects; ++i) {
      double mean = 0;
      for (Index c = 0; c < features; ++c) mean += out[static_cast<std::size_t>(i * features + c)];
      as_expected = as_expected && std::abs(mean) < 1e-10;
    }
  }
  return as_expected ? 0 : 1;
}
