// lib/train: the multi-view model against a plain evaluation, and its gradients.

#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "reference/reference.hpp"
#include "thrown_error.hpp"
#include "train/view_model.hpp"
#include "train_problem.hpp"
#include "train_ranks.hpp"

using namespace attn;
using namespace attn::train;
using namespace attn::testing;

namespace {

using Plain = reference::Matrix;

const std::vector<std::optional<AttentionScheme>>& view_schemes() {
  static const std::vector<std::optional<AttentionScheme>> all = {
      std::nullopt,
      AttentionScheme{Scheme::unas, false, 1},
      AttentionScheme{Scheme::dnas, false, 1},
      AttentionScheme{Scheme::hnas, false, 1},
      AttentionScheme{Scheme::hnas, true, 1},
      AttentionScheme{Scheme::sinkhorn, false, 3},
      AttentionScheme{Scheme::unas, false, 1, EmScheme{1, false}},
      AttentionScheme{Scheme::unas, false, 1, EmScheme{3, false}},
      AttentionScheme{Scheme::unas, false, 1, EmScheme{3, true}}};
  return all;
}

std::string name_of(const std::optional<AttentionScheme>& scheme) {
  if (!scheme) return "none";
  if (scheme->em) return "em " + std::to_string(scheme->em->iterations);
  return "scheme " + std::to_string(static_cast<int>(scheme->scheme));
}

ViewModelOptions small_views(const std::optional<AttentionScheme>& scheme, Index heads,
                             Pooling pooling = Pooling::softmax) {
  ViewModelOptions options;
  options.width = 8;
  options.heads = heads;
  options.scheme = scheme;
  options.first_share = 0.3;
  options.pooling = pooling;
  options.inner = 5;
  options.vocabulary = 7;
  options.answers = 4;
  // Large enough that attention is far from uniform.
  options.deviation = 0.7;
  return options;
}

// Scenes with questions; `own[scene][view]` boxes, padded to `length`, or whole if it is empty.
std::vector<ViewBatch> scene_slots(const ViewModelOptions& options, Index scenes, Index length,
                                   const std::vector<std::vector<Index>>& own) {
  std::mt19937_64 random(23);
  std::normal_distribution<float> unit;
  const auto below = [&](Index n) {
    return static_cast<Index>(random() % static_cast<std::uint64_t>(n));
  };
  std::vector<ViewBatch> slots;
  for (const SlotRange& range : slot_ranges(scenes)) {
    ViewBatch slot;
    for (Index v = 0; v < options.views; ++v) {
      Boxes boxes;
      boxes.sequences = {range.count, length};
      for (Index n = 0; n < range.count && !own.empty(); ++n) {
        const auto scene = static_cast<std::size_t>(range.first + n);
        boxes.lengths.push_back(own[scene][static_cast<std::size_t>(v)]);
      }
      for (Index n = 0; n < range.count * length * options.width; ++n) {
        boxes.features.push_back(unit(random));
      }
      slot.views.push_back(boxes);
    }
    for (Index n = 0; n < range.count; ++n) {
      slot.kinds.push_back(below(question_kinds));
      for (Index k = 0; k < question_tokens; ++k) slot.questions.push_back(below(7));
      slot.targets.rows.push_back(n);
      slot.targets.tokens.push_back(below(options.answers));
    }
    slots.push_back(slot);
  }
  return slots;
}

const std::vector<std::vector<Index>> some_boxes = {{5, 1, 4}, {3, 6, 2}, {1, 1, 1}, {6, 0, 5}};

// The weights of a model as matrices by name; a vector is one row.
std::map<std::string, Plain> plain_weights(const Parameters& parameters,
                                           const std::vector<double>& weights) {
  std::map<std::string, Plain> found;
  for (const Parameter& one : parameters.all()) {
    const bool matrix = one.shape.size() == 2;
    Plain plain(matrix ? one.shape[0] : 1, one.shape.back());
    std::copy_n(weights.begin() + one.offset, one.size(), plain.values.begin());
    found[one.name] = plain;
  }
  return found;
}

// x wᵀ.
Plain times_transposed(const Plain& x, const Plain& w) {
  Plain product(x.rows, w.rows);
  for (Index i = 0; i < x.rows; ++i) {
    for (Index j = 0; j < w.rows; ++j) {
      for (Index c = 0; c < x.cols; ++c) product(i, j) += x(i, c) * w(j, c);
    }
  }
  return product;
}

Plain columns_of(const Plain& x, Index first, Index count) {
  Plain part(x.rows, count);
  for (Index i = 0; i < x.rows; ++i) {
    for (Index c = 0; c < count; ++c) part(i, c) = x(i, first + c);
  }
  return part;
}

Plain own_boxes(const Boxes& boxes, Index scene, Index width) {
  const Index length = boxes.sequences.length;
  const Index own = boxes.lengths.empty() ? length : boxes.lengths[static_cast<std::size_t>(scene)];
  Plain plain(own, width);
  std::copy_n(boxes.features.begin() + scene * length * width, own * width, plain.values.begin());
  return plain;
}

// The weights of expectation-maximisation, from its formulas.
Plain em_weights(Plain q, Plain k, const EmScheme& scheme) {
  const auto d = static_cast<long double>(q.cols);
  for (Plain* const one : {&q, &k}) {
    for (long double& x : one->values) x /= std::pow(d, 0.25L);
  }
  std::vector<long double> prior;
  for (Index i = 0; i < q.rows; ++i) {
    long double square = 0;
    for (Index c = 0; c < q.cols; ++c) square += q(i, c) * q(i, c);
    prior.push_back(std::exp(square / 2));
  }
  std::vector<long double> variance(prior.size(), 1);
  const auto distance = [&](Index i, Index j) {
    long double sum = 0;
    for (Index c = 0; c < q.cols; ++c) sum += (k(j, c) - q(i, c)) * (k(j, c) - q(i, c));
    return sum;
  };
  Plain weights(q.rows, k.rows);
  for (Index t = 0; t < scheme.iterations && k.rows > 0; ++t) {
    Plain share(q.rows, k.rows);
    for (Index j = 0; j < k.rows; ++j) {
      long double sum = 0;
      for (Index i = 0; i < q.rows; ++i) {
        const auto at = static_cast<std::size_t>(i);
        share(i, j) = prior[at] * std::exp(-distance(i, j) / (2 * variance[at])) /
                      std::pow(variance[at], d / 2);
        sum += share(i, j);
      }
      for (Index i = 0; i < q.rows; ++i) share(i, j) /= sum;
    }
    for (Index i = 0; i < q.rows; ++i) {
      const auto at = static_cast<std::size_t>(i);
      long double sum = 0;
      for (Index j = 0; j < k.rows; ++j) sum += share(i, j);
      for (Index c = 0; c < q.cols; ++c) q(i, c) = 0;
      for (Index j = 0; j < k.rows; ++j) {
        weights(i, j) = share(i, j) / sum;
        for (Index c = 0; c < q.cols; ++c) q(i, c) += weights(i, j) * k(j, c);
      }
      prior[at] = sum / static_cast<long double>(k.rows);
      if (!scheme.estimates_variance) continue;
      variance[at] = 0;
      for (Index j = 0; j < k.rows; ++j) variance[at] += weights(i, j) * distance(i, j) / d;
      variance[at] = std::max<long double>(variance[at], least_variance);
    }
  }
  return weights;
}

// A model by plain loops over one scene at a time, from its formulas.
class PlainModel {
 public:
  PlainModel(const ViewModel& model, const std::vector<double>& weights)
      : options_(model.options()), weights_(plain_weights(model.parameters(), weights)) {}

