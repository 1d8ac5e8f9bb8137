#include "explain_away_stats/column_base.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "attnkit/error.hpp"

namespace attn::tools {
namespace {

cli::Arguments arguments_for_base(const cli::Arguments& arguments) {
  cli::Arguments base = arguments;
  base.input = arguments.text("against");
  base.inputs = {*base.input};
  return base;
}

std::string path_of(const std::string& file, const std::string& group) {
  return group.empty() ? file : file + ":/" + group;
}

// Heads of the last leading axis that only `more` has.
std::string missing_heads(Index from, Index to, const std::string& more, const std::string& less) {
  return from + 1 == to
             ? fmt::format("head {} of {} is not in {}", from, more, less)
             : fmt::format("heads {} to {} of {} are not in {}", from, to - 1, more, less);
}

}  // namespace

void require_against(const cli::Arguments& arguments) {
  if (!arguments.given("against")) {
    if (!arguments.given("threshold")) return;
    throw Error(Failure::usage, "--threshold has no effect without --against");
  }
  const auto refuse = [](const std::string& what, const std::string& hint = {}) {
    throw Error(Failure::usage, what + " has no meaning with --against", hint);
  };
  for (const char* const option : {"shard", "checkpoint", "rows", "full"}) {
    if (arguments.given(option)) refuse(fmt::format("--{}", option));
  }
  if (sweep_points(arguments).size() > 1) refuse("a sweep over --scale or --hybrid");
  if (arguments.dry_run) refuse("--dry-run", "run it for each file");
  if (!arguments.named_inputs.empty()) refuse("-i", "it would stand in for datasets of both files");
  if (arguments.inputs.size() > 1) refuse("more than one INPUT");
  if (arguments.output) refuse("-o of a bundle", "-o FILE.csv writes the table");
  if (arguments.input == "-" && arguments.text("against") == "-") {
    refuse("standard input as INPUT and BASE");
  }
}

ColumnBase::ColumnBase(const cli::Arguments& arguments, cli::Report& report)
    : arguments_(arguments_for_base(arguments)),
      sections_(arguments_, report, [&](const io::InputBundle& bundle) {
        return ColumnTask::suffices(arguments_, bundle);
      }) {}

std::size_t ColumnBase::place_of(const SectionName& section) const {
  for (std::size_t n = 0; n < sections_.size(); ++n) {
    if (sections_.name(n).group == section.group) return n;
  }
  return sections_.size();
}

ColumnTask ColumnBase::task(const SectionName& section) const {
  const std::size_t place = sections_.size() == 1 ? 0 : place_of(section);
  return ColumnTask(arguments_, sections_.open(place));
}

void ColumnBase::require_same(const cli::Arguments& arguments, const Sections& input) const {
  const auto only_in = [](const std::string& place, const std::string& other) {
    throw Error(Failure::input, fmt::format("{} is not in {}", place, other),
                "--each chooses groups that both have");
  };
  const std::string& base_file = arguments_.inputs.front();
  const std::string file = arguments.inputs.empty() ? "INPUT" : arguments.inputs.front();
  const bool alone = input.size() == 1 && sections_.size() == 1;
  // A BASE with nothing to compute from has no groups; the error names the datasets that it lacks.
  if (sections_.size() == 1 && sections_.name(0).group.empty()) {
    ColumnTask(arguments_, sections_.open(0));
  }
  for (std::size_t n = 0; n < input.size() && !alone; ++n) {
    const std::string& group = input.name(n).group;
    if (place_of(input.name(n)) == sections_.size()) only_in(path_of(file, group), base_file);
  }
  for (std::size_t n = 0; n < sections_.size() && !alone; ++n) {
    const std::string& group = sections_.name(n).group;
    bool found = false;
    for (std::size_t m = 0; m < input.size(); ++m) found = found || input.name(m).group == group;
    if (!found) only_in(path_of(base_file, group), file);
  }
  for (std::size_t n = 0; n < input.size(); ++n) {
    const ColumnTask own(arguments, input.open(n));
    const ColumnTask other = task(input.name(n));
    const std::string here = own.bundle.description();
    const std::string there = other.bundle.description();
    if (own.input.axes.all != other.input.axes.all) {
      throw Error(Failure::input, fmt::format("{} has {} heads, {} has {}", here,
                                              own.input.axes.all, there, other.input.axes.all));
    }
    const Shape& heads = own.input.leading;
    const Shape& base_heads = other.input.leading;
    if (heads != base_heads) {
      const bool same_batch = heads.size() == base_heads.size() && !heads.empty() &&
                              std::equal(heads.begin(), heads.end() - 1, base_heads.begin());
      if (same_batch && heads.back() > base_heads.back()) {
        throw Error(Failure::input, missing_heads(base_heads.back(), heads.back(), here, there));
      }
      if (same_batch) {
        throw Error(Failure::input, missing_heads(heads.back(), base_heads.back(), there, here));
      }
      throw Error(Failure::input, fmt::format("{} has the heads {}, {} has {}", here,
                                              to_string(heads), there, to_string(base_heads)));
    }
    if (own.options().schemes != other.options().schemes) {
      throw Error(Failure::input,
                  fmt::format("{} has statistics under {}, {} under {}", here,
                              fmt::join(own.options().schemes, ", "), there,
                              fmt::join(other.options().schemes, ", ")),
                  "--scheme says which ones to compare");
    }
  }
}

}  // namespace attn::tools
