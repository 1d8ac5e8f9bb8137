#include "mechanisms/decomposable.hpp"

#include <algorithm>
#include <array>

#include "mechanisms/decomposable_form.hpp"
#include "mechanisms/rows.hpp"
#include "mechanisms/sequence_attention.hpp"
#include "mechanisms/two_layers.hpp"

namespace attn::mechanisms {
namespace {

// [left; right] by rows.
template <class T>
OwnedMatrix<T> side_by_side(MatrixView<const T> left, MatrixView<const T> right) {
  OwnedMatrix<T> both(left.rows, left.cols + right.cols);
  for (Index i = 0; i < left.rows; ++i) {
    std::copy_n(left.row(i), left.cols, both.view().row(i));
    std::copy_n(right.row(i), right.cols, both.view().row(i) + left.cols);
  }
  return both;
}

template <class T>
class DecomposableMechanism : public Mechanism<T> {
  using Form = Decomposable;
  using Net = TwoLayers<T>;

  // One side: its vectors, with which they attend, and the compared vectors.
  struct Side {
    MatrixView<const T> x;
    typename Net::Kept attended;  // F(x)
    OwnedMatrix<T> aligned;       // the other side's means: β or α
    OwnedMatrix<T> compared;      // [x; aligned]
    typename Net::Kept results;   // G of these
  };

  struct Kept {
    std::array<Side, 2> sides;
    OwnedMatrix<T> sums;        // [v₁; v₂]
    typename Net::Kept scores;  // H of these
  };

  static Net net(const Sequence<T>& sequence, std::size_t first, bool ends_in_relu) {
    return {matrix(sequence.inputs[first]), matrix(sequence.inputs[first + 1]),
            matrix(sequence.inputs[first + 2]), matrix(sequence.inputs[first + 3]), ends_in_relu};
  }

  static AttentionInputs<T> inputs_of(const Side& side, const Side& other) {
    return attention_inputs<T>(side.attended.result.read(), other.attended.result.read(), other.x);
  }

  // Side n attends to the other one.
  void align(std::array<Side, 2>& sides, std::size_t n, const TensorView<T>& weights,
             int threads) const {
    Side& side = sides[n];
    const Side& other = sides[1 - n];
    side.aligned = OwnedMatrix<T>::zeros(side.x.rows, side.x.cols);
    if (side.x.rows == 0 || other.x.rows == 0) return;
    attention_.run(n, inputs_of(side, other), attention_outputs(side.aligned.view(), weights),
                   threads);
  }

  Kept keep(const Sequence<T>& sequence, const TensorView<T>& weights_a,
            const TensorView<T>& weights_b, int threads) const {
    const Net f = net(sequence, Form::f1, true);
    const Net g = net(sequence, Form::g1, true);
    Kept kept;
    for (std::size_t n = 0; n < 2; ++n) {
      Side& side = kept.sides[n];
      side.x = matrix(sequence.inputs[n]);
      side.attended = f.forward(side.x);
    }
    align(kept.sides, 0, weights_a, threads);
    align(kept.sides, 1, weights_b, threads);
    const Index width = g.w2.rows;
    kept.sums = OwnedMatrix<T>::zeros(1, 2 * width);
    for (std::size_t n = 0; n < 2; ++n) {
      Side& side = kept.sides[n];
      side.compared = side_by_side<T>(side.x, side.aligned.read());
      side.results = g.forward(side.compared.read());
      T* const sum = kept.sums.data() + static_cast<Index>(n) * width;
      for (Index i = 0; i < side.x.rows; ++i) {
        for (Index c = 0; c < width; ++c) sum[c] += side.results.result.read()(i, c);
      }
    }
    kept.scores = net(sequence, Form::h1, false).forward(kept.sums.read());
    return kept;
  }

  // The gradients of the weights of a network, which start at 0.
  static typename Net::Gradients gradients_of(const Tensors<T>& gradients, std::size_t first) {
    std::array<MatrixView<T>, 4> all;
    for (std::size_t n = 0; n < 4; ++n) {
      all[n] = matrix(gradients[first + n]);
      set_to_zero(all[n]);
    }
    return {all[0], all[1], all[2], all[3]};
  }

 public:
  const MechanismForm& form() const override { return Form::form(); }

  void forward(const Sequence<T>& sequence, const Tensors<T>& results, int threads) const override {
    const Kept kept = keep(sequence, results[Form::weights_a], results[Form::weights_b], threads);
    const auto write = [&](std::size_t result, const OwnedMatrix<T>& numbers) {
      if (results[result]) std::copy_n(numbers.data(), numbers.size(), results[result].data);
    };
    write(Form::scores, kept.scores.result);
    write(Form::beta, kept.sides[0].aligned);
    write(Form::alpha, kept.sides[1].aligned);
  }

