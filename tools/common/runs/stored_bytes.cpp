#include "common/runs/stored_bytes.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "attnkit/error.hpp"

namespace attn::tools {
namespace {

constexpr std::size_t piece = std::size_t{1} << 20;

}  // namespace

StoredBytes::StoredBytes(ArraySource dataset, const std::string& file, const std::string& what)
    : dataset_(std::move(dataset)) {
  if (dataset_.shape().size() != 1 || dataset_.dtype() != DType::u8) {
    throw Error(Failure::input, file + " is damaged: " + what + " no bytes");
  }
  size_ = dataset_.shape().front();
}

std::int64_t StoredBytes::left() const {
  return size_ - position_ + static_cast<std::int64_t>(ahead_.size() - taken_);
}

void StoredBytes::require(std::size_t count) const {
  if (static_cast<std::uint64_t>(left()) < count) {
    throw Error(Failure::input, "it ends too early");
  }
}

void StoredBytes::read(void* bytes, std::size_t count) {
  require(count);
  auto* to = static_cast<char*>(bytes);
  while (count > 0) {
    if (taken_ == ahead_.size()) {
      // Large parts go where they belong at once.
      const bool at_once = count >= piece;
      const std::size_t now =
          at_once ? count : std::min(static_cast<std::size_t>(size_ - position_), piece);
      ahead_.resize(at_once ? 0 : now);
      taken_ = 0;
      dataset_.read_stored({position_}, {static_cast<Index>(now)}, at_once ? to : ahead_.data());
      position_ += static_cast<std::int64_t>(now);
      if (at_once) return;
    }
    const std::size_t now = std::min(count, ahead_.size() - taken_);
    std::memcpy(to, ahead_.data() + taken_, now);
    taken_ += now;
    to += now;
    count -= now;
  }
}

void StoredBytes::skip(std::size_t count) {
  require(count);
  const std::size_t known = std::min(count, ahead_.size() - taken_);
  taken_ += known;
  position_ += static_cast<std::int64_t>(count - known);
}

void StoredBytes::for_pieces(const std::function<void(std::span<char> bytes)>& use) const {
  std::vector<char> bytes(piece);
  for (std::int64_t at = 0; at < size_; at += static_cast<std::int64_t>(bytes.size())) {
    bytes.resize(static_cast<std::size_t>(std::min<std::int64_t>(size_ - at, piece)));
    dataset_.read_stored({at}, {static_cast<Index>(bytes.size())}, bytes.data());
    use(bytes);
  }
}

}  // namespace attn::tools
