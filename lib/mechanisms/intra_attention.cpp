#include "mechanisms/intra_attention.hpp"

#include <algorithm>
#include <array>
#include <optional>

#include "kernel/activation.hpp"
#include "kernel/product.hpp"
#include "mechanisms/intra_attention_form.hpp"
#include "mechanisms/lstm.hpp"
#include "mechanisms/tape_reader.hpp"

namespace attn::mechanisms {
namespace {

using Form = IntraAttention;

template <class T>
class IntraAttentionMechanism : public Mechanism<T> {
 public:
  explicit IntraAttentionMechanism(Fusion fusion) : fusion_(fusion) {}

  const MechanismForm& form() const override { return Form::form(fusion_); }

  void forward(const Sequence<T>& sequence, const Tensors<T>& results, int threads) const override {
    Run run(*this, sequence, threads);
    run.forward(matrix(results[Form::weights]),
                fuses() ? matrix(results[Form::source_weights]) : MatrixView<T>());
    const auto write = [&](std::size_t result, const OwnedMatrix<T>& numbers) {
      if (results[result]) std::copy_n(numbers.data(), numbers.size(), results[result].data);
    };
    write(Form::h, run.h);
    write(Form::c, run.c);
    if (!fuses() || !results[Form::fused]) return;
    const auto fused = matrix(results[Form::fused]);
    for (Index t = 0; t < fused.rows; ++t) {
      std::copy_n(run.source->means().read().row(t), fused.cols, fused.row(t));
    }
  }

  void backward(const Sequence<T>& sequence, const Tensors<const T>& grad_results,
                const Tensors<T>& gradients, int threads) const override {
    for (const TensorView<T>& gradient : gradients) {
      if (gradient) std::fill_n(gradient.data, element_count(gradient.shape), T{0});
    }
    Run run(*this, sequence, threads);
    run.forward({}, {});
    run.backward(grad_results, gradients);
  }

  std::int64_t working_bytes(const Sizes& sizes, bool gradients) const override {
    const Index steps = sizes.at("T");
    const Index width = sizes.at("D");
    Index by_step = 4 * width + 2 * width + sizes.at("A") + 2 * width;
    std::int64_t scales = steps;
    if (gradients) by_step += 4 * width + 2 * sizes.at("A") + 2 * width + sizes.at("E");
    std::int64_t tapes = Tape<T>::bytes(steps, sizes.at("A"), 2 * width, gradients);
    if (fuses()) {
      const Index memory = sizes.at("G") + width;
      by_step += 2 * memory + 2 * sizes.at("B") + 2 * width;
      tapes += Tape<T>::bytes(sizes.at("S"), sizes.at("B"), memory, gradients);
      scales += steps;
    }
    return tapes + static_cast<std::int64_t>(sizeof(T)) * steps * by_step +
           static_cast<std::int64_t>(sizeof(SoftmaxScale)) * scales;
  }

 private:
  bool fuses() const { return fusion_ != Fusion::none; }
  bool is_deep() const { return fusion_ == Fusion::deep; }

  // The passes over one sequence.
  struct Run {
    Run(const IntraAttentionMechanism& mechanism, const Sequence<T>& sequence, int thread_count)
        : own(mechanism),
          inputs(sequence.inputs),
          threads(thread_count),
          x(matrix(inputs[Form::x])),
          cell{matrix(inputs[Form::w]), matrix(inputs[Form::b])},
          width(cell.width()),
          states({matrix(inputs[Form::w_h]), matrix(inputs[Form::w_x]),
                  matrix(inputs[Form::w_prev]), matrix(inputs[Form::v])},
                 x, x.rows, 2 * width),
          gates(lstm_inputs(cell, x)),
          h(x.rows, width),
          c(x.rows, width) {
      if (own.fuses()) read_source();
    }

    void read_source() {
      const auto source_h = matrix(inputs[Form::source_h]);
      const auto source_c = matrix(inputs[Form::source_c]);
      source.emplace(
          typename TapeReader<T>::Weights{matrix(inputs[Form::u_h]), matrix(inputs[Form::u_x]),
                                          matrix(inputs[Form::u_prev]), matrix(inputs[Form::u])},
          x, source_h.rows, source_h.cols + width);
      OwnedMatrix<T> both(1, source_h.cols + width);
      for (Index j = 0; j < source_h.rows; ++j) {
        std::copy_n(source_h.row(j), source_h.cols, both.data());
        std::copy_n(source_c.row(j), width, both.data() + source_h.cols);
        source->set(j, both.data());
      }
      if (!own.is_deep()) return;
      const auto [of_state, of_input] = read_gate(matrix(inputs[Form::w_r]));
      read_gates = OwnedMatrix<T>(x.rows, width);
      added = OwnedMatrix<T>(x.rows, width);
      kernel::multiply_transposed(x, of_input, read_gates.view());
    }

