#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "parallel/ranks.hpp"

namespace attn::train {

/// Numbers and names that one rank puts in and another takes out, in the same order.
class SlotMessage {
 public:
  template <class Value>
  void put(const Value& value) {
    static_assert(std::is_trivially_copyable_v<Value>);
    append(&value, sizeof(Value));
  }
  void put_text(const std::string& text) {
    put(text.size());
    append(text.data(), text.size());
  }

  template <class Value>
  void take(Value& value) {
    static_assert(std::is_trivially_copyable_v<Value>);
    extract(&value, sizeof(Value));
  }
  std::string take_text() {
    std::size_t size = 0;
    take(size);
    std::string text(size, '\0');
    extract(text.data(), size);
    return text;
  }

  void send(Ranks& ranks, int to) const {
    const std::size_t size = bytes_.size();
    ranks.send(to, std::as_bytes(std::span(&size, 1)));
    if (size > 0) ranks.send(to, bytes_);
  }
  static SlotMessage received(Ranks& ranks, int from) {
    std::size_t size = 0;
    ranks.receive(from, std::as_writable_bytes(std::span(&size, 1)));
    SlotMessage message;
    message.bytes_.resize(size);
    if (size > 0) ranks.receive(from, message.bytes_);
    return message;
  }

 private:
  void append(const void* from, std::size_t size) {
    const auto* const bytes = static_cast<const std::byte*>(from);
    bytes_.insert(bytes_.end(), bytes, bytes + size);
  }
  void extract(void* to, std::size_t size) {
    if (size > 0) std::memcpy(to, bytes_.data() + taken_, size);
    taken_ += size;
  }

  std::vector<std::byte> bytes_;
  std::size_t taken_ = 0;
};

}  // namespace attn::train
