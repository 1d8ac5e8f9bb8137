#include "basis_paths/path_numbers.hpp"

#include <fmt/format.h>

#include "attnkit/error.hpp"
#include "head/operand.hpp"

namespace attn::tools {

template <class T>
Buffer<T> read_finite(const ArraySource& dataset, const PathBlock& block) {
  Buffer<T> values(element_count(block.count));
  dataset.read(block.start, block.count, values.data());
  require_finite(dataset, block.start, block.count, values.data());
  return values;
}

void refuse_index(const ArraySource& dataset, const PathBlock& block, Index flat, Index index,
                  const char* what, Index end) {
  throw Error(Failure::input,
              fmt::format("{} has {} at {}, expected {} in [0, {})", dataset.address(), index,
                          element_text(block.start, block.count, flat), what, end));
}

template <class T>
void refuse_number(const std::string& name, const PathBlock& block, Index flat, const char* where) {
  constexpr bool single = sizeof(T) == sizeof(float);
  throw Error(Failure::numerical,
              fmt::format("{} would be {} {} at {}", name, where, single ? "float32" : "float64",
                          element_text(block.start, block.count, flat)),
              single ? "--precision f64" : "");
}

template <class T>
void require_within_range(const std::string& name, const PathBlock& block, const T* values) {
  const Index size = element_count(block.count);
  for (Index n = 0; n < size; ++n) {
    if (!std::isfinite(values[n])) refuse_number<T>(name, block, n, "beyond");
  }
}

#define ATTN_FOR_TYPE(T)                                                                    \
  template Buffer<T> read_finite(const ArraySource&, const PathBlock&);                     \
  template void refuse_number<T>(const std::string&, const PathBlock&, Index, const char*); \
  template void require_within_range(const std::string&, const PathBlock&, const T*);
ATTN_FOR_TYPE(float)
ATTN_FOR_TYPE(double)
#undef ATTN_FOR_TYPE

}  // namespace attn::tools