  void backward(const Sequence<T>& sequence, const Tensors<const T>& grad_results,
                const Tensors<T>& gradients, int threads) const override {
    const Kept kept = keep(sequence, {}, {}, threads);
    const auto of_f = gradients_of(gradients, Form::f1);
    const auto of_g = gradients_of(gradients, Form::g1);
    const auto of_h = gradients_of(gradients, Form::h1);
    OwnedMatrix<T> dscores = OwnedMatrix<T>::zeros(1, kept.scores.result.cols());
    if (grad_results[Form::scores]) add_to(dscores, grad_results[Form::scores].data);
    OwnedMatrix<T> dsums = OwnedMatrix<T>::zeros(1, kept.sums.cols());
    net(sequence, Form::h1, false)
        .backward(kept.sums.read(), kept.scores, dscores, of_h, dsums.view());

    std::array<OwnedMatrix<T>, 2> dx;         // of a and b
    std::array<OwnedMatrix<T>, 2> daligned;   // of β and α
    std::array<OwnedMatrix<T>, 2> dattended;  // of F(a) and F(b)
    for (std::size_t n = 0; n < 2; ++n) {
      const Side& side = kept.sides[n];
      dx[n] = OwnedMatrix<T>::zeros(side.x.rows, side.x.cols);
      daligned[n] = OwnedMatrix<T>::zeros(side.x.rows, side.x.cols);
      dattended[n] = OwnedMatrix<T>::zeros(side.x.rows, side.attended.result.cols());
      const TensorView<const T>& upstream = grad_results[n == 0 ? Form::beta : Form::alpha];
      if (upstream) add_to(daligned[n], upstream.data);
      compare_backward(net(sequence, Form::g1, true), side,
                       dsums.data() + static_cast<Index>(n) * (dsums.cols() / 2), of_g, dx[n],
                       daligned[n]);
    }
    for (std::size_t n = 0; n < 2; ++n) {
      align_backward(kept.sides, n, daligned[n], dattended, dx[1 - n], threads);
    }
    for (std::size_t n = 0; n < 2; ++n) {
      const Side& side = kept.sides[n];
      net(sequence, Form::f1, true)
          .backward(side.x, side.attended, dattended[n], of_f, dx[n].view());
      if (gradients[n]) std::copy_n(dx[n].data(), dx[n].size(), gradients[n].data);
    }
  }

  std::int64_t working_bytes(const Sizes& sizes, bool gradients) const override {
    const Index positions = sizes.at("M") + sizes.at("N");
    const Index width =
        4 * sizes.at("D") + sizes.at("F") + sizes.at("E") + sizes.at("G") + sizes.at("C");
    const Index of_sums = 4 * sizes.at("C") + 2 * sizes.at("H") + 2 * sizes.at("K");
    return (gradients ? 3 : 1) * static_cast<std::int64_t>(sizeof(T)) *
               (positions * width + of_sums) +
           plan_bytes(sizes, gradients);
  }

 private:
  // dsum is ∂L/∂v of a side: which each of its positions has.
  static void compare_backward(const Net& g, const Side& side, const T* dsum,
                               const typename Net::Gradients& of_g, OwnedMatrix<T>& dx,
                               OwnedMatrix<T>& daligned) {
    OwnedMatrix<T> dresults(side.x.rows, g.w2.rows);
    for (Index i = 0; i < dresults.rows(); ++i) {
      std::copy_n(dsum, dresults.cols(), dresults.view().row(i));
    }
    OwnedMatrix<T> dcompared = OwnedMatrix<T>::zeros(side.x.rows, 2 * side.x.cols);
    g.backward(side.compared.read(), side.results, dresults, of_g, dcompared.view());
    for (Index i = 0; i < side.x.rows; ++i) {
      for (Index c = 0; c < side.x.cols; ++c) {
        dx.view()(i, c) += dcompared.read()(i, c);
        daligned.view()(i, c) += dcompared.read()(i, side.x.cols + c);
      }
    }
  }

  void align_backward(const std::array<Side, 2>& sides, std::size_t n,
                      const OwnedMatrix<T>& daligned, std::array<OwnedMatrix<T>, 2>& dattended,
                      OwnedMatrix<T>& dx_other, int threads) const {
    const Side& side = sides[n];
    const Side& other = sides[1 - n];
    if (side.x.rows == 0 || other.x.rows == 0) return;
    OwnedMatrix<T> dq(side.x.rows, dattended[n].cols());
    OwnedMatrix<T> dk(other.x.rows, dattended[1 - n].cols());
    OwnedMatrix<T> dv(dx_other.rows(), dx_other.cols());
    attention_.gradients(n, inputs_of(side, other), tensor_of(daligned.read()),
                         attention_gradients(dq.view(), dk.view(), dv.view()), threads);
    add_to(dattended[n], dq.data());
    add_to(dattended[1 - n], dk.data());
    add_to(dx_other, dv.data());
  }

  std::int64_t plan_bytes(const Sizes& sizes, bool gradients) const {
    const auto of = [&](const char* queries, const char* keys) {
      AttentionShapes shapes;
      shapes.q = {sizes.at(queries), sizes.at("E")};
      shapes.k = {sizes.at(keys), sizes.at("E")};
      shapes.v = {sizes.at(keys), sizes.at("D")};
      return attention_.bytes(shapes, gradients);
    };
    return of("M", "N") + of("N", "M");
  }

  SequenceAttention<T> attention_{2, dot_product_options()};
};

}  // namespace

const MechanismForm& Decomposable::form() { return decomposable_form(); }

template <class T>
std::unique_ptr<Mechanism<T>> Decomposable::make() {
  return std::make_unique<DecomposableMechanism<T>>();
}

template std::unique_ptr<Mechanism<float>> Decomposable::make();
template std::unique_ptr<Mechanism<double>> Decomposable::make();

}  // namespace attn::mechanisms
