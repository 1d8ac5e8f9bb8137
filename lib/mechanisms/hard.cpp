#include "mechanisms/hard.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernel/activation.hpp"
#include "kernel/product.hpp"
#include "mechanisms/hard_form.hpp"
#include "mechanisms/rows.hpp"
#include "mechanisms/word_readout.hpp"

namespace attn::mechanisms {
namespace {

template <class T>
class HardMechanism : public Mechanism<T> {
  using Form = Hard;

  // The results that both passes need.
  struct Kept {
    OwnedMatrix<T> hidden;   // tanh(W_a a_i + W_h h), (L, A)
    OwnedMatrix<T> weights;  // α, (1, L)
    OwnedMatrix<T> mean;     // Σ α_i a_i, (1, D)
  };

  static Kept keep(const Sequence<T>& sequence) {
    const auto a = matrix(sequence.inputs[Form::a]);
    const auto w_a = matrix(sequence.inputs[Form::w_a]);
    Kept kept{{a.rows, w_a.rows}, {1, a.rows}, {1, a.cols}};
    OwnedMatrix<T> of_state(1, w_a.rows);
    kernel::multiply_transposed(matrix(sequence.inputs[Form::state]),
                                matrix(sequence.inputs[Form::w_h]), of_state.view());
    kernel::multiply_transposed(a, w_a, kept.hidden.view());
    for (Index i = 0; i < a.rows; ++i) {
      T* const row = kept.hidden.view().row(i);
      for (Index c = 0; c < w_a.rows; ++c) row[c] += of_state.data()[c];
    }
    require_finite(kept.hidden.data(), kept.hidden.size());
    kernel::tanh_row(kept.hidden.data(), kept.hidden.size(), kept.hidden.data());
    kernel::multiply_transposed(matrix(sequence.inputs[Form::v]), kept.hidden.read(),
                                kept.weights.view());
    softmax_row(kept.weights.data(), a.rows);
    kernel::multiply(kept.weights.read(), a, kept.mean.view());
    return kept;
  }

  static WordReadout<T> readout(const Sequence<T>& sequence) {
    return {matrix(sequence.inputs[Form::readout]), matrix(sequence.inputs[Form::readout_bias]),
            *sequence.tokens[Form::target].data};
  }

 public:
  const MechanismForm& form() const override { return Form::form(); }

  void forward(const Sequence<T>& sequence, const Tensors<T>& results,
               int /*threads*/) const override {
    const WordReadout<T> readout = HardMechanism::readout(sequence);
    const Kept kept = keep(sequence);
    const auto write = [&](std::size_t result, double value) {
      if (results[result]) *results[result].data = static_cast<T>(value);
    };
    if (results[Form::log_p] || results[Form::log_p_each]) {
      const std::vector<double> log_p = readout.log_p(matrix(sequence.inputs[Form::a]));
      double mean = 0;
      for (std::size_t i = 0; i < log_p.size(); ++i) {
        mean += static_cast<double>(kept.weights.data()[i]) * log_p[i];
      }
      write(Form::log_p, mean);
      if (results[Form::log_p_each]) {
        std::copy(log_p.begin(), log_p.end(), results[Form::log_p_each].data);
      }
    }
    if (results[Form::log_p_soft]) write(Form::log_p_soft, readout.log_p(kept.mean.read())[0]);
    write(Form::entropy, kernel::entropy_row(kept.weights.data(), kept.weights.cols()));
    if (results[Form::weights]) {
      std::copy_n(kept.weights.data(), kept.weights.size(), results[Form::weights].data);
    }
  }

  void backward(const Sequence<T>& sequence, const Tensors<const T>& grad_results,
                const Tensors<T>& gradients, int /*threads*/) const override {
    const WordReadout<T> readout = HardMechanism::readout(sequence);
    const auto a = matrix(sequence.inputs[Form::a]);
    const Kept kept = keep(sequence);
    const auto dreadout = matrix(gradients[Form::readout]);
    const auto dbias = matrix(gradients[Form::readout_bias]);
    const auto da = matrix(gradients[Form::a]);
    for (const MatrixView<T>& one : {dreadout, dbias, da}) set_to_zero(one);

    const double of_log_p = upstream(grad_results, Form::log_p);
    std::vector<double> of_each(static_cast<std::size_t>(a.rows));
    for (std::size_t i = 0; i < of_each.size(); ++i) {
      of_each[i] = of_log_p * static_cast<double>(kept.weights.data()[i]);
      if (grad_results[Form::log_p_each]) {
        of_each[i] += static_cast<double>(grad_results[Form::log_p_each].data[i]);
      }
    }
    const std::vector<double> log_p = readout.differentiate(a, of_each, {dreadout, dbias, da});
    OwnedMatrix<T> dmean = OwnedMatrix<T>::zeros(1, a.cols);
    readout.differentiate(kept.mean.read(), {upstream(grad_results, Form::log_p_soft)},
                          {dreadout, dbias, dmean.view()});
    if (da.data != nullptr) {
      kernel::add_transposed_product(kept.weights.read(), dmean.read(), da);
    }

    // ∂L/∂α, then ∂L/∂e of α = softmax(e).
    OwnedMatrix<T> energies(1, a.rows);
    kernel::multiply_transposed(dmean.read(), a, energies.view());
    for (std::size_t i = 0; i < log_p.size(); ++i) {
      energies.data()[i] += static_cast<T>(of_log_p * log_p[i]);
    }
    if (grad_results[Form::weights]) add_to(energies, grad_results[Form::weights].data);
    softmax_gradient(kept.weights.data(), energies.data(), a.rows);
    add_of_entropy(upstream(grad_results, Form::entropy), kept.weights, energies);
    differentiate_energies(sequence, kept, energies, gradients);
  }

