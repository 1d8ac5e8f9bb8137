#include "train/question_pooling.hpp"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace attn::train {
namespace {

constexpr double beta_at_start = -2;

Index boxes_of(const Sequences& boxes, Index scene) {
  return boxes.lengths == nullptr ? boxes.length : boxes.lengths[scene];
}

// The scores w·(a_i ∘ b) of n boxes a_i one after the other.
template <class T>
std::vector<double> scores_of(const T* w, const T* a, const T* b, Index inner, Index n) {
  std::vector<double> scores(static_cast<std::size_t>(n));
  for (Index i = 0; i < n; ++i) {
    double& score = scores[static_cast<std::size_t>(i)];
    for (Index c = 0; c < inner; ++c) {
      score += static_cast<double>(w[c]) * static_cast<double>(a[i * inner + c]) *
               static_cast<double>(b[c]);
    }
  }
  return scores;
}

// Replaces scores by their softmax.
void normalise(std::vector<double>& scores) {
  const double largest = *std::max_element(scores.begin(), scores.end());
  double sum = 0;
  for (double& score : scores) sum += score = std::exp(score - largest);
  for (double& score : scores) score /= sum;
}

template <class T>
double dot_product(const T* a, const T* b, Index n) {
  double sum = 0;
  for (Index c = 0; c < n; ++c) sum += static_cast<double>(a[c]) * static_cast<double>(b[c]);
  return sum;
}

// to_c += factor · from_c.
template <class T>
void add_scaled(T* to, T factor, const T* from, Index n) {
  for (Index c = 0; c < n; ++c) to[c] += factor * from[c];
}

}  // namespace

QuestionPooling::QuestionPooling(Parameters& parameters, const std::string& prefix,
                                 const Options& options)
    : pooling_(options.pooling),
      of_boxes_(parameters, prefix + "wy", "", options.width, options.inner, options.box_deviation),
      of_questions_(parameters, prefix + "wq", "", options.width, options.inner,
                    options.box_deviation),
      score_(parameters.add_matrix(prefix + "w", 1, options.inner, options.score_deviation)),
      gate_(parameters, prefix + "wz", "", options.width, options.width,
            options.question_deviation) {
  if (pooling_ == Pooling::sum) beta_ = parameters.add_vector(prefix + "beta", 1, beta_at_start);
}

template <class T>
void QuestionPooling::write_weights(const Slot<T>& slot, const T* boxes, const T* question, Index n,
                                    T* weights) const {
  if (n == 0) return;
  std::vector<double> found =
      scores_of(slot.weights + score_.offset, boxes, question, score_.cols, n);
  if (pooling_ == Pooling::softmax) {
    normalise(found);
  } else {
    const auto beta = static_cast<double>(slot.weights[beta_]);
    for (double& one : found) one = 1 / (1 + std::exp(-(one + beta)));
  }
  std::transform(found.begin(), found.end(), weights, [](double x) { return static_cast<T>(x); });
}

template <class T>
OwnedMatrix<T> QuestionPooling::forward(const Slot<T>& slot, const Sequences& boxes,
                                        MatrixView<const T> y, MatrixView<const T> q,
                                        Kept<T>& kept) const {
  kept.boxes = of_boxes_.forward(slot, y);
  kept.questions = of_questions_.forward(slot, q);
  kept.gate = gate_.forward(slot, q);
  kept.weights = OwnedMatrix<T>::zeros(y.rows, 1);
  kept.pooled = OwnedMatrix<T>::zeros(q.rows, y.cols);
  OwnedMatrix<T> z(q.rows, y.cols);
  for (Index scene = 0; scene < q.rows; ++scene) {
    const Index first = scene * boxes.length;
    const Index own = boxes_of(boxes, scene);
    T* const weights = kept.weights.data() + first;
    write_weights<T>(slot, kept.boxes.view().row(first), kept.questions.view().row(scene), own,
                     weights);
    T* const pooled = kept.pooled.view().row(scene);
    for (Index i = 0; i < own; ++i) add_scaled(pooled, weights[i], y.row(first + i), y.cols);
    const T* const gate = kept.gate.view().row(scene);
    for (Index c = 0; c < y.cols; ++c) z.view()(scene, c) = pooled[c] * gate[c];
  }
  return z;
}

