#include "mechanisms/multi_view.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "kernel/layer_norm.hpp"
#include "kernel/product.hpp"
#include "mechanisms/rows.hpp"
#include "mechanisms/sequence_attention.hpp"

namespace attn::mechanisms {
namespace {

constexpr double norm_epsilon = 1e-5;

template <class T>
class MultiViewMechanism : public Mechanism<T> {
  using Form = MultiView;

  // The results that both passes need.
  struct Kept {
    double hybrid = 0;  // the input
    OwnedMatrix<T> q;
    std::array<OwnedMatrix<T>, most_views> k;  // of the views that are attended to
    OwnedMatrix<T> sum;                        // x + Σ π_v S_v
  };

  // The layer norm of rows, as its gradient needs it.
  struct Norm {
    OwnedMatrix<T> gain, shift;    // (1, D)
    OwnedMatrix<T> mean, inverse;  // (1, N)
  };

 public:
  explicit MultiViewMechanism(const Form::Options& options)
      : options_(options), attention_(most_views, plan_options(options)) {}

  const MechanismForm& form() const override { return Form::form(options_); }

  void forward(const Sequence<T>& sequence, const Tensors<T>& results, int threads) const override {
    // Views without attention get the numbers of padding.
    for (std::size_t n = Form::col_sum; n < results.size(); ++n) {
      if (!results[n]) continue;
      std::fill_n(results[n].data, element_count(results[n].shape),
                  static_cast<T>(form().results[n].padding));
    }
    const Kept kept = keep(sequence, &results, threads);
    if (!results[Form::out]) return;
    const MatrixView<T> out = matrix(results[Form::out]);
    normalise(sequence, kept, out);
    require_in_range(out, "a layer norm");
  }

  void backward(const Sequence<T>& sequence, const Tensors<const T>& grad_results,
                const Tensors<T>& gradients, int threads) const override {
    for (const TensorView<T>& gradient : gradients) {
      if (gradient) std::fill_n(gradient.data, element_count(gradient.shape), T{0});
    }
    const auto x = matrix(sequence.inputs[Form::x]);
    if (x.rows == 0 || !grad_results[Form::out]) return;
    const Kept kept = keep(sequence, nullptr, threads);
    OwnedMatrix<T> dsum(x.rows, x.cols);
    const Norm norm = normalise(sequence, kept, dsum.view());
    differentiate_norm(norm, kept, grad_results[Form::out].data, gradients, dsum);

    OwnedMatrix<T> dq = OwnedMatrix<T>::zeros(x.rows, kept.q.cols());
    double dhybrid = 0;
    for (std::size_t v = 0; v < most_views; ++v) {
      if (!attends(sequence, v)) continue;
      dhybrid += differentiate_view(sequence, kept, v, dsum.read(), gradients, dq, threads);
    }
    const auto wq = matrix(sequence.inputs[Form::wq]);
    if (gradients[Form::wq]) {
      kernel::transposed_product(x, dq.read(), matrix(gradients[Form::wq]));
    }
    if (gradients[Form::x]) {
      const auto dx = matrix(gradients[Form::x]);
      kernel::multiply_transposed(dq.read(), wq, dx);
      for (Index n = 0; n < dsum.size(); ++n) dx.data[n] += dsum.data()[n];
    }
    if (reads_hybrid() && gradients[Form::hybrid]) {
      *gradients[Form::hybrid].data = static_cast<T>(dhybrid);
    }
  }

  std::int64_t working_bytes(const Sizes& sizes, bool gradients) const override {
    const Index rows = sizes.at("N");
    const Index width = sizes.at("D");
    const Index depth = sizes.at("A");
    Index kept = rows * (2 * width + depth + 2) + 2 * width;
    Index most_rows = 0;
    std::int64_t of_plans = 0;
    for (std::size_t v = 1; v <= most_views; ++v) {
      const auto found = sizes.find("M" + std::to_string(v));
      if (found == sizes.end()) continue;
      kept += found->second * depth;
      most_rows = std::max(most_rows, found->second);
      of_plans += plan_bytes(rows, found->second, width, depth, gradients);
    }
    if (gradients) kept += rows * (width + 2 * depth) + most_rows * (width + depth) + 2 * width;
    return kept * static_cast<std::int64_t>(sizeof(T)) +
           2 * (rows + most_rows) * static_cast<std::int64_t>(sizeof(double)) + of_plans;
  }

 private:
  bool reads_hybrid() const { return options_.hybrid_form() == HybridForm::input; }

  static void require_in_range(MatrixView<const T> numbers, const char* what) {
    const Index count = numbers.rows * numbers.cols;
    if (std::all_of(numbers.data, numbers.data + count, [](T n) { return std::isfinite(n); })) {
      return;
    }
    throw_beyond_range<T>(std::string(what) + " is beyond the range of");
  }

  static bool attends(const Sequence<T>& sequence, std::size_t v) {
    const TensorView<const T>& view = sequence.inputs[Form::view + v];
    return view && view.shape[0] > 0 && sequence.inputs[Form::x].shape[0] > 0;
  }

