#include "claim_check/traced_call.hpp"

#include <re2/re2.h>

namespace attn::tools {
namespace {

// The text of "\x2f\x61".
std::string text_of(re2::StringPiece hex) {
  const auto digit = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
  std::string text;
  for (std::size_t n = 0; n + 3 < hex.size(); n += 4) {
    text += static_cast<char>(digit(hex[n + 2]) * 16 + digit(hex[n + 3]));
  }
  return text;
}

TracedCall::Outcome outcome_of(re2::StringPiece result) {
  if (result.starts_with("-1 ENOENT ") || result.starts_with("-1 ENOTDIR ")) {
    return TracedCall::Outcome::absent;
  }
  if (result.starts_with("-1 EEXIST ")) return TracedCall::Outcome::exists;
  if (result.starts_with("-1 ")) return TracedCall::Outcome::failed;
  return result.starts_with("?") ? TracedCall::Outcome::unknown : TracedCall::Outcome::done;
}

}  // namespace

std::optional<TracedCall> traced_call(std::string_view line) {
  // openat(AT_FDCWD<\x2f>, "\x61", O_RDONLY) = 3<\x2f\x61>
  static const RE2 whole(R"((\w+)\((.*)(?:\)| <unfinished \.\.\.>\)?) += (.*))");
  static const std::string hex = R"(((?:\\x[0-9a-f]{2})*))";
  static const std::string number = R"((?:AT_FDCWD|\d+)<)" + hex + R"(>(?:\(deleted\))?)";
  static const RE2 descriptor(number);
  static const RE2 path("(?:" + number + ", )?\"" + hex + R"("(\.\.\.)?)");
  TracedCall call;
  re2::StringPiece result;
  if (!RE2::FullMatch(re2::StringPiece(line.data(), line.size()), whole, &call.name,
                      &call.arguments, &result)) {
    return {};
  }
  re2::StringPiece rest(call.arguments);
  re2::StringPiece folder, text, dots;
  if (RE2::Consume(&rest, descriptor, &folder)) call.descriptor = text_of(folder);
  rest = call.arguments;
  while (RE2::FindAndConsume(&rest, path, &folder, &text, &dots)) {
    call.paths.push_back({text_of(folder), text_of(text), !dots.empty()});
  }
  call.outcome = outcome_of(result);
  if (call.outcome == TracedCall::Outcome::done) {
    call.value = std::strtol(std::string(result).c_str(), nullptr, 0);
    if (RE2::FullMatch(result, descriptor, &text)) call.opened = text_of(text);
  }
  return call;
}

}  // namespace attn::tools
