#include "head/attend_head.hpp"

#include <algorithm>
#include <cmath>

#include "head/output_gate.hpp"
#include "pass/output.hpp"
#include "stats/observers.hpp"
#include "tensor/infinity.hpp"

namespace attn {
namespace {

// The own numbers from `first` on, and `padding` around them.
void spread(std::span<const double> own, Index first, double padding, std::span<double> all) {
  if (all.empty()) return;
  std::fill_n(all.begin(), first, padding);
  std::fill(std::copy(own.begin(), own.end(), all.begin() + first), all.end(), padding);
}

template <class T>
void take_repeated(const RepeatedScores<T>& repeated, const TileRange& own,
                   const HeadTargets<T>& targets) {
  if (targets.centre.data != nullptr) {
    set_to_zero(targets.centre);
    const Buffer<double> centres = repeated.queries();
    std::copy(centres.begin(), centres.end(), targets.centre.row(own.row0));
  }
  if (targets.variance.empty() && targets.prior.empty()) return;
  const Mixture& mixture = repeated.mixture();
  spread(mixture.variance, own.row0, 0, targets.variance);
  PooledVector<double> priors = mixture.log_prior;
  for (double& prior : priors) prior = std::exp(prior);
  spread(priors, own.row0, 0, targets.prior);
}

}  // namespace

template <class T>
void begin_head(HeadWork<T>& work, const Head<T>& head, const AttentionSources& sources,
                const SchemeOptions& scheme, double hybrid,
                const std::optional<Repetition>& repetition) {
  work.head = &head;
  work.recipe = &sources.recipe(scheme.scheme);
  work.scheme = scheme;
  work.scheme.hybrid = hybrid;
  work.scheme.sink = sources.sink_of(head.problem);
  work.repetition = repetition;
}

template <class T>
void attend_head(HeadWork<T>& work, const HeadTargets<T>& targets, bool differentiated,
                 int threads) {
  const TileRange& own = work.head->part.range;
  const HeadArrays<T>& arrays = work.head->arrays();
  ObserverList<T> observers;
  if (own.rows < targets.out.rows) set_to_zero(targets.out);
  work.out = by_query(targets.out, own);
  if (differentiated && work.out.data == nullptr) {
    work.out_storage = Buffer<T>(own.rows * arrays.v.cols);
    work.out = {work.out_storage.data(), own.rows, arrays.v.cols};
  }
  std::optional<Output<T>> output;
  if (work.out.data != nullptr) {
    observers.push_back(&output.emplace(arrays.v, work.out, work.dropout));
  }
  ColumnSums<T> sums;
  if (!targets.col_sum.empty()) observers.push_back(&sums);
  RowEntropy<T> entropy;
  if (!targets.row_entropy.empty()) observers.push_back(&entropy);
  if (targets.weights != nullptr) observers.push_back(targets.weights);
  if (work.repetition) {
    work.repeated.emplace(*work.recipe, arrays, work.scheme, *work.repetition, differentiated,
                          threads);
  }
  work.attention = attend(work.scores(), work.scheme, observers, threads);
  if (work.repeated) {
    work.attention.summary.iterations = work.repetition->iterations;
    take_repeated(*work.repeated, own, targets);
  }
  if (!targets.col_sum.empty()) spread(sums.values(), own.col0, 0, targets.col_sum);
  const Potentials& potentials = work.attention.potentials;
  if (!targets.row_entropy.empty()) {
    PooledVector<double> entropies = entropy.values();
    add_sink_entropies(sink_weights(potentials, work.scheme), entropies);
    spread(entropies, own.row0, 0, targets.row_entropy);
  }
  spread(potentials.row, own.row0, minus_infinity, targets.row_potential);
  spread(potentials.col, own.col0, minus_infinity, targets.col_potential);
  spread(potentials.unas_row, own.row0, minus_infinity, targets.unas_row_potential);
}

template <class T>
HeadForward<T> forward_of(const HeadWork<T>& work) {
  HeadForward<T> head;
  head.recipe = work.recipe;
  head.arrays = &work.head->arrays();
  head.scores = &work.scores();
  head.repeated = work.repeated ? &*work.repeated : nullptr;
  head.options = work.scheme;
  head.attention = &work.attention;
  head.out = work.out;
  head.grad_out = work.head->grad_out();
  head.q = work.head->made_of_q();
  head.k = work.head->made_of_k();
  head.v = work.head->made_of_v();
  head.dropout = work.dropout;
  return head;
}

template <class T>
void close_gate(const HeadWork<T>& work) {
  const MatrixSource<T>* const gate = work.head->arrays().gate;
  if (gate != nullptr && work.out.data != nullptr) apply_gate<T>(*gate, work.out);
}

template <class T>
std::vector<double> log_likelihoods_of(const HeadWork<T>& work) {
  if (work.repeated) return work.repeated->log_likelihood(work.attention);
  const auto one = log_likelihood_of(*work.recipe, work.head->arrays(), work.scores(), work.scheme,
                                     work.attention);
  return one ? std::vector<double>{*one} : std::vector<double>();
}

#define ATTN_FOR_TYPE(T)                                                                    \
  template void begin_head(HeadWork<T>&, const Head<T>&, const AttentionSources&,           \
                           const SchemeOptions&, double, const std::optional<Repetition>&); \
  template void close_gate(const HeadWork<T>&);                                             \
  template void attend_head(HeadWork<T>&, const HeadTargets<T>&, bool, int);                \
  template HeadForward<T> forward_of(const HeadWork<T>&);                                   \
  template std::vector<double> log_likelihoods_of(const HeadWork<T>&);
ATTN_FOR_TYPE(float)
ATTN_FOR_TYPE(double)
#undef ATTN_FOR_TYPE

}  // namespace attn
