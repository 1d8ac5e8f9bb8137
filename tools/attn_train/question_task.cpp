#include "attn_train/tasks.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "attn_train/batch_sizes.hpp"
#include "attn_train/model_options.hpp"
#include "attn_train/scene_input.hpp"
#include "attn_train/token_task.hpp"
#include "cli/words.hpp"
#include "train/layer_column_sums.hpp"
#include "train/view_model.hpp"

namespace attn::tools {
namespace {

using Json = nlohmann::ordered_json;

const char* const kind_names[train::question_kinds] = {"colour", "count"};

double accuracy_of(const train::Prediction& found) {
  return static_cast<double>(found.correct) / static_cast<double>(found.count);
}

std::string colour_name(Index colour) { return fmt::format("colour {}", colour); }

std::vector<std::string> tokens_of(const train::SceneData& scenes) {
  std::vector<std::string> tokens = {"colour of kind", "count of colour"};
  for (Index n = 0; n < scenes.object_kinds; ++n) tokens.push_back(fmt::format("kind {}", n));
  for (Index n = 0; n < scenes.colours; ++n) tokens.push_back(colour_name(n));
  return tokens;
}

std::vector<std::string> answers_of(const train::SceneData& scenes) {
  std::vector<std::string> answers;
  for (Index n = 0; n < scenes.colours; ++n) answers.push_back(colour_name(n));
  for (Index n = 0; n <= scenes.objects; ++n) answers.push_back(fmt::format("{}", n));
  return answers;
}

template <class T>
class QuestionTask : public Task<T> {
 public:
  QuestionTask(const Recipe& recipe, const train::ViewModelOptions& options,
               std::array<std::unique_ptr<train::SceneBatches>, 3> batches, int threads)
      : model_(options),
        pass_(model_, threads),
        batches_(std::move(batches)),
        dropout_(dropout_of(recipe)),
        seed_(static_cast<std::uint64_t>(recipe.integer("seed"))) {}

  const train::Parameters& parameters() const override { return model_.parameters(); }

  std::vector<AttentionGroup> attentions() const override {
    if (!model_.attention()) return {};
    AttentionGroup group{.name = "views", .place = "views", .heads = &model_.attention()->heads()};
    group.projections = model_.attention()->wk();
    group.projections.insert(group.projections.begin(), model_.attention()->wq());
    return {group};
  }

  DataSizes data_sizes() const override {
    const train::SceneData& scenes = of(Split::train)->scenes();
    DataSizes sizes;
    sizes.vocabularies = {std::ssize(tokens_of(scenes))};
    sizes.outcomes = std::ssize(answers_of(scenes));
    for (std::size_t n = 0; n < batches_.size(); ++n) {
      if (batches_[n]) sizes.items[n] = batches_[n]->items();
    }
    return sizes;
  }

  Index batches() const override { return of(Split::train)->batches(); }

  StepFound<T> differentiate(const T* weights, const StepNumber& number) override {
    const auto slots = of(Split::train)->training(number.epoch, number.batch);
    const auto found = pass_.differentiate(weights, slots, dropout_, seed_, number.step);
    StepFound<T> step;
    step.loss = found.prediction.smoothed;
    step.targets = static_cast<double>(found.prediction.count);
    for (const train::ViewBatch& slot : slots) {
      for (const train::Boxes& view : slot.views) {
        for (const Index boxes : view.lengths) step.tokens += static_cast<double>(boxes);
      }
    }
    step.gradients = found.gradients;
    return step;
  }

  std::optional<Json> evaluate(const T* weights, Split split, bool) override {
    const train::SceneBatches* const batches = of(split);
    if (batches == nullptr) return std::nullopt;
    train::AnswerPrediction sums;
    for (Index n = 0; n < batches->batches(); ++n) {
      sums.add(pass_.predict(weights, batches->evaluation(n)));
    }
    Json metrics = common_metrics(sums);
    for (std::size_t kind = 0; kind < std::size(kind_names); ++kind) {
      if (sums.by_kind[kind].count == 0) continue;
      metrics[std::string("accuracy_") + kind_names[kind]] = accuracy_of(sums.by_kind[kind]);
    }
    return metrics;
  }

  // Each secondary view separately, as their keys are the boxes of different detectors.
  Json attention_figures(const T* weights) override {
    Json figures = Json::array();
    if (!model_.attention()) return figures;
    const std::vector<std::vector<double>> sums = column_sums(weights);
    const std::vector<double> shares = model_.attention()->heads().shares(weights);
    for (std::size_t view = 0; view < sums.size(); ++view) {
      const std::vector<double>& all = sums[view];
      Json one;
      one["group"] = fmt::format("views/view{}", view + 1);
      if (!shares.empty()) one["u"] = shares;
      if (!all.empty()) {
        const auto below = std::count_if(all.begin(), all.end(),
                                         [](double c) { return c < train::explained_away_below; });
        one["least_column_sum"] = *std::min_element(all.begin(), all.end());
        one["explained_away"] = static_cast<double>(below) / static_cast<double>(all.size());
      }
      figures.push_back(one);
    }
    return figures;
  }

  // The views of scenes are data; figures need only the histogram of their column sums.
  void write_inputs(const T* weights, io::OutputBundle& bundle) override {
    if (!model_.attention()) return;
    const std::vector<std::vector<double>> sums = column_sums(weights);
    for (std::size_t view = 0; view < sums.size(); ++view) {
      const Shape shape = {std::ssize(sums[view])};
      bundle.create(fmt::format("views/view{}/col_sum", view + 1), DType::f64, shape, {"key"})
          .write({0}, shape, sums[view].data());
    }
  }

