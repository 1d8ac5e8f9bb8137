#include "mechanisms/over_attention.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_map>
#include <vector>

#include "kernel/product.hpp"
#include "mechanisms/over_attention_form.hpp"
#include "mechanisms/rows.hpp"

namespace attn::mechanisms {
namespace {

// Rows of energies that are computed at a time: a panel of at most 1 MiB, except for very long
// questions.
Index panel_rows(Index questions, std::size_t element) {
  const Index most = (Index{1} << 20) / static_cast<Index>(element);
  return std::clamp<Index>(most / std::max<Index>(1, questions), 1, 256);
}

template <class T>
class OverAttentionMechanism : public Mechanism<T> {
  using Form = OverAttention;

  struct Sides {
    MatrixView<const T> d, q;
  };

  static Sides sides_of(const Sequence<T>& sequence) {
    return {matrix(sequence.inputs[Form::document]), matrix(sequence.inputs[Form::question])};
  }

  // The results that both passes need: β̄ and the log-sum-exp of each column of E over the
  // document.
  struct Kept {
    std::vector<double> beta, column;
  };

  // Calls use(first row, panel of E) for all panels.
  template <class Use>
  static void for_panels(const Sides& sides, const Use& use) {
    const Index rows = panel_rows(sides.q.rows, sizeof(T));
    OwnedMatrix<T> panel(std::min(rows, sides.d.rows), sides.q.rows);
    for (Index first = 0; first < sides.d.rows; first += rows) {
      const Index count = std::min(rows, sides.d.rows - first);
      MatrixView<T> energies(panel.data(), count, sides.q.rows);
      kernel::multiply_transposed(sides.d.row_range(first, count), sides.q, energies);
      use(first, energies);
    }
  }

  // Writes β to `weights_q` if it has data.
  static Kept keep(const Sides& sides, MatrixView<T> weights_q) {
    const auto questions = static_cast<std::size_t>(sides.q.rows);
    Kept kept{std::vector<double>(questions), std::vector<double>(questions)};
    if (sides.d.rows == 0 || sides.q.rows == 0) return kept;
    std::vector<double> largest(questions, -std::numeric_limits<double>::infinity());
    std::vector<double>& sum = kept.column;
    for_panels(sides, [&](Index first, MatrixView<T> energies) {
      for (Index i = 0; i < energies.rows; ++i) {
        T* const row = energies.row(i);
        for (std::size_t j = 0; j < questions; ++j) {
          const auto one = static_cast<double>(row[j]);
          if (one > largest[j]) {
            sum[j] *= std::exp(largest[j] - one);
            largest[j] = one;
          }
          sum[j] += std::exp(one - largest[j]);
        }
        softmax_row(row, energies.cols);
        for (std::size_t j = 0; j < questions; ++j) kept.beta[j] += static_cast<double>(row[j]);
        if (weights_q.data != nullptr) {
          std::copy_n(row, energies.cols, weights_q.row(first + i));
        }
      }
    });
    for (std::size_t j = 0; j < questions; ++j) {
      kept.beta[j] /= static_cast<double>(sides.d.rows);
      kept.column[j] = largest[j] + std::log(sum[j]);
    }
    return kept;
  }

  // Energies become α, the softmax over the document.
  static void normalise(MatrixView<T> energies, const Kept& kept) {
    for (Index i = 0; i < energies.rows; ++i) {
      T* const row = energies.row(i);
      kernel::exp_row(row, row, energies.cols, kept.column.data(), 0);
    }
  }

  // Σ over the positions of each position's word.
  static std::vector<double> sums_by_word(const TensorView<const Index>& words,
                                          const std::vector<double>& terms) {
    std::unordered_map<Index, double> sums;
    for (std::size_t i = 0; i < terms.size(); ++i) sums[words.data[i]] += terms[i];
    std::vector<double> all;
    for (std::size_t i = 0; i < terms.size(); ++i) all.push_back(sums[words.data[i]]);
    return all;
  }

 public:
  const MechanismForm& form() const override { return Form::form(); }

  void forward(const Sequence<T>& sequence, const Tensors<T>& results,
               int /*threads*/) const override {
    const Sides sides = sides_of(sequence);
    const Kept kept = keep(sides, matrix(results[Form::weights_q]));
    if (results[Form::beta]) {
      std::copy(kept.beta.begin(), kept.beta.end(), results[Form::beta].data);
    }
    std::vector<double> s(static_cast<std::size_t>(sides.d.rows));
    const auto weights = matrix(results[Form::weights_d]);
    for_panels(sides, [&](Index first, MatrixView<T> alpha) {
      normalise(alpha, kept);
      for (Index i = 0; i < alpha.rows; ++i) {
        const T* const row = alpha.row(i);
        double sum = 0;
        for (Index j = 0; j < alpha.cols; ++j) {
          sum += static_cast<double>(row[j]) * kept.beta[static_cast<std::size_t>(j)];
        }
        s[static_cast<std::size_t>(first + i)] = sum;
        if (weights.data != nullptr) std::copy_n(row, alpha.cols, weights.row(first + i));
      }
    });
    if (results[Form::s]) std::copy(s.begin(), s.end(), results[Form::s].data);
    if (results[Form::p]) {
      const std::vector<double> p = sums_by_word(sequence.tokens[Form::words], s);
      std::copy(p.begin(), p.end(), results[Form::p].data);
    }
  }