  std::int64_t working_bytes(const Sizes& sizes, bool gradients) const override {
    const Index positions = sizes.at("L");
    const Index words = sizes.at("V");
    const Index panel = std::min(WordReadout<T>::panel_rows(words), std::max<Index>(1, positions));
    const Index numbers = (gradients ? 2 : 1) * positions * sizes.at("A") + panel * words +
                          2 * (positions + sizes.at("A") + sizes.at("D"));
    // In float64 log p of each annotation, and its gradient.
    return numbers * static_cast<std::int64_t>(sizeof(T)) +
           (gradients ? 2 : 1) * positions * static_cast<std::int64_t>(sizeof(double));
  }

 private:
  static double upstream(const Tensors<const T>& grad_results, std::size_t result) {
    return grad_results[result] ? static_cast<double>(*grad_results[result].data) : 0;
  }

  // ∂H/∂e_i = −α_i (log α_i + H); through ∂H/∂α, it would be infinite at α_i = 0.
  static void add_of_entropy(double factor, const OwnedMatrix<T>& weights,
                             OwnedMatrix<T>& energies) {
    if (factor == 0) return;
    const double entropy = kernel::entropy_row(weights.data(), weights.cols());
    for (Index i = 0; i < weights.cols(); ++i) {
      const auto own = static_cast<double>(weights.data()[i]);
      if (own == 0) continue;
      energies.data()[i] -= static_cast<T>(factor * own * (std::log(own) + entropy));
    }
  }

  // From ∂L/∂e, writes the gradients of the energies' inputs; the gradient of a is added.
  static void differentiate_energies(const Sequence<T>& sequence, const Kept& kept,
                                     const OwnedMatrix<T>& energies, const Tensors<T>& gradients) {
    const auto a = matrix(sequence.inputs[Form::a]);
    const auto w_a = matrix(sequence.inputs[Form::w_a]);
    if (gradients[Form::v]) {
      kernel::multiply(energies.read(), kept.hidden.read(), matrix(gradients[Form::v]));
    }
    OwnedMatrix<T> hidden(a.rows, w_a.rows);  // ∂L/∂(W_a a_i + W_h h)
    kernel::transposed_product(energies.read(), matrix(sequence.inputs[Form::v]), hidden.view());
    tanh_gradient(kept.hidden.data(), hidden.size(), hidden.data());
    if (gradients[Form::w_a]) {
      kernel::transposed_product(hidden.read(), a, matrix(gradients[Form::w_a]));
    }
    if (gradients[Form::a]) kernel::multiply_add(hidden.read(), w_a, matrix(gradients[Form::a]));
    OwnedMatrix<T> of_state = OwnedMatrix<T>::zeros(1, w_a.rows);
    for (Index i = 0; i < a.rows; ++i) add_to(of_state, hidden.read().row(i));
    if (gradients[Form::w_h]) {
      kernel::transposed_product(of_state.read(), matrix(sequence.inputs[Form::state]),
                                 matrix(gradients[Form::w_h]));
    }
    if (gradients[Form::state]) {
      kernel::multiply(of_state.read(), matrix(sequence.inputs[Form::w_h]),
                       matrix(gradients[Form::state]));
    }
  }
};

}  // namespace

const MechanismForm& Hard::form() { return hard_form(); }

template <class T>
std::unique_ptr<Mechanism<T>> Hard::make() {
  return std::make_unique<HardMechanism<T>>();
}

template std::unique_ptr<Mechanism<float>> Hard::make();
template std::unique_ptr<Mechanism<double>> Hard::make();

}  // namespace attn::mechanisms
