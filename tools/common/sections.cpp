#include "common/sections.hpp"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "attnkit/error.hpp"
#include "cli/values.hpp"
#include "common/bundles.hpp"

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
      // INPUT's dataset would be read, and the other one written beside the results.
      throw Error(Failure::usage,
                  fmt::format("both --map {0}={1} and -i define {1}, expected one", name, stored),
                  fmt::format("-i {}=ADDRESS in place of both", name));
    }
    renamed.emplace_back(name, stored);
  }
  return renamed;
}

io::OutputBundle open_whole(const cli::Arguments& arguments, const Sections& sections,
                            const std::vector<ResultPlan>& plans,
                            const io::OutputBundle::Options& options) {
  if (!sections.each()) {
    return open_output_like(arguments, sections.whole(), plans.front().without, options);
  }
  std::vector<std::string> without;
  for (std::size_t n = 0; n < sections.size(); ++n) {
    const std::string group = sections.groups()[n] + "/";
    for (const std::string& name : plans[n].without) without.push_back(group + name);
    for (const auto& named : arguments.named_inputs) without.push_back(group + named.first);
  }
  return open_output_like(arguments, sections.whole().without_named(), without, options);
}

}  // namespace

void declare_sections(cli::Declaration& declaration) {
  declaration.section("Whole dumps")
      .text(
          "each", "PATTERN",
          "Processes every group of INPUT whose path matches, such as '/text/*/layer*', and writes "
          "the results into the same groups. A * stands for any part of one name; layer2 comes "
          "before layer10. Datasets of -i apply to every group.")
      .text("map", "NAME=STORED,...",
            "Reads dataset NAME from the dataset STORED of INPUT, or of each group, as in q=Q,k=K. "
            "Other datasets are read under their own names.");
}

Sections::Sections(const cli::Arguments& arguments, cli::Report& report)
    : renamed_(parse_map(arguments)),
      input_(open_input(arguments, report, renamed_)),
      each_(arguments.given("each")),
      groups_(each_ ? input_.groups_like(arguments.text("each")) : std::vector<std::string>{""}) {}

io::InputBundle Sections::open(std::size_t section) const {
  io::InputBundle bundle = input_.group(groups_[section]);
  bundle.require_renamed();
  return bundle;
}

SectionOutput::SectionOutput(const cli::Arguments& arguments, const Sections& sections,
                             std::vector<ResultPlan> plans,
                             const io::OutputBundle::Options& options)
    : arguments_(arguments),
      sections_(sections),
      plans_(std::move(plans)),
      output_(open_whole(arguments, sections, plans_, options)) {
  if (!sections.each() || arguments.only) return;
  std::set<std::string> names;
  for (const auto& named : arguments.named_inputs) names.insert(named.first);
  for (const std::string& name : plans_.front().without) names.erase(name);
  shared_.assign(names.begin(), names.end());
}

io::OutputBundle SectionOutput::open(std::size_t section) {
  const std::string& group = sections_.groups()[section];
  io::OutputBundle results = output_.group(group);
  if (sections_.each()) fill(section, results);
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
      results.link(name, sections_.groups().front() + "/" + name);
    }
  }
}

io::OutputBundle SectionOutput::take(cli::Report& report) {
  warn_of_left_out(plans_, report);
  for (std::size_t n = 0; n < plans_.size(); ++n) {
    io::OutputBundle results = output_.group(sections_.groups()[n]);
    write_marks(plans_[n], results);
  }
  return std::move(output_);
}

}  // namespace attn::tools
