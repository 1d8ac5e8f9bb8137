#include "attn_view/page.hpp"

#include <array>
#include <stdexcept>

#include <fmt/format.h>
#include <openssl/evp.h>

namespace attn::tools {
namespace {

// What is before and behind `mark`, which the page has once.
std::pair<std::string, std::string> split_at(const std::string& page, const std::string& mark) {
  const std::size_t at = page.find(mark);
  if (at == std::string::npos || page.find(mark, at + 1) != std::string::npos) {
    throw std::logic_error("page.html needs " + mark + " once");
  }
  return {page.substr(0, at), page.substr(at + mark.size())};
}

std::string with(const std::string& page, const std::string& mark, std::string_view text) {
  const auto [before, behind] = split_at(page, mark);
  return fmt::format("{}{}{}", before, text, behind);
}

// The source of a policy that permits an element with exactly this text.
std::string hash_source(std::string_view text) {
  std::array<char, EVP_MAX_MD_SIZE> digest = {};
  unsigned size = 0;
  EVP_Digest(text.data(), text.size(), reinterpret_cast<unsigned char*>(digest.data()), &size,
             EVP_sha256(), nullptr);
  return fmt::format("'sha256-{}'", base64({digest.data(), size}));
}

}  // namespace

std::string base64(std::string_view bytes) {
  std::string text((bytes.size() + 2) / 3 * 4 + 1, '\0');  // OpenSSL appends a 0
  const int size = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()),
                                   reinterpret_cast<const unsigned char*>(bytes.data()),
                                   static_cast<int>(bytes.size()));
  text.resize(static_cast<std::size_t>(size));
  return text;
}

std::pair<std::string, std::string> page_around_data() {
  const std::string script = fmt::format("{}", fmt::join(page_scripts, ""));
  const std::string policy = fmt::format(
      "default-src 'none'; script-src {}; style-src {}; img-src data: blob:; base-uri 'none'; "
      "form-action 'none'",
      hash_source(script), hash_source(page_style));
  // The data are split off first, as nothing in another text is a mark of its own.
  auto [before, behind] = split_at(std::string(page_html), "@DATA@");
  before = with(with(before, "@POLICY@", policy), "@STYLE@", page_style);
  return {std::move(before), with(behind, "@SCRIPT@", script)};
}

}  // namespace attn::tools