  std::int64_t working_bytes(bool) const override {
    const BatchSizes sizes = batch_sizes(batches_);
    const train::SlotBytes slot = slot_bytes(sizes);
    const train::SlotShapes shapes = sizes.shapes();
    const std::int64_t of_figures =
        slot.predict + slot.returned + 2 * slot.plans * slot.plan.results;
    return pass_.bytes(slot, sizes.most, shapes) + of_figures;
  }

  void reserve() override {
    const BatchSizes sizes = batch_sizes(batches_);
    pass_.reserve(slot_bytes(sizes), sizes.most);
  }

  void write_vocabulary(io::OutputBundle& bundle) const override {
    const train::SceneData& scenes = of(Split::train)->scenes();
    bundle.write_strings("vocabulary", tokens_of(scenes), {"token"});
    bundle.write_strings("answers", answers_of(scenes), {"answer"});
  }

 private:
  train::SlotBytes slot_bytes(const BatchSizes& sizes) const {
    Index boxes = 0;
    for (const Split split : all_splits) {
      if (of(split) != nullptr) boxes = std::max(boxes, of(split)->scenes().boxes);
    }
    return model_.bytes<T>(sizes.largest_slot(), boxes);
  }

  train::SceneBatches* of(Split split) const {
    return batches_[static_cast<std::size_t>(split)].get();
  }

  // By secondary view, for the first batch of validation.
  std::vector<std::vector<double>> column_sums(const T* weights) const {
    std::vector<std::vector<double>> all;
    train::AttentionPlans<T> plans;
    for (const train::ViewBatch& batch : of(Split::valid)->evaluation(0)) {
      train::Slot<T> slot;
      slot.weights = weights;
      slot.plans = &plans;
      const auto sums = model_.column_sums(slot, batch);
      all.resize(sums.size());
      for (std::size_t view = 0; view < sums.size(); ++view) {
        all[view].insert(all[view].end(), sums[view].begin(), sums[view].end());
      }
    }
    return all;
  }

  train::ViewModel model_;
  train::BatchPass<train::ViewModel, T> pass_;
  std::array<std::unique_ptr<train::SceneBatches>, 3> batches_;
  train::DropoutRates dropout_;
  std::uint64_t seed_;
};

train::ViewModelOptions view_options(const Recipe& recipe) {
  train::ViewModelOptions options;
  options.width = recipe.integer("model.width");
  options.heads = recipe.integer("model.heads");
  require_heads(recipe);
  if (recipe.text("views.scheme") == "none") {
    options.scheme.reset();
  } else {
    options.scheme = view_scheme(recipe);
    options.first_share = recipe.number("views.hybrid");
  }
  options.pooling =
      recipe.text("views.pooling") == "sum" ? train::Pooling::sum : train::Pooling::softmax;
  options.inner = recipe.integer("model.inner");
  options.smoothing = recipe.number("objective.smoothing");
  if (recipe.text("model.start") == "normal") options.deviation = recipe.number("model.deviation");
  return options;
}

}  // namespace

namespace {

// The numbers that decide the shapes of a model. The most boxes of a view do not.
std::array<Index, 4> kinds_of(const train::SceneData& scenes) {
  return {scenes.views, scenes.object_kinds, scenes.colours, scenes.objects};
}

}  // namespace

template <class T>
std::unique_ptr<Task<T>> make_question_task(const cli::Arguments& arguments, cli::Report& report,
                                            const Recipe& recipe, const SplitTexts& files) {
  train::ViewModelOptions options = view_options(recipe);
  std::array<std::unique_ptr<train::SceneBatches>, 3> batches;
  std::vector<double> maps;
  std::array<Index, 4> kinds = {};
  for (const Split split : all_splits) {
    const std::string& file = files.name(split);
    if (file.empty()) continue;
    SceneInput input = read_scenes(arguments, report, file);
    if (input.scenes.width != options.width) {
      throw recipe.refusal("model.width",
                           fmt::format("is {}, the boxes of {} have {}", options.width, file,
                                       cli::counted(input.scenes.width, "feature")));
    }
    if (split == Split::train) {
      maps = std::move(input.maps);
      kinds = kinds_of(input.scenes);
    } else if (input.maps != maps || kinds_of(input.scenes) != kinds) {
      throw Error(
          Failure::input,
          fmt::format("{} has other detectors or objects than {}", file, files.name(Split::train)),
          "make both with the same --map-seed and sizes");
    }
    options.views = input.scenes.views;
    auto made = [&] {
      try {
        return std::make_unique<train::SceneBatches>(std::move(input.scenes),
                                                     recipe.integer("run.batch"));
      } catch (const Error& error) {
        throw error.at(file);
      }
    }();
    options.vocabulary = made->vocabulary();
    options.answers = made->answers();
    batches[static_cast<std::size_t>(split)] = std::move(made);
  }
  return std::make_unique<QuestionTask<T>>(recipe, options, std::move(batches), arguments.threads);
}

#define ATTN_QUESTION_TASK(T)                                                               \
  template std::unique_ptr<Task<T>> make_question_task(const cli::Arguments&, cli::Report&, \
                                                       const Recipe&, const SplitTexts&);
ATTN_QUESTION_TASK(float)
ATTN_QUESTION_TASK(double)
#undef ATTN_QUESTION_TASK

}  // namespace attn::tools