template <class T>
void QuestionPooling::backward(const Slot<T>& slot, const Sequences& boxes, MatrixView<const T> y,
                               MatrixView<const T> q, const Kept<T>& kept, MatrixView<const T> dz,
                               MatrixView<T> dy, MatrixView<T> dq) const {
  const Index inner = score_.cols;
  OwnedMatrix<T> dgate(q.rows, y.cols);
  OwnedMatrix<T> dpooled(q.rows, y.cols);
  OwnedMatrix<T> dboxes = OwnedMatrix<T>::zeros(y.rows, inner);
  OwnedMatrix<T> dquestions = OwnedMatrix<T>::zeros(q.rows, inner);
  const T* const w = slot.weights + score_.offset;
  T* const dw = slot.gradients + score_.offset;
  std::fill_n(dw, inner, T{0});
  double dbeta = 0;
  for (Index scene = 0; scene < q.rows; ++scene) {
    const T* const dz_row = dz.row(scene);
    T* const dp = dpooled.view().row(scene);
    for (Index c = 0; c < y.cols; ++c) {
      dp[c] = dz_row[c] * kept.gate.view()(scene, c);
      dgate.view()(scene, c) = dz_row[c] * kept.pooled.view()(scene, c);
    }
    const T* const b = kept.questions.view().row(scene);
    T* const db = dquestions.view().row(scene);
    const double mean = dot_product<T>(dp, kept.pooled.view().row(scene), y.cols);
    for (Index i = 0; i < boxes_of(boxes, scene); ++i) {
      const Index row = scene * boxes.length + i;
      const T weight = kept.weights.data()[row];
      add_scaled<T>(dy.row(row), weight, dp, y.cols);
      const auto alpha = static_cast<double>(weight);
      const double slope = dot_product<T>(dp, y.row(row), y.cols);
      // ∂L/∂a_i.
      const T dscore = static_cast<T>(pooling_ == Pooling::softmax ? alpha * (slope - mean)
                                                                   : alpha * (1 - alpha) * slope);
      dbeta += static_cast<double>(dscore);
      const T* const a = kept.boxes.view().row(row);
      T* const da = dboxes.view().row(row);
      for (Index c = 0; c < inner; ++c) {
        da[c] = dscore * w[c] * b[c];
        db[c] += dscore * w[c] * a[c];
        dw[c] += dscore * a[c] * b[c];
      }
    }
  }
  if (pooling_ == Pooling::sum) slot.gradients[beta_] = static_cast<T>(dbeta);
  of_boxes_.backward(slot, y, std::as_const(dboxes).view(), dy);
  of_questions_.backward(slot, q, std::as_const(dquestions).view(), dq);
  gate_.backward(slot, q, std::as_const(dgate).view(), dq);
}

template <class T>
PassBytes QuestionPooling::bytes(const Sequences& boxes) const {
  const std::int64_t of_boxes = row_bytes<T>(boxes.rows(), score_.cols);
  const std::int64_t of_questions = row_bytes<T>(boxes.count, score_.cols);
  const std::int64_t of_scenes = row_bytes<T>(boxes.count, gate_.outputs());
  return {of_boxes + of_questions + row_bytes<T>(boxes.rows(), 1) + 2 * of_scenes, of_scenes,
          of_boxes + of_questions + 2 * of_scenes};
}

#define ATTN_QUESTION_POOLING(T)                                                                   \
  template OwnedMatrix<T> QuestionPooling::forward(                                                \
      const Slot<T>&, const Sequences&, MatrixView<const T>, MatrixView<const T>, Kept<T>&) const; \
  template void QuestionPooling::backward(                                                         \
      const Slot<T>&, const Sequences&, MatrixView<const T>, MatrixView<const T>, const Kept<T>&,  \
      MatrixView<const T>, MatrixView<T>, MatrixView<T>) const;                                    \
  template PassBytes QuestionPooling::bytes<T>(const Sequences&) const;
ATTN_QUESTION_POOLING(float)
ATTN_QUESTION_POOLING(double)
#undef ATTN_QUESTION_POOLING

}  // namespace attn::train