    // W_r for γ̃, and for x.
    template <class Element>
    std::array<MatrixView<Element>, 2> read_gate(MatrixView<Element> w_r) const {
      const Index state = source->state();
      return {MatrixView<Element>(w_r.data, w_r.rows, state, w_r.row_stride),
              MatrixView<Element>(w_r.data + state, w_r.rows, w_r.cols - state, w_r.row_stride)};
    }

    Index source_places() const { return inputs[Form::source_h].shape[0]; }

    void forward(MatrixView<T> weights, MatrixView<T> source_weights) {
      OwnedMatrix<T> both(1, 2 * width);
      for (Index t = 0; t < x.rows; ++t) {
        T* const found = weights.data != nullptr ? weights.row(t) : nullptr;
        states.read(t, t, found, threads);
        if (found != nullptr) std::fill_n(found + t, weights.cols - t, T{0});
        const T* more = nullptr;
        if (own.fuses()) more = fuse(t, source_weights);
        const T* const mean = states.means().view().row(t);  // [h̃; c̃]
        lstm_gates(cell, mean, gates.view().row(t));
        lstm_state(gates.view().row(t), mean + width, more, width, c.view().row(t),
                   h.view().row(t));
        std::copy_n(h.view().row(t), width, both.data());
        std::copy_n(c.view().row(t), width, both.data() + width);
        states.set(t, both.data());
      }
    }

    // Reads the source; deep: r⊙α̃.
    const T* fuse(Index t, MatrixView<T> source_weights) {
      source->read(t, source_places(),
                   source_weights.data != nullptr ? source_weights.row(t) : nullptr, threads);
      if (!own.is_deep()) return nullptr;
      const T* const mean = source->means().view().row(t);  // [γ̃; α̃]
      const auto [of_state, of_input] = read_gate(matrix(inputs[Form::w_r]));
      OwnedMatrix<T> more(1, width);
      kernel::multiply_transposed({mean, 1, source->state()}, of_state, more.view());
      T* const r = read_gates.view().row(t);
      for (Index n = 0; n < width; ++n) r[n] += more.data()[n];
      kernel::logistic_row(r, width, r);
      T* const to = added.view().row(t);
      for (Index n = 0; n < width; ++n) to[n] = r[n] * mean[source->state() + n];
      return to;
    }

    void backward(const Tensors<const T>& upstream, const Tensors<T>& gradients) {
      OwnedMatrix<T> dstate(1, 2 * width);  // of [h_t; c_t]
      OwnedMatrix<T> dmean(1, 2 * width);   // of [h̃_t; c̃_t]
      const OwnedMatrix<T> zero = OwnedMatrix<T>::zeros(1, width);
      for (Index t = x.rows; t-- > 0;) {
        std::fill_n(dstate.data(), 2 * width, T{0});
        add_row(upstream[Form::h], t, dstate.data());
        add_row(upstream[Form::c], t, dstate.data() + width);
        states.add_place_gradient(t, dstate.data());
        std::fill_n(dmean.data(), 2 * width, T{0});
        T* const dgates = gates.view().row(t);
        lstm_gradient(dgates, states.means().view().row(t) + width, c.view().row(t), dstate.data(),
                      width, dstate.data() + width, dmean.data() + width);
        kernel::multiply_add({dgates, 1, 4 * width}, cell.of_state(), {dmean.data(), 1, width});
        if (own.fuses()) fuse_back(t, upstream, dstate.data() + width);
        states.read_back(t, t, dmean.data(), threads);
      }
      finish(gradients);
    }

    void add_row(const TensorView<const T>& from, Index t, T* to) const {
      if (!from) return;
      const auto rows = matrix(from);
      for (Index n = 0; n < rows.cols; ++n) to[n] += rows.row(t)[n];
    }