  // −log p(answer).
  double loss(const ViewBatch& batch, Index scene) const {
    const Plain y = normalised(gathered(batch, scene));
    Plain q(1, options_.width);
    for (Index k = 0; k < question_tokens; ++k) {
      const Index token = batch.questions[static_cast<std::size_t>(scene * question_tokens + k)];
      for (Index c = 0; c < options_.width; ++c) q(0, c) += of("question")(token, c);
    }
    const Plain a = times_transposed(y, of("pooling/wy"));
    const Plain b = times_transposed(q, of("pooling/wq"));
    Plain scores(1, y.rows);
    for (Index i = 0; i < y.rows; ++i) {
      for (Index c = 0; c < a.cols; ++c) scores(0, i) += of("pooling/w")(0, c) * a(i, c) * b(0, c);
    }
    const Plain pooled = reference::output(box_weights(scores), y);
    Plain z = times_transposed(q, of("pooling/wz"));
    for (Index c = 0; c < z.cols; ++c) z(0, c) *= pooled(0, c);
    Plain h = times_transposed(z, of("answer/w1"));
    for (Index c = 0; c < h.cols; ++c) h(0, c) = std::max(h(0, c) + of("answer/b1")(0, c), 0.0L);
    const Plain logits = times_transposed(h, of("answer/softmax"));
    long double sum = 0;
    for (Index c = 0; c < logits.cols; ++c) {
      sum += std::exp(logits(0, c) + of("answer/softmax_bias")(0, c));
    }
    const Index answer = batch.targets.tokens[static_cast<std::size_t>(scene)];
    return static_cast<double>(std::log(sum) - logits(0, answer) -
                               of("answer/softmax_bias")(0, answer));
  }