  void backward(const Sequence<T>& sequence, const Tensors<const T>& grad_results,
                const Tensors<T>& gradients, int /*threads*/) const override {
    const Sides sides = sides_of(sequence);
    const auto dd = matrix(gradients[Form::document]);
    const auto dq = matrix(gradients[Form::question]);
    set_to_zero(dd);
    set_to_zero(dq);
    if (sides.d.rows == 0 || sides.q.rows == 0) return;
    const Kept kept = keep(sides, {});
    const std::vector<double> ds = grad_of_s(sequence, grad_results, sides.d.rows);
    // ∂L/∂β̄; the part through α is Σ_i α_ij ∂L/∂s_i.
    const auto questions = static_cast<std::size_t>(sides.q.rows);
    std::vector<double> of_alpha(questions);
    for_panels(sides, [&](Index first, MatrixView<T> alpha) {
      normalise(alpha, kept);
      for (Index i = 0; i < alpha.rows; ++i) {
        const double factor = ds[static_cast<std::size_t>(first + i)];
        for (std::size_t j = 0; j < questions; ++j) {
          of_alpha[j] += static_cast<double>(alpha.row(i)[j]) * factor;
        }
      }
    });
    std::vector<double> dbeta = of_alpha;  // by position: a mean over the document
    for (std::size_t j = 0; j < questions; ++j) {
      if (grad_results[Form::beta]) {
        dbeta[j] += static_cast<double>(grad_results[Form::beta].data[j]);
      }
      dbeta[j] /= static_cast<double>(sides.d.rows);
    }
    std::vector<T> beta(questions);
    for_panels(sides, [&](Index first, MatrixView<T> energies) {
      for (Index i = 0; i < energies.rows; ++i) {
        T* const row = energies.row(i);
        std::copy_n(row, energies.cols, beta.data());
        softmax_row(beta.data(), energies.cols);
        double mean = 0;
        for (std::size_t j = 0; j < questions; ++j) mean += static_cast<double>(beta[j]) * dbeta[j];
        kernel::exp_row(row, row, energies.cols, kept.column.data(), 0);
        const double of_s = ds[static_cast<std::size_t>(first + i)];
        for (std::size_t j = 0; j < questions; ++j) {
          row[j] =
              static_cast<T>(static_cast<double>(row[j]) * kept.beta[j] * (of_s - of_alpha[j]) +
                             static_cast<double>(beta[j]) * (dbeta[j] - mean));
        }
      }
      if (dd.data != nullptr) {
        kernel::multiply(MatrixView<const T>(energies), sides.q,
                         dd.row_range(first, energies.rows));
      }
      if (dq.data != nullptr) {
        kernel::add_transposed_product(MatrixView<const T>(energies),
                                       sides.d.row_range(first, energies.rows), dq);
      }
    });
  }

  std::int64_t working_bytes(const Sizes& sizes, bool gradients) const override {
    constexpr auto number = static_cast<std::int64_t>(sizeof(double));
    const Index questions = sizes.at("N");
    // s, p and a table of words, of some 64 bytes each.
    return panel_rows(questions, sizeof(T)) * questions * static_cast<std::int64_t>(sizeof(T)) +
           (gradients ? 6 : 4) * questions * number + sizes.at("M") * (2 * number + 64);
  }

 private:
  // ∂L/∂s, including the part through p.
  static std::vector<double> grad_of_s(const Sequence<T>& sequence,
                                       const Tensors<const T>& grad_results, Index positions) {
    std::vector<double> ds(static_cast<std::size_t>(positions));
    if (grad_results[Form::p]) {
      std::copy_n(grad_results[Form::p].data, positions, ds.begin());
      ds = sums_by_word(sequence.tokens[Form::words], ds);
    }
    if (grad_results[Form::s]) {
      for (std::size_t i = 0; i < ds.size(); ++i) {
        ds[i] += static_cast<double>(grad_results[Form::s].data[i]);
      }
    }
    return ds;
  }
};

}  // namespace

const MechanismForm& OverAttention::form() { return over_attention_form(); }

template <class T>
std::unique_ptr<Mechanism<T>> OverAttention::make() {
  return std::make_unique<OverAttentionMechanism<T>>();
}

template std::unique_ptr<Mechanism<float>> OverAttention::make();
template std::unique_ptr<Mechanism<double>> OverAttention::make();

}  // namespace attn::mechanisms
