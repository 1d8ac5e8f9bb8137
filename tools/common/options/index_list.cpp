#include "common/options/index_list.hpp"

#include <algorithm>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "attnkit/error.hpp"
#include "cli/values.hpp"
#include "cli/words.hpp"

namespace attn::tools {
namespace {

class Parser {
 public:
  explicit Parser(const IndexList& list) : list_(list), rows_(list.count) {}

  void take(const std::string& item) {
    const std::vector<std::string> parts = cli::split(item, ':');
    if (parts.size() == 1) return take_index(item);
    if (parts.size() > 3) refuse(item);
    const Index step = number(parts.size() == 3 ? parts[2] : "", item).value_or(1);
    if (step < 1) refuse(item);
    const Index first = clipped(number(parts[0], item).value_or(0));
    const Index last = clipped(number(parts[1], item).value_or(rows_));
    if (step == 1) {
      if (first < last) ranges_.push_back({first, last});
      return;
    }
    // Written so that nothing overflows, however large the step is.
    for (Index row = first; row < last; row += step) {
      ranges_.push_back({row, row + 1});
      if (last - row <= step) break;
    }
  }

  const std::vector<RowRange>& ranges() const { return ranges_; }

  std::string counted() const { return cli::counted(rows_, list_.unit, list_.option); }

  std::string counting() const {
    return fmt::format("{} are counted from 0, the last one is {}", list_.option, rows_ - 1);
  }

 private:
  [[noreturn]] void refuse(const std::string& item) const {
    // "8-11" is how others write a range.
    const std::size_t dash = item.find('-', 1);
    const auto first = cli::to_integer(item.substr(0, dash));
    const auto last =
        dash == std::string::npos ? std::nullopt : cli::to_integer(item.substr(dash + 1));
    throw Error(Failure::usage,
                fmt::format("--{} has '{}', expected indices and ranges, as in 0,17,100:108",
                            list_.option, item),
                first && last
                    ? fmt::format("for {} to {} write {}:{}", *first, *last, *first, *last + 1)
                : item == "all" ? fmt::format("leave out --{} for all", list_.option)
                : item.find_first_of(" ;") != std::string::npos ? "a list has commas and no blanks"
                                                                : "");
  }

  std::optional<Index> number(const std::string& text, const std::string& item) const {
    if (text.empty()) return std::nullopt;
    const std::optional<Index> value = cli::to_integer(text);
    if (!value) refuse(item);
    return value;
  }

  Index clipped(Index position) const {
    return std::clamp<Index>(position < 0 ? position + rows_ : position, 0, rows_);
  }

  void take_index(const std::string& item) {
    const std::optional<Index> index = number(item, item);
    if (!index) refuse(item);
    if (*index < -rows_ || *index >= rows_) {
      throw Error(
          Failure::usage,
          fmt::format("--{} has {}, {} has {}", list_.option, *index, list_.where, counted()),
          counting());
    }
    const Index row = *index < 0 ? *index + rows_ : *index;
    ranges_.push_back({row, row + 1});
  }

  const IndexList& list_;
  Index rows_;
  std::vector<RowRange> ranges_;
};

}  // namespace

RowSelection parse_indices(const std::string& text, const IndexList& list) {
  Parser parser(list);
  for (const std::string& item : cli::split(text, ',')) parser.take(item);
  RowSelection chosen(parser.ranges(), list.count);
  if (chosen.count() == 0) {
    throw Error(Failure::usage,
                fmt::format("--{} {} selects none of the {} of {}", list.option, text,
                            parser.counted(), list.where),
                parser.counting());
  }
  return chosen;
}

}  // namespace attn::tools
