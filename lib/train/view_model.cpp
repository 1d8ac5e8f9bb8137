#include "train/view_model.hpp"

#include <algorithm>
#include <utility>

#include "train/start_deviation.hpp"

namespace attn::train {
namespace {

// The numbers of dropout; numbers for attention weights, one per view, come last.
constexpr std::uint32_t place_of_attention = 0;
constexpr std::uint32_t place_of_pooled = 1;
constexpr std::uint32_t place_of_weights = 2;

double deviation_of(const ViewModelOptions& options, Index rows, Index cols) {
  return start_deviation(options.deviation, rows, cols);
}

std::optional<MultiViewAttention> attention_of(Parameters& parameters,
                                               const ViewModelOptions& options) {
  if (!options.scheme) return std::nullopt;
  const MultiViewOptions made = {.scheme = *options.scheme,
                                 .views = options.views,
                                 .width = options.width,
                                 .heads = options.heads,
                                 .first_share = options.first_share,
                                 .deviation = deviation_of(options, options.width, options.width)};
  return MultiViewAttention(parameters, "views/", made, place_of_weights);
}

QuestionPooling::Options pooling_options(const ViewModelOptions& options) {
  return {.pooling = options.pooling,
          .width = options.width,
          .inner = options.inner,
          .box_deviation = deviation_of(options, options.inner, options.width),
          .score_deviation = deviation_of(options, 1, options.inner),
          .question_deviation = deviation_of(options, options.width, options.width)};
}

Classifier::Options classifier_options(const ViewModelOptions& options) {
  return {.width = options.width,
          .inner = options.inner,
          .answers = options.answers,
          .deviation = deviation_of(options, options.inner, options.width),
          .answer_deviation = deviation_of(options, options.answers, options.inner),
          .smoothing = options.smoothing};
}

// The boxes of the views in the type of the computation.
template <class T>
OwnedMatrix<T> rows_of(const Boxes& boxes, Index width) {
  OwnedMatrix<T> rows(boxes.sequences.rows(), width);
  std::copy_n(boxes.features.data(), rows.size(), rows.data());
  return rows;
}

// The boxes of all views; the boxes of a scene follow each other.
Boxes concatenated(const std::vector<Boxes>& views, Index width) {
  const Index scenes = views.front().sequences.count;
  Boxes all;
  for (const Boxes& one : views) all.sequences.length += one.sequences.length;
  all.sequences.count = scenes;
  for (Index scene = 0; scene < scenes; ++scene) {
    Index own_of_scene = 0;
    for (const Boxes& one : views) {
      const Index length = one.sequences.length;
      const Index own = one.lengths.empty() ? length : one.lengths[static_cast<std::size_t>(scene)];
      const auto first = one.features.begin() + scene * length * width;
      all.features.insert(all.features.end(), first, first + own * width);
      own_of_scene += own;
    }
    all.lengths.push_back(own_of_scene);
    all.features.resize(static_cast<std::size_t>((scene + 1) * all.sequences.length * width), 0.0F);
  }
  return all;
}

AnswerPrediction by_kind(const Prediction& all, const std::vector<Prediction>& by_target,
                         const ViewBatch& batch) {
  AnswerPrediction found{all, {}};
  for (std::size_t n = 0; n < by_target.size(); ++n) {
    const Index scene = batch.targets.rows[n];
    const Index kind = batch.kinds[static_cast<std::size_t>(scene)];
    found.by_kind[static_cast<std::size_t>(kind)].add(by_target[n]);
  }
  return found;
}

}  // namespace

void AnswerPrediction::add(const AnswerPrediction& more) {
  Prediction::add(more);
  for (std::size_t kind = 0; kind < by_kind.size(); ++kind) by_kind[kind].add(more.by_kind[kind]);
}

ViewModel::ViewModel(const ViewModelOptions& options)
    : options_(options),
      table_(parameters_.add_table("views/question", options.vocabulary, options.width,
                                   deviation_of(options, options.vocabulary, options.width))),
      attention_(attention_of(parameters_, options)),
      around_attention_(parameters_, "views/norm", options.width, NormOrder::post,
                        place_of_attention),
      pooling_(parameters_, "views/pooling/", pooling_options(options)),
      classifier_(parameters_, "views/answer/", classifier_options(options)) {}

// The data that a pass keeps for its gradients.
template <class T>
struct ViewModel::Passed {
  Boxes all;  // without attention
  std::vector<OwnedMatrix<T>> features;
  std::vector<MultiViewAttention::View<T>> views;
  MultiViewAttention::Kept<T> attention;
  Residual::Kept<T> around_attention;
  OwnedMatrix<T> y;
  OwnedMatrix<T> q;
  QuestionPooling::Kept<T> pooling;
  OwnedMatrix<T> z;
};

template <class T>
void ViewModel::forward(const Slot<T>& slot, const ViewBatch& batch, Passed<T>& passed) const {
  const auto add_view = [&](const Boxes& boxes) {
    passed.features.push_back(rows_of<T>(boxes, options_.width));
    passed.views.push_back({boxes.view(), std::as_const(passed.features.back()).view()});
  };
  if (attention_) {
    for (const Boxes& boxes : batch.views) add_view(boxes);
  } else {
    passed.all = concatenated(batch.views, options_.width);
    add_view(passed.all);
  }
  const MultiViewAttention::View<T>& primary = passed.views.front();
  passed.y = around_attention_.forward(
      slot, primary.rows, passed.around_attention, [&](MatrixView<const T> x) {
        return attention_ ? attention_->forward(slot, passed.views, passed.attention)
                          : OwnedMatrix<T>::zeros(x.rows, x.cols);
      });
  const MatrixView<const T> table = table_.in(slot.weights);
  passed.q = OwnedMatrix<T>::zeros(primary.sequences.count, options_.width);
  for (std::size_t n = 0; n < batch.questions.size(); ++n) {
    add_row(passed.q.view().row(static_cast<Index>(n) / question_tokens),
            table.row(batch.questions[n]), options_.width);
  }
  passed.z = pooling_.forward(slot, primary.sequences, std::as_const(passed.y).view(),
                              std::as_const(passed.q).view(), passed.pooling);
  slot.dropout.apply(passed.z, place_of_pooled);
}

template <class T>
AnswerPrediction ViewModel::predict(const Slot<T>& slot, const ViewBatch& batch) const {
  Passed<T> passed;
  forward(slot, batch, passed);
  std::vector<Prediction> by_target(static_cast<std::size_t>(batch.target_count()));
  const Prediction all = classifier_.forward(slot, std::as_const(passed.z).view(), batch.targets, 0,
                                             MatrixView<T>(), by_target.data());
  return by_kind(all, by_target, batch);
}

template <class T>
AnswerPrediction ViewModel::differentiate(const Slot<T>& slot, const ViewBatch& batch,
                                          double factor, TokenGradients<T>& token_gradients) const {
  Passed<T> passed;
  forward(slot, batch, passed);
  std::vector<Prediction> by_target(static_cast<std::size_t>(batch.target_count()));
  OwnedMatrix<T> dz = OwnedMatrix<T>::zeros(passed.z.rows(), passed.z.cols());
  const Prediction all = classifier_.forward(slot, std::as_const(passed.z).view(), batch.targets,
                                             factor, dz.view(), by_target.data());
  slot.dropout.apply(dz, place_of_pooled);
  OwnedMatrix<T> dy = OwnedMatrix<T>::zeros(passed.y.rows(), passed.y.cols());
  token_gradients.question = OwnedMatrix<T>::zeros(passed.q.rows(), passed.q.cols());
  const MultiViewAttention::View<T>& primary = passed.views.front();
  pooling_.backward(slot, primary.sequences, std::as_const(passed.y).view(),
                    std::as_const(passed.q).view(), passed.pooling, std::as_const(dz).view(),
                    dy.view(), token_gradients.question.view());
  around_attention_.backward(
      slot, primary.rows, passed.around_attention, dy,
      [&](MatrixView<const T>, MatrixView<const T> dgathered, MatrixView<T>) {
        if (attention_) attention_->backward(slot, passed.views, passed.attention, dgathered);
      });
  return by_kind(all, by_target, batch);
}

template <class T>
void ViewModel::add_token_gradients(const ViewBatch& batch,
                                    const TokenGradients<T>& token_gradients, T* gradients) const {
  const MatrixView<T> sum = table_.in(gradients);
  for (std::size_t n = 0; n < batch.questions.size(); ++n) {
    const Index scene = static_cast<Index>(n) / question_tokens;
    add_row<T>(sum.row(batch.questions[n]), token_gradients.question.view().row(scene), sum.cols);
  }
}

template <class T>
std::vector<std::vector<double>> ViewModel::column_sums(const Slot<T>& slot,
                                                        const ViewBatch& batch) const {
  if (!attention_) return {};
  Slot<T> without_dropout;
  without_dropout.weights = slot.weights;
  without_dropout.plans = slot.plans;
  Passed<T> passed;
  forward(without_dropout, batch, passed);
  return attention_->column_sums(without_dropout, passed.views, passed.attention);
}

template <class T>
SlotBytes ViewModel::bytes(Index scenes, Index boxes) const {
  // Without attention, the boxes of all views form one view.
  const Sequences primary = {scenes, attention_ ? boxes : options_.views * boxes};
  const Index width = options_.width;
  const Index all_boxes = scenes * options_.views * boxes;
  const std::int64_t of_scenes = row_bytes<T>(scenes, width);
  const std::int64_t of_primary = row_bytes<T>(primary.rows(), width);
  const PassBytes gathered =
      attention_ ? attention_->bytes<T>(primary) : PassBytes{0, of_primary, 0};
  const PassBytes passed = around_attention_.bytes<T>(primary.rows(), gathered)
                               .then(pooling_.bytes<T>(primary))
                               .then(classifier_.bytes<T>(scenes));
  // The boxes as they are stored, and in T; y, q and z.
  const std::int64_t kept = passed.kept + row_bytes<float>(all_boxes, width) +
                            row_bytes<T>(all_boxes, width) + of_primary + 2 * of_scenes;
  SlotBytes found;
  found.predict = kept + passed.forward;
  found.differentiate = kept + of_primary + of_scenes + std::max(passed.forward, passed.backward);
  found.returned = of_scenes + row_bytes<float>(all_boxes, width);
  if (!attention_) return found;
  found.plan = attention_->heads().plan_bytes<T>(primary, primary);
  found.plans = 1;
  return found;
}

#define ATTN_VIEW_MODEL(T)                                                                     \
  template AnswerPrediction ViewModel::predict(const Slot<T>&, const ViewBatch&) const;        \
  template SlotBytes ViewModel::bytes<T>(Index, Index) const;                                  \
  template AnswerPrediction ViewModel::differentiate(const Slot<T>&, const ViewBatch&, double, \
                                                     TokenGradients<T>&) const;                \
  template void ViewModel::add_token_gradients(const ViewBatch&, const TokenGradients<T>&, T*) \
      const;                                                                                   \
  template std::vector<std::vector<double>> ViewModel::column_sums(const Slot<T>&,             \
                                                                   const ViewBatch&) const;
ATTN_VIEW_MODEL(float)
ATTN_VIEW_MODEL(double)
#undef ATTN_VIEW_MODEL

}  // namespace attn::train