  // The column sums of view v >= 1, head by head.
  std::vector<long double> column_sums(const ViewBatch& batch, Index scene, Index v) const {
    std::vector<long double> found;
    for (Index h = 0; h < options_.heads; ++h) {
      const auto sums = reference::column_sums(weights(batch, scene, v, h));
      found.insert(found.end(), sums.begin(), sums.end());
    }
    return found;
  }

 private:
  const Plain& of(const std::string& name) const { return weights_.at("views/" + name); }

  // The weights of the boxes of a scene, from their scores.
  Plain box_weights(const Plain& scores) const {
    if (options_.pooling == Pooling::softmax) {
      return reference::attend(scores, Scheme::unas, 0, 1).weights;
    }
    Plain gates = scores;
    for (long double& x : gates.values) x = 1 / (1 + std::exp(-x - of("pooling/beta")(0, 0)));
    return gates;
  }

  Plain boxes(const ViewBatch& batch, Index scene, Index v) const {
    return own_boxes(batch.views[static_cast<std::size_t>(v)], scene, options_.width);
  }

  Plain weights(const ViewBatch& batch, Index scene, Index v, Index head) const {
    const Index depth = options_.width / options_.heads;
    const Plain q = times_transposed(boxes(batch, scene, 0), of("wq"));
    const Plain k = times_transposed(boxes(batch, scene, v), of("wk" + std::to_string(v)));
    if (options_.scheme->em) {
      return em_weights(columns_of(q, head * depth, depth), columns_of(k, head * depth, depth),
                        *options_.scheme->em);
    }
    const Plain scores =
        reference::scores(EnergyKind::scaled_dot, 1, columns_of(q, head * depth, depth),
                          columns_of(k, head * depth, depth), Plain(), Plain(), Causal::none);
    double share = 0;
    if (options_.scheme->scheme == Scheme::hnas) {
      const Plain& rho = of("rho");
      share = 1 / (1 + std::exp(-static_cast<double>(rho(0, head % rho.cols))));
    }
    return reference::attend(scores, options_.scheme->scheme, share, options_.scheme->iterations)
        .weights;
  }

  // x + Σ_v π_v S_v, or all boxes.
  Plain gathered(const ViewBatch& batch, Index scene) const {
    Plain sum = boxes(batch, scene, 0);
    for (Index v = 1; v < options_.views; ++v) {
      const Plain s = boxes(batch, scene, v);
      if (!options_.scheme) {
        sum.values.insert(sum.values.end(), s.values.begin(), s.values.end());
        sum.rows += s.rows;
        continue;
      }
      for (Index h = 0; h < options_.heads && s.rows > 0; ++h) {
        const Index depth = options_.width / options_.heads;
        const Plain out =
            reference::output(weights(batch, scene, v, h), columns_of(s, h * depth, depth));
        for (Index i = 0; i < sum.rows; ++i) {
          for (Index c = 0; c < depth; ++c) sum(i, h * depth + c) += out(i, c);
        }
      }
    }
    return sum;
  }

  Plain normalised(const Plain& x) const {
    Plain y = x;
    const auto width = static_cast<long double>(x.cols);
    for (Index i = 0; i < x.rows; ++i) {
      long double mean = 0;
      long double variance = 0;
      for (Index c = 0; c < x.cols; ++c) mean += x(i, c) / width;
      for (Index c = 0; c < x.cols; ++c) variance += (x(i, c) - mean) * (x(i, c) - mean) / width;
      for (Index c = 0; c < x.cols; ++c) {
        y(i, c) = of("norm_gain")(0, c) * (x(i, c) - mean) / std::sqrt(variance + 1e-5L) +
                  of("norm_shift")(0, c);
      }
    }
    return y;
  }

  ViewModelOptions options_;
  std::map<std::string, Plain> weights_;
};

}  // namespace

