#pragma once

#include <functional>

#include "mechanisms/mechanism.hpp"

/// A mechanism over a batch. Each sequence is computed by itself, on its own lengths: its results
/// have the bits that it has alone. So no bit depends on the number of threads.
namespace attn::mechanisms {

/// The arrays of a batch, in the order of the form. Those of sequences have the batch as first
/// axis; shared ones have no such axis.
template <class T>
struct Batch {
  Index count = 0;
  Sizes sizes;  ///< of the padded arrays
  Tensors<const T> inputs;
  Tensors<const Index> tokens;
  /// (count), each in 0 … the padded length; absent: that of the arrays.
  Tensors<const Index> lengths;
};

/// Calls use(place in the batch, sequence with its own lengths) for all sequences of a batch of
/// this form, on up to `threads` threads.
template <class T>
void for_sequences(const MechanismForm& form, const Batch<T>& batch, int threads,
                   const std::function<void(Index, const Sequence<T>&)>& use);

/// Computes the results that have data, each with the batch as first axis; padding is 0. Throws the
/// errors of Mechanism::forward.
template <class T>
void forward(const Mechanism<T>& mechanism, const Batch<T>& batch, const Tensors<T>& results,
             int threads);

/// The gradients of a batch that is read in pieces. Those of shared inputs are sums over the
/// sequences, in float64: in at most eight parts, which the number of sequences fixes, so that they
/// depend neither on the pieces nor on the threads.
template <class T>
class BatchGradients {
 public:
  /// For a batch of `count` sequences. Only the gradients that have data in `gradients`, by input,
  /// are computed; it may differ from piece to piece in the data of sequences.
  BatchGradients(const Mechanism<T>& mechanism, Index count);

  /// A piece whose first sequence has this number in the batch, all before it having been added:
  /// from the gradients with respect to the results writes those of its sequences' own inputs.
  void add(const Batch<T>& piece, Index first, const Tensors<const T>& grad_results,
           const Tensors<T>& gradients, int threads);

  /// Writes the gradients of shared inputs.
  void finish(const Tensors<T>& gradients) const;

  /// The sums so far, by part and input: with them another object goes on.
  using Sums = std::vector<std::vector<std::vector<double>>>;
  Sums& sums() { return sums_; }

 private:
  const Mechanism<T>& mechanism_;
  Sums sums_;
};

/// The same for a batch that is there as a whole.
template <class T>
void backward(const Mechanism<T>& mechanism, const Batch<T>& batch,
              const Tensors<const T>& grad_results, const Tensors<T>& gradients, int threads);

/// Bytes of the sums of BatchGradients over `count` sequences, for all shared inputs.
std::int64_t gradient_sums_bytes(const MechanismForm& form, const Sizes& sizes, Index count);

/// The most working memory of `forward`, and of `backward`. `results` says which results have an
/// array, or a gradient with respect to them.
template <class T>
std::int64_t batch_bytes(const Mechanism<T>& mechanism, const Sizes& sizes,
                         const std::vector<bool>& results, Index count, bool gradients,
                         int threads);

}  // namespace attn::mechanisms
