#include "mechanisms/coattention.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "attnkit/error.hpp"
#include "mechanisms/coattention_encoder.hpp"
#include "mechanisms/coattention_form.hpp"

namespace attn::mechanisms {
namespace {

// The weights of a network of the decoder, or their gradients.
template <class Element>
HighwayMaxoutTensors<Element> maxout_tensors(const Tensors<Element>& all, std::size_t first) {
  return {matrix(all[first]),     matrix(all[first + 1]), matrix(all[first + 2]),
          matrix(all[first + 3]), matrix(all[first + 4]), matrix(all[first + 5]),
          matrix(all[first + 6])};
}

template <class T>
class CoattentionMechanism : public Mechanism<T> {
  using Form = Coattention;
  using Encoder = CoattentionEncoder<T>;
  using Decoder = PointingDecoder<T>;
  using Kept = typename Decoder::Kept;
  using Span = typename Decoder::Span;

 public:
  explicit CoattentionMechanism(const Decoding& decoding) : decoding_(decoding) {}

  const MechanismForm& form() const override { return Form::form(); }

  void forward(const Sequence<T>& sequence, const Tensors<T>& results, int threads) const override {
    Encoder encoder(sequence.inputs, attention_, threads);
    encoder.forward(results[Form::weights_q], results[Form::weights_d]);
    const auto write = [&](std::size_t result, MatrixView<const T> numbers) {
      if (!results[result]) return;
      std::copy_n(numbers.data, numbers.rows * numbers.cols, results[result].data);
    };
    write(Form::encoding, encoder.encoding());
    write(Form::context, encoder.context());
    if (!sequence.inputs[Form::w_decoder]) return;
    write_decoded(decode(sequence, encoder.encoding()), target_of(sequence), results);
  }

  void backward(const Sequence<T>& sequence, const Tensors<const T>& grad_results,
                const Tensors<T>& gradients, int threads) const override {
    for (const TensorView<T>& gradient : gradients) set_to_zero(matrix(gradient));
    Encoder encoder(sequence.inputs, attention_, threads);
    encoder.forward({}, {});
    const MatrixView<const T> u = encoder.encoding();
    OwnedMatrix<T> du = OwnedMatrix<T>::zeros(u.rows, u.cols);
    if (grad_results[Form::encoding]) add_to(du, grad_results[Form::encoding].data);
    if (sequence.inputs[Form::w_decoder] && u.rows > 0) {
      decode_backward(sequence, grad_results, u, gradients, du);
    }
    encoder.backward(du.read(), matrix(grad_results[Form::context]), gradients);
  }

  std::int64_t working_bytes(const Sizes& sizes, bool gradients) const override {
    const std::int64_t bytes = Encoder::bytes(attention_, sizes, gradients);
    if (!sizes.contains("P")) return bytes;  // no decoder
    return bytes +
           Decoder::bytes(sizes.at("M"), sizes.at("L"), sizes.at("P"), decoding_, gradients);
  }

 private:
  static Decoder decoder(const Sequence<T>& sequence, const Decoding& decoding) {
    return {{matrix(sequence.inputs[Form::w_decoder]), matrix(sequence.inputs[Form::b_decoder])},
            HighwayMaxout<T>(maxout_tensors(sequence.inputs, Form::start_w)),
            HighwayMaxout<T>(maxout_tensors(sequence.inputs, Form::end_w)),
            decoding};
  }

  Kept decode(const Sequence<T>& sequence, MatrixView<const T> u) const {
    return u.rows > 0 ? decoder(sequence, decoding_).forward(u) : Kept{};
  }

  // None if the target is absent or the document is empty.
  static std::optional<Span> target_of(const Sequence<T>& sequence) {
    const Index positions = sequence.inputs[Form::document].shape[0];
    const TensorView<const Index>& target = sequence.tokens[Form::target];
    if (!target || positions == 0) return std::nullopt;
    for (int side = 0; side < 2; ++side) {
      if (target.data[side] >= 0 && target.data[side] < positions) continue;
      throw Error(Failure::input, "the target is " + std::to_string(target.data[side]) +
                                      ", expected a position in [0, " + std::to_string(positions) +
                                      ")");
    }
    return Span{target.data[0], target.data[1]};
  }

  static void write_decoded(const Kept& kept, const std::optional<Span>& target,
                            const Tensors<T>& results) {
    const auto write_rows = [&](std::size_t result, const std::vector<OwnedMatrix<T>>& rows) {
      if (!results[result]) return;
      const auto all = matrix(results[result]);
      set_to_zero(all);
      for (std::size_t i = 0; i < rows.size(); ++i) {
        std::copy_n(rows[i].data(), rows[i].size(), all.row(static_cast<Index>(i)));
      }
    };
    write_rows(Form::start_log_p, kept.start);
    write_rows(Form::end_log_p, kept.end);
    const Span span = kept.spans.empty() ? Span{} : kept.spans.back();
    if (results[Form::span]) {
      results[Form::span].data[0] = static_cast<T>(span.start);
      results[Form::span].data[1] = static_cast<T>(span.end);
    }
    if (results[Form::iterations]) {
      *results[Form::iterations].data = static_cast<T>(kept.spans.size());
    }
    if (!results[Form::loss]) return;
    double loss = 0;
    for (std::size_t i = 0; i < kept.spans.size() && target; ++i) {
      loss -= static_cast<double>(kept.start[i].data()[target->start]) +
              static_cast<double>(kept.end[i].data()[target->end]);
    }
    *results[Form::loss].data = static_cast<T>(loss);
  }

  void decode_backward(const Sequence<T>& sequence, const Tensors<const T>& grad_results,
                       MatrixView<const T> u, const Tensors<T>& gradients,
                       OwnedMatrix<T>& du) const {
    const Decoder decoder = CoattentionMechanism::decoder(sequence, decoding_);
    const Kept kept = decoder.forward(u);
    const std::optional<Span> target = target_of(sequence);
    const auto dloss = grad_results[Form::loss];
    const auto upstream = [&](std::size_t result, Index own) {
      std::vector<OwnedMatrix<T>> rows;
      const auto given = matrix(grad_results[result]);
      for (Index i = 0; i < std::ssize(kept.spans); ++i) {
        rows.push_back(OwnedMatrix<T>::zeros(1, u.rows));
        if (given.data != nullptr) add_to(rows.back(), given.row(i));
        if (dloss && target) rows.back().data()[own] -= *dloss.data;
      }
      return rows;
    };
    std::vector<OwnedMatrix<T>> dstart = upstream(Form::start_log_p, target ? target->start : 0);
    std::vector<OwnedMatrix<T>> dend = upstream(Form::end_log_p, target ? target->end : 0);
    decoder.backward(
        u, kept, dstart, dend,
        {matrix(gradients[Form::w_decoder]), matrix(gradients[Form::b_decoder]),
         maxout_tensors(gradients, Form::start_w), maxout_tensors(gradients, Form::end_w)},
        du.view());
  }

  Decoding decoding_;
  SequenceAttention<T> attention_{Encoder::attentions, dot_product_options()};
};

}  // namespace

const MechanismForm& Coattention::form() { return coattention_form(); }

template <class T>
std::unique_ptr<Mechanism<T>> Coattention::make(const Decoding& decoding) {
  return std::make_unique<CoattentionMechanism<T>>(decoding);
}

template std::unique_ptr<Mechanism<float>> Coattention::make(const Decoding&);
template std::unique_ptr<Mechanism<double>> Coattention::make(const Decoding&);

}  // namespace attn::mechanisms
