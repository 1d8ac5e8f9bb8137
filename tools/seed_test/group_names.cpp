#include "seed_test/group_names.hpp"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <functional>
#include <set>

namespace attn::tools {
namespace {

using Files = std::vector<std::string>;

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }
bool is_separator(char c) { return std::string_view("-_./= ").find(c) != std::string_view::npos; }

// The file without its ending.
std::string stem(const std::string& file) {
  return std::filesystem::path(file).replace_extension().string();
}

std::string common_beginning(const Files& files) {
  std::string common = files.front();
  for (const std::string& file : files) {
    const auto ends = std::mismatch(common.begin(), common.end(), file.begin(), file.end());
    common.erase(ends.first, common.end());
  }
  return common;
}

template <class Predicate>
void drop_last(std::string& text, const Predicate& predicate) {
  while (!text.empty() && predicate(text.back())) text.pop_back();
}

std::string name_by_beginning(const Files& files) {
  Files stems;
  std::transform(files.begin(), files.end(), std::back_inserter(stems), stem);
  std::string name = common_beginning(stems);
  // The seeds 10 and 11 have their first digit in common.
  const bool in_number = std::any_of(stems.begin(), stems.end(), [&](const std::string& file) {
    return file.size() > name.size() && is_digit(file[name.size()]);
  });
  if (in_number) drop_last(name, is_digit);
  drop_last(name, is_separator);
  const std::string seed = "seed";
  if (files.size() > 1 && name.ends_with(seed)) name.erase(name.size() - seed.size());
  drop_last(name, is_separator);
  return std::filesystem::path(name).filename().string();
}

std::string name_by_end(const Files& files) {
  Files reversed;
  for (const std::string& file : files) {
    reversed.push_back(stem(file));
    std::reverse(reversed.back().begin(), reversed.back().end());
  }
  std::string name = common_beginning(reversed);
  const auto begins_name = [](char c) { return !is_separator(c) && !is_digit(c); };
  drop_last(name, std::not_fn(begins_name));
  std::reverse(name.begin(), name.end());
  return std::filesystem::path(name).filename().string();
}

}  // namespace

std::vector<std::string> names_of_groups(const std::vector<Files>& groups) {
  for (const auto& rule : {name_by_beginning, name_by_end}) {
    std::vector<std::string> names;
    std::transform(groups.begin(), groups.end(), std::back_inserter(names), rule);
    const std::set<std::string> different(names.begin(), names.end());
    if (different.size() == names.size() && !different.contains("")) return names;
  }
  std::vector<std::string> letters = {"A", "B"};
  letters.resize(groups.size());
  return letters;
}

}  // namespace attn::tools
