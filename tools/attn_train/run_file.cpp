#include "attn_train/run_file.hpp"

#include <array>
#include <filesystem>
#include <utility>

#include <fmt/format.h>

#include "attn_train/checked_datasets.hpp"
#include "attn_train/run_tensors.hpp"
#include "common/frame/bundles.hpp"
#include "common/frame/output_format.hpp"
#include "io/history.hpp"

namespace attn::tools {
namespace {

using Json = nlohmann::ordered_json;

const std::string sums_name = state_group + "/sums";

// The first key in which two recipes differ.
std::string difference(const Json& stored, const Json& own) {
  for (const auto& [key, value] : own.items()) {
    const Json before = stored.contains(key) ? stored[key] : Json();
    if (before != value) {
      return fmt::format("{} is {} there and {} here", key, before.dump(), value.dump());
    }
  }
  return "its recipe has other keys";
}

// Each array of the optimiser's state, with its name.
template <class T>
struct StateArray {
  std::string name;
  T* numbers;
  Index count;
};

template <class T>
std::vector<StateArray<T>> arrays_of(const train::Parameters& parameters,
                                     train::WeightOptimizer<T>& optimizer) {
  std::vector<StateArray<T>> arrays;
  const auto add = [&](const std::string& name, T* numbers, Index count) {
    arrays.push_back({fmt::format("{}/{}{}", state_group, name, arrays.size()), numbers, count});
  };
  for (T* const moments : optimizer.moments()) add("moments", moments, parameters.size());
  if (!optimizer.in_paths()) return arrays;
  for (Buffer<T>* const moments : optimizer.in_paths()->moments()) {
    add("path_moments", moments->data(), moments->size());
  }
  return arrays;
}

// The numbers of RunProgress that are not counts among the root's attributes.
std::array<double, 4> sums_of(const RunProgress& progress) {
  return {progress.loss, progress.targets, progress.least_ratio, progress.largest_ratio};
}

Index count_attribute(const io::InputBundle& bundle, const std::string& path,
                      const std::string& name) {
  const std::optional<double> count = bundle.number_attribute(name);
  if (!count || !(*count >= 0)) {
    throw Error(Failure::input, fmt::format("{}: attribute {} is missing", path, name));
  }
  return static_cast<Index>(*count);
}

}  // namespace

std::string previous_of(const std::string& path) {
  const std::filesystem::path file(path);
  const std::string ending = file.extension().string();
  return (file.parent_path() / (file.stem().string() + ".previous" + ending)).string();
}

RunFile::RunFile(const cli::Arguments& arguments, cli::Report& report, RunIdentity identity)
    : identity_(std::move(identity)), deflate_(arguments.compress) {
  path_ = *arguments.output;
  if (array_format_of(path_)) {
    throw Error(Failure::usage, "--output is " + path_ + ", expected an HDF5 file, such as run.h5",
                "tensor-convert makes other formats of it");
  }
  history_ = io::history_line(arguments.command_line, arguments.version);
  if (!arguments.dry_run && !arguments.drops_output) only_.emplace(path_);
  look_at_existing(arguments, report);
}

void RunFile::look_at_existing(const cli::Arguments& arguments, cli::Report& report) {
  std::error_code failed;
  if (!std::filesystem::exists(path_, failed)) return;
  if (!std::filesystem::is_regular_file(path_, failed)) {
    throw Error(Failure::output, path_ + " is not a regular file");
  }
  replaces_ = true;
  if (arguments.force) return;
  io::InputBundle::Options options = input_options(arguments, report);
  options.input = path_;
  io::InputBundle bundle(options);
  const auto refuse = [&](const std::string& why) {
    throw Error(Failure::output, path_ + " exists and " + why,
                "--force starts anew, or choose another name");
  };
  const auto recipe = bundle.text_attribute("train_recipe");
  if (!recipe) refuse("is no run of attn-train");
  const Json stored = Json::parse(*recipe, nullptr, false);
  if (stored != identity_.recipe) {
    refuse("is a run of another recipe: " + difference(stored, identity_.recipe));
  }
  if (bundle.text_attribute("train_data") != identity_.data) refuse("was trained on other data");
  const auto from = bundle.text_attribute("train_from");
  if (from.has_value() != identity_.begins_from) {
    refuse(from ? "began from the weights of another run, which --from names"
                : "did not begin from the weights of another run");
  }
  if (from) from_ = Json::parse(*from, nullptr, false);
  if (from && !from_.is_object()) throw Error(Failure::input, path_ + ": train_from is damaged");
  if (from && identity_.from && from_.value("digest", Json()) != *identity_.from) {
    refuse("began from the weights of another checkpoint");
  }
  const std::string version = bundle.text_attribute("train_version").value_or("");
  if (version != identity_.version) {
    refuse(fmt::format("is a run of version {}, this is {}", version, identity_.version));
  }
  steps_done_ = count_attribute(bundle, path_, "train_step");
  history_ = bundle.text_attribute("history").value_or(history_);
  existing_.emplace(std::move(bundle));
}

template <class T>
RunProgress RunFile::load(const Task<T>& task, T* weights,
                          train::WeightOptimizer<T>& optimizer) const {
  checked_datasets(*existing_, path_, previous_of(path_) + " is the checkpoint before it");
  read_tensors<T>(task, *existing_, weights, [](const train::Parameter& one) { return one.name; });
  for (const StateArray<T>& one : arrays_of(task.parameters(), optimizer)) {
    const ArraySource dataset = existing_->dataset(one.name);
    if (dataset.shape() != Shape{one.count}) {
      throw Error(Failure::input, dataset.address() + " is not that of this model");
    }
    dataset.read({0}, {one.count}, one.numbers);
  }
  RunProgress progress;
  progress.step = *steps_done_;
  std::array<double, 4> sums = sums_of(progress);
  const ArraySource stored = existing_->dataset(sums_name);
  if (stored.shape() != Shape{static_cast<Index>(sums.size())}) {
    throw Error(Failure::input, stored.address() + " is damaged");
  }
  stored.read({0}, stored.shape(), sums.data());
  progress.loss = sums[0];
  progress.targets = sums[1];
  progress.least_ratio = sums[2];
  progress.largest_ratio = sums[3];
  return progress;
}

// A second name of the same file, so that there is a checkpoint at every moment.
void RunFile::keep_previous() const {
  const std::string previous = previous_of(path_);
  const std::string fresh = previous + ".part";
  std::error_code failed;
  std::filesystem::remove(fresh, failed);
  std::filesystem::create_hard_link(path_, fresh, failed);
  // Not every file system has links.
  if (failed) std::filesystem::copy_file(path_, fresh, failed);
  if (!failed) std::filesystem::rename(fresh, previous, failed);
  if (failed) throw Error(Failure::output, previous + ": " + failed.message());
}

template <class T>
void RunFile::save(Task<T>& task, T* weights, train::WeightOptimizer<T>& optimizer,
                   const RunProgress& progress, const SavedExtras& extras) {
  io::OutputBundle::Options options;
  options.target = path_;
  options.force = replaces_;
  options.deflate = deflate_;
  io::OutputBundle bundle(options);
  CheckedOutput checked(bundle);
  write_tensors(task, weights, checked);
  if (extras.inputs) task.write_inputs(weights, bundle);
  if (extras.source_weights) task.write_source_weights(weights, bundle);
  task.write_vocabulary(bundle);
  for (const StateArray<T>& one : arrays_of(task.parameters(), optimizer)) {
    checked.write(one.name, {one.count}, one.numbers);
  }
  const std::array<double, 4> sums = sums_of(progress);
  checked.write(sums_name, {std::ssize(sums)}, sums.data());
  checked.finish();
  bundle.attribute("train_recipe", identity_.recipe.dump());
  bundle.attribute("train_data", identity_.data);
  bundle.attribute("train_version", identity_.version);
  if (!from_.is_null()) bundle.attribute("train_from", from_.dump());
  bundle.attribute("train_step", std::int64_t{progress.step});
  bundle.attribute("history", history_);
  if (replaces_) keep_previous();
  bundle.commit();
  replaces_ = true;
}

#define ATTN_RUN_FILE(T)                                                                    \
  template RunProgress RunFile::load(const Task<T>&, T*, train::WeightOptimizer<T>&) const; \
  template void RunFile::save(Task<T>&, T*, train::WeightOptimizer<T>&, const RunProgress&, \
                              const SavedExtras&);
ATTN_RUN_FILE(float)
ATTN_RUN_FILE(double)
#undef ATTN_RUN_FILE

}  // namespace attn::tools
