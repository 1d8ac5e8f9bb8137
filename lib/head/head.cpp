#include "head/head.hpp"

#include <utility>

#include "energy/table.hpp"
#include "scheme/log_likelihood.hpp"

namespace attn {

template <class T>
std::optional<RelativeBias<T>> relative_bias_of(const ScoreRecipe& recipe,
                                                MatrixView<const T> table,
                                                const HeadArrays<T>& head) {
  const Index column = head.problem % recipe.heads;
  switch (recipe.relative) {
    case RelativePositions::none:
      break;
    case RelativePositions::alibi:
      return alibi_bias<T>(alibi_slopes(recipe.heads)[static_cast<std::size_t>(column)],
                           head.queries, head.keys, head.band(recipe));
    case RelativePositions::t5:
      return t5_relative_bias<T>(table, column, head.queries, head.keys, head.band(recipe));
  }
  return std::nullopt;
}

template <class T>
HeadScores<T>::HeadScores(const ScoreRecipe& recipe, const HeadArrays<T>& head, int threads) {
  const bool no_pairs = head.queries == 0 || head.keys == 0;
  if (no_pairs || (head.scores == nullptr && head.q.data == nullptr)) {
    energy_ = make_zero_energy<T>(head.queries, head.keys);
  } else if (head.scores != nullptr) {
    energy_ =
        make_stored_energy<T>(*head.scores, head.queries, head.keys, recipe.scale, recipe.divisor);
  } else {
    energy_ = recipe.energy->make(head.energy_arguments(recipe.scale, threads));
  }
  typename Scores<T>::Terms terms;
  terms.energy = energy_.get();
  terms.bias = head.bias;
  terms.mask = head.mask;
  terms.band = head.band(recipe);
  terms.relative = head.relative;
  terms.softcap = recipe.softcap;
  terms.same_if_rescaled = recipe.same_if_rescaled;
  if (recipe.gamma) {
    terms.sources = head.preference;
  } else {
    terms.preference = head.preference;
  }
  terms.transport = head.transport;
  terms.first_query = head.first_query;
  scores_.emplace(terms);
  if (!recipe.has_masses) {
    require_defined<T>(
        *scores_, {}, {},
        "query_length, key_length and, in attention, a mask leave out queries and keys");
  }
}

template <class T>
std::int64_t HeadScores<T>::bytes(const ScoreRecipe& recipe, bool vectors,
                                  const EnergySizes& sizes) {
  std::int64_t bytes = vectors ? recipe.energy->bytes(sizes, sizeof(T)) : 0;
  if (recipe.relative != RelativePositions::none) {
    bytes += relative_bias_bytes(sizes.queries, sizes.keys, sizeof(T));
  }
  if (recipe.gamma) bytes += TransportKernel::bytes(sizes.keys);
  return bytes;
}

template <class T>
std::optional<double> log_likelihood_of(const ScoreRecipe& recipe, const HeadArrays<T>& head,
                                        const Scores<T>& scores, const SchemeOptions& options,
                                        const Attention& found) {
  const bool gaussian = head.scores == nullptr && recipe.energy == &gaussian_energy();
  if (!gaussian) return std::nullopt;
  return gaussian_log_likelihood(scores, head.q.cols, recipe.scale, options, found);
}

#define ATTN_FOR_TYPE(T)                                                                     \
  template std::optional<RelativeBias<T>> relative_bias_of(                                  \
      const ScoreRecipe&, MatrixView<const T>, const HeadArrays<T>&);                        \
  template std::optional<double> log_likelihood_of(const ScoreRecipe&, const HeadArrays<T>&, \
                                                   const Scores<T>&, const SchemeOptions&,   \
                                                   const Attention&);                        \
  template class HeadScores<T>;
ATTN_FOR_TYPE(float)
ATTN_FOR_TYPE(double)
#undef ATTN_FOR_TYPE

}  // namespace attn
