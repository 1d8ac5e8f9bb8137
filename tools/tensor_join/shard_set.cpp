#include "tensor_join/shard_set.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "attnkit/error.hpp"
#include "cli/words.hpp"
#include "common/frame/bundles.hpp"
#include "system/paths.hpp"
#include "tensor_join/held_twice.hpp"
#include "tensor_join/warning_join.hpp"

namespace attn::tools {
namespace {

[[noreturn]] void refuse(const std::string& why, const std::string& hint = "") {
  throw Error(Failure::input, why, hint);
}

bool divided_alike(const ShardMarks& one, const ShardMarks& other) {
  if (one.divided.has_value() != other.divided.has_value()) return false;
  return !one.divided || (one.divided->group == other.divided->group &&
                          one.divided->problems.problems() == other.divided->problems.problems());
}

// "2, 5 and 7", at most five of them.
std::string listed(const std::vector<std::string>& names) {
  constexpr std::size_t most = 5;
  if (names.size() == 1) return names.front();
  const std::size_t shown = std::min(names.size(), most);
  const auto begin = names.begin();
  const auto end = begin + static_cast<std::ptrdiff_t>(shown);
  if (names.size() > most) {
    return fmt::format("{} and {} more", fmt::join(begin, end, ", "), names.size() - most);
  }
  return fmt::format("{} and {}", fmt::join(begin, end - 1, ", "), *(end - 1));
}

// The name by which a virtual dataset in `output` refers to a shard: relative, so that both can
// move together.
std::string virtual_source(const std::string& file, const std::string& output) {
  constexpr std::string_view signature = "\x89HDF\r\n\x1a\n";
  std::string beginning(signature.size(), '\0');
  std::ifstream(file, std::ios::binary).read(beginning.data(), std::ssize(signature));
  if (!std::filesystem::is_regular_file(file) || beginning != signature) {
    throw Error(Failure::usage, "--virtual refers to HDF5 files, but " + file + " is none");
  }
  std::error_code missing;  // an output that does not exist yet is no shard
  if (std::filesystem::equivalent(file, output, missing)) {
    throw Error(Failure::usage,
                fmt::format("--virtual refers to the shard {}, but --output {} is the same file, "
                            "which would be replaced",
                            file, output));
  }
  // A link at the end of `output` stays, and its target is written.
  const std::filesystem::path from =
      std::filesystem::weakly_canonical(folder_of(without_links(output)));
  return std::filesystem::canonical(file).lexically_relative(from).string();
}

// A second reader of a pipe would wait forever.
void require_pipes_once(const std::vector<std::string>& files) {
  std::map<std::pair<dev_t, ino_t>, std::string> pipes;
  for (const std::string& file : files) {
    struct stat status {};
    if (stat(file.c_str(), &status) != 0 || !S_ISFIFO(status.st_mode)) continue;
    const auto [before, is_new] = pipes.emplace(std::pair(status.st_dev, status.st_ino), file);
    if (is_new) continue;
    throw Error(Failure::usage, before->second + " and " + file +
                                    " are the same pipe, which can be read only once");
  }
}

bool has(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool has_attribute(const io::InputBundle& bundle, const std::string& name) {
  return has(bundle.attribute_names(), name);
}

}  // namespace

ShardSet::ShardSet(const cli::Arguments& arguments, cli::Report& report,
                   const std::vector<std::string>& files) {
  require_pipes_once(files);
  ListMemory memory{arguments.memory};
  for (const std::string& file : files) {
    io::InputBundle::Options options = input_options(arguments, report);
    options.input = file;
    io::InputBundle bundle(options);
    ShardMarks marks = read_shard_marks(bundle, memory);
    run_ = described_run(marks.run, bundle.description() + ": the description of its run");
    const std::string source =
        arguments.flag("virtual") ? virtual_source(file, *arguments.output) : "";
    shards_.push_back({file, source, std::move(bundle), std::move(marks)});
  }
  require_one_run();
  std::stable_sort(shards_.begin(), shards_.end(), [](const Part& a, const Part& b) {
    return a.marks.shard.number < b.marks.shard.number;
  });
  require_each_once();
  divides_problems() ? take_pieces() : require_all_groups();
}

void ShardSet::require_one_run() const {
  const Part& first = shards_.front();
  for (const Part& one : shards_) {
    if (one.marks.shard.count != first.marks.shard.count) {
      refuse(fmt::format("{} is one of {}, but {} is one of {}", one.file,
                         cli::counted(one.marks.shard.count, "shard"), first.file,
                         first.marks.shard.count));
    }
    if (one.marks.run != first.marks.run || one.marks.groups != first.marks.groups ||
        !divided_alike(one.marks, first.marks)) {
      refuse(fmt::format("{} is of another run than {}: {}", one.file, first.file,
                         one.marks.run == first.marks.run
                             ? "it is divided differently"
                             : run_difference(one.marks.run, first.marks.run)));
    }
  }
}

void ShardSet::require_each_once() const {
  const Index count = shards_.front().marks.shard.count;
  std::vector<std::string> missing;
  std::size_t next = 0;
  for (Index number = 1; number <= count; ++number) {
    if (next == shards_.size() || shards_[next].marks.shard.number != number) {
      missing.push_back(std::to_string(number));
      continue;
    }
    const Part& found = shards_[next++];
    if (next < shards_.size() && shards_[next].marks.shard.number == number) {
      refuse(fmt::format("{} and {} are both shard {} of {}", found.file, shards_[next].file,
                         number, count));
    }
  }
  if (missing.empty()) return;
  const bool one_only = missing.size() == 1;
  refuse(fmt::format("{} {} of {} {} missing", one_only ? "shard" : "shards", listed(missing),
                     count, one_only ? "is" : "are"),
         fmt::format("run the command again with --shard {}/{}", missing.front(), count));
}

void ShardSet::require_all_groups() const {
  std::vector<std::string> found;
  for (const Part& one : shards_) {
    const std::vector<std::string> there = one.bundle.all_groups();
    const std::set<std::string> names(there.begin(), there.end());
    for (const std::string& group : one.marks.own) {
      if (names.count(group) == 0) refuse(one.file + " lacks its group " + group);
      found.push_back(group);
    }
  }
  // Shards have consecutive groups.
  if (found != shards_.front().marks.groups) {
    refuse("the shards do not have each group of the run once");
  }
}

void ShardSet::require_all_problems() const {
  const Index count = shards_.front().marks.divided->problems.problems();
  Index found = 0;
  for (const Part& one : shards_) found += one.marks.divided->problems.size();
  if (found < count) {
    refuse(fmt::format("the shards have only {} of the {}", found, cli::counted(count, "problem")));
  }
  std::vector<const std::vector<Index>*> lists;
  for (const Part& one : shards_) lists.push_back(&one.marks.divided->problems.own());
  if (const auto twice = held_twice(lists, count)) {
    refuse(fmt::format("{} and {} both have problem {}", shards_[twice->first].file,
                       shards_[twice->second].file, twice->number));
  }
}

void ShardSet::take_pieces() {
  require_all_problems();
  std::vector<std::string> names;  // in the order of the first shard that has them
  std::map<std::string, std::vector<PieceJoin::Part>> parts;
  for (const Part& one : shards_) {
    for (const ProblemShare::Piece& piece : one.marks.divided->problems.pieces()) {
      std::vector<PieceJoin::Part>& of = parts[piece.layout.name];
      if (of.empty()) names.push_back(piece.layout.name);
      of.push_back({one.file, one.source, &one.bundle, &piece});
    }
  }
  const std::string& group = shards_.front().marks.divided->group;
  for (const std::string& name : names) pieces_.emplace_back(group, std::move(parts[name]));
}

std::size_t ShardSet::units() const {
  const ShardMarks& marks = shards_.front().marks;
  return marks.divided ? static_cast<std::size_t>(marks.divided->problems.problems())
                       : marks.groups.size();
}

std::string ShardSet::units_text() const {
  return cli::counted(units(), divides_problems() ? "problem" : "group");
}

void ShardSet::write(io::OutputBundle& output, const std::vector<std::string>& without) const {
  std::vector<std::string> apart = without;
  apart.emplace_back(shard_group);
  for (const PieceJoin& piece : pieces_) apart.push_back(piece.path());
  for (const Part& one : shards_) {
    // A shard without problems has the attributes of INPUT, not the attributes of results.
    if (one.marks.divided && one.marks.divided->problems.size() == 0) continue;
    write_whole_shard(one, apart, output);
  }
  for (const PieceJoin& piece : pieces_) {
    if (!has(without, piece.path())) piece.write(output);
  }
  if (divides_problems()) write_ranked(output);
}

// Copies the datasets that are not assembled from several shards; virtual datasets refer to the
// rest.
void ShardSet::write_whole_shard(const Part& one, std::vector<std::string> apart,
                                 io::OutputBundle& output) const {
  std::vector<std::string> referred;
  if (!one.source.empty()) {
    std::vector<std::string> groups = one.bundle.all_groups();
    groups.emplace_back();
    for (const std::string& group : groups) {
      if (is_of_shard_marks(group)) continue;
      for (const std::string& name : one.bundle.group(group).names()) {
        const std::string path = path_in(group, name);
        const ArraySource dataset = one.bundle.dataset(path);
        if (has(apart, path) || !can_be_virtual(dataset.dtype(), dataset.shape())) continue;
        referred.push_back(path);
      }
    }
  }
  apart.insert(apart.end(), referred.begin(), referred.end());
  output.copy_from(one.bundle, apart);
  for (const std::string& path : referred) {
    const ArraySource dataset = one.bundle.dataset(path);
    const Shape start(dataset.shape().size(), 0);
    const Shape& count = dataset.shape();
    output.create_virtual(path, dataset.dtype(), count, {},
                          {{one.source, "/" + path, count, start, count, start, count}});
    output.copy_dataset_attributes(path, one.bundle, path, true);
  }
}

void ShardSet::write_ranked(io::OutputBundle& output) const {
  struct Best {
    std::vector<double> key;
    const Part* shard;
  };
  std::map<std::string, Best> best;  // by attribute
  for (const Part* const one : by_first_problem()) {
    for (const ProblemShare::Ranked& ranked : one->marks.divided->problems.ranked()) {
      for (const std::string& name : ranked.attributes) {
        const auto [found, is_new] = best.emplace(name, Best{ranked.key, one});
        if (!is_new && found->second.key < ranked.key) found->second = {ranked.key, one};
      }
    }
  }
  const auto place = [&](const std::string& path) {  // of "unas/attn_status"
    return group_and_name(path_in(shards_.front().marks.divided->group, path));
  };
  for (const auto& [path, from] : best) {
    const auto [group, name] = place(path);
    io::OutputBundle results = output.group(group);
    results.remove_attribute(name);
    // Copies only missing objects.
    results.copy_attributes_from(from.shard->bundle.group(group));
  }
  for (const auto& [path, from] : best) {
    const auto [group, name] = place(path);
    if (!has_attribute(from.shard->bundle.group(group), name)) {
      output.group(group).remove_attribute(name);
    }
  }
}

std::vector<const ShardSet::Part*> ShardSet::by_first_problem() const {
  std::vector<const Part*> found;
  for (const Part& one : shards_) {
    if (one.marks.divided->problems.size() > 0) found.push_back(&one);
  }
  std::sort(found.begin(), found.end(), [](const Part* a, const Part* b) {
    return a->marks.divided->problems.own().front() < b->marks.divided->problems.own().front();
  });
  return found;
}

std::vector<std::string> ShardSet::removed(const io::InputBundle& input) const {
  std::vector<std::string> there = input.all_groups();
  there.emplace_back();
  std::set<std::string> found;
  for (const Part& one : shards_) {
    std::vector<std::string> groups = one.marks.own;
    if (one.marks.divided && one.marks.divided->problems.size() > 0) {
      groups = {one.marks.divided->group};
    }
    for (const std::string& group : groups) {
      if (!has(there, group)) continue;
      const std::vector<std::string> kept = one.bundle.group(group).attribute_names();
      for (const std::string& name : input.group(group).attribute_names()) {
        if (!has(kept, name)) found.insert(path_in(group, name));
      }
    }
  }
  for (const std::string& path : all(&ShardMarks::removed)) found.insert(path);
  return {found.begin(), found.end()};
}

std::vector<std::string> ShardSet::groups() const {
  const ShardMarks& marks = shards_.front().marks;
  return marks.divided ? std::vector<std::string>{marks.divided->group} : marks.groups;
}

ShardSet::Warnings ShardSet::warnings() const {
  Warnings all;
  std::vector<std::vector<cli::Report::OwnWarning>> own;
  for (const Part& one : shards_) {
    own.push_back(one.marks.warnings.own);
    all.outdated.insert(one.marks.warnings.outdated.begin(), one.marks.warnings.outdated.end());
  }
  all.unused = shards_.front().marks.warnings.unused;
  if (divides_problems()) {
    all.lines = {joined_warnings(own)};
    return all;
  }
  all.lines.emplace_back();
  for (const Part& one : shards_) {
    const auto& warnings = one.marks.warnings.own;
    auto next = one.marks.report.begin();
    for (std::size_t n = 0; n <= warnings.size(); ++n) {
      // The report on a section follows; later warnings belong to another section.
      for (; next != one.marks.report.end() && next->warnings == n; ++next)
        all.lines.emplace_back();
      if (n < warnings.size()) all.lines.back().push_back(warnings[n].line);
    }
  }
  return all;
}

std::vector<std::vector<ShardSet::ReportPart>> ShardSet::report_parts() const {
  std::vector<std::vector<ReportPart>> sections;
  const auto reports = [](const Part& one) { return !one.marks.report.empty(); };
  if (std::none_of(shards_.begin(), shards_.end(), reports)) return sections;
  for (const Part& one : shards_) {
    const auto& divided = one.marks.divided;
    const bool has_results = divided ? divided->problems.size() > 0 : !one.marks.own.empty();
    if (has_results && one.marks.report.empty()) refuse(one.file + " lacks notes of its report");
    for (const ReportNotes& notes : one.marks.report) {
      if (!divided || sections.empty()) sections.emplace_back();
      sections.back().push_back(
          {one.file, &one.bundle, &notes, divided ? &divided->problems.own() : nullptr});
    }
  }
  return sections;
}

bool ShardSet::refers_outside() const {
  return std::any_of(shards_.begin(), shards_.end(),
                     [](const Part& one) { return one.source.starts_with("../"); });
}

bool ShardSet::not_converged(const Part& one) const {
  const auto stopped = [&](const std::string& path) {
    const auto [group, name] = group_and_name(path);
    return one.bundle.group(group).text_attribute(name) == "not_converged";
  };
  const auto is_status = [](const std::string& path) {
    return group_and_name(path).second == "attn_status";
  };
  if (one.marks.divided) {
    if (one.marks.divided->problems.size() == 0) return false;
    for (const ProblemShare::Ranked& ranked : one.marks.divided->problems.ranked()) {
      for (const std::string& path : ranked.attributes) {
        if (is_status(path) && stopped(path_in(one.marks.divided->group, path))) return true;
      }
    }
    return false;
  }
  // Other tools copy the attribute of an earlier run.
  if (tool() != "attn-compute" && tool() != "sinkhorn-iter") return false;
  return std::any_of(one.marks.own.begin(), one.marks.own.end(), [&](const std::string& group) {
    return stopped(path_in(group, "attn_status"));
  });
}

std::string ShardSet::not_converged() const {
  std::vector<std::string> files;
  for (const Part& one : shards_) {
    if (not_converged(one)) files.push_back(one.file);
  }
  return files.empty() ? "" : listed(files);
}

std::vector<std::string> ShardSet::all(std::vector<std::string> ShardMarks::*list) const {
  std::vector<std::string> found;
  for (const Part& one : shards_) {
    found.insert(found.end(), (one.marks.*list).begin(), (one.marks.*list).end());
  }
  return found;
}

std::vector<std::string> ShardSet::left_out() const { return all(&ShardMarks::left_out); }

}  // namespace attn::tools
