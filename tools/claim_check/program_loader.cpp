#include "claim_check/program_loader.hpp"

#include <elf.h>
#include <link.h>

#include <cstring>
#include <fstream>
#include <vector>

namespace attn::tools {
namespace {

// The part of a script that the kernel looks at.
constexpr std::size_t longest_start = 256;

template <class Header>
bool read_at(std::ifstream& file, std::uint64_t place, Header& header) {
  file.seekg(static_cast<std::streamoff>(place));
  return static_cast<bool>(file.read(reinterpret_cast<char*>(&header), sizeof header));
}

std::optional<std::string> absolute(const std::string& path) {
  return path.starts_with('/') ? std::optional(path) : std::nullopt;
}

bool is_for(const ElfW(Ehdr) & header, const ElfW(Ehdr) & own) {
  return std::memcmp(header.e_ident, own.e_ident, EI_VERSION) == 0 &&
         header.e_machine == own.e_machine && header.e_phentsize == sizeof(ElfW(Phdr));
}

std::optional<std::string> loader_in(std::ifstream& file, const ElfW(Ehdr) & header) {
  for (unsigned n = 0; n < header.e_phnum; ++n) {
    ElfW(Phdr) part = {};
    if (!read_at(file, header.e_phoff + n * sizeof part, part)) return {};
    if (part.p_type != PT_INTERP) continue;
    if (part.p_filesz == 0 || part.p_filesz > 4096) return {};
    std::string path(part.p_filesz, '\0');
    file.seekg(static_cast<std::streamoff>(part.p_offset));
    if (!file.read(path.data(), static_cast<std::streamsize>(path.size()))) return {};
    return absolute(path.substr(0, path.find('\0')));
  }
  return "";
}

}  // namespace

std::optional<std::string> loader_of(const std::string& program) {
  std::ifstream file(program, std::ios::binary);
  std::string start(longest_start, '\0');
  file.read(start.data(), static_cast<std::streamsize>(start.size()));
  file.clear();
  if (start.starts_with("#!")) {
    const std::size_t begin = start.find_first_not_of(" \t", 2);
    if (begin == std::string::npos) return {};
    const std::size_t end = start.find_first_of(std::string(" \t\n\0", 4), begin);
    // The kernel refuses a path whose end it does not see.
    return end == std::string::npos ? std::nullopt : absolute(start.substr(begin, end - begin));
  }
  std::ifstream self("/proc/self/exe", std::ios::binary);
  ElfW(Ehdr) header = {};
  ElfW(Ehdr) own = {};
  if (!read_at(file, 0, header) || !read_at(self, 0, own) || !is_for(header, own)) return {};
  return loader_in(file, header);
}

}  // namespace attn::tools
