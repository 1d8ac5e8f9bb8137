#include "common/runs/checkpoint_record.hpp"

#include <cstring>

#include "attnkit/error.hpp"

namespace attn::tools {

void LoadingArchive::require(std::uint64_t count, std::size_t size) const {
  if (count <= left_() / size) return;
  throw Error(Failure::input, "it has other numbers than this run would have written");
}

std::vector<char> archived_bytes(const std::function<void(SavingArchive&)>& save) {
  // Counted first: a vector that grows would take twice the memory for a moment.
  std::size_t size = 0;
  SavingArchive counting([&](const void*, std::size_t count) { size += count; });
  save(counting);
  std::vector<char> all;
  all.reserve(size);
  SavingArchive archive([&](const void* bytes, std::size_t count) {
    const char* const from = static_cast<const char*>(bytes);
    all.insert(all.end(), from, from + count);
  });
  save(archive);
  return all;
}

void load_archived(const std::vector<char>& bytes,
                   const std::function<void(LoadingArchive&)>& load) {
  std::size_t at = 0;
  LoadingArchive archive(
      [&](void* to, std::size_t count) {
        if (bytes.size() - at < count) throw Error(Failure::input, "it ends too early");
        if (to != nullptr) std::memcpy(to, bytes.data() + at, count);
        at += count;
      },
      [&] { return bytes.size() - at; });
  load(archive);
}

}  // namespace attn::tools
