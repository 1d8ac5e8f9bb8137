#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "kernel/product.hpp"
#include "kernel/tile.hpp"
#include "mechanisms/rows.hpp"

namespace attn::mechanisms {

/// log p(y|z) = log softmax(L z + b)_y for one word y and the vectors z in the rows of a matrix.
/// Scores of the vocabulary are made for a panel of rows at a time.
template <class T>
class WordReadout {
 public:
  /// L is (V, D), b (1, V) or without data. Throws Error(input) for a word outside of 0 … V − 1.
  WordReadout(MatrixView<const T> weights, MatrixView<const T> bias, Index word)
      : weights_(weights), bias_(bias), word_(word) {
    if (word >= 0 && word < weights.rows) return;
    throw Error(Failure::input, "the target is " + std::to_string(word) +
                                    ", expected a word in [0, " + std::to_string(weights.rows) +
                                    ")");
  }

  /// log p of each row of z. Throws Error(numerical) for a score beyond the range of T.
  std::vector<double> log_p(MatrixView<const T> z) const {
    std::vector<double> found(static_cast<std::size_t>(z.rows));
    for_panels(z, [&](Index first, MatrixView<T> scores) {
      for (Index i = 0; i < scores.rows; ++i) {
        found[static_cast<std::size_t>(first + i)] = normalise(scores.row(i));
      }
    });
    return found;
  }

  /// Where gradients are added; gradients without data are not computed.
  struct Gradients {
    MatrixView<T> weights, bias, z;
  };

  /// From factor_i = ∂L/∂log p(y|z_i), adds the gradients. Returns log p of each row, like log_p.
  std::vector<double> differentiate(MatrixView<const T> z, const std::vector<double>& factor,
                                    const Gradients& gradients) const {
    std::vector<double> found(factor.size());
    for_panels(z, [&](Index first, MatrixView<T> scores) {
      for (Index i = 0; i < scores.rows; ++i) {
        T* const row = scores.row(i);
        const auto place = static_cast<std::size_t>(first + i);
        found[place] = normalise(row);
        // ∂log p_y/∂s = 1_y − p
        const double own = factor[place];
        const double of_word = own * (1 - static_cast<double>(row[word_]));
        kernel::scale_row(row, scores.cols, -own);
        row[word_] = static_cast<T>(of_word);
        for (Index c = 0; c < scores.cols && gradients.bias.data != nullptr; ++c) {
          gradients.bias.data[c] += row[c];
        }
      }
      const MatrixView<const T> of_scores(scores);
      if (gradients.weights.data != nullptr) {
        kernel::add_transposed_product(of_scores, z.row_range(first, scores.rows),
                                       gradients.weights);
      }
      if (gradients.z.data != nullptr) {
        kernel::multiply_add(of_scores, weights_, gradients.z.row_range(first, scores.rows));
      }
    });
    return found;
  }

  /// Rows of a panel of at most 2¹⁷ scores; more scores only for very large vocabularies.
  static Index panel_rows(Index words) {
    return std::clamp<Index>((Index{1} << 17) / std::max<Index>(1, words), 1, 256);
  }

 private:
  // Calls use(first row, panel of scores) for all panels.
  template <class Use>
  void for_panels(MatrixView<const T> z, const Use& use) const {
    const Index rows = std::min(panel_rows(weights_.rows), z.rows);
    OwnedMatrix<T> panel(rows, weights_.rows);
    for (Index first = 0; first < z.rows; first += rows) {
      const Index count = std::min(rows, z.rows - first);
      const MatrixView<T> scores(panel.data(), count, weights_.rows);
      kernel::multiply_transposed(z.row_range(first, count), weights_, scores);
      for (Index i = 0; i < count && bias_.data != nullptr; ++i) {
        for (Index c = 0; c < scores.cols; ++c) scores.row(i)[c] += bias_.data[c];
      }
      use(first, scores);
    }
  }

  // Scores of a row become probabilities; returns log p of the word, also where p is 0 in T.
  double normalise(T* row) const {
    const Index words = weights_.rows;
    require_finite(row, words);
    const auto own = static_cast<double>(row[word_]);
    const double shift = kernel::row_max(row, words, nullptr);
    const double sum = kernel::exp_row(row, row, words, nullptr, shift);
    kernel::scale_row(row, words, 1 / sum);
    return (own - shift) - std::log(sum);
  }

  MatrixView<const T> weights_, bias_;
  Index word_;
};

}  // namespace attn::mechanisms
