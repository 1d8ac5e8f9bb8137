// Trains W_Q and W_K of two heads by steps on the values of their basis paths: 50 times the
// gradients of the loss ⟨G, out⟩ of softmax attention, with G fixed, and a step. Prints the weights
// that it reaches, W_Q and then W_K. The same as a pipeline, with `tensor-gen normal x=12x6
// wq=2x6x4 wk=2x6x4 wv=2x6x3 grad_out=2x12x3 --dtype f64 --seed 5` as its start and --skeleton
// largest:
//
//     attn-compute --from projection --emit grad_wq,grad_wk |
//       basis-paths step --optimizer si-adam --rate 0.01
//
// A word on the command line chooses another optimiser: si-sgd. Exits with 1 if the loss has not
// fallen.

#include <cstdio>
#include <string>
#include <vector>

#include "gradient/energy_gradient.hpp"
#include "kernel/product.hpp"
#include "pass/output.hpp"
#include "paths/step.hpp"
#include "scheme/gradient.hpp"
#include "scheme/scheme.hpp"
#include "score/projection.hpp"
#include "tensor/random.hpp"

namespace {

using attn::Index;
using attn::MatrixView;

constexpr Index heads = 2;
constexpr Index tokens = 12;
constexpr Index depth = 6;
constexpr Index columns = 4;
constexpr Index channels = 3;

struct Matrix {
  Index rows;
  Index cols;
  std::vector<double> values;

  Matrix(Index row_count, Index col_count)
      : rows(row_count), cols(col_count), values(static_cast<std::size_t>(rows * cols), 0.0) {}

  MatrixView<double> view() { return {values.data(), rows, cols}; }
  MatrixView<const double> view() const { return {values.data(), rows, cols}; }
};

// A head's part of a dataset as tensor-gen makes it.
Matrix normal(const char* name, Index head, Index rows, Index cols) {
  Matrix matrix(rows, cols);
  attn::RandomStream(5, name).normal(head * rows * cols, rows * cols, matrix.values.data());
  return matrix;
}

Matrix projected(const Matrix& x, const Matrix& w) {
  Matrix result(x.rows, w.cols);
  attn::project<double>(x.view(), w.view(), {}, result.view(), 1, [] { return std::string("x"); });
  return result;
}

struct Head {
  Matrix x = normal("x", 0, tokens, depth);
  Matrix wq, wk, v, grad_out;
  Matrix grad_wq{depth, columns};
  Matrix grad_wk{depth, columns};

  explicit Head(Index head)
      : wq(normal("wq", head, depth, columns)),
        wk(normal("wk", head, depth, columns)),
        v(projected(x, normal("wv", head, depth, channels))),
        grad_out(normal("grad_out", head, tokens, channels)) {}

  // Computes the gradients; returns the loss.
  double differentiate() {
    const Matrix q = projected(x, wq);
    const Matrix k = projected(x, wk);
    const auto energy =
        attn::make_product_energy<double>(attn::EnergyKind::scaled_dot, q.view(), k.view(), 1);
    attn::Scores<double>::Terms terms;
    terms.energy = energy.get();
    const attn::Scores<double> scores(terms);
    Matrix out(tokens, channels);
    attn::Output<double> output(v.view(), out.view());
    attn::Forward<double> forward;
    const attn::Attention attention = attn::attend<double>(scores, forward.options, {&output}, 1);
    forward.scores = &scores;
    forward.attention = &attention;
    forward.v = v.view();
    forward.out = out.view();
    forward.grad_out = grad_out.view();
    Matrix grad_q(tokens, columns);
    Matrix grad_k(tokens, columns);
    const auto sink = attn::make_product_gradient<double>(
        attn::EnergyKind::scaled_dot, q.view(), k.view(), 1, grad_q.view(), grad_k.view());
    attn::GradientTargets<double> targets;
    targets.energies = {sink.get()};
    attn::differentiate(forward, targets, 1);
    grad_wq = Matrix(depth, columns);
    grad_wk = Matrix(depth, columns);
    attn::kernel::add_transposed_product(x.view(), grad_q.view(), grad_wq.view());
    attn::kernel::add_transposed_product(x.view(), grad_k.view(), grad_wk.view());
    double loss = 0;
    for (std::size_t n = 0; n < out.values.size(); ++n) loss += grad_out.values[n] * out.values[n];
    return loss;
  }
};

void print(const Matrix& matrix) {
  for (const double value : matrix.values) std::printf("%.17g\n", value);
}

}  // namespace

int main(int argc, char** argv) {
  attn::StepOptions options;
  const bool plain = argc > 1 && std::string(argv[1]) == "si-sgd";
  options.optimizer = plain ? attn::Optimizer::si_sgd : attn::Optimizer::si_adam;
  options.rate = 0.01;
  std::vector<Head> trained;
  bool falls = true;
  for (Index h = 0; h < heads; ++h) {
    Head head(h);
    const attn::Skeleton skeleton = attn::largest_skeleton<double>(head.wq.view(), head.wk.view());
    Matrix first(2 * depth - 1, columns);
    Matrix second(2 * depth - 1, columns);
    const double start = head.differentiate();
    for (Index n = 1; n <= 50; ++n) {
      head.differentiate();
      options.number = n;
      attn::step<double>(options, skeleton,
                         {head.wq.view(), head.wk.view(), head.grad_wq.view(), head.grad_wk.view(),
                          first.view(), second.view()},
                         1);
    }
    falls = falls && head.differentiate() < start;
    trained.push_back(std::move(head));
  }
  for (const Head& head : trained) print(head.wq);
  for (const Head& head : trained) print(head.wk);
  return falls ? 0 : 1;
}
