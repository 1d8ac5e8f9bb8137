#include "io/arrays/scale_blocks.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "attnkit/error.hpp"
#include "io/arrays/array_file.hpp"
#include "io/config_object.hpp"
#include "system/descriptor.hpp"
#include "system/system_reason.hpp"

namespace attn::io {
namespace {

constexpr const char* way_out = "tensor-convert --model M --ignore-config does not read it";

std::string text_of(const std::string& path) {
  struct stat status {};
  const auto refuse = [&](const std::string& why) {
    throw Error(Failure::input, path + why + ", and may say how many numbers share a scale",
                way_out);
  };
  if (stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode)) refuse(" is no regular file");
  const Descriptor descriptor = open_descriptor(path, O_RDONLY | O_NOCTTY);
  if (!descriptor) refuse(" cannot be opened: " + system_reason(errno));
  if (status.st_size > static_cast<off_t>(ConfigObject::most_bytes)) refuse(" is too large");
  std::string text(static_cast<std::size_t>(status.st_size), '\0');
  text.resize(read_start(descriptor.get(), path, reinterpret_cast<unsigned char*>(text.data()),
                         text.size()));
  return text;
}

}  // namespace

Shape stated_blocks(const std::string& config) {
  struct stat status {};
  if (stat(config.c_str(), &status) != 0 && errno == ENOENT) return {};
  const ConfigObject whole(text_of(config), {config, way_out});
  const auto quantization = whole.object("quantization_config");
  if (!quantization) return {};
  const ConfigObject::Json* const member = quantization->find("weight_block_size");
  if (member == nullptr) return {};
  const auto is_size = [](const ConfigObject::Json& size) {
    return size.is_number_integer() && size > 0 && size < 1 << 30;
  };
  if (!member->is_array() || member->empty() || member->size() > Shape::most_axes ||
      !std::all_of(member->begin(), member->end(), is_size)) {
    whole.place().refuse("a weight_block_size that is no list of integers > 0");
  }
  Shape blocks;
  for (const ConfigObject::Json& size : *member) blocks.push_back(size.get<Index>());
  return blocks;
}

Index scale_block(Index length, Index count, Index stated, const Shape& usual) {
  if (count == 1) return std::max<Index>(length, 1);
  if (count == length) return 1;
  const auto fits = [&](Index block) {
    return block > 0 && length / block + (length % block != 0) == count;
  };
  if (stated != 0) return fits(stated) ? stated : 0;
  for (const Index block : usual) {
    if (fits(block)) return block;
  }
  if (count == 0 || length % count != 0) return 0;
  const Index even = length / count;
  for (Index power = 1; power < length; power *= 2) {
    if (power != even && fits(power)) return 0;
  }
  return even;
}

}  // namespace attn::io