TEST_CASE("gradients of the multi-view model") {
  for (const auto& scheme : view_schemes()) {
    for (const Index heads : {1, 2, 4}) {
      for (const bool whole : {false, true}) {
        CAPTURE(name_of(scheme));
        CAPTURE(heads);
        CAPTURE(whole);
        ViewModelOptions options =
            small_views(scheme, heads, heads == 2 ? Pooling::sum : Pooling::softmax);
        if (whole) {
          options.views = 2;
          options.smoothing = 0.1;
        }
        const auto slots =
            whole ? scene_slots(options, 3, 5, {}) : scene_slots(options, 4, 7, some_boxes);
        CHECK(largest_gradient_error(ViewModel(options), slots, whole ? 0.2 : 0) <=
              difference_error);
      }
    }
  }
}

TEST_CASE_TEMPLATE("the multi-view model is its formulas", T, float, double) {
  for (const auto& scheme : view_schemes()) {
    for (const Index heads : {1, 2, 4}) {
      CAPTURE(name_of(scheme));
      CAPTURE(heads);
      const ViewModelOptions options =
          small_views(scheme, heads, heads == 1 ? Pooling::softmax : Pooling::sum);
      const ViewModel model(options);
      const auto size = static_cast<std::size_t>(model.parameters().size());
      std::vector<T> weights(size);
      model.parameters().initialise(3, weights.data());
      // Not gains of 1 and shifts of 0.
      for (std::size_t n = 0; n < size; ++n) weights[n] += static_cast<T>(0.1 * std::sin(n + 1.0));
      const PlainModel plain(model, {weights.begin(), weights.end()});
      const auto slots = scene_slots(options, 4, 7, some_boxes);
      BatchPass<ViewModel, T> pass(model, 1);
      const AnswerPrediction found = pass.predict(weights.data(), slots);
      double want = 0;
      std::array<double, question_kinds> by_kind{};
      AttentionPlans<T> plans;
      Slot<T> slot;
      slot.weights = weights.data();
      slot.plans = &plans;
      for (const ViewBatch& batch : slots) {
        const auto sums = model.column_sums(slot, batch);
        CHECK(sums.size() == (scheme ? 2 : 0));
        for (Index scene = 0; scene < batch.target_count(); ++scene) {
          const double loss = plain.loss(batch, scene);
          want += loss;
          by_kind[static_cast<std::size_t>(batch.kinds[static_cast<std::size_t>(scene)])] += loss;
        }
        // One scene a slot.
        for (std::size_t v = 0; v < sums.size(); ++v) {
          const auto want_sums = plain.column_sums(batch, 0, static_cast<Index>(v) + 1);
          CHECK(sums[v].size() == want_sums.size());
          for (std::size_t j = 0; j < std::min(sums[v].size(), want_sums.size()); ++j) {
            CHECK(sums[v][j] == doctest::Approx(static_cast<double>(want_sums[j])).epsilon(1e-4));
          }
        }
      }
      // A dozen products of numbers near 1, and exponentials, in T.
      const double bound = sizeof(T) == sizeof(float) ? 2e-5 : 1e-12;
      CHECK(found.count == 4);
      CHECK(found.loss == doctest::Approx(want).epsilon(bound));
      for (std::size_t kind = 0; kind < by_kind.size(); ++kind) {
        CHECK(found.by_kind[kind].loss == doctest::Approx(by_kind[kind]).epsilon(bound));
      }
    }
  }
}

TEST_CASE("the features of padded boxes are not looked at") {
  for (const auto& scheme : view_schemes()) {
    CAPTURE(name_of(scheme));
    // Padding adds nothing to a sum either.
    const ViewModelOptions options = small_views(scheme, 2, Pooling::sum);
    const ViewModel model(options);
    const auto size = static_cast<std::size_t>(model.parameters().size());
    std::vector<double> weights(size);
    model.parameters().initialise(3, weights.data());
    const auto some = scene_slots(options, 4, 7, some_boxes);
    auto others = some;
    for (std::size_t n = 0; n < others.size(); ++n) {
      for (std::size_t v = 0; v < others[n].views.size(); ++v) {
        const auto own = static_cast<std::size_t>(some_boxes[n][v] * options.width);
        std::vector<float>& features = others[n].views[v].features;
        std::fill(features.begin() + static_cast<std::ptrdiff_t>(own), features.end(), 1e3F);
      }
    }
    BatchPass<ViewModel, double> pass(model, 1);
    const double* found = pass.differentiate(weights.data(), some, {}, 5, 1).gradients;
    const std::vector<double> want(found, found + size);
    found = pass.differentiate(weights.data(), others, {}, 5, 1).gradients;
    CHECK(std::vector<double>(found, found + size) == want);
  }
}

