#include "train/alignment_model.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace attn::train {
namespace {

// The numbers of dropout; see Dropout.
constexpr std::uint32_t place_there = 2;
constexpr std::uint32_t place_back = 3;

}  // namespace

// Sources are the target's words, which follow <s> in the inputs; inputs are the source's tokens,
// each at the place of the next.
template <class T>
class AlignmentModel::Back {
 public:
  Back(const AlignmentDirection& direction, const Sequences& sources, const Sequences& inputs)
      : direction_(direction), sources_(sources), most_words_(inputs.length - 1) {
    for (Index n = 0; n < inputs.count; ++n) lengths_.push_back(inputs.own_length(n) - 1);
  }

  void forward(const Slot<T>& slot, const OwnedMatrix<T>& source_vectors,
               const OwnedMatrix<T>& input_vectors) {
    const Index width = source_vectors.cols();
    x_ = OwnedMatrix<T>(sources_.count * most_words_, width);
    y_ = OwnedMatrix<T>::zeros(sources_.rows(), width);
    for (Index n = 0; n < sources_.count; ++n) {
      std::copy_n(input_vectors.view().row(n * (most_words_ + 1) + 1), most_words_ * width,
                  x_.data() + n * most_words_ * width);
      std::copy_n(source_vectors.view().row(n * sources_.length), (sources_.length - 1) * width,
                  y_.view().row(n * sources_.length + 1));
    }
    direction_.forward(slot, source(), input(), true, passed_);
  }

  Prediction predict(const Slot<T>& slot, const std::vector<Index>& tokens, double factor,
                     bool differentiates) {
    Targets targets;
    for (Index n = 0; n < sources_.count; ++n) {
      for (Index i = 0; i < sources_.own_length(n); ++i) {
        targets.rows.push_back(n * sources_.length + i);
        targets.tokens.push_back(tokens[static_cast<std::size_t>(targets.rows.back())]);
      }
    }
    if (differentiates) dfeatures_ = OwnedMatrix<T>::zeros(y_.rows(), direction_.feature_width());
    return direction_.predict(slot, passed_, targets, factor, dfeatures_.view());
  }

  // Σ_ji A_ji A′_ij over all pairs; with gradients, adds the gradients of −scale times the sum for
  // the `weights` of the other direction, (pairs, J + 1, I) with the row of </s>, and for the own
  // weights.
  double agree(const OwnedMatrix<T>& weights, double scale, OwnedMatrix<T>* dweights) {
    const Index places = sources_.length;
    if (dweights != nullptr) {
      *dweights = OwnedMatrix<T>::zeros(weights.rows(), weights.cols());
      dweights_ = OwnedMatrix<T>::zeros(passed_.weights.rows(), passed_.weights.cols());
    }
    double sum = 0;
    for (Index n = 0; n < sources_.count; ++n) {
      for (Index j = 0; j < lengths_[static_cast<std::size_t>(n)]; ++j) {
        for (Index i = 0; i < sources_.own_length(n); ++i) {
          const Index there = j * places + i;
          const Index back = i * most_words_ + j;
          const T a = weights.view()(n, there);
          const T b = passed_.weights.view()(n, back);
          sum += static_cast<double>(a) * static_cast<double>(b);
          if (dweights == nullptr) continue;
          dweights->view()(n, there) = static_cast<T>(-scale * static_cast<double>(b));
          dweights_.view()(n, back) = static_cast<T>(-scale * static_cast<double>(a));
        }
      }
    }
    return sum;
  }

  // The number of words in all targets.
  Index words() const {
    Index sum = 0;
    for (const Index length : lengths_) sum += length;
    return sum;
  }

  // Adds the gradients of the vectors.
  void backward(const Slot<T>& slot, OwnedMatrix<T>& dsource, OwnedMatrix<T>& dinput) {
    const Index width = x_.cols();
    OwnedMatrix<T> dx = OwnedMatrix<T>::zeros(x_.rows(), width);
    OwnedMatrix<T> dy = OwnedMatrix<T>::zeros(y_.rows(), width);
    direction_.backward(slot, source(), input(), passed_, dfeatures_, dweights_, dx.view(),
                        dy.view());
    for (Index n = 0; n < sources_.count; ++n) {
      add_row<T>(dinput.view().row(n * (most_words_ + 1) + 1), dx.data() + n * most_words_ * width,
                 most_words_ * width);
      add_row<T>(dsource.view().row(n * sources_.length), dy.view().row(n * sources_.length + 1),
                 (sources_.length - 1) * width);
    }
  }

 private:
  AlignmentDirection::Side<T> source() const {
    return {{sources_.count, most_words_, lengths_.data()}, std::as_const(x_).view()};
  }
  AlignmentDirection::Side<T> input() const { return {sources_, std::as_const(y_).view()}; }

