#include "common/frame/toml_file.hpp"

#include <fmt/format.h>

#include "attnkit/error.hpp"
#include "cli/words.hpp"
#include "common/frame/text_input.hpp"
#include "common/frame/toml_bounds.hpp"

namespace attn::tools {
namespace {

// Far larger than any file written by hand.
constexpr std::size_t most_toml_bytes = std::size_t{64} << 20;

}  // namespace

toml::table parse_toml(const std::string& file, const std::string& expected) {
  const std::string text = read_text(file, most_toml_bytes, expected);
  require_shallow_toml(text, file);
  try {
    return toml::parse(text, file);
  } catch (const toml::parse_error& error) {
    throw Error(Failure::input, fmt::format("{}:{}: {}", file, error.source().begin.line,
                                            cli::one_line(error.description())));
  }
}

}  // namespace attn::tools
