#pragma once

#include <algorithm>
#include <functional>
#include <span>

#include "tensor/buffer.hpp"
#include "tensor/pooled_vector.hpp"
#include "tensor/view.hpp"

namespace attn {

/// The outputs of some neighbouring queries, the gradient of the loss with respect to them, and the
/// potentials f, −inf for a query without keys.
template <class T>
struct OutputRows {
  MatrixView<const T> out;
  MatrixView<const T> grad_out;
  std::span<const double> f;
};

/// The mean c of the outputs that the loss depends on: outputs of *live* queries, which have a key
/// and a dO ≠ 0. Values may be measured from c (CentredValues). Queries may come in parts: first
/// all in order for the mean, then all again, in any order, for the distances from the mean.
class OutputCentre {
 public:
  explicit OutputCentre(Index width) : mean_(static_cast<std::size_t>(width), 0.0) {}

  template <class T>
  void add(const OutputRows<T>& rows);

  /// The memory of the sums, before `complete`.
  void visit(const std::function<void(std::span<std::byte> bytes)>& visit);

  void complete();
  const PooledVector<double>& mean() const { return mean_; }

  /// How far live outputs are from the mean.
  struct Distances {
    bool halved = true;  ///< whether all become half as large, or less
    double largest = 0;  ///< of a coordinate, if halved

    void join(const Distances& other) {
      halved = halved && other.halved;
      largest = std::max(largest, other.largest);
    }
  };
  template <class T>
  Distances distances(const OutputRows<T>& rows) const;

  /// Whether to measure values, of magnitude at most `largest_value`, from the mean.
  template <class T>
  bool centres(const Distances& all, T largest_value) const;

  /// Whether the mean is so large that outputs have few digits beside it, and should be computed
  /// again from centred values.
  bool hides(const Distances& all) const;

 private:
  PooledVector<double> mean_;  // at first the sum
  Index live_ = 0;
};

/// The values of keys that some query may attend to, and zeros for the others, in `storage`; `v`
/// itself if there are no others.
template <class T>
MatrixView<const T> values_in_use(MatrixView<const T> v, std::span<const Index> queries_of_key,
                                  Buffer<T>& storage);

}  // namespace attn
