#include "mechanisms/structured.hpp"

#include <algorithm>
#include <utility>

#include "kernel/activation.hpp"
#include "kernel/product.hpp"
#include "mechanisms/rows.hpp"
#include "mechanisms/structured_form.hpp"

namespace attn::mechanisms {
namespace {

template <class T>
class StructuredMechanism : public Mechanism<T> {
  using Form = Structured;

  // What both passes compute.
  struct Kept {
    OwnedMatrix<T> hidden;   // tanh(x W₁ᵀ), (T, A)
    OwnedMatrix<T> weights;  // (R, T)
    OwnedMatrix<T> overlap;  // AAᵀ − I, (R, R)
  };

  static Kept keep(const Sequence<T>& sequence) {
    const auto x = matrix(sequence.inputs[Form::x]);
    const auto w1 = matrix(sequence.inputs[Form::w1]);
    const auto w2 = matrix(sequence.inputs[Form::w2]);
    Kept kept{{x.rows, w1.rows}, {w2.rows, x.rows}, {w2.rows, w2.rows}};
    kernel::multiply_transposed(x, w1, kept.hidden.view());
    kernel::tanh_row(kept.hidden.data(), kept.hidden.size(), kept.hidden.data());
    kernel::multiply_transposed(w2, kept.hidden.read(), kept.weights.view());
    for (Index r = 0; r < w2.rows; ++r) softmax_row(kept.weights.view().row(r), x.rows);
    kernel::multiply_transposed(kept.weights.read(), kept.weights.read(), kept.overlap.view());
    for (Index r = 0; r < w2.rows; ++r) kept.overlap.view()(r, r) -= 1;
    return kept;
  }

 public:
  const MechanismForm& form() const override { return Form::form(); }

  void forward(const Sequence<T>& sequence, const Tensors<T>& results,
               int /*threads*/) const override {
    const Kept kept = keep(sequence);
    if (results[Form::out]) {
      kernel::multiply(kept.weights.read(), matrix(sequence.inputs[Form::x]),
                       matrix(results[Form::out]));
    }
    if (results[Form::weights]) {
      std::copy_n(kept.weights.data(), kept.weights.size(), results[Form::weights].data);
    }
    if (results[Form::overlap]) {
      const auto overlap = matrix(results[Form::overlap]);
      std::copy_n(kept.overlap.data(), kept.overlap.size(), overlap.data);
      for (Index r = 0; r < overlap.rows; ++r) overlap(r, r) += 1;
    }
    write_figures(kept, results);
  }

  void backward(const Sequence<T>& sequence, const Tensors<const T>& grad_results,
                const Tensors<T>& gradients, int /*threads*/) const override {
    const auto x = matrix(sequence.inputs[Form::x]);
    const auto w1 = matrix(sequence.inputs[Form::w1]);
    const auto w2 = matrix(sequence.inputs[Form::w2]);
    const Kept kept = keep(sequence);
    const auto grad_out = matrix(grad_results[Form::out]);
    // ∂L/∂A, then ∂L/∂S of A = softmax(S).
    OwnedMatrix<T> scores = OwnedMatrix<T>::zeros(w2.rows, x.rows);
    if (grad_out.data != nullptr) {
      kernel::multiply_transposed(grad_out, x, scores.view());
    }
    if (grad_results[Form::weights]) add_to(scores, grad_results[Form::weights].data);
    add_of_overlap(grad_results, kept, scores);
    for (Index r = 0; r < w2.rows; ++r) {
      softmax_gradient(kept.weights.read().row(r), scores.view().row(r), x.rows);
    }
    if (gradients[Form::w2]) {
      kernel::multiply(scores.read(), kept.hidden.read(), matrix(gradients[Form::w2]));
    }
    OwnedMatrix<T> hidden(x.rows, w1.rows);  // ∂L/∂(x W₁ᵀ)
    kernel::transposed_product(scores.read(), w2, hidden.view());
    tanh_gradient(kept.hidden.data(), hidden.size(), hidden.data());
    if (gradients[Form::w1]) {
      kernel::transposed_product(hidden.read(), x, matrix(gradients[Form::w1]));
    }
    if (gradients[Form::x]) {
      const auto grad_x = matrix(gradients[Form::x]);
      kernel::multiply(hidden.read(), w1, grad_x);
      if (grad_out.data != nullptr) {
        kernel::add_transposed_product(kept.weights.read(), grad_out, grad_x);
      }
    }
  }

  std::int64_t working_bytes(const Sizes& sizes, bool gradients) const override {
    const Index positions = sizes.at("T");
    return (gradients ? 2 : 1) * static_cast<std::int64_t>(sizeof(T)) *
           (positions * (sizes.at("A") + sizes.at("R")) + 2 * sizes.at("R") * sizes.at("R"));
  }

 private:
  // The factors of the means of the diagonal and of the rest.
  static std::pair<double, double> shares(Index hops) {
    const auto count = static_cast<double>(hops);
    return {1 / count, hops > 1 ? 1 / (count * (count - 1)) : 0};
  }

  static void write_figures(const Kept& kept, const Tensors<T>& results) {
    double penalty = 0, diagonal = 0, rest = 0;
    for (Index r = 0; r < kept.overlap.rows(); ++r) {
      for (Index s = 0; s < kept.overlap.rows(); ++s) {
        const auto one = static_cast<double>(kept.overlap.read()(r, s));
        penalty += one * one;
        (r == s ? diagonal : rest) += one + (r == s ? 1 : 0);
      }
    }
    const auto [of_diagonal, of_rest] = shares(kept.overlap.rows());
    const auto write = [&](std::size_t result, double value) {
      if (results[result]) *results[result].data = static_cast<T>(value);
    };
    write(Form::penalty, penalty);
    write(Form::diagonal, diagonal * of_diagonal);
    write(Form::off_diagonal, rest * of_rest);
  }

  // ∂/∂A of the penalty, 4 (AAᵀ − I) A, and of AAᵀ, (G + Gᵀ) A.
  static void add_of_overlap(const Tensors<const T>& grad_results, const Kept& kept,
                             OwnedMatrix<T>& scores) {
    const TensorView<const T>& penalty = grad_results[Form::penalty];
    const auto overlap = matrix(grad_results[Form::overlap]);
    const auto [of_diagonal, of_rest] = shares(kept.overlap.rows());
    const auto upstream = [&](std::size_t result, double share) {
      return grad_results[result] ? static_cast<T>(2 * share) * *grad_results[result].data : T{0};
    };
    const T diagonal = upstream(Form::diagonal, of_diagonal);
    const T rest = upstream(Form::off_diagonal, of_rest);
    OwnedMatrix<T> factor = OwnedMatrix<T>::zeros(kept.overlap.rows(), kept.overlap.rows());
    for (Index r = 0; r < factor.rows(); ++r) {
      for (Index s = 0; s < factor.rows(); ++s) {
        T& one = factor.view()(r, s);
        if (penalty) one += 4 * *penalty.data * kept.overlap.read()(r, s);
        if (overlap.data != nullptr) one += overlap(r, s) + overlap(s, r);
        one += r == s ? diagonal : rest;
      }
    }
    kernel::multiply_add(factor.read(), kept.weights.read(), scores.view());
  }
};

}  // namespace

const MechanismForm& Structured::form() { return structured_form(); }

template <class T>
std::unique_ptr<Mechanism<T>> Structured::make() {
  return std::make_unique<StructuredMechanism<T>>();
}

template std::unique_ptr<Mechanism<float>> Structured::make();
template std::unique_ptr<Mechanism<double>> Structured::make();

}  // namespace attn::mechanisms
