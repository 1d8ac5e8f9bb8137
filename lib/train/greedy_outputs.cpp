#include "train/greedy_outputs.hpp"

#include <limits>

#include "train/language_batches.hpp"
#include "train/shared_outputs.hpp"

namespace attn::train {
namespace {

template <class T>
std::vector<Index> greedy_output(const MechanismModel& model, const T* weights,
                                 const std::vector<Index>& source, const OutputOptions& options) {
  Slot<T> slot;
  slot.weights = weights;
  std::vector<Index> prefix = {options.start};
  SlotBatch batch;
  batch.source = padded_rows({source});
  while (std::ssize(prefix) <= options.length) {
    batch.input = padded_rows({prefix});
    const OwnedMatrix<T> scores = model.next_scores(slot, batch);
    Index best = -1;
    T largest = -std::numeric_limits<T>::infinity();
    for (Index token = 0; token < scores.cols(); ++token) {
      if (token == options.start || !(scores.view()(0, token) > largest)) continue;
      largest = scores.view()(0, token);
      best = token;
    }
    if (best < 0 || best == options.end) break;
    prefix.push_back(best);
  }
  prefix.erase(prefix.begin());
  return prefix;
}

}  // namespace

template <class T>
std::vector<std::vector<Index>> greedy_outputs(const MechanismModel& model, const T* weights,
                                               const std::vector<std::vector<Index>>& sources,
                                               const OutputOptions& options, int threads) {
  return shared_outputs(std::ssize(sources), threads, [&](Index n, int /*worker*/) {
    return greedy_output(model, weights, sources[static_cast<std::size_t>(n)], options);
  });
}

#define ATTN_GREEDY_OUTPUTS(T)                                                                    \
  template std::vector<std::vector<Index>> greedy_outputs(const MechanismModel&, const T*,        \
                                                          const std::vector<std::vector<Index>>&, \
                                                          const OutputOptions&, int);
ATTN_GREEDY_OUTPUTS(float)
ATTN_GREEDY_OUTPUTS(double)
#undef ATTN_GREEDY_OUTPUTS

}  // namespace attn::train
