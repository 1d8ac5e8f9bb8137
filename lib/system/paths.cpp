#include "system/paths.hpp"

#include <unistd.h>

#include <array>
#include <climits>
#include <filesystem>
#include <system_error>

namespace attn {

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

std::string without_links(std::string path) {
  constexpr int as_many_as_linux_follows = 40;
  for (int followed = 0; followed < as_many_as_linux_follows; ++followed) {
    std::array<char, PATH_MAX> text{};
    const ssize_t length = readlink(path.c_str(), text.data(), text.size());
    if (length < 0) return path;
    const std::string leads_to(text.data(), static_cast<std::size_t>(length));
    const std::size_t slash = path.rfind('/');
    const bool beside = leads_to.empty() || leads_to.front() != '/';
    path = beside && slash != std::string::npos ? path.substr(0, slash + 1) + leads_to : leads_to;
  }
  return path;
}

bool is_same_file(const std::string& one, const std::string& other) {
  const auto whole = [](const std::string& file) {
    std::error_code none;
    return std::filesystem::weakly_canonical(std::filesystem::absolute(without_links(file), none),
                                             none);
  };
  return whole(one) == whole(other);
}

}  // namespace attn
