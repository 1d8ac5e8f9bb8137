#include "common/frame/sections.hpp"

#include <algorithm>
#include <filesystem>
#include <set>

#include <fmt/format.h>

#include "attnkit/error.hpp"
#include "cli/values.hpp"
#include "cli/words.hpp"
#include "common/frame/bundles.hpp"
#include "common/shards/shard.hpp"

namespace attn::tools {
namespace {

using NamePairs = std::vector<std::pair<std::string, std::string>>;

bool names_dataset(const cli::Arguments& arguments, const std::string& name) {
  return std::any_of(arguments.named_inputs.begin(), arguments.named_inputs.end(),
                     [&](const auto& named) { return named.first == name; });
}

NamePairs parse_map(const cli::Arguments& arguments) {
  if (!arguments.given("map")) return {};
  NamePairs renamed;
  std::set<std::string> seen;
  for (const std::string& item : cli::split(arguments.text("map"), ',')) {
    const std::size_t equals = item.find('=');
    if (equals == 0 || equals == std::string::npos || equals + 1 == item.size() ||
        item[equals + 1] == '/') {
      throw Error(Failure::usage, "--map has '" + item + "', expected NAME=STORED, as in q=Q");
    }
    const std::string name = item.substr(0, equals);
    if (!seen.insert(name).second) {
      throw Error(Failure::usage, "--map names " + name + " twice");
    }
    if (names_dataset(arguments, name)) {
      throw Error(Failure::usage, "both --map and -i define " + name + ", expected one");
    }
    const std::string stored = item.substr(equals + 1);
    if (names_dataset(arguments, stored)) {
      // INPUT's dataset would be read, and the dataset of -i written beside the results.
      throw Error(Failure::usage,
                  fmt::format("both --map {0}={1} and -i define {1}, expected one", name, stored),
                  fmt::format("-i {}=ADDRESS in place of both", name));
    }
    renamed.emplace_back(name, stored);
  }
  return renamed;
}

// As most dumps do, which need no note. A link that leads nowhere is something else.
bool holds_only_groups(const io::InputBundle& input) try {
  return input.names().empty();
} catch (const Error&) {
  return false;
}

std::vector<std::string> sufficient_groups(const io::InputBundle& input, const Suffices& suffices,
                                           cli::Report& report) {
  std::vector<std::string> found;
  std::vector<std::string> halves;  // with q or k alone: "layer1 has q but no k"
  bool of_vectors = false;
  for (const std::string& path : input.all_groups()) {
    const io::InputBundle group = input.group(path);
    const bool has_q = group.is_dataset("q");
    const bool has_k = group.is_dataset("k");
    if (suffices(group)) {
      found.push_back(path);
      of_vectors = of_vectors || (has_q && has_k);
    } else if (has_q != has_k) {
      halves.push_back(path + (has_q ? " has q but no k" : " has k but no q"));
    }
  }
  if (of_vectors && !halves.empty()) {
    report.warn(fmt::format(
        "{}: {}{}: left out", input.description(), halves.front(),
        halves.size() == 1
            ? ""
            : ", and so on in " + cli::counted(halves.size() - 1, "more group", "more groups")));
  }
  return found;
}

io::OutputBundle open_whole(const cli::Arguments& arguments, const Sections& sections,
                            const std::vector<ResultPlan>& plans,
                            const io::OutputBundle::Options& options) {
  if (!sections.several()) {
    return open_output_like(arguments, sections.whole(), plans.front().without, options);
  }
  std::vector<std::string> without;
  for (std::size_t n = 0; n < sections.size(); ++n) {
    const std::string group = sections.name(n).group + "/";
    for (const std::string& name : plans[n].without) without.push_back(group + name);
    for (const auto& named : arguments.named_inputs) without.push_back(group + named.first);
  }
  return open_output_like(arguments, sections.whole().without_named(), without, options);
}

// A root may have settings that no tool can read, if only its groups are processed.
bool root_suffices(const io::InputBundle& input, const Suffices& suffices) try {
  return suffices(input);
} catch (const Error&) {
  return false;
}

// "--each FILE" reads groups from standard input, which is seldom meant.
void refuse_file_as_pattern(const cli::Arguments& arguments) {
  if (!arguments.given("each") || arguments.input != "-") return;
  const std::string& file = arguments.text("each");
  std::error_code none;
  if (!std::filesystem::is_regular_file(file, none)) return;
  throw Error(Failure::usage,
              fmt::format("--each is {}, a file, expected a pattern of groups", file),
              fmt::format("all groups of the file: --each '*' {}", file));
}

}  // namespace

void declare_groups(cli::Declaration& declaration, const std::string& use) {
  declaration.section("Whole dumps")
      .text("each", "PATTERN",
            "Processes every group of INPUT whose path matches, such as '/text/*/layer*' or "
            "'blocks.*.attn'" +
                use +
                ". A * stands for any part of one name; layer2 comes before layer10. Datasets of "
                "-i apply to every group.")
      .default_words("INPUT itself or, if it holds nothing to compute from, all groups that do")
      .text("map", "NAME=STORED,...",
            "Reads dataset NAME from the dataset STORED of INPUT, or of each group, as in q=Q,k=K. "
            "Other datasets are read under their own names.");
}

void declare_sections(cli::Declaration& declaration, const std::string& units) {
  declare_groups(declaration, ", and writes the results into the same groups");
  declare_shard(declaration,
                units.empty() ? "the groups" : "the groups or, without groups, the " + units);
}

Sections::Sections(const cli::Arguments& arguments, cli::Report& report, const Suffices& suffices)
    : renamed_(parse_map(arguments)), several_(arguments.inputs.size() > 1) {
  refuse_file_as_pattern(arguments);
  if (arguments.inputs.empty()) {
    add("", open_input(arguments, report, renamed_), arguments, suffices, report);
  }
  for (const std::string& file : arguments.inputs) {
    add(file, open_one_input(arguments, file, report, renamed_), arguments, suffices, report);
  }
}

void Sections::add(const std::string& file, io::InputBundle input, const cli::Arguments& arguments,
                   const Suffices& suffices, cli::Report& report) {
  std::vector<std::string> groups;
  if (arguments.given("each")) {
    groups = input.groups_like(arguments.text("each"));
  } else if (!suffices(input)) {
    groups = sufficient_groups(input, suffices, report);
    if (!groups.empty() && !holds_only_groups(input)) {
      report.note(fmt::format(
          "{} holds nothing to compute from outside its groups: {} (--each chooses groups)",
          input.description(),
          groups.size() == 1
              ? "the result is that of its group " + groups.front()
              : fmt::format("the results are those of its {} groups that do", groups.size())));
    }
  }
  several_ = several_ || !groups.empty();
  of_groups_.push_back(!groups.empty() && !root_suffices(input, suffices));
  // Without such a group the error names the datasets that INPUT lacks.
  if (groups.empty()) groups.emplace_back();
  const std::size_t at = inputs_.size();
  for (const std::string& group : groups) {
    SectionName name{file, group, cli::one_line(group)};
    if (arguments.inputs.size() > 1) {
      name.label = cli::one_line(group.empty() ? file : file + ":/" + group);
    }
    parts_.push_back({at, std::move(name)});
  }
  inputs_.push_back(std::move(input));
}

void Sections::keep(std::size_t first, std::size_t last) {
  parts_ = std::vector<Part>(parts_.begin() + static_cast<std::ptrdiff_t>(first),
                             parts_.begin() + static_cast<std::ptrdiff_t>(last));
}

std::string Sections::description() const {
  return inputs_.size() == 1 ? whole().description() : fmt::format("{} files", inputs_.size());
}

io::InputBundle Sections::open(std::size_t section) const {
  const Part& part = parts_[section];
  io::InputBundle bundle = inputs_[part.input].group(part.name.group);
  bundle.require_renamed();
  return bundle;
}

bool Sections::every_group(std::size_t input,
                           const std::function<bool(const io::InputBundle&)>& has) const {
  return std::all_of(parts_.begin(), parts_.end(), [&](const Part& part) {
    return part.input != input || has(inputs_[input].group(part.name.group));
  });
}

void Sections::warn_of_root(const cli::Arguments& arguments, cli::Report& report) const {
  for (std::size_t at = 0; at < inputs_.size(); ++at) {
    if (!of_groups_[at]) continue;
    const io::InputBundle& input = inputs_[at];
    std::vector<std::string> addresses;
    std::string options;
    for (const std::string& name : input.requested_datasets()) {
      if (every_group(at, [&](const auto& group) { return group.is_dataset(name); })) continue;
      addresses.push_back(input.dataset(name).address());
      const bool is_stream = arguments.input == "-";
      options += " -i " + name + "=" + (is_stream ? "ADDRESS" : addresses.back());
    }
    if (!addresses.empty()) {
      // -i holds for all files.
      report.warn(fmt::format("{} {} not apply to the groups: {}{}", fmt::join(addresses, ", "),
                              addresses.size() == 1 ? "does" : "do",
                              inputs_.size() == 1 ? "use" : "run each file alone with", options));
    }
    for (const std::string& name : input.requested_attributes()) {
      if (every_group(at, [&](const auto& group) { return group.has_attribute(name); })) continue;
      // A group is refused with the attribute of another program, such as causal.
      const bool is_own = name.starts_with("attn_");
      report.warn(fmt::format("{}: attribute {} does not apply to the groups: {}give the option",
                              input.description(), name,
                              is_own ? "set it at each group, or " : ""));
    }
  }
}

SectionOutput::SectionOutput(const cli::Arguments& arguments, const Sections& sections,
                             std::vector<ResultPlan> plans,
                             const io::OutputBundle::Options& options)
    : arguments_(arguments),
      sections_(sections),
      plans_(std::move(plans)),
      output_(open_whole(arguments, sections, plans_, options)) {
  if (!sections.several() || arguments.only) return;
  std::set<std::string> names;
  for (const auto& named : arguments.named_inputs) names.insert(named.first);
  for (const std::string& name : plans_.front().without) names.erase(name);
  shared_.assign(names.begin(), names.end());
}

io::OutputBundle SectionOutput::open(std::size_t section) {
  io::OutputBundle results = output_.group(sections_.name(section).group);
  if (sections_.several()) fill(section, results);
  for (const std::string& name : plans_[section].removed_attributes) results.remove_attribute(name);
  return results;
}

void SectionOutput::fill(std::size_t section, io::OutputBundle& results) {
  if (arguments_.only) {
    results.copy_attributes_from(sections_.open(section));
  } else if (section == 0) {
    results.copy_named_from(sections_.open(section), plans_.front().without);
  } else {
    for (const std::string& name : shared_) {
      results.link(name, sections_.name(0).group + "/" + name);
    }
  }
}

io::OutputBundle SectionOutput::take(cli::Report& report) {
  warn_of_left_out(plans_, report);
  for (std::size_t n = 0; n < plans_.size(); ++n) {
    io::OutputBundle results = output_.group(sections_.name(n).group);
    write_marks(plans_[n], results);
  }
  return std::move(output_);
}

}  // namespace attn::tools
