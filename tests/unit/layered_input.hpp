#pragma once

#include <string>
#include <utility>
#include <vector>

#include "io_fixture.hpp"
#include "thrown_error.hpp"

namespace attn::testing {

/// k, v, tokens at the root; /layer3 with Q and an inner group.
inline void write_example(const std::string& path) {
  RawFile file(path);
  file.put("v", {2}, {1, 2});
  file.put("k", {2}, {3, 4});
  file.put("tokens", {2}, {5, 6});
  file.put("layer3/Q", {2, 2}, {7, 8, 9, 10});
  file.put("layer3/inner/x", {}, {11});
}

/// What opening such inputs throws.
inline Error refusal(const std::string& input,
                     const std::vector<std::pair<std::string, std::string>>& named = {}) {
  return thrown_error([&] { open_input(input, named); });
}

}  // namespace attn::testing
