#include "system/system_reason.hpp"

#include <cctype>
#include <system_error>

namespace attn {

std::string system_reason(int error_number) {
  std::string text = std::generic_category().message(error_number);
  // Lower-cased, unless it begins with an acronym.
  if (text.size() > 1 && std::islower(static_cast<unsigned char>(text[1])) != 0) {
    text[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(text[0])));
  }
  return text;
}

}  // namespace attn
