#include "attn_train/source_weight_output.hpp"

#include <algorithm>

#include "attn_train/run_tensors.hpp"

namespace attn::tools {

using train::SourceWeights;
using train::TokenPair;

template <class T>
SourceWeightOutput<T>::SourceWeightOutput(io::OutputBundle& bundle,
                                          const std::vector<TokenPair>& pairs)
    : bundle_(bundle),
      pairs_(pairs),
      words_(train::most_tokens(pairs, &TokenPair::target)),
      places_(train::most_tokens(pairs, &TokenPair::source)) {}

template <class T>
void SourceWeightOutput<T>::create(const std::vector<SourceWeights<T>>& all) {
  const Index count = std::ssize(pairs_);
  std::vector<std::int64_t> targets;
  std::vector<std::int64_t> sources;
  for (const TokenPair& pair : pairs_) {
    targets.push_back(std::ssize(pair.target));
    sources.push_back(std::ssize(pair.source));
  }
  for (const SourceWeights<T>& one : all) {
    io::OutputBundle group = bundle_.group(source_weight_group + "/" + one.name);
    Shape shape = {count, words_, places_};
    std::vector<std::string> labels = {"pair", "target word", "source word"};
    if (one.heads > 0) {
      shape.insert(shape.begin() + 1, one.heads);
      labels.insert(labels.begin() + 1, "head");
    }
    datasets_.push_back(group.create("weights", dtype_of<T>(), shape, labels));
    group.create("target_length", DType::i64, {count}, {"pair"})
        .write({0}, {count}, targets.data());
    group.create("source_length", DType::i64, {count}, {"pair"})
        .write({0}, {count}, sources.data());
  }
}

template <class T>
void SourceWeightOutput<T>::add(const train::SlotBatch& batch,
                                const std::vector<SourceWeights<T>>& all) {
  if (datasets_.empty()) create(all);
  const Index rows = batch.input.sequences.length;
  const Index cols = batch.source.sequences.length;
  for (Index n = 0; n < batch.input.sequences.count; ++n, ++next_) {
    const TokenPair& pair = pairs_[next_];
    for (std::size_t k = 0; k < all.size(); ++k) {
      const Index heads = std::max<Index>(1, all[k].heads);
      OwnedMatrix<T> block = OwnedMatrix<T>::zeros(heads * words_, places_);
      for (Index h = 0; h < heads; ++h) {
        for (Index j = 0; j < std::ssize(pair.target); ++j) {
          std::copy_n(all[k].weights.view().row(n) + (h * rows + j) * cols, std::ssize(pair.source),
                      block.view().row(h * words_ + j));
        }
      }
      Shape start = {static_cast<Index>(next_), 0, 0};
      Shape count = {1, words_, places_};
      if (all[k].heads > 0) {
        start.push_back(0);
        count.insert(count.begin() + 1, heads);
      }
      datasets_[k].write(start, count, block.data());
    }
  }
}

template class SourceWeightOutput<float>;
template class SourceWeightOutput<double>;

}  // namespace attn::tools
