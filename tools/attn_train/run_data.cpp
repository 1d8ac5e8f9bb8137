#include "attn_train/run_data.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>
#include <system_error>

#include <fmt/format.h>
#include <boost/crc.hpp>

#include "attn_train/earlier_run.hpp"
#include "common/costs/block_plan.hpp"
#include "common/frame/text_input.hpp"
#include "tensor/utf8.hpp"

namespace attn::tools {
namespace {

constexpr std::size_t most_text_bytes = std::size_t{8} << 30;

std::string key_of(Split split) { return "data." + name_of(split); }

// A text without the byte order mark that some editors put first. The text is held twice while it
// is divided.
std::string text_of(const std::string& file, std::int64_t memory) {
  std::error_code unknown;
  const std::uintmax_t size = std::filesystem::file_size(file, unknown);
  if (!unknown && size <= most_text_bytes) {
    require_memory("the text " + file, 2 * static_cast<std::int64_t>(size), memory);
  }
  const auto room = static_cast<std::size_t>(memory) / 2;
  std::string text = read_text(file, std::min(most_text_bytes, room), "a text");
  if (text.starts_with("\xEF\xBB\xBF")) text.erase(0, 3);
  return text;
}

std::uint32_t checksum(const std::string& text) {
  boost::crc_32_type sum;
  sum.process_bytes(text.data(), text.size());
  return sum.checksum();
}

std::string print_of(const std::array<std::string, 3>& texts) {
  std::string print;
  for (const std::string& text : texts) {
    print += fmt::format("{}{}-{:08x}", print.empty() ? "" : " ", text.size(), checksum(text));
  }
  return print;
}

// The first division at or after `at`: before a character, or after the end of a line.
std::size_t division(const std::string& text, std::size_t at, bool by_lines) {
  if (by_lines && at > 0 && at < text.size()) {
    return std::min(text.find('\n', at - 1), text.size() - 1) + 1;
  }
  while (at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0U) == 0x80U) ++at;
  return at;
}

// Whether examples are lines, or made from lines.
bool is_in_lines(const Recipe& recipe) {
  const std::string kind = recipe.text("objective.kind");
  return kind != "causal" && kind != "masked";
}

void divide(const Recipe& recipe, std::int64_t memory, SplitTexts& made) {
  const std::string file = recipe.text("data.text");
  const std::vector<double> shares = recipe.numbers("data.split");
  const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
  if (shares.size() != 3 || !(shares[0] > 0) || !std::isfinite(sum)) {
    throw recipe.refusal("data.split", "needs three shares, the first of which is above 0");
  }
  const std::string text = text_of(file, memory);
  const bool by_lines = recipe.text("data.tokens") != "characters" || is_in_lines(recipe);
  const auto size = static_cast<double>(text.size());
  const std::size_t first =
      division(text, static_cast<std::size_t>(size * shares[0] / sum), by_lines);
  const std::size_t second = std::max(
      first, shares[2] == 0
                 ? text.size()
                 : division(text, static_cast<std::size_t>(size * (shares[0] + shares[1]) / sum),
                            by_lines));
  made.texts = {text.substr(0, first), text.substr(first, second - first), text.substr(second)};
  made.names = {file, file, file};
}

// White space alone is no training data.
bool has_something(const std::string& text) {
  return text.find_first_not_of(" \t\r\n\v\f") != std::string::npos;
}

}  // namespace

std::string name_of(Split split) {
  return split == Split::train ? "train" : split == Split::valid ? "valid" : "test";
}

SplitTexts read_split_texts(const Recipe& recipe, std::int64_t memory) {
  SplitTexts made;
  const bool one = recipe.given("data.text");
  for (const Split split : all_splits) {
    if (recipe.given(key_of(split)) && one) {
      throw recipe.refusal(key_of(split), "and data.text are both given");
    }
  }
  if (one) {
    divide(recipe, memory, made);
  } else {
    for (const Split split : all_splits) {
      if (!recipe.given(key_of(split))) {
        if (split == Split::test) continue;
        throw recipe.refusal(key_of(split), "is missing, and so is data.text");
      }
      const auto at = static_cast<std::size_t>(split);
      made.names[at] = recipe.text(key_of(split));
      made.texts[at] = text_of(made.names[at], memory);
    }
  }
  for (const Split split : all_splits) {
    if (has_something(made.of(split))) continue;
    if (split == Split::test && made.of(split).empty()) continue;
    throw Error(Failure::input, fmt::format("{} has no text for {}", made.name(split),
                                            split == Split::train   ? "training"
                                            : split == Split::valid ? "validation"
                                                                    : "the test"));
  }
  made.print = print_of(made.texts);
  return made;
}

std::vector<std::vector<std::string>> columns_in(const SplitTexts& texts, Split split,
                                                 std::size_t count) {
  const std::string& text = texts.of(split);
  std::vector<std::vector<std::string>> rows;
  for (std::size_t from = 0; from < text.size();) {
    const std::size_t end = std::min(text.find('\n', from), text.size());
    std::string line = text.substr(from, end - from);
    from = end + 1;
    if (!line.empty() && line.back() == '\r') line.pop_back();
    std::vector<std::string> columns(1);
    for (const char c : line) {
      if (c == '\t') {
        columns.emplace_back();
      } else {
        columns.back() += c;
      }
    }
    const std::string place = fmt::format("{}:{}", texts.name(split), rows.size() + 1);
    if (columns.size() != count) {
      throw Error(Failure::input,
                  fmt::format("{}: expected {} columns with {} between", place,
                              count == 2 ? "two" : "three", count == 2 ? "a tab" : "tabs"));
    }
    if (!has_something(columns.front())) {
      throw Error(Failure::input, place + ": the first column is empty");
    }
    rows.push_back(std::move(columns));
  }
  return rows;
}

TextPairs pairs_in(const SplitTexts& texts, Split split) {
  TextPairs pairs;
  for (std::vector<std::string>& columns : columns_in(texts, split, 2)) {
    pairs.emplace_back(std::move(columns[0]), std::move(columns[1]));
  }
  return pairs;
}

bool has_line_ends(const Recipe& recipe) {
  return !is_in_lines(recipe) && recipe.text("data.tokens") != "characters" &&
         recipe.flag("data.line-ends");
}

train::Vocabulary learn_vocabulary(const Recipe& recipe, const SplitTexts& texts,
                                   const std::string& name, const std::string& text,
                                   std::vector<std::string> specials) {
  if (texts.from != nullptr) {
    if (auto known = texts.from->vocabulary(recipe, name, specials)) return std::move(*known);
  }
  const std::string tokens = recipe.text("data.tokens");
  train::VocabularyOptions options;
  options.kind = tokens == "words"        ? train::TokenKind::words
                 : tokens == "byte-pairs" ? train::TokenKind::byte_pairs
                                          : train::TokenKind::characters;
  options.size = recipe.integer("data.vocabulary");
  options.specials = std::move(specials);
  options.line_ends = has_line_ends(recipe);
  options.exact = options.size > 0;
  if (options.kind == train::TokenKind::byte_pairs && options.size == 0) {
    throw recipe.refusal("data.vocabulary", "is 0, but byte pairs need a number");
  }
  try {
    return train::Vocabulary::learn(text, options);
  } catch (const Error& error) {
    throw error.at(texts.name(Split::train));
  }
}

std::vector<Index> encoded(const train::Vocabulary& vocabulary, const std::string& text,
                           const std::string& file) {
  try {
    return vocabulary.encode(text);
  } catch (const Error& error) {
    throw error.at(file);
  }
}

}  // namespace attn::tools
