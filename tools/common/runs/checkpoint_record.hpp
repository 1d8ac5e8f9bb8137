#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "tensor/buffer.hpp"
#include "tensor/shape.hpp"

/// The results of a unit of work as bytes, written and read by one description, so that both agree:
/// a function archive(Archive&, Result&) passes each member of the result to the archive, in order.
namespace attn::tools {

/// Takes results apart into bytes.
class SavingArchive {
 public:
  static constexpr bool loads = false;
  using Write = std::function<void(const void* bytes, std::size_t count)>;
  explicit SavingArchive(Write write) : write_(std::move(write)) {}

  void bytes(const void* values, std::size_t count) { write_(values, count); }

 private:
  Write write_;
};

/// Puts results together again. `read` fills the bytes, or skips them if null; `left` is the number
/// of bytes left.
class LoadingArchive {
 public:
  static constexpr bool loads = true;
  using Read = std::function<void(void* bytes, std::size_t count)>;
  LoadingArchive(Read read, std::function<std::size_t()> left)
      : read_(std::move(read)), left_(std::move(left)) {}

  void bytes(void* values, std::size_t count) { read_(values, count); }
  void skip(std::size_t count) { read_(nullptr, count); }

  /// Throws Error(input) unless `count` elements of that size are left: a damaged file must not
  /// request absurd memory.
  void require(std::uint64_t count, std::size_t size) const;

 private:
  Read read_;
  std::function<std::size_t()> left_;
};

/// The bytes that save(archive) passes; save is called twice.
std::vector<char> archived_bytes(const std::function<void(SavingArchive&)>& save);
/// Calls load(archive) for such bytes. Throws Error(input) if there are too few.
void load_archived(const std::vector<char>& bytes,
                   const std::function<void(LoadingArchive&)>& load);

template <class Values>
concept Resizable = requires(Values& values) {
  values.resize(1), values.data();
};

/// A number, or a struct of numbers without pointers.
template <class Archive, class T>
requires(std::is_trivially_copyable_v<T> && !Resizable<T>) void archive(Archive& with, T& value) {
  with.bytes(&value, sizeof(value));
}

template <class Archive, class A, class B>
requires(!std::is_trivially_copyable_v<std::pair<A, B>>) void archive(Archive& with,
                                                                      std::pair<A, B>& pair) {
  archive(with, pair.first);
  archive(with, pair.second);
}

namespace archived {

template <class Archive>
std::size_t length(Archive& with, std::size_t size, std::size_t element) {
  std::uint64_t count = size;
  with.bytes(&count, sizeof(count));
  if constexpr (Archive::loads) with.require(count, element);
  return static_cast<std::size_t>(count);
}

}  // namespace archived

template <class Archive, class T>
void archive(Archive& with, Buffer<T>& values) {
  const std::size_t count =
      archived::length(with, static_cast<std::size_t>(values.size()), sizeof(T));
  if constexpr (Archive::loads) values = Buffer<T>(static_cast<Index>(count));
  with.bytes(values.data(), count * sizeof(T));
}

/// A std::vector, a PooledVector, a Shape or a string: of numbers at once, else one element after
/// the other.
template <class Archive, Resizable Values>
void archive(Archive& with, Values& values) {
  using T = typename Values::value_type;
  constexpr bool plain = std::is_trivially_copyable_v<T>;
  const std::size_t count = archived::length(with, values.size(), plain ? sizeof(T) : 1);
  if constexpr (Archive::loads) values.resize(count);
  if constexpr (plain) {
    with.bytes(values.data(), count * sizeof(T));
  } else {
    for (T& value : values) archive(with, value);
  }
}

}  // namespace attn::tools
