#include "attn_compute/query_list.hpp"

#include <cstdint>
#include <vector>

namespace attn::tools {

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
