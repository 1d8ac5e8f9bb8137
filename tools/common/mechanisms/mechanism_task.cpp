#include "common/mechanisms/mechanism_task.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "common/heads/foreign_names.hpp"
#include "head/operand.hpp"

namespace attn::tools {
namespace {

using mechanisms::KnownShape;
using mechanisms::MechanismForm;
using mechanisms::TensorForm;

// "(..., T, D)"
std::string shape_words(const TensorForm& form) {
  const std::string axes = form.axes.words();
  if (is_shared(form)) return "(" + axes + ")";
  return axes.empty() ? "(...)" : "(..., " + axes + ")";
}

// Whether an absent optional input is required because another one is present.
bool is_needed(const TensorForm& input, const io::InputBundle& bundle) {
  return !input.needed_with.empty() && bundle.has(input.needed_with) &&
         (input.or_else.empty() || !bundle.has(input.or_else));
}

void require_integers(const ArraySource& dataset) {
  if (is_integral(dataset.dtype())) return;
  throw Error(Failure::input,
              fmt::format("{} holds {}, expected integers", dataset.address(), dataset.type()));
}

}  // namespace

std::string gradient_of(const std::string& name) { return "grad_" + name; }

bool MechanismTask::suffices(const io::InputBundle& bundle, const MechanismForm& form) {
  return std::all_of(form.inputs.begin(), form.inputs.end(), [&](const TensorForm& one) {
    return bundle.has(one.name) || (one.optional && !is_needed(one, bundle));
  });
}

MechanismTask::MechanismTask(const cli::Arguments& arguments, io::InputBundle section,
                             const MechanismForm& mechanism, Settings settings)
    : form(mechanism), bundle(std::move(section)), settings_(std::move(settings)) {
  find();
  take_results(arguments);
  bool any_float64 = false;
  for (const ArraySource& dataset : datasets()) {
    any_float64 = any_float64 || dataset.dtype() == DType::f64;
  }
  f64 = arguments.f64.value_or(any_float64);
}

void MechanismTask::find() {
  const auto found = [&](const std::string& name, bool optional) {
    return !optional || bundle.has(name) ? std::optional(bundle.dataset(name)) : std::nullopt;
  };
  std::vector<KnownShape> known;
  const ArraySource* first = nullptr;  // of a sequence
  // The first dataset of a sequence determines the leading axes.
  const auto take = [&](const TensorForm& one, std::optional<ArraySource>& dataset) {
    if (!dataset) return;
    const Shape& shape = dataset->shape();
    std::size_t leading = 0;
    if (!is_shared(one)) {
      leading = shape.size() - std::min(shape.size(), one.axes.size());
      const Shape own = leading_axes(shape, shape.size() - leading);
      if (first == nullptr) {
        input.leading = own;
        first = &*dataset;
      } else if (own != input.leading) {
        throw Error(
            Failure::input,
            fmt::format("{} has the leading axes {}, expected those of {}, {}", dataset->address(),
                        to_string(own), first->address(), to_string(input.leading)));
      }
    }
    known.push_back({&one, shape, leading});
  };
  const auto may_lack = [&](const TensorForm& one) {
    return one.optional && !(one.or_else.empty() && is_needed(one, bundle));
  };
  // They are referred to by address, so the vectors must not grow.
  for (const TensorForm& one : form.inputs) inputs.push_back(found(one.name, may_lack(one)));
  for (const TensorForm& one : form.tokens) tokens.push_back(found(one.name, one.optional));
  for (std::size_t n = 0; n < form.inputs.size(); ++n) {
    const TensorForm& one = form.inputs[n];
    if (!inputs[n] && is_needed(one, bundle)) {
      throw Error(Failure::input,
                  fmt::format("{} has neither {} nor {}, and {} needs one of them",
                              bundle.description(), one.name, one.or_else, one.needed_with));
    }
    if (inputs[n]) require_floating(*inputs[n]);
    take(one, inputs[n]);
  }
  for (std::size_t n = 0; n < form.tokens.size(); ++n) {
    if (tokens[n]) require_integers(*tokens[n]);
    take(form.tokens[n], tokens[n]);
  }
  std::vector<std::string> of_lengths;
  for (const mechanisms::LengthForm& length : form.lengths) of_lengths.push_back(length.name);
  require_no_masks(bundle, of_lengths);
  sizes = naming([&] { return bundle.dataset(form.inputs.front().name).address(); },
                 [&] { return mechanisms::sizes_of(known); });
  sizes.insert(form.chosen.begin(), form.chosen.end());
  input.problems = element_count(input.leading);
  for (const mechanisms::LengthForm& length : form.lengths) {
    const bool is_of_absent = sizes.find(length.symbol) == sizes.end();
    lengths.push_back(is_of_absent ? std::nullopt : found(length.name, true));
    if (!lengths.back()) continue;
    require_integers(*lengths.back());
    if (lengths.back()->shape() != input.leading) {
      throw Error(Failure::input,
                  fmt::format("{} has the shape {}, expected {}, the leading axes of {}",
                              lengths.back()->address(), to_string(lengths.back()->shape()),
                              to_string(input.leading), first->address()));
    }
  }
}

// Some results exist only with some options.
void MechanismTask::require_known(const std::vector<std::string>& asked) const {
  for (const std::string& name : asked) {
    const auto is_result = [&](const TensorForm& one) { return one.name == name; };
    const auto is_gradient = [&](const TensorForm& one) { return gradient_of(one.name) == name; };
    if (std::any_of(form.results.begin(), form.results.end(), is_result) ||
        std::any_of(form.inputs.begin(), form.inputs.end(), is_gradient)) {
      continue;
    }
    std::string options;
    for (const auto& [option, value] : settings_) {
      std::visit(
          [&, key = option](const auto& given) {
            if constexpr (!std::is_same_v<std::decay_t<decltype(given)>, std::monostate>) {
              options += fmt::format(" --{} {}", key, given);
            }
          },
          value);
    }
    throw Error(Failure::usage, fmt::format("--emit {} does not exist with{}", name, options));
  }
}

void MechanismTask::take_results(const cli::Arguments& arguments) {
  const std::vector<std::string> asked = arguments.words_of("emit");
  require_known(asked);
  const auto is_asked = [&](const std::string& name) {
    return std::find(asked.begin(), asked.end(), name) != asked.end();
  };
  // The first dataset that a result needs and the bundle lacks.
  const auto lacking = [&](const TensorForm& result) -> std::optional<std::string> {
    for (const std::string& name : result.needs) {
      if (!bundle.has(name)) return name;
    }
    return std::nullopt;
  };
  for (const TensorForm& result : form.results) {
    const auto lacks = lacking(result);
    if (is_asked(result.name) && lacks) {
      throw Error(Failure::usage, fmt::format("--emit {} needs the dataset {}, which {} lacks",
                                              result.name, *lacks, bundle.description()));
    }
    results.push_back(asked.empty() ? result.by_default && !lacks : is_asked(result.name));
  }
  for (std::size_t n = 0; n < form.inputs.size(); ++n) {
    const std::string name = gradient_of(form.inputs[n].name);
    gradients.push_back(is_asked(name));
    if (is_asked(name) && !inputs[n]) {
      throw Error(Failure::usage, fmt::format("--emit {} needs the dataset {}, which {} lacks",
                                              name, form.inputs[n].name, bundle.description()));
    }
  }
  upstream.resize(form.results.size());
  if (!wants_gradients()) return;
  std::string names;
  bool any = false;
  for (std::size_t n = 0; n < form.results.size(); ++n) {
    const TensorForm& result = form.results[n];
    if (!result.differentiable) continue;
    const std::string name = gradient_of(result.name);
    names += (names.empty() ? "" : ", ") + name;
    if (!bundle.has(name)) continue;
    if (const auto lacks = lacking(result)) {
      throw Error(Failure::input, fmt::format("{} needs the dataset {}, which {} lacks", name,
                                              *lacks, bundle.description()));
    }
    any = true;
    upstream[n] = bundle.dataset(name);
    require_floating(*upstream[n]);
    const Shape expected = join(input.leading, mechanisms::shape_of(result.axes, sizes));
    if (upstream[n]->shape() != expected) {
      throw Error(Failure::input,
                  fmt::format("{} has the shape {}, expected {}", upstream[n]->address(),
                              to_string(upstream[n]->shape()), to_string(expected)));
    }
  }
  if (!any) {
    throw Error(Failure::input, fmt::format("{} has none of the gradients that --emit needs: {}",
                                            bundle.description(), names));
  }
}

bool MechanismTask::wants_gradients() const {
  return std::find(gradients.begin(), gradients.end(), true) != gradients.end();
}

ProblemUnits MechanismTask::units() const {
  ProblemUnits units(input.problems);
  for (std::size_t n = 0; n < form.inputs.size(); ++n) {
    if (!gradients[n] || !is_shared(form.inputs[n])) continue;
    units.sum(gradient_of(form.inputs[n].name),
              std::vector<Index>(static_cast<std::size_t>(input.problems), 0));
  }
  return units;
}

std::vector<double> MechanismTask::work() const {
  const auto count = static_cast<std::size_t>(input.problems);
  std::vector<double> work(count, 1);
  for (const auto& dataset : lengths) {
    if (!dataset) continue;
    std::vector<std::int64_t> found(count);
    dataset->read(Shape(input.leading.size(), 0), input.leading, found.data());
    for (std::size_t n = 0; n < count; ++n) {
      work[n] *= static_cast<double>(std::max<std::int64_t>(0, found[n]));
    }
  }
  return work;
}

std::vector<ArraySource> MechanismTask::datasets() const {
  std::vector<ArraySource> all;
  for (const Found* group : {&inputs, &tokens, &lengths, &upstream}) {
    for (const auto& dataset : *group) {
      if (dataset) all.push_back(*dataset);
    }
  }
  return all;
}

RunEffect MechanismTask::effect(const cli::Arguments& arguments) const {
  RunEffect effect;
  effect.tool = arguments.tool;
  effect.settings = settings_;
  // Missing optional inputs count, too.
  std::set<std::string> read;
  for (const auto* group : {&form.inputs, &form.tokens}) {
    for (const TensorForm& one : *group) read.insert(one.name);
  }
  for (const mechanisms::LengthForm& length : form.lengths) read.insert(length.name);
  for (std::size_t n = 0; n < form.results.size(); ++n) {
    if (results[n]) effect.results[form.results[n].name] = read;
  }
  for (const TensorForm& result : form.results) {
    if (result.differentiable) read.insert(gradient_of(result.name));
  }
  for (std::size_t n = 0; n < form.inputs.size(); ++n) {
    if (gradients[n]) effect.results[gradient_of(form.inputs[n].name)] = read;
  }
  return effect;
}

void MechanismTask::report_params(cli::Report& report) const {
  auto& params = report.params();
  params["precision"] = f64 ? "f64" : "f32";
  nlohmann::ordered_json emitted = nlohmann::ordered_json::array();
  for (std::size_t n = 0; n < form.results.size(); ++n) {
    if (results[n]) emitted.push_back(form.results[n].name);
  }
  for (std::size_t n = 0; n < form.inputs.size(); ++n) {
    if (gradients[n]) emitted.push_back(gradient_of(form.inputs[n].name));
  }
  params["emit"] = emitted;
}

namespace {

// "x"; "view1 ... view8" for the first of a series.
template <class Form>
std::string series_name(const std::vector<Form>& forms, std::size_t n,
                        std::string (*named)(const std::string&)) {
  std::size_t last = n;
  while (last + 1 < forms.size() && forms[last + 1].repeated) ++last;
  return named(forms[n].name) + (last > n ? " ... " + named(forms[last].name) : "");
}
template <class Form>
std::string series_name(const std::vector<Form>& forms, std::size_t n) {
  return series_name(forms, n, [](const std::string& name) { return name; });
}

// "Reads x (..., T, D) and w (A, D); optionally b (A)."
std::string reading_words(const MechanismForm& form) {
  std::string needed;
  std::string optional;
  const auto add = [](std::string& list, const std::string& text) {
    list += (list.empty() ? "" : ", ") + text;
  };
  for (const auto* group : {&form.inputs, &form.tokens}) {
    for (std::size_t n = 0; n < group->size(); ++n) {
      const TensorForm& one = (*group)[n];
      if (one.repeated) continue;
      // Only the first input of a series may be required.
      if (!one.optional) add(needed, one.name + " " + shape_words(one));
      if (one.optional) add(optional, series_name(*group, n) + " " + shape_words(one));
    }
  }
  for (std::size_t n = 0; n < form.lengths.size(); ++n) {
    if (!form.lengths[n].repeated) add(optional, series_name(form.lengths, n) + " (...)");
  }
  return "Reads " + needed + "; optionally " + optional + ".";
}

}  // namespace

void declare_mechanism(cli::Declaration& declaration, const MechanismForm& form) {
  declaration.about(reading_words(form));
  std::vector<std::string> names;
  std::string usual;
  std::string upstream;
  for (const TensorForm& result : form.results) {
    names.push_back(result.name);
    if (result.by_default) usual += (usual.empty() ? "" : ",") + result.name;
    if (!result.differentiable) continue;
    upstream += (upstream.empty() ? "" : ", ") + gradient_of(result.name);
  }
  std::string gradients;
  for (std::size_t n = 0; n < form.inputs.size(); ++n) {
    names.push_back(gradient_of(form.inputs[n].name));
    if (form.inputs[n].repeated) continue;
    gradients += (gradients.empty() ? "" : ", ") + series_name(form.inputs, n, gradient_of);
  }
  declaration
      .choices("emit", names,
               "Results to write. grad_NAME is the gradient of a loss with respect to an input, "
               "from the datasets " +
                   upstream + " of the bundle; absent ones count as 0.")
      .default_words(usual);
  for (const auto* group : {&form.inputs, &form.tokens}) {
    for (std::size_t n = 0; n < group->size(); ++n) {
      const TensorForm& one = (*group)[n];
      if (one.repeated) continue;
      declaration.dataset(series_name(*group, n), shape_words(one),
                          one.help.empty() ? "its biases, optional"
                          : !one.needed_with.empty() && one.or_else.empty()
                              ? fmt::format("{}; needed with {}", one.help, one.needed_with)
                          : one.optional ? one.help + "; optional"
                                         : one.help);
    }
  }
  for (std::size_t n = 0; n < form.lengths.size(); ++n) {
    if (form.lengths[n].repeated) continue;
    declaration.dataset(
        series_name(form.lengths, n), "(...)",
        form.lengths[n].symbol +
            " of each sequence; the rest is padding, which is never read and has results of 0");
  }
  declaration.dataset(upstream, "", "gradients with respect to the results");
  for (std::size_t n = 0; n < form.results.size(); ++n) {
    const TensorForm& result = form.results[n];
    if (result.repeated) continue;
    declaration.result(series_name(form.results, n), shape_words(result), result.help);
  }
  declaration.result(gradients, "", "gradients of inputs, in their shapes");
}

}  // namespace attn::tools
