#pragma once

#include <functional>

#include "mechanisms/mechanism.hpp"

/// A mechanism over a batch. Each sequence is computed separately, on its own lengths, with the
/// same bits as alone. No bit depends on the number of threads.
namespace attn::mechanisms {

/// The arrays of a batch, in the order of the form. Arrays of sequences have the batch as first
/// axis; shared arrays have no such axis.
template <class T>
struct Batch {
  Index count = 0;
  Sizes sizes;  ///< of the padded arrays
  Tensors<const T> inputs;
  Tensors<const Index> tokens;
  /// (count), each in 0 … the padded length; absent: the length of the arrays.
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

/// The most sequences whose gradients are computed at a time.
inline constexpr Index most_parts = 8;

/// The gradients of a batch that is read in pieces. Gradients of shared inputs are sums over the
/// sequences, in float64, in at most `most_parts` parts. The number of sequences fixes the parts,
/// so that sums depend neither on the pieces nor on the threads.
template <class T>
class BatchGradients {
 public:
  /// For a batch of `count` sequences. Only gradients that have data in `gradients`, by input, are
  /// computed; the data of sequences may differ from piece to piece.
  BatchGradients(const Mechanism<T>& mechanism, Index count);

  /// Adds a piece that starts with sequence `first` of the batch; all sequences before must have
  /// been added. From the gradients with respect to the results, writes the gradients of the
  /// sequences' own inputs.
  void add(const Batch<T>& piece, Index first, const Tensors<const T>& grad_results,
           const Tensors<T>& gradients, int threads);

  /// Writes the gradients of shared inputs.
  void finish(const Tensors<T>& gradients) const;

  /// The sums so far, by part and input, from which another object can continue.
  using Sums = std::vector<std::vector<std::vector<double>>>;
  Sums& sums() { return sums_; }

 private:
  const Mechanism<T>& mechanism_;
  Sums sums_;
};

/// The same for a whole batch.
template <class T>
void backward(const Mechanism<T>& mechanism, const Batch<T>& batch,
              const Tensors<const T>& grad_results, const Tensors<T>& gradients, int threads);

/// Bytes of the sums of BatchGradients over `count` sequences, for all shared inputs.
std::int64_t gradient_sums_bytes(const MechanismForm& form, const Sizes& sizes, Index count);

/// The most working memory of `forward`, and of `backward`. `results` says which results have an
/// array, or a gradient.
template <class T>
std::int64_t batch_bytes(const Mechanism<T>& mechanism, const Sizes& sizes,
                         const std::vector<bool>& results, Index count, bool gradients,
                         int threads);

}  // namespace attn::mechanisms