  // The place of W_Kv among the inputs.
  static std::size_t place_of_wk(const Sequence<T>& sequence, std::size_t v) {
    return sequence.inputs[Form::own_wk + v] ? Form::own_wk + v : std::size_t{Form::wk};
  }

  static OwnedMatrix<T> project(MatrixView<const T> rows, MatrixView<const T> w, const char* what) {
    OwnedMatrix<T> made(rows.rows, w.cols);
    kernel::multiply(rows, w, made.view());
    require_in_range(made.read(), what);
    return made;
  }

  // The results of attention to views are written if there are `results`.
  Kept keep(const Sequence<T>& sequence, const Tensors<T>* results, int threads) const {
    const auto x = matrix(sequence.inputs[Form::x]);
    const auto wq = matrix(sequence.inputs[Form::wq]);
    if (wq.rows == 0 || wq.cols == 0) {
      throw Error(Failure::input, "wq is empty: there is nothing to compare");
    }
    Kept kept;
    if (reads_hybrid()) {
      kept.hybrid = static_cast<double>(*sequence.inputs[Form::hybrid].data);
      if (!(kept.hybrid >= 0 && kept.hybrid <= 1)) {
        throw Error(Failure::input,
                    "hybrid is " + std::to_string(kept.hybrid) + ", expected a number in [0, 1]");
      }
    }
    kept.q = project(x, wq, "a query");
    kept.sum = OwnedMatrix<T>(x.rows, x.cols);
    std::copy_n(x.data, kept.sum.size(), kept.sum.data());
    OwnedMatrix<T> gathered(x.rows, x.cols);
    for (std::size_t v = 0; v < most_views; ++v) {
      if (!attends(sequence, v)) continue;
      const auto wk = matrix(sequence.inputs[place_of_wk(sequence, v)]);
      kept.k[v] = project(matrix(sequence.inputs[Form::view + v]), wk, "a key");
      gather(sequence, kept, v, results, gathered, threads);
      add_to(kept.sum, gathered.data());
    }
    return kept;
  }

  AttentionInputs<T> operands(const Sequence<T>& sequence, const Kept& kept, std::size_t v) const {
    AttentionInputs<T> operands;
    operands.q = {kept.q.data(), {kept.q.rows(), kept.q.cols()}};
    operands.k = {kept.k[v].data(), {kept.k[v].rows(), kept.k[v].cols()}};
    operands.v = sequence.inputs[Form::view + v];
    if (reads_hybrid()) operands.hybrid = {&kept.hybrid, {}};
    return operands;
  }

  static AttentionOptions plan_options(const Form::Options& given) {
    AttentionOptions options;
    options.scheme = given.scheme;
    options.scale = given.scale;
    options.stopping = given.stopping;
    if (given.hybrid) options.hybrid = *given.hybrid;
    return options;
  }

  static void require_converged(const AttentionSummary& summary, std::size_t v) {
    if (summary.status() != SolveStatus::not_converged) return;
    throw Error(Failure::numerical,
                "the weights of view" + std::to_string(v + 1) +
                    " did not converge, iterations: " + std::to_string(summary.iterations()));
  }

  // The results of a view that are one number for each query or key.
  struct Vector {
    std::size_t result;  // of the first view
    TensorView<double> AttentionOutputs<T>::*output;
  };
  static std::array<Vector, 4> vectors() {
    using Outputs = AttentionOutputs<T>;
    return {{{Form::col_sum, &Outputs::col_sum},
             {Form::row_potential, &Outputs::row_potential},
             {Form::col_potential, &Outputs::col_potential},
             {Form::unas_row_potential, &Outputs::unas_row_potential}}};
  }

  void gather(const Sequence<T>& sequence, const Kept& kept, std::size_t v,
              const Tensors<T>* results, OwnedMatrix<T>& gathered, int threads) const {
    AttentionOutputs<T> outputs;
    outputs.out = tensor_of(gathered.view());
    std::vector<std::pair<OwnedMatrix<double>, TensorView<T>>> found;
    if (results != nullptr) {
      outputs.weights = (*results)[Form::weights + v];
      for (const Vector& vector : vectors()) {
        if (vector.result + v >= results->size() || !(*results)[vector.result + v]) continue;
        const TensorView<T>& result = (*results)[vector.result + v];
        found.emplace_back(OwnedMatrix<double>(1, result.shape[0]), result);
        outputs.*vector.output = {found.back().first.data(), result.shape};
      }
    }
    require_converged(attention_.run(v, operands(sequence, kept, v), outputs, threads), v);
    for (const auto& [numbers, result] : found) {
      for (Index n = 0; n < numbers.size(); ++n) {
        result.data[n] = static_cast<T>(numbers.data()[n]);
      }
    }
  }

  // D numbers: the input, or `usual`.
  static OwnedMatrix<T> by_feature(const TensorView<const T>& input, Index width, T usual) {
    OwnedMatrix<T> made(1, width);
    std::fill_n(made.data(), width, usual);
    if (input) std::copy_n(input.data, width, made.data());
    return made;
  }

