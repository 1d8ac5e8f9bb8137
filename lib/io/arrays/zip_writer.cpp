#include "io/arrays/zip_writer.hpp"

#include <zlib.h>

#include <algorithm>

namespace attn::io {
namespace {

constexpr std::uint16_t version = 45;            // the first with ZIP64
constexpr std::uint16_t utf8_names = 0x800;      // flag bit 11
constexpr std::uint32_t elsewhere = 0xffffffff;  // the value is in the ZIP64 field
constexpr std::uint16_t first_day = 1 << 5 | 1;  // 1980-01-01, the earliest date
constexpr std::size_t alignment = 64;

/// Appends little-endian numbers.
class Fields {
 public:
  Fields& u16(std::uint64_t value) { return number(value, 2); }
  Fields& u32(std::uint64_t value) { return number(value, 4); }
  Fields& u64(std::uint64_t value) { return number(value, 8); }
  Fields& text(const std::string& value) {
    bytes += value;
    return *this;
  }
  std::string bytes;

 private:
  Fields& number(std::uint64_t value, int size) {
    for (int i = 0; i < size; ++i) bytes += static_cast<char>(value >> (8 * i) & 0xff);
    return *this;
  }
};

bool is_ascii(const std::string& text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return (c & 0x80) == 0; });
}

/// Writes the fields common to the local header and the directory, from the flags to the sizes.
void common(Fields& fields, const std::string& name, std::uint32_t check) {
  fields.u16(is_ascii(name) ? 0 : utf8_names).u16(0).u16(0).u16(first_day).u32(check);
  fields.u32(elsewhere).u32(elsewhere).u16(name.size());
}

}  // namespace

std::string ZipWriter::local_header(const Member& member) const {
  Fields extra;
  extra.u16(1).u16(16).u64(member.size).u64(member.size);
  // Padding goes into an extra field of its own, as Android's zipalign writes it.
  const std::size_t before = member.offset + 30 + member.name.size() + extra.bytes.size() + 6;
  const std::size_t padding = (alignment - before % alignment) % alignment;
  extra.u16(0xd935).u16(2 + padding).u16(alignment).text(std::string(padding, '\0'));
  Fields fields;
  fields.u32(0x04034b50).u16(version);
  common(fields, member.name, member.check);
  return fields.u16(extra.bytes.size()).text(member.name).text(extra.bytes).bytes;
}

std::string ZipWriter::directory_entry(const Member& member) const {
  Fields extra;
  extra.u16(1).u16(24).u64(member.size).u64(member.size).u64(member.offset);
  Fields fields;
  constexpr std::uint16_t unix_made = 3 << 8;
  constexpr std::uint32_t mode = 0100644u << 16;
  fields.u32(0x02014b50).u16(unix_made | version).u16(version);
  common(fields, member.name, member.check);
  fields.u16(extra.bytes.size()).u16(0).u16(0).u16(0).u32(mode).u32(elsewhere);
  return fields.text(member.name).text(extra.bytes).bytes;
}

void ZipWriter::begin(const std::string& name) {
  Member member;
  member.name = name;
  member.offset = static_cast<std::uint64_t>(out_.size());
  member.check = static_cast<std::uint32_t>(crc32_z(0, nullptr, 0));
  out_.append(local_header(member));
  members_.push_back(std::move(member));
}

void ZipWriter::append(const void* data, Index count) {
  if (count == 0) return;  // crc32_z treats a null pointer as a reset
  Member& member = members_.back();
  const auto size = static_cast<std::size_t>(count);
  member.check = static_cast<std::uint32_t>(
      crc32_z(member.check, static_cast<const unsigned char*>(data), size));
  member.size += size;
  out_.append(data, count);
}

void ZipWriter::end() {
  const Member& member = members_.back();
  out_.replace(static_cast<Index>(member.offset), local_header(member));
}

void ZipWriter::finish() {
  const auto begin = static_cast<std::uint64_t>(out_.size());
  for (const Member& member : members_) out_.append(directory_entry(member));
  const auto end = static_cast<std::uint64_t>(out_.size());
  const std::uint64_t count = members_.size();
  Fields fields;
  fields.u32(0x06064b50).u64(44).u16(3 << 8 | version).u16(version).u32(0).u32(0);
  fields.u64(count).u64(count).u64(end - begin).u64(begin);
  fields.u32(0x07064b50).u32(0).u64(end).u32(1);
  const std::uint64_t short_count = std::min<std::uint64_t>(count, 0xffff);
  fields.u32(0x06054b50).u16(0).u16(0).u16(short_count).u16(short_count);
  fields.u32(std::min<std::uint64_t>(end - begin, elsewhere));
  fields.u32(std::min<std::uint64_t>(begin, elsewhere)).u16(0);
  out_.append(fields.bytes);
}

}  // namespace attn::io
