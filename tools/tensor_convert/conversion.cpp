#include "tensor_convert/conversion.hpp"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "attnkit/error.hpp"
#include "common/frame/bundles.hpp"
#include "common/frame/output_format.hpp"
#include "io/address.hpp"
#include "io/array_export.hpp"
#include "io/array_metadata.hpp"
#include "io/contents.hpp"
#include "io/result_mark.hpp"
#include "tensor_convert/model_weights.hpp"

namespace attn::tools {
namespace {

std::string format_by_ending(const std::string& output, cli::Report& report) {
  if (const std::optional<std::string> ending = foreign_ending(output)) {
    for (const char* format : {"npy", "npz", "safetensors"}) {
      if (*ending == std::string(".") + format) return format;
    }
    refuse_ending(output, *ending);
  }
  const std::string extension = std::filesystem::path(output).extension();
  const std::vector<std::string> usual = {"", ".h5", ".hdf5", ".hdf", ".he5"};
  if (std::find(usual.begin(), usual.end(), extension) == usual.end()) {
    report.warn(fmt::format("{}: unknown ending {}, writing a bundle (HDF5)", output, extension));
  }
  return "h5";
}

std::string format_for(const cli::Arguments& arguments, cli::Report& report) {
  std::string given = arguments.text("to");
  if (!given.empty()) return given;
  std::string format = format_by_ending(*arguments.output, report);
  require_same_ending(*arguments.output, format);
  return format;
}

io::ArrayFormat array_format(const std::string& format) {
  if (format == "npy") return io::ArrayFormat::npy;
  return format == "npz" ? io::ArrayFormat::npz : io::ArrayFormat::safetensors;
}

std::optional<DType> type_called(const std::string& word) {
  if (word == "f16") return DType::f16;
  if (word == "bf16") return DType::bf16;
  if (word == "f32") return DType::f32;
  if (word == "f64") return DType::f64;
  return std::nullopt;
}

bool has_type(const std::string& format, DType type) {
  if (format == "h5") return type != DType::bf16;
  return io::holds(array_format(format), type);
}

/// "NAME=" of an argument NAME=ADDRESS; empty for a FILE. A file name may contain '='.
std::string name_in(const std::string& word) {
  const std::size_t equals = word.find('=');
  std::error_code none;  // such as a name that is too long
  if (equals == std::string::npos || equals == 0 || std::filesystem::exists(word, none)) return {};
  const std::string name = word.substr(0, equals);
  return name.find('/') == std::string::npos ? name : std::string();
}

}  // namespace

Conversion::Conversion(const cli::Arguments& arguments, cli::Report& report)
    : arguments_(arguments),
      report_(report),
      format_(format_for(arguments, report)),
      asked_(type_called(arguments.text("dtype"))) {
  if (asked_ && !has_type(format_, *asked_)) {
    throw Error(Failure::usage,
                fmt::format("--dtype {} cannot be written: {} has no bfloat16",
                            arguments.text("dtype"), format_),
                "write .safetensors, or --dtype f32, which holds the same numbers");
  }
  if (arguments.compress > 0 && format_ != "h5") {
    throw Error(Failure::usage,
                fmt::format("--compress applies only to bundles, not to {}", format_));
  }
  const bool model = arguments.given("model");
  for (const char* option : {"layer", "part", "ignore-config"}) {
    if (!model && arguments.given(option)) {
      throw Error(Failure::usage, fmt::format("--{} requires --model", option));
    }
  }
  if (!model && arguments.given("kv-heads") && !arguments.given("heads")) {
    throw Error(Failure::usage, "--kv-heads requires --model or --heads");
  }
  open_words();
  if (model) {
    take_model();
  } else {
    take_datasets();
  }
}

void Conversion::open_words() {
  for (const std::string& word : arguments_.words()) {
    const std::string name = name_in(word);
    if (name.empty()) {
      files_.push_back(word);
    } else {
      named_.emplace_back(name, word.substr(name.size() + 1));
    }
  }
  const bool model = arguments_.given("model");
  if (model && !named_.empty()) {
    throw Error(Failure::usage, fmt::format("{}={}: --model takes the FILEs of a checkpoint",
                                            named_[0].first, named_[0].second));
  }
  if (!model && files_.size() > 1) {
    throw Error(Failure::usage,
                fmt::format("{} and {}: one FILE can be converted at a time", files_[0], files_[1]),
                "take single datasets of other files with NAME=ADDRESS");
  }
  if (files_.empty() && named_.empty()) files_.push_back("-");
  io::InputBundle::Options options = input_options(arguments_, report_);
  options.named = named_;
  options.ignores_config = arguments_.flag("ignore-config");
  options.on_table = [this](const io::TableNote& note) {
    if (note.doubtful) {
      report_.warn(note.line);
    } else {
      report_.note(note.line);
    }
  };
  if (files_.empty()) {
    bundles_.emplace_back(options);
    return;
  }
  for (const std::string& file : files_) {
    options.input = file;
    bundles_.emplace_back(options);
  }
}

std::optional<DType> Conversion::target_type(DType stored) const {
  if (is_floating(stored) && asked_ && *asked_ != stored) return asked_;
  if (stored == DType::bf16 && !has_type(format_, stored)) return DType::f32;
  return std::nullopt;
}

std::optional<Index> Conversion::heads_of(const std::string& name) const {
  if (arguments_.given("model")) return std::nullopt;
  const std::string last = name.substr(name.find_last_of("./") + 1);
  if (last == "q" || last == "q_proj") return arguments_.integer("heads");
  if (last != "k" && last != "k_proj" && last != "v" && last != "v_proj") return std::nullopt;
  const std::optional<Index> of_keys = arguments_.integer("kv-heads");
  return of_keys ? of_keys : arguments_.integer("heads");
}

void Conversion::take_model() {
  if (!arguments_.given("layer")) {
    throw Error(Failure::usage, "--model requires --layer N");
  }
  ModelLayer wanted;
  wanted.model = arguments_.text("model");
  wanted.layer = *arguments_.integer("layer");
  wanted.part = arguments_.text("part");
  wanted.heads = arguments_.integer("heads");
  wanted.kv_heads = arguments_.integer("kv-heads");
  wanted.ignores_config = arguments_.flag("ignore-config");
  if (wanted.model != "t5" && arguments_.given("part")) {
    throw Error(Failure::usage, "--part requires --model t5");
  }
  if (wanted.model != "llama" && wanted.model != "gpt2" && wanted.kv_heads) {
    throw Error(Failure::usage, "--kv-heads requires --model llama or gpt2");
  }
  const std::filesystem::path file = io::parse_address(files_[0]).file;
  wanted.config = (file.parent_path() / "config.json").string();
  ModelWeights made = model_weights(bundles_, wanted);
  std::error_code failed;
  if (wanted.ignores_config && std::filesystem::exists(wanted.config, failed)) {
    report_.warn(wanted.config +
                 " is not read: the norms, rotary positions, scale, soft cap and window that it "
                 "may say are left out");
  } else if (!made.rotary.empty()) {
    report_.warn("rotary positions are left out (" + made.rotary +
                 "): the model rotates x wq and x wk before it compares them");
  }
  if (!made.other_heads.empty()) {
    report_.warn(fmt::format("{}; --heads {} is used", made.other_heads, *wanted.heads));
  }
  for (Produced& weights : made.datasets) {
    // Angles and epsilon are float64 in every precision.
    const bool is_exact = weights.name == "norm_epsilon" || weights.name.starts_with("rotary");
    const auto type = target_type(weights.type);
    if (type && !is_exact) weights = rounded(weights, *type);
    datasets_.push_back(std::move(weights));
  }
  model_attributes_ = attributes_of_model();
  model_attributes_.insert(model_attributes_.end(), made.attributes.begin(), made.attributes.end());
  if (format_ != "npy") return;
  for (const auto& [name, value] : model_attributes_) {
    report_.warn(fmt::format("{} is not recorded: {} has no attributes", name, format_));
  }
}

std::vector<std::pair<std::string, Setting>> Conversion::attributes_of_model() const {
  std::vector<std::pair<std::string, Setting>> attributes;
  if (is_decoder()) attributes.emplace_back("attn_causal", std::string("bottom-right"));
  if (arguments_.text("model") != "t5") return attributes;
  attributes.emplace_back("attn_energy", std::string("dot"));
  const bool biased = std::any_of(datasets_.begin(), datasets_.end(),
                                  [](const Produced& made) { return made.name == "rel_bias"; });
  if (biased) attributes.emplace_back("attn_relative_bias", std::string("t5"));
  return attributes;
}

bool Conversion::is_named(const std::string& name) const {
  return std::any_of(named_.begin(), named_.end(),
                     [&](const auto& item) { return item.first == name; });
}

bool Conversion::is_rewritten(const std::string& name) const {
  return std::find(rewritten_.begin(), rewritten_.end(), name) != rewritten_.end();
}

void Conversion::take_datasets() {
  RunEffect effect;
  effect.tool = arguments_.tool;
  for (const auto& [name, address] : named_) effect.named.insert(name);
  results_ = plan_results(arguments_, bundles_[0], std::move(effect));
  const std::set<std::string> without(results_.without.begin(), results_.without.end());
  const std::vector<std::string> flat = bundles_[0].flat_names();
  std::vector<std::string> names = bundles_[0].names();
  const bool keeps_names = !flat.empty() && format_ != "h5";
  if (keeps_names) {
    // Files of arrays of other programs say nothing about groups: their names stay as they are.
    std::set<std::string> all(flat.begin(), flat.end());
    for (const auto& [name, address] : named_) all.insert(name);
    names.assign(all.begin(), all.end());
  }
  for (const std::string& name : names) {
    if (without.count(name) == 0) take(name, is_named(name));
  }
  if (!keeps_names && format_ != "npy") take_items(without);
  require_something();
  if (arguments_.given("heads")) require_splits();
  warn_of_losses();
}

// --heads without --model.
void Conversion::require_splits() const {
  std::map<std::string, const Produced*> queries;  // by their name without the letter q
  const auto for_split = [&](char letter, const auto& body) {
    for (const Produced& made : datasets_) {
      std::string name = made.name;
      const std::size_t last = name.find_last_of("./") + 1;
      if (!heads_of(name) || name[last] != letter) continue;
      body(name.erase(last, 1), made);
    }
  };
  for_split('q', [&](const std::string& name, const Produced& q) { queries[name] = &q; });
  for_split('k', [&](const std::string& name, const Produced& k) {
    const auto found = queries.find(name);
    if (found == queries.end() || found->second->shape.back() == k.shape.back()) return;
    const Index depth = found->second->shape.back();
    const Index channels = k.shape[k.shape.size() - 3] * k.shape.back();
    throw Error(
        Failure::input,
        fmt::format("{} would have heads of {} channels, {} of {}", k.address, k.shape.back(),
                    found->second->address, depth),
        depth > 0 && channels % depth == 0 ? fmt::format("--kv-heads {}", channels / depth) : "");
  });
  const bool splits = std::any_of(datasets_.begin(), datasets_.end(), [&](const Produced& made) {
    return heads_of(made.name).has_value();
  });
  if (splits && bundles_[0].text_attribute("attn_layout")) {
    throw Error(Failure::usage, bundles_[0].description() +
                                    " has attn_layout: its arrays have an axis of heads already, "
                                    "which --heads would add");
  }
  if (splits) return;
  const std::vector<std::string> all = bundles_[0].flat_names();
  const auto output = std::find_if(all.begin(), all.end(), [](const std::string& name) {
    return name.ends_with("q_proj.output") || name.ends_with("q_proj/output");
  });
  throw Error(Failure::usage,
              "--heads splits datasets called q, k, v, q_proj, k_proj or v_proj, also after the "
              "last . or / of a longer name, and there is none",
              output == all.end()
                  ? "for the weights of a checkpoint, give --model"
                  : fmt::format("name it, q={}:{}", bundles_[0].description(), *output));
}

// Takes the datasets in groups, and the objects that become metadata. A bundle copies both, but for
// datasets that are rounded.
void Conversion::take_items(const std::set<std::string>& without) {
  const bool copies = format_ == "h5";
  if (copies && !asked_ && !arguments_.given("heads")) return;
  const io::InputBundle bundle = bundles_[0].without_named();
  std::set<std::string> taken;
  for (const Produced& dataset : datasets_) taken.insert(dataset.name);
  for (io::Item& item : io::contents(bundle, io::metadata_values)) {
    const std::string& path = item.path;
    if (without.count(path) != 0 || is_named(path)) continue;
    const bool inside = path.find('/') != std::string::npos;
    if (copies && (!inside || (!target_type(item.dtype) && !heads_of(path)))) continue;
    if (!item.is_group && inside && taken.count(path) == 0) {
      io::require_readable({item});
      take(path, false);
    }
    const bool left_out = std::find(left_out_.begin(), left_out_.end(), path) != left_out_.end();
    if (!left_out) items_.push_back(std::move(item));
  }
}

// The attributes and groups of INPUT, with a line about this run in front of its history. Empty if
// INPUT has none: a conversion of plain arrays gives plain arrays.
std::string Conversion::metadata() {
  if (format_ == "npy") return {};
  std::vector<io::AttributeValue> root;
  if (arguments_.given("model")) {
    for (const auto& [name, value] : model_attributes_) {
      io::AttributeValue attribute{name, {}, {}};
      std::visit(
          [&](const auto& one) {
            using One = std::decay_t<decltype(one)>;
            if constexpr (!std::is_same_v<One, std::monostate>) {
              attribute.value = std::vector<One>{one};
            }
          },
          value);
      root.push_back(std::move(attribute));
    }
  } else {
    root = io::root_attributes(bundles_[0], io::metadata_values);
  }
  std::vector<std::string> ignored;
  if (io::metadata_text(root, items_, texts_, ignored).empty()) return {};
  io::put_history(root, arguments_.command_line, arguments_.version);
  return io::metadata_text(root, items_, texts_, left_out_);
}

void Conversion::take_strings(const ArraySource& dataset, bool named) {
  std::vector<std::string> values = dataset.read_strings();
  if (!io::can_be_held(values)) {
    if (named) {
      throw Error(Failure::input,
                  fmt::format("{} has strings that {} cannot hold: they are not UTF-8 or too long",
                              dataset.address(), format_));
    }
    left_out_.push_back(dataset.name());
    return;
  }
  if (!has_type(format_, DType::string)) {
    texts_.push_back({dataset.name(), dataset.shape(), std::move(values)});
    return;
  }
  Produced strings = produced(dataset, {});
  strings.texts = std::move(values);
  datasets_.push_back(std::move(strings));
}

void Conversion::take(const std::string& name, bool named) {
  const ArraySource dataset = bundles_[0].dataset(name);
  report_input(report_, dataset);
  const DType stored = dataset.dtype();
  const bool plain = stored != DType::string && stored != DType::other;
  if (!plain && format_ == "h5") {
    copied_.push_back(dataset);
    return;
  }
  if (stored == DType::string && (has_type(format_, stored) || !named)) {
    return take_strings(dataset, named);
  }
  if (!plain && named) {
    throw Error(Failure::input, fmt::format("{} is of type {}, which {} cannot hold",
                                            dataset.address(), dataset.type(), format_));
  }
  if (!plain) {
    left_out_.push_back(name);
    return;
  }
  const std::optional<DType> type = target_type(stored);
  const std::optional<Index> heads = heads_of(name);
  if (type || heads) rewritten_.push_back(name);
  if (type || heads || format_ != "h5") require_readable(dataset, arguments_.memory);
  datasets_.push_back(produced(dataset, type));
  if (heads) datasets_.back() = split_heads(datasets_.back(), *heads);
}

// Otherwise only its readers would notice that the file is empty.
void Conversion::require_something() const {
  if (!datasets_.empty() || !copied_.empty()) return;
  const std::vector<io::Item> items = io::contents(bundles_[0]);
  io::require_readable(items);
  const bool any =
      std::any_of(items.begin(), items.end(), [](const io::Item& item) { return !item.is_group; });
  if (!any) throw Error(Failure::input, bundles_[0].description() + " has no datasets");
  if (format_ == "h5") return;
  const bool groups = left_out_.empty() && texts_.empty();
  throw Error(Failure::input,
              fmt::format("{} has nothing that {} can hold, only {}", bundles_[0].description(),
                          format_, groups ? "groups" : "strings or other unsupported types"),
              groups ? "name one of its groups, FILE:/group" : "");
}

Index Conversion::groups() const {
  if (format_ != "h5" || arguments_.given("model")) return 0;
  return static_cast<Index>(bundles_[0].group_names().size());
}

void Conversion::warn_of_losses() {
  if (format_ == "h5") return;
  const auto warn = [&](const char* what, const std::vector<std::string>& names) {
    if (names.empty()) return;
    report_.warn(
        fmt::format("{} cannot hold {}; left out: {}", format_, what, fmt::join(names, ", ")));
  };
  if (format_ != "npy") {
    metadata_ = metadata();
    return warn("what is left out", left_out_);
  }
  warn("strings or other unsupported types", left_out_);
  if (bundles_[0].flat_names().empty()) warn("groups", bundles_[0].group_names());
  warn("attributes", bundles_[0].attribute_names());
}

std::function<void()> Conversion::write() {
  warn_of_left_out({results_}, report_);
  return format_ == "h5" ? write_bundle() : write_arrays();
}

// Whether the weights belong to a causal layer.
bool Conversion::is_decoder() const {
  const std::string model = arguments_.text("model");
  return model == "gpt2" || model == "llama" ||
         (model == "t5" && arguments_.text("part") == "decoder");
}

std::function<void()> Conversion::write_bundle() {
  io::OutputBundle output = open_output(arguments_);
  const bool model = arguments_.given("model");
  std::vector<std::string> without = rewritten_;
  without.insert(without.end(), results_.without.begin(), results_.without.end());
  if (!model) output.copy_from(bundles_[0], without);
  for (const Produced& dataset : datasets_) {
    if (!model && !is_rewritten(dataset.name)) continue;
    tools::write(arguments_, dataset, output);
    // A result stays a result in another type.
    const auto mark = io::result_mark_of(bundles_[0], dataset.name);
    if (!model && mark && !is_named(dataset.name)) {
      output.dataset_attribute(dataset.name, io::result_mark, *mark);
    }
  }
  if (model) write_settings(model_attributes_, output);
  output.add_history(arguments_.command_line, arguments_.version);
  return commit_of(std::move(output), report_);
}

std::function<void()> Conversion::write_arrays() {
  std::vector<io::ArrayPlan> plans;
  for (const Produced& dataset : datasets_) {
    plans.push_back({dataset.name, dataset.type, dataset.shape, io::width_of(dataset.texts)});
  }
  io::OutputBundle::Options options;
  options.target = *arguments_.output;
  options.force = arguments_.force;
  options.tmpdir = arguments_.tmpdir;
  if (arguments_.given("model")) metadata_ = metadata();
  const auto output = std::make_shared<io::ArrayOutput>(options, array_format(format_),
                                                        std::move(plans), std::move(metadata_));
  tools::write(arguments_, datasets_, *output);
  return [output] { output->commit(); };
}

}  // namespace attn::tools