TEST_CASE("one step of expectation-maximisation is dnas") {
  const ViewModelOptions dnas = small_views(AttentionScheme{Scheme::dnas, false, 1}, 2);
  ViewModelOptions em = dnas;
  em.scheme->em = EmScheme{1, true};
  const ViewModel one(dnas);
  const ViewModel other(em);
  const auto size = static_cast<std::size_t>(one.parameters().size());
  CHECK(other.parameters().size() == one.parameters().size());
  std::vector<double> weights(size);
  one.parameters().initialise(3, weights.data());
  const auto slots = scene_slots(dnas, 4, 7, some_boxes);
  BatchPass<ViewModel, double> pass(one, 1);
  BatchPass<ViewModel, double> other_pass(other, 1);
  const auto want = pass.differentiate(weights.data(), slots, {}, 5, 1);
  const auto found = other_pass.differentiate(weights.data(), slots, {}, 5, 1);
  CHECK(found.prediction.loss == doctest::Approx(want.prediction.loss).epsilon(1e-13));
  // Gradients of size 1, each a sum of some hundred terms.
  double worst = 0;
  for (std::size_t n = 0; n < size; ++n) {
    const double error = std::abs(found.gradients[n] - want.gradients[n]);
    if (!(error <= worst)) worst = error;
  }
  CHECK(worst <= 1e-12);
}

TEST_CASE_TEMPLATE("no bit of a step over scenes depends on threads or ranks", T, float, double) {
  const ViewModelOptions options = small_views(AttentionScheme{Scheme::hnas, true, 1}, 2);
  std::vector<std::vector<Index>> own;
  for (Index n = 0; n < 19; ++n) own.push_back({1 + n % 6, 1 + n * 5 % 7, n * 3 % 5});
  const auto slots = scene_slots(options, 19, 7, own);
  CHECK(slots.size() == 8);
  const ViewModel model(options);
  std::vector<T> weights(static_cast<std::size_t>(model.parameters().size()));
  model.parameters().initialise(3, weights.data());
  std::vector<T> first;
  double loss = 0;
  for (const int threads : {1, 2, 3, 8, 11}) {
    BatchPass<ViewModel, T> pass(model, threads);
    const auto found = pass.differentiate(weights.data(), slots, {0.1, 0.2}, 5, 1);
    const std::vector<T> gradients(found.gradients, found.gradients + weights.size());
    if (first.empty()) {
      first = gradients;
      loss = found.prediction.loss;
    }
    CAPTURE(threads);
    CHECK(gradients == first);
    CHECK(found.prediction.loss == loss);
    CHECK(found.prediction.by_kind[0].count + found.prediction.by_kind[1].count == 19);
  }
  check_ranks_of<T>(model, slots);
}

TEST_CASE("a sum of equal boxes counts them, and a mean does not") {
  for (const Pooling pooling : {Pooling::softmax, Pooling::sum}) {
    Parameters parameters;
    const QuestionPooling layer(parameters, "",
                                {.pooling = pooling,
                                 .width = 3,
                                 .inner = 2,
                                 .box_deviation = 1,
                                 .score_deviation = 1,
                                 .question_deviation = 1});
    std::vector<double> weights(static_cast<std::size_t>(parameters.size()));
    parameters.initialise(1, weights.data());
    Slot<double> slot;
    slot.weights = weights.data();
    const std::vector<double> y(4 * 3 * 3, 0.5);
    const std::vector<double> q(4 * 3, 1.0);
    const std::vector<Index> own = {0, 1, 2, 3};
    QuestionPooling::Kept<double> kept;
    const auto z =
        layer.forward<double>(slot, {4, 3, own.data()}, {y.data(), 12, 3}, {q.data(), 4, 3}, kept);
    for (Index scene = 0; scene < 4; ++scene) {
      const double factor = pooling == Pooling::sum ? static_cast<double>(scene) : scene > 0;
      for (Index c = 0; c < 3; ++c) {
        CHECK(z.view()(scene, c) == doctest::Approx(factor * z.view()(1, c)).epsilon(1e-14));
      }
    }
  }
}

TEST_CASE("views and heads that do not fit are refused") {
  for (const Index heads : {0, 3, 16}) {
    const ViewModelOptions options = small_views(AttentionScheme{}, heads);
    CHECK(thrown_error([&] { const ViewModel model(options); }).failure() == Failure::usage);
  }
  ViewModelOptions options = small_views(AttentionScheme{}, 1);
  options.views = 1;
  CHECK(thrown_error([&] { const ViewModel model(options); }).failure() == Failure::usage);
}