    // dc is ∂L/∂c_t.
    void fuse_back(Index t, const Tensors<const T>& upstream, const T* dc) {
      const Index state = source->state();
      OwnedMatrix<T> dmean = OwnedMatrix<T>::zeros(1, state + width);  // of [γ̃_t; α̃_t]
      add_row(upstream[Form::fused], t, dmean.data());
      if (own.is_deep()) {
        const T* const mean = source->means().view().row(t);
        T* const r = read_gates.view().row(t);
        for (Index n = 0; n < width; ++n) {
          dmean.data()[state + n] += dc[n] * r[n];
          r[n] = dc[n] * mean[state + n] * r[n] * (1 - r[n]);
        }
        const auto [of_state, of_input] = read_gate(matrix(inputs[Form::w_r]));
        kernel::multiply_add({r, 1, width}, of_state, {dmean.data(), 1, state});
      }
      source->read_back(t, source_places(), dmean.data(), threads);
    }

    void finish(const Tensors<T>& gradients) {
      const auto dx = matrix(gradients[Form::x]);
      states.finish({matrix(gradients[Form::w_h]), matrix(gradients[Form::w_x]),
                     matrix(gradients[Form::w_prev]), matrix(gradients[Form::v])},
                    x.rows, dx);
      const auto dw = matrix(gradients[Form::w]);
      if (dw.data != nullptr) {
        kernel::add_transposed_product(gates.read(),
                                       {states.means().data(), x.rows, width, 2 * width},
                                       {dw.data, dw.rows, width, dw.row_stride});
        kernel::add_transposed_product(gates.read(), x,
                                       {dw.data + width, dw.rows, dw.cols - width, dw.row_stride});
      }
      const auto db = matrix(gradients[Form::b]);
      for (Index t = 0; t < x.rows && db.data != nullptr; ++t) {
        for (Index n = 0; n < 4 * width; ++n) db.data[n] += gates.read()(t, n);
      }
      if (dx.data != nullptr) kernel::multiply_add(gates.read(), cell.of_input(), dx);
      if (own.fuses()) finish_source(gradients, dx);
    }

    void finish_source(const Tensors<T>& gradients, MatrixView<T> dx) {
      source->finish({matrix(gradients[Form::u_h]), matrix(gradients[Form::u_x]),
                      matrix(gradients[Form::u_prev]), matrix(gradients[Form::u])},
                     source_places(), dx);
      const auto dh = matrix(gradients[Form::source_h]);
      const auto dc = matrix(gradients[Form::source_c]);
      OwnedMatrix<T> both(1, source->state() + width);
      for (Index j = 0; j < source_places(); ++j) {
        std::fill_n(both.data(), both.size(), T{0});
        source->add_place_gradient(j, both.data());
        if (dh.data != nullptr) std::copy_n(both.data(), dh.cols, dh.row(j));
        if (dc.data != nullptr) std::copy_n(both.data() + source->state(), width, dc.row(j));
      }
      if (!own.is_deep()) return;
      const auto dw = matrix(gradients[Form::w_r]);
      if (dw.data != nullptr) {
        const auto [of_state, of_input] = read_gate(dw);
        kernel::add_transposed_product(
            read_gates.read(),
            {source->means().data(), x.rows, source->state(), source->means().cols()}, of_state);
        kernel::add_transposed_product(read_gates.read(), x, of_input);
      }
      const auto [of_state, of_input] = read_gate(matrix(inputs[Form::w_r]));
      if (dx.data != nullptr) kernel::multiply_add(read_gates.read(), of_input, dx);
    }

    const IntraAttentionMechanism& own;
    const Tensors<const T>& inputs;
    int threads;
    MatrixView<const T> x;
    LstmWeights<T> cell;
    Index width;
    TapeReader<T> states;
    std::optional<TapeReader<T>> source;
    OwnedMatrix<T> gates, h, c;
    OwnedMatrix<T> read_gates;  // r, in the backward pass their gradients
    OwnedMatrix<T> added;       // r⊙α̃
  };

  Fusion fusion_;
};

}  // namespace

const MechanismForm& IntraAttention::form(Fusion fusion) { return intra_attention_form(fusion); }

template <class T>
std::unique_ptr<Mechanism<T>> IntraAttention::make(Fusion fusion) {
  return std::make_unique<IntraAttentionMechanism<T>>(fusion);
}

template std::unique_ptr<Mechanism<float>> IntraAttention::make(Fusion);
template std::unique_ptr<Mechanism<double>> IntraAttention::make(Fusion);

}  // namespace attn::mechanisms
