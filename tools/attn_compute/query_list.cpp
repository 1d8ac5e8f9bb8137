#include "attn_compute/query_list.hpp"

#include <cstdint>
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
  Parser(Index rows, const std::string& where) : rows_(rows), where_(where) {}

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

 private:
  [[noreturn]] static void refuse(const std::string& item) {
    throw Error(Failure::usage,
                "--queries has '" + item + "', expected indices and ranges, as in 0,17,100:108");
  }

  static std::optional<Index> number(const std::string& text, const std::string& item) {
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
      throw Error(Failure::usage,
                  fmt::format("--queries has {}, {} has {} queries", *index, where_, rows_));
    }
    const Index row = *index < 0 ? *index + rows_ : *index;
    ranges_.push_back({row, row + 1});
  }

  Index rows_;
  const std::string& where_;
  std::vector<RowRange> ranges_;
};

}  // namespace

RowSelection parse_queries(const std::string& list, Index rows, const std::string& where) {
  Parser parser(rows, where);
  for (const std::string& item : cli::split(list, ',')) parser.take(item);
  RowSelection chosen(parser.ranges(), rows);
  if (chosen.count() == 0) {
    throw Error(Failure::usage, fmt::format("--queries {} selects none of the {} of {}", list,
                                            cli::counted(rows, "query", "queries"), where));
  }
  return chosen;
}

void write_queries(const RowSelection& queries, io::OutputBundle& output, cli::Report& report) {
  std::vector<std::int64_t> indices;
  for (const RowRange& range : queries.ranges()) {
    for (Index row = range.first; row < range.last; ++row) indices.push_back(row);
  }
  const Shape shape = {queries.count()};
  output.create("queries", DType::i64, shape, {"query"}).write({0}, shape, indices.data());
  report.output("queries", output.address_of("queries"), shape, DType::i64);
}

}  // namespace attn::tools
