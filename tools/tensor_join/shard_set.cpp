#include "tensor_join/shard_set.hpp"

#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "attnkit/error.hpp"
#include "common/bundles.hpp"

namespace attn::tools {
namespace {

using Json = nlohmann::ordered_json;

[[noreturn]] void refuse(const std::string& why, const std::string& hint = "") {
  throw Error(Failure::input, why, hint);
}

// Where two runs differ: "scheme is dnas, not unas".
std::string difference(const std::string& one, const std::string& other) {
  const Json a = Json::parse(one, nullptr, false).flatten();
  const Json b = Json::parse(other, nullptr, false).flatten();
  const auto text = [](const Json& run, const std::string& key) {
    const auto found = run.find(key);
    return found == run.end() ? std::string("absent") : found->dump();
  };
  std::set<std::string> keys;
  for (const Json* const run : {&a, &b}) {
    for (const auto& item : run->items()) keys.insert(item.key());
  }
  for (const std::string& key : keys) {
    if (text(a, key) == text(b, key)) continue;
    const std::string name = key.starts_with("/options/") ? key.substr(9) : key.substr(1);
    return fmt::format("{} is {}, not {}", name, text(a, key), text(b, key));
  }
  return "their groups differ";
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

}  // namespace

ShardSet::ShardSet(const cli::Arguments& arguments, cli::Report& report,
                   const std::vector<std::string>& files) {
  for (const std::string& file : files) {
    io::InputBundle::Options options = input_options(arguments, report);
    options.input = file;
    io::InputBundle bundle(options);
    ShardMarks marks = read_shard_marks(bundle);
    shards_.push_back({file, std::move(bundle), std::move(marks)});
  }
  require_one_run();
  std::stable_sort(shards_.begin(), shards_.end(), [](const Part& a, const Part& b) {
    return a.marks.shard.number < b.marks.shard.number;
  });
  require_each_once();
  require_all_groups();
}

void ShardSet::require_one_run() const {
  const Part& first = shards_.front();
  for (const Part& one : shards_) {
    if (one.marks.shard.count != first.marks.shard.count) {
      refuse(fmt::format("{} is one of {} shards, but {} is one of {}", one.file,
                         one.marks.shard.count, first.file, first.marks.shard.count));
    }
    if (one.marks.run != first.marks.run || one.marks.groups != first.marks.groups) {
      refuse(fmt::format("{} is of another run than {}: {}", one.file, first.file,
                         difference(one.marks.run, first.marks.run)));
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
  refuse(fmt::format("{} {} of {} {} missing", missing.size() == 1 ? "shard" : "shards",
                     listed(missing), count, missing.size() == 1 ? "is" : "are"),
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
  // Shards have groups that follow each other.
  if (found != shards_.front().marks.groups) {
    refuse("the shards do not have each group of the run once");
  }
}

std::vector<std::string> ShardSet::all(std::vector<std::string> ShardMarks::*list) const {
  std::vector<std::string> found;
  for (const Part& one : shards_) {
    found.insert(found.end(), (one.marks.*list).begin(), (one.marks.*list).end());
  }
  return found;
}

std::vector<std::string> ShardSet::left_out() const { return all(&ShardMarks::left_out); }
std::vector<std::string> ShardSet::removed() const { return all(&ShardMarks::removed); }

}  // namespace attn::tools
