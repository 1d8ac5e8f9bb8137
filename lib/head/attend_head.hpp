#pragma once

#include <optional>
#include <span>

#include "head/head.hpp"
#include "head/head_reader.hpp"
#include "head/own_part.hpp"
#include "head/repeated_scores.hpp"
#include "pass/pass.hpp"

namespace attn {

/// Where the results of one head go: memory for all of its queries and keys, padding included. What
/// has no data is not computed.
template <class T>
struct HeadTargets {
  MatrixView<T> out;                       ///< (Lq, dv)
  std::span<double> row_potential;         ///< (Lq); for hnas that of dnas
  std::span<double> unas_row_potential;    ///< (Lq): of hnas
  std::span<double> col_potential;         ///< (Lk)
  std::span<double> col_sum, row_entropy;  ///< (Lk) and (Lq)
  MatrixView<double> centre;               ///< (Lq, d): of repeated attention, as below
  std::span<double> variance, prior;       ///< (Lq)
  Observer<T>* weights = nullptr;          ///< sees the weights of own queries and keys
};

/// One head while it is computed, with its results so far.
template <class T>
struct HeadWork {
  const Head<T>* head = nullptr;
  const ScoreRecipe* recipe = nullptr;
  SchemeOptions scheme;  ///< with the head's own hybrid and sink
  std::optional<Repetition> repetition;
  WeightDropout dropout;

  std::optional<RepeatedScores<T>> repeated;  ///< with a repetition
  Attention attention;                        ///< of the own queries and keys
  Buffer<T> out_storage;                      ///< memory of `out` if it is not a target
  MatrixView<T> out;                          ///< of the own queries, before the gate

  const Scores<T>& scores() const {
    return repeated ? repeated->scores() : head->scores(scheme.scheme);
  }
};

/// Begins the work on a head of `sources`, whose u of hnas is `hybrid`.
template <class T>
void begin_head(HeadWork<T>& work, const Head<T>& head, const AttentionSources& sources,
                const SchemeOptions& scheme, double hybrid,
                const std::optional<Repetition>& repetition);

/// Computes a head's results. Padding gets 0, in potentials −inf. `differentiated`: keeps `out`,
/// and whatever else gradients need. Throws the errors of RepeatedScores and attend.
template <class T>
void attend_head(HeadWork<T>& work, const HeadTargets<T>& targets, bool differentiated,
                 int threads);

/// What the gradients of a computed head start from.
template <class T>
HeadForward<T> forward_of(const HeadWork<T>& work);

/// Multiplies the output of a computed head by its gate, if it has one. Call it after the
/// gradients, which need the output before the gate.
template <class T>
void close_gate(const HeadWork<T>& work);

/// The log-likelihood of the mixture that the scores of a computed head stand for: one number, or
/// one for each time of repeated attention. Empty if there is none.
template <class T>
std::vector<double> log_likelihoods_of(const HeadWork<T>& work);

}  // namespace attn
