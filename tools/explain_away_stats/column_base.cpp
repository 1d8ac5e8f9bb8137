#include "explain_away_stats/column_base.hpp"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "attnkit/error.hpp"
#include "cli/words.hpp"

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

// The last leading axis of `more` has more heads than that of `less`.
[[noreturn]] void refuse_heads(const ColumnTask& less, const ColumnTask& more) {
  const Shape& shared = less.input.leading;
  const Index first = shared.back();
  const Index last = more.input.leading.back() - 1;
  std::string hint;
  const ScoreOptions& options = more.input.options;
  // Heads that share keys would be given others by slices.
  const bool own_keys = more.input.k && more.input.k->input.leading == more.input.leading;
  if (options.source == ScoreOptions::Source::vectors && own_keys &&
      options.layout == ScoreOptions::Layout::heads_first) {
    std::string axes;
    for (std::size_t axis = 0; axis + 1 < shared.size(); ++axis) axes += ":,";
    hint = fmt::format(
        "tensor-convert 'q=FILE:/q[{0}:{1}]' 'k=FILE:/k[{0}:{1}]' -o FILE2 writes the heads that "
        "both have",
        axes, first);
  }
  const std::string which =
      first == last
          ? fmt::format("head {} of {} is", first, more.bundle.description())
          : fmt::format("heads {} to {} of {} are", first, last, more.bundle.description());
  throw Error(Failure::input, which + " not in " + less.bundle.description(), hint);
}

// The groups of `sections` that `others` lack.
std::vector<std::string> missing_groups(const Sections& sections, const Sections& others) {
  std::set<std::string> there;
  for (std::size_t n = 0; n < others.size(); ++n) there.insert(others.name(n).group);
  std::vector<std::string> missing;
  for (std::size_t n = 0; n < sections.size(); ++n) {
    const std::string& group = sections.name(n).group;
    if (there.count(group) == 0) missing.push_back(group);
  }
  return missing;
}

void require_groups(const std::string& file, const Sections& sections, const std::string& other,
                    const Sections& others) {
  const std::vector<std::string> missing = missing_groups(sections, others);
  // That `others` is no dump of groups is found the other way round.
  if (missing.empty() || others.name(0).group.empty()) return;
  if (missing.front().empty()) {
    throw Error(Failure::input,
                fmt::format("{} is no dump of groups, {} has {}", file, other,
                            cli::counted(others.size(), "group")),
                fmt::format("name one of them: {}", path_of(other, others.name(0).group)));
  }
  constexpr std::size_t most = 5;
  std::string list = path_of(file, missing.front());
  for (std::size_t n = 1; n < std::min(most, missing.size()); ++n) list += ", " + missing[n];
  if (missing.size() > most) list += fmt::format(" and {} more", missing.size() - most);
  throw Error(Failure::input,
              fmt::format("{} {} not in {}", list, missing.size() == 1 ? "is" : "are", other),
              missing.size() < sections.size()
                  ? "--each chooses groups that both have"
                  : fmt::format("FILE:/group compares one group with another, such as {}",
                                path_of(other, others.name(0).group)));
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
  const std::string& base_file = arguments_.inputs.front();
  const std::string file = arguments.inputs.empty() ? "INPUT" : arguments.inputs.front();
  const bool alone = input.size() == 1 && sections_.size() == 1;
  // A BASE with nothing to compute from has no groups; the error names the datasets that it lacks.
  if (sections_.size() == 1 && sections_.name(0).group.empty()) {
    ColumnTask(arguments_, sections_.open(0));
  }
  if (!alone) {
    require_groups(file, input, base_file, sections_);
    require_groups(base_file, sections_, file, input);
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
      if (same_batch && heads.back() > base_heads.back()) refuse_heads(other, own);
      if (same_batch) refuse_heads(own, other);
      throw Error(Failure::input,
                  fmt::format("{} has the heads {}, {} has {}", here, to_string(heads), there,
                              to_string(base_heads)),
                  "both need the same leading axes");
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
