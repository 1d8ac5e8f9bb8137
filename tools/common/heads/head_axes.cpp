#include "common/heads/head_axes.hpp"

#include <fmt/format.h>

namespace attn::tools {

Index HeadAxes::problem(Index head) const {
  if (chosen.empty()) return head;
  const Index count = std::ssize(chosen);
  return head / count * all + number(head % count);
}

Shape HeadAxes::index(Index head) const {
  Shape found = unravel(head, leading);
  if (!chosen.empty()) found.back() = number(found.back());
  return found;
}

std::string HeadAxes::label(Index head) const {
  if (leading.empty()) return "0";
  return fmt::format("{}", fmt::join(index(head), ","));
}

}  // namespace attn::tools
