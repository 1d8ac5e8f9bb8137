#include "mechanisms/coattention_encoder.hpp"

#include <algorithm>
#include <utility>

#include "kernel/activation.hpp"
#include "kernel/product.hpp"
#include "mechanisms/coattention.hpp"
#include "mechanisms/places.hpp"
#include "parallel/parallel_for.hpp"

namespace attn::mechanisms {
namespace {

template <class T>
LstmWeights<T> lstm_of(const Tensors<const T>& inputs, std::size_t first) {
  return {matrix(inputs[first]), matrix(inputs[first + 1])};
}

template <class T>
void copy_rows(MatrixView<const T> from, MatrixView<T> to) {
  for (Index i = 0; i < from.rows; ++i) std::copy_n(from.row(i), from.cols, to.row(i));
}

template <class T>
void add_rows(MatrixView<const T> from, MatrixView<T> to) {
  for (Index i = 0; i < from.rows; ++i) {
    for (Index c = 0; c < from.cols; ++c) to(i, c) += from(i, c);
  }
}

// [left, right] by rows, for the rows that both have.
template <class T>
OwnedMatrix<T> joined(MatrixView<const T> left, MatrixView<const T> right) {
  const Index rows = std::min(left.rows, right.rows);
  OwnedMatrix<T> both(rows, left.cols + right.cols);
  copy_rows(left.row_range(0, rows), columns(both.view(), 0, left.cols));
  copy_rows(right.row_range(0, rows), columns(both.view(), left.cols, right.cols));
  return both;
}

// The states of a text, and the sentinel as a last row.
template <class T>
OwnedMatrix<T> with_sentinel(const OwnedMatrix<T>& states, MatrixView<const T> sentinel) {
  OwnedMatrix<T> all(states.rows() + 1, sentinel.cols);
  copy_rows(states.read(), all.view());
  copy_rows(sentinel, all.view().row_range(states.rows(), 1));
  return all;
}

template <class T>
OwnedMatrix<T> copied(MatrixView<const T> from) {
  OwnedMatrix<T> made(from.rows, from.cols);
  copy_rows(from, made.view());
  return made;
}

}  // namespace

template <class T>
CoattentionEncoder<T>::CoattentionEncoder(const Tensors<const T>& inputs,
                                          const SequenceAttention<T>& attention, int threads)
    : inputs_(inputs),
      attention_(attention),
      threads_(threads),
      document_(matrix(inputs[Coattention::document])),
      question_(matrix(inputs[Coattention::question])) {}

template <class T>
Lstm<T> CoattentionEncoder<T>::reader() const {
  return {lstm_of(inputs_, Coattention::w), false};
}

template <class T>
Lstm<T> CoattentionEncoder<T>::rereader(bool backwards) const {
  return {lstm_of(inputs_, backwards ? Coattention::w_backward : Coattention::w_forward),
          backwards};
}

template <class T>
AttentionInputs<T> CoattentionEncoder<T>::to_document() const {
  return attention_inputs(q_.read(), d_.read(), d_.read());
}

template <class T>
AttentionInputs<T> CoattentionEncoder<T>::to_question() const {
  return attention_inputs(d_.read(), q_.read(), summaries_.read());
}

template <class T>
void CoattentionEncoder<T>::forward(const TensorView<T>& weights_q,
                                    const TensorView<T>& weights_d) {
  parallel_for(2, threads_, [&](Index text, int /*worker*/) {
    (text == 0 ? document_steps_ : question_steps_) =
        reader().forward(text == 0 ? document_ : question_);
  });
  d_ = with_sentinel(document_steps_.h, matrix(inputs_[Coattention::sentinel_d]));
  question_states_ = with_sentinel(question_steps_.h, matrix(inputs_[Coattention::sentinel_q]));

  q_ = OwnedMatrix<T>(question_states_.rows(), d_.cols());
  kernel::multiply_transposed(question_states_.read(), matrix(inputs_[Coattention::w_question]),
                              q_.view());
  const auto bias = matrix(inputs_[Coattention::b_question]);
  for (Index j = 0; j < q_.rows() && bias.data != nullptr; ++j) {
    add_rows(bias, q_.view().row_range(j, 1));
  }
  require_finite(q_.data(), q_.size());
  kernel::tanh_row(q_.data(), q_.size(), q_.data());

  OwnedMatrix<T> of_question(q_.rows(), d_.cols());  // C^Q
  attention_.run(question_to_document, to_document(),
                 attention_outputs(of_question.view(), weights_q), threads_);
  summaries_ = joined(q_.read(), of_question.read());
  context_ = OwnedMatrix<T>(d_.rows(), summaries_.cols());
  attention_.run(document_to_question, to_question(), attention_outputs(context_.view(), weights_d),
                 threads_);

  joined_ = joined(document_steps_.h.read(), context_.read());
  parallel_for(2, threads_, [&](Index backwards, int /*worker*/) {
    (backwards == 0 ? forward_steps_ : backward_steps_) =
        rereader(backwards == 1).forward(joined_.read());
  });
  encoding_ = joined(forward_steps_.h.read(), backward_steps_.h.read());
}

template <class T>
void CoattentionEncoder<T>::backward(MatrixView<const T> dencoding, MatrixView<const T> dcontext,
                                     const Tensors<T>& gradients) {
  const Index width = d_.cols();
  const Index positions = document_.rows;
  OwnedMatrix<T> dd = OwnedMatrix<T>::zeros(d_.rows(), width);
  OwnedMatrix<T> dq(q_.rows(), width);
  OwnedMatrix<T> dsummaries(summaries_.rows(), summaries_.cols());
  {
    const OwnedMatrix<T> djoined = reread_backward(dencoding, gradients);
    OwnedMatrix<T> dall = OwnedMatrix<T>::zeros(context_.rows(), context_.cols());  // of C^D
    copy_rows(columns(djoined.read(), width, 2 * width), dall.view().row_range(0, positions));
    if (dcontext.data != nullptr) add_rows(dcontext, dall.view());
    attention_.gradients(document_to_question, to_question(), tensor_of(dall.read()),
                         attention_gradients(dd.view(), dq.view(), dsummaries.view()), threads_);
    add_rows(columns(djoined.read(), 0, width), dd.view());
  }
  add_rows(columns(dsummaries.read(), 0, width), dq.view());
  {
    const OwnedMatrix<T> dof_question = copied(columns(dsummaries.read(), width, width));
    OwnedMatrix<T> own(q_.rows(), width);
    OwnedMatrix<T> keys(d_.rows(), width);
    OwnedMatrix<T> values(d_.rows(), width);
    attention_.gradients(question_to_document, to_document(), tensor_of(dof_question.read()),
                         attention_gradients(own.view(), keys.view(), values.view()), threads_);
    add_to(dq, own.data());
    add_to(dd, keys.data());
    add_to(dd, values.data());
  }
  question_backward(dq, gradients);
  document_backward(dd, gradients);
}

// The gradient of [D, C^D].
template <class T>
OwnedMatrix<T> CoattentionEncoder<T>::reread_backward(MatrixView<const T> dencoding,
                                                      const Tensors<T>& gradients) {
  const Index width = d_.cols();
  OwnedMatrix<T> djoined[2];
  parallel_for(2, threads_, [&](Index backwards, int /*worker*/) {
    OwnedMatrix<T>& own = djoined[backwards];
    own = OwnedMatrix<T>::zeros(joined_.rows(), joined_.cols());
    OwnedMatrix<T> dh = copied(columns(dencoding, backwards * width, width));
    const std::size_t w = backwards == 1 ? Coattention::w_backward : Coattention::w_forward;
    rereader(backwards == 1)
        .backward(joined_.read(), backwards == 1 ? backward_steps_ : forward_steps_, dh,
                  matrix(gradients[w]), matrix(gradients[w + 1]), own.view());
  });
  add_to(djoined[0], djoined[1].data());
  return std::move(djoined[0]);
}

template <class T>
void CoattentionEncoder<T>::question_backward(OwnedMatrix<T>& dq, const Tensors<T>& gradients) {
  tanh_gradient(q_.data(), q_.size(), dq.data());
  const auto dw = matrix(gradients[Coattention::w_question]);
  if (dw.data != nullptr) {
    kernel::add_transposed_product(dq.read(), question_states_.read(), dw);
  }
  const auto db = matrix(gradients[Coattention::b_question]);
  for (Index j = 0; j < dq.rows() && db.data != nullptr; ++j) {
    add_rows(dq.read().row_range(j, 1), db);
  }
  OwnedMatrix<T> dstates(dq.rows(), dq.cols());
  kernel::multiply(dq.read(), matrix(inputs_[Coattention::w_question]), dstates.view());
  const auto dsentinel = matrix(gradients[Coattention::sentinel_q]);
  if (dsentinel.data != nullptr) {
    add_rows(dstates.read().row_range(question_.rows, 1), dsentinel);
  }
  OwnedMatrix<T> dh = copied(dstates.read().row_range(0, question_.rows));
  reader().backward(question_, question_steps_, dh, matrix(gradients[Coattention::w]),
                    matrix(gradients[Coattention::b]), matrix(gradients[Coattention::question]));
}

template <class T>
void CoattentionEncoder<T>::document_backward(const OwnedMatrix<T>& dd,
                                              const Tensors<T>& gradients) {
  const auto dsentinel = matrix(gradients[Coattention::sentinel_d]);
  if (dsentinel.data != nullptr) add_rows(dd.read().row_range(document_.rows, 1), dsentinel);
  OwnedMatrix<T> dh = copied(dd.read().row_range(0, document_.rows));
  reader().backward(document_, document_steps_, dh, matrix(gradients[Coattention::w]),
                    matrix(gradients[Coattention::b]), matrix(gradients[Coattention::document]));
}

template <class T>
std::int64_t CoattentionEncoder<T>::bytes(const SequenceAttention<T>& attention, const Sizes& sizes,
                                          bool gradients) {
  const Index width = sizes.at("L");
  const Index of_document = sizes.at("M") + 1;
  const Index of_question = sizes.at("N") + 1;
  // Widths of the kept rows, and of the gradients.
  const Index numbers = of_document * width * (gradients ? 26 + 17 : 26) +
                        of_question * width * (gradients ? 12 + 8 : 12);
  const auto plan = [&](Index queries, Index keys, Index values) {
    AttentionShapes shapes;
    shapes.q = {queries, width};
    shapes.k = {keys, width};
    shapes.v = {keys, values};
    return attention.bytes(shapes, gradients);
  };
  return static_cast<std::int64_t>(sizeof(T)) * (numbers + 8 * width * (width + 1)) +
         plan(of_question, of_document, width) + plan(of_document, of_question, 2 * width);
}

template class CoattentionEncoder<float>;
template class CoattentionEncoder<double>;

}  // namespace attn::mechanisms
