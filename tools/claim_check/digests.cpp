#include "claim_check/digests.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <memory>
#include <vector>

#include <fmt/format.h>
#include <openssl/evp.h>

#include "system/descriptor.hpp"

namespace attn::tools {
namespace {

class Sha256 {
 public:
  Sha256() : context_(EVP_MD_CTX_new(), &EVP_MD_CTX_free) {
    EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr);
  }
  void add(const char* bytes, std::size_t count) { EVP_DigestUpdate(context_.get(), bytes, count); }
  std::string hex() {
    std::array<unsigned char, EVP_MAX_MD_SIZE> bytes = {};
    unsigned count = 0;
    EVP_DigestFinal_ex(context_.get(), bytes.data(), &count);
    return fmt::format("{:02x}", fmt::join(bytes.begin(), bytes.begin() + count, ""));
  }

 private:
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context_;
};

}  // namespace

std::string sha256(std::string_view text) {
  Sha256 digest;
  digest.add(text.data(), text.size());
  return digest.hex();
}

std::optional<std::string> sha256_of_file(const std::string& file) {
  // A FIFO that has taken the place of a file would block.
  const Descriptor opened = open_descriptor(file, O_RDONLY | O_NONBLOCK);
  struct stat status = {};
  if (!opened || fstat(opened.get(), &status) != 0 || !S_ISREG(status.st_mode)) return {};
  Sha256 digest;
  std::vector<char> block(std::size_t{1} << 20);
  for (;;) {
    const ssize_t count = read(opened.get(), block.data(), block.size());
    if (count == 0) return digest.hex();
    if (count > 0) {
      digest.add(block.data(), static_cast<std::size_t>(count));
    } else if (errno != EINTR) {
      return {};
    }
  }
}

}  // namespace attn::tools
