#include "alignment_attention/link_file.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <sstream>
#include <string_view>

#include <fmt/format.h>

#include "attnkit/error.hpp"
#include "cli/values.hpp"
#include "common/costs/block_plan.hpp"
#include "common/frame/text_input.hpp"
#include "common/tables/column_text.hpp"

namespace attn::tools {
namespace {

constexpr std::size_t most_text = std::size_t{1} << 30;
constexpr std::size_t shown_characters = 40;

// The text; links of at least four characters each, in vectors that may have doubled; and a vector
// for each line.
std::int64_t bytes_for(const std::string& text) {
  constexpr std::int64_t character = 1 + 2 * sizeof(WordLink) / 4;
  constexpr std::int64_t line = 2 * sizeof(std::vector<WordLink>);
  const std::int64_t lines = std::count(text.begin(), text.end(), '\n') + 1;
  return static_cast<std::int64_t>(text.size()) * character + lines * line;
}

std::optional<Index> word_number(std::string_view text) {
  if (text.empty() || text.find_first_not_of("0123456789") != std::string_view::npos) {
    return std::nullopt;
  }
  const std::optional<Index> number = cli::to_integer(text);
  return number && *number <= std::numeric_limits<std::int32_t>::max() ? number : std::nullopt;
}

// As written: words are not yet counted from 0.
std::optional<WordLink> written_link(std::string_view text) {
  const std::size_t sign = text.find_first_of("-p");
  if (sign == std::string_view::npos) return std::nullopt;
  const std::optional<Index> source = word_number(text.substr(0, sign));
  const std::optional<Index> target = word_number(text.substr(sign + 1));
  if (!source || !target) return std::nullopt;
  return WordLink{*source, *target, text[sign] == '-'};
}

}  // namespace

LinkFile::LinkFile(const std::string& file, Index base, const std::string& base_option,
                   std::int64_t memory)
    : file_(file), base_(base), base_option_(base_option) {
  const std::string text =
      read_text(file, std::min(most_text, static_cast<std::size_t>(memory)), "links of words");
  bytes_ = bytes_for(text);
  require_memory("the links of " + file, bytes_, memory);
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    // place() names the line that is being read.
    pairs_.emplace_back();
    pairs_.back() = read_line(line);
  }
}

std::string LinkFile::place(Index pair) const {
  return fmt::format("{}: line {}", file_, pair + 1);
}

std::vector<WordLink> LinkFile::read_line(const std::string& text) const {
  std::vector<WordLink> links;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    std::optional<WordLink> link = written_link(word);
    if (!link) {
      throw Error(Failure::input,
                  fmt::format("{}: {} is no link, expected I-J or IpJ, as in 3-4",
                              place(pairs() - 1), printable(word, shown_characters)));
    }
    if (std::min(link->source, link->target) < base_) {
      throw Error(Failure::input,
                  fmt::format("{}: {} has a word 0, but --{} is {}", place(pairs() - 1), word,
                              base_option_, base_),
                  fmt::format("--{} 0, if the file counts words from 0", base_option_));
    }
    link->source -= base_;
    link->target -= base_;
    links.push_back(*link);
  }
  return link_set(std::move(links));
}

void LinkFile::require_within(Index pair, Index source_words, Index target_words,
                              const std::string& weights) const {
  for (const WordLink& link : links(pair)) {
    const bool is_source = link.source >= source_words;
    if (!is_source && link.target < target_words) continue;
    throw Error(Failure::input,
                fmt::format("{}: {}{}{} is beyond the {} {} words of {}", place(pair),
                            link.source + base_, link.sure ? "-" : "p", link.target + base_,
                            is_source ? source_words : target_words,
                            is_source ? "source" : "target", weights),
                base_ == 1 ? "links are written source-target"
                           : fmt::format("--{} 1, if the file counts words from 1", base_option_));
  }
}

}  // namespace attn::tools
