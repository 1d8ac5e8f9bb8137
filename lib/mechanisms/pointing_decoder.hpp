#pragma once

#include <cstdint>
#include <vector>

#include "mechanisms/highway_maxout.hpp"
#include "mechanisms/lstm.hpp"

namespace attn::mechanisms {

/// The search options of a PointingDecoder.
struct Decoding {
  Index iterations = 4;          ///< at most, at least 1
  bool end_after_start = false;  ///< seeks the end from the new start on
};

/// The dynamic pointing decoder (Xiong et al., arXiv:1611.01604; TN §2.6): looks for a span of the
/// M > 0 encodings u_t (2L). From the span s, e of the iteration before, at first all positions,
///
///   h ← LSTM(h, [u_s; u_e]),  log p = log softmax over t of a HighwayMaxout's scores of u_t given
///   [h; u_s; u_e], one network for the start and one for the end; s, e ← argmax (the first of
///   several)
///
/// until neither s nor e changes, or `iterations` were made. Gradients hold all spans fixed.
template <class T>
class PointingDecoder {
 public:
  PointingDecoder(const LstmWeights<T>& cell, const HighwayMaxout<T>& start,
                  const HighwayMaxout<T>& end, const Decoding& decoding)
      : cell_(cell), start_(start), end_(end), decoding_(decoding) {}

  struct Span {
    Index start = 0;
    Index end = 0;

    bool operator==(const Span&) const = default;
  };

  /// The values of each iteration that was made.
  struct Kept {
    std::vector<Span> spans;                 // the result
    std::vector<OwnedMatrix<T>> states;      // [h; u_s; u_e] (5L), of the span before
    std::vector<OwnedMatrix<T>> start, end;  // log p (M)
  };

  struct Gradients {
    MatrixView<T> w, b;
    HighwayMaxoutTensors<T> start, end;
  };

  /// Throws Error(numerical) for a number beyond the range of T.
  Kept forward(MatrixView<const T> u) const;

  /// From the gradients of log p of each iteration, (1, M), which are changed, adds to the
  /// gradients that have data and to du.
  void backward(MatrixView<const T> u, const Kept& kept, std::vector<OwnedMatrix<T>>& dstart,
                std::vector<OwnedMatrix<T>>& dend, const Gradients& gradients,
                MatrixView<T> du) const;

  static std::int64_t bytes(Index positions, Index width, Index pieces, const Decoding& decoding,
                            bool gradients);

 private:
  static Span all(MatrixView<const T> u) { return {0, u.rows - 1}; }

  LstmWeights<T> cell_;
  HighwayMaxout<T> start_, end_;
  Decoding decoding_;
};

}  // namespace attn::mechanisms