  static Norm normalise(const Sequence<T>& sequence, const Kept& kept, MatrixView<T> out) {
    const Index rows = kept.sum.rows();
    const Index width = kept.sum.cols();
    Norm norm = {by_feature(sequence.inputs[Form::gain], width, T{1}),
                 by_feature(sequence.inputs[Form::shift], width, T{0}),
                 {1, rows},
                 {1, rows}};
    kernel::layer_norm(kept.sum.read(), norm.gain.data(), norm.shift.data(), norm_epsilon, out,
                       norm.mean.data(), norm.inverse.data());
    for (Index i = 0; i < rows; ++i) {
      // The inverse is 0 for a variance beyond the range.
      if (std::isfinite(norm.mean.data()[i]) && norm.inverse.data()[i] > 0) continue;
      throw_beyond_range<T>("the mean or the variance of a row is beyond the range of");
    }
    return norm;
  }

  // From ∂L/∂out, computes the gradients of gain and shift, and of the sum, to dsum.
  static void differentiate_norm(const Norm& norm, const Kept& kept, const T* grad_out,
                                 const Tensors<T>& gradients, OwnedMatrix<T>& dsum) {
    const Index width = dsum.cols();
    std::copy_n(grad_out, dsum.size(), dsum.data());
    OwnedMatrix<T> dgain = OwnedMatrix<T>::zeros(1, width);
    OwnedMatrix<T> dshift = OwnedMatrix<T>::zeros(1, width);
    kernel::layer_norm_gradient(kept.sum.read(), norm.mean.data(), norm.inverse.data(),
                                norm.gain.data(), dsum.read(), dsum.view(), dgain.data(),
                                dshift.data());
    require_in_range(dsum.read(), "a gradient of the layer norm");
    if (gradients[Form::gain]) std::copy_n(dgain.data(), width, gradients[Form::gain].data);
    if (gradients[Form::shift]) std::copy_n(dshift.data(), width, gradients[Form::shift].data);
  }

  // From ∂L/∂(π_v S_v), writes the gradients of S_v and W_Kv, adds the gradient of q to dq, and
  // returns the gradient of u.
  double differentiate_view(const Sequence<T>& sequence, const Kept& kept, std::size_t v,
                            MatrixView<const T> grad_out, const Tensors<T>& gradients,
                            OwnedMatrix<T>& dq, int threads) const {
    const std::size_t place = place_of_wk(sequence, v);
    const auto view = matrix(sequence.inputs[Form::view + v]);
    const auto dview = matrix(gradients[Form::view + v]);
    const auto dwk = matrix(gradients[place]);
    const AttentionInputs<T> inputs = operands(sequence, kept, v);
    AttentionGradients<T> wanted;
    OwnedMatrix<T> own_dq, dk, dv;
    T dhybrid = 0;
    if (gradients[Form::x] || gradients[Form::wq]) {
      own_dq = OwnedMatrix<T>(dq.rows(), dq.cols());
      wanted.q = {own_dq.data(), inputs.q.shape};
    }
    if (dview.data != nullptr || dwk.data != nullptr) {
      dk = OwnedMatrix<T>(view.rows, dq.cols());
      wanted.k = {dk.data(), inputs.k.shape};
    }
    if (dview.data != nullptr) {
      dv = OwnedMatrix<T>(view.rows, view.cols);
      wanted.v = {dv.data(), inputs.v.shape};
    }
    if (reads_hybrid() && gradients[Form::hybrid]) wanted.hybrid = {&dhybrid, {}};
    if (!wanted.q && !wanted.k && !wanted.hybrid) return 0;
    require_converged(attention_.gradients(v, inputs, tensor_of(grad_out), wanted, threads), v);
    if (wanted.q) add_to(dq, own_dq.data());
    if (dwk.data != nullptr) kernel::add_transposed_product(view, dk.read(), dwk);
    if (dview.data != nullptr) {
      kernel::multiply_transposed(dk.read(), matrix(sequence.inputs[place]), dview);
      for (Index n = 0; n < dv.size(); ++n) dview.data[n] += dv.data()[n];
    }
    return static_cast<double>(dhybrid);
  }

  std::int64_t plan_bytes(Index rows, Index view_rows, Index width, Index depth,
                          bool gradients) const {
    AttentionShapes shapes;
    shapes.q = {rows, depth};
    shapes.k = {view_rows, depth};
    shapes.v = {view_rows, width};
    if (reads_hybrid()) shapes.hybrid = Shape{};
    return attention_.bytes(shapes, gradients);
  }

  Form::Options options_;
  SequenceAttention<T> attention_;  // one for each view
};

}  // namespace

const MechanismForm& MultiView::form(const Options& options) {
  return multi_view_form(options.hybrid_form());
}

template <class T>
std::unique_ptr<Mechanism<T>> MultiView::make(const Options& options) {
  return std::make_unique<MultiViewMechanism<T>>(options);
}

template std::unique_ptr<Mechanism<float>> MultiView::make(const Options&);
template std::unique_ptr<Mechanism<double>> MultiView::make(const Options&);

}  // namespace attn::mechanisms