  const AlignmentDirection& direction_;
  Sequences sources_;
  Index most_words_;  // of a target
  std::vector<Index> lengths_;
  OwnedMatrix<T> x_, y_;
  AlignmentDirection::Passed<T> passed_;
  OwnedMatrix<T> dfeatures_, dweights_;
};

AlignmentModel::AlignmentModel(const AlignmentModelOptions& options)
    : MechanismModelOf("alignment/", options.model),
      agreement_(options.agreement),
      there_(parameters(), "alignment/", options.model, options.model.vocabulary, options.terms,
             place_there) {
  if (agreement_ == 0) return;
  back_.emplace(parameters(), "alignment/back/", options.model, options.model.source_vocabulary,
                options.terms, place_back);
}

template <class T>
Prediction AlignmentModel::run(const Pass<T>& pass) const {
  const OwnedMatrix<T> x = source_vectors(pass);
  const OwnedMatrix<T> y = input_vectors(pass);
  const AlignmentDirection::Side<T> source = {pass.batch.source.view(), x.view()};
  const AlignmentDirection::Side<T> input = {pass.batch.input.view(), y.view()};
  AlignmentDirection::Passed<T> passed;
  const bool with_weights = back_ || pass.source_weights != nullptr;
  there_.forward(pass.slot, source, input, with_weights, passed);
  OwnedMatrix<T> dfeatures = pass.differentiates()
                                 ? OwnedMatrix<T>::zeros(y.rows(), there_.feature_width())
                                 : OwnedMatrix<T>();
  Prediction found =
      there_.predict(pass.slot, passed, pass.batch.targets, pass.factor, dfeatures.view());
  std::optional<Back<T>> back;
  OwnedMatrix<T> dweights;
  if (back_) {
    back.emplace(*back_, source.sequences, input.sequences);
    back->forward(pass.slot, x, y);
    found.smoothed +=
        back->predict(pass.slot, pass.batch.source.tokens, pass.factor, pass.differentiates())
            .smoothed;
    const double sum = back->agree(passed.weights, pass.factor * agreement_,
                                   pass.differentiates() ? &dweights : nullptr);
    found.smoothed -= agreement_ * sum;
    if (pass.figures != nullptr) {
      MeanFigure& agreement = (*pass.figures)["agreement"];
      agreement.sum += sum;
      agreement.count += back->words();
    }
  }
  if (pass.source_weights != nullptr) *pass.source_weights = std::move(passed.weights);
  if (!pass.differentiates()) return found;

  OwnedMatrix<T> dx = OwnedMatrix<T>::zeros(x.rows(), x.cols());
  OwnedMatrix<T> dy = OwnedMatrix<T>::zeros(y.rows(), y.cols());
  there_.backward(pass.slot, source, input, passed, dfeatures, dweights, dx.view(), dy.view());
  if (back) back->backward(pass.slot, dx, dy);
  finish_source(pass, dx);
  finish_input(pass, dy);
  return found;
}

template <class T>
OwnedMatrix<T> AlignmentModel::scores(const Pass<T>& pass) const {
  const OwnedMatrix<T> x = source_vectors(pass);
  const OwnedMatrix<T> y = input_vectors(pass);
  const AlignmentDirection::Side<T> source = {pass.batch.source.view(), x.view()};
  const AlignmentDirection::Side<T> input = {pass.batch.input.view(), y.view()};
  AlignmentDirection::Passed<T> passed;
  there_.forward(pass.slot, source, input, false, passed);
  OwnedMatrix<T> last(input.sequences.count, passed.features.cols());
  for (Index n = 0; n < last.rows(); ++n) {
    const Index row = n * input.sequences.length + input.sequences.own_length(n) - 1;
    std::copy_n(passed.features.view().row(row), last.cols(), last.view().row(n));
  }
  return there_.logits(pass.slot, std::as_const(last).view());
}

template <class T>
PassBytes AlignmentModel::layer_bytes(const Sequences& source, const Sequences& input) const {
  PassBytes layers = there_.bytes<T>(source, input, back_.has_value());
  const std::int64_t vectors =
      row_bytes<T>(source.rows(), options().width) + row_bytes<T>(input.rows(), options().width);
  layers.backward += vectors;
  if (!back_) return layers;
  PassBytes back = back_->bytes<T>(input, source, true);
  back.kept += vectors;
  back.backward += vectors;
  return layers.then(back);
}

#define ATTN_ALIGNMENT_MODEL(T)                                         \
  template Prediction AlignmentModel::run(const Pass<T>&) const;        \
  template OwnedMatrix<T> AlignmentModel::scores(const Pass<T>&) const; \
  template PassBytes AlignmentModel::layer_bytes<T>(const Sequences&, const Sequences&) const;
ATTN_ALIGNMENT_MODEL(float)
ATTN_ALIGNMENT_MODEL(double)
#undef ATTN_ALIGNMENT_MODEL

}  // namespace attn::train
