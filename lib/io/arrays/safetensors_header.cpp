#include "io/arrays/safetensors_header.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include <nlohmann/json.hpp>

#include "attnkit/error.hpp"
#include "io/arrays/array_output.hpp"
#include "io/arrays/safetensors_type.hpp"

namespace attn::io {
namespace {

/// Reads the header as a stream of events and keeps only what the form allows, so that a hostile
/// header cannot use memory by depth or repetition. Bounds are checked after all of it is read.
class HeaderReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit HeaderReader(const std::string& label) : label_(label) {}

  std::map<std::string, SafetensorsEntry> entries;
  std::string metadata;

  bool start_object(std::size_t) override {
    if (depth_ > 1 || (depth_ == 1 && !keyed_)) refuse("an object where none is expected");
    ++depth_;
    return true;
  }
  bool end_object() override {
    if (--depth_ == 1 && !metadata_) finish_entry();
    if (depth_ == 1) keyed_ = metadata_ = false;
    return true;
  }
  bool key(string_t& name) override {
    if (depth_ == 1) {
      start_entry(name);
    } else {
      field_ = name;
      if (!metadata_ && (!fields_.insert({name, {}}).second ||
                         (name != "dtype" && name != "shape" && name != "data_offsets"))) {
        refuse("key '" + name.substr(0, 40) + "' unexpected or twice in " + name_);
      }
    }
    return true;
  }
  bool string(string_t& text) override {
    if (depth_ == 2 && metadata_) {
      if (field_ == metadata_key) metadata = std::move(text);
      return true;
    }
    if (depth_ != 2 || in_array_ || field_ != "dtype") refuse_value();
    dtype_ = text;
    return true;
  }
  bool start_array(std::size_t) override {
    if (depth_ != 2 || metadata_ || in_array_ || field_ == "dtype") refuse_value();
    in_array_ = true;
    fields_[field_] = {};
    return true;
  }
  bool end_array() override {
    in_array_ = false;
    has_array_.push_back(field_);
    return true;
  }
  bool number_unsigned(number_unsigned_t value) override {
    if (!in_array_) refuse_value();
    Shape& numbers = fields_[field_];
    if (numbers.size() == Shape::most_axes) {
      refuse("more than " + std::to_string(Shape::most_axes) + " numbers in " + field_ + " of " +
             name_);
    }
    if (value > static_cast<number_unsigned_t>(std::numeric_limits<Index>::max())) {
      refuse("a number beyond 63 bits in " + name_);
    }
    numbers.push_back(static_cast<Index>(value));
    return true;
  }
  bool number_integer(number_integer_t) override { refuse("a negative number in " + name_); }
  bool number_float(number_float_t, const string_t&) override { refuse_value(); }
  bool null() override { refuse_value(); }
  bool boolean(bool) override { refuse_value(); }
  bool binary(binary_t&) override { refuse_value(); }
  bool parse_error(std::size_t at, const std::string&, const nlohmann::json::exception&) override {
    refuse("invalid JSON at byte " + std::to_string(at));
  }

 private:
  [[noreturn]] void refuse(const std::string& why) const {
    throw Error(Failure::input, label_ + " has a malformed safetensors header, with " + why);
  }
  [[noreturn]] void refuse_value() const {
    refuse("a value of the wrong kind" + (name_.empty() ? "" : " in " + name_));
  }

  void start_entry(const std::string& name) {
    const auto control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; };
    if (name.empty()) refuse("a tensor without a name");
    if (std::any_of(name.begin(), name.end(), control)) {
      refuse("a control character in the name of a tensor");
    }
    keyed_ = true;
    name_ = name;
    metadata_ = name == "__metadata__";
    if (metadata_ ? std::exchange(had_metadata_, true) : entries.count(name) != 0) {
      refuse("two entries called " + name);
    }
    dtype_.clear();
    field_.clear();
    fields_.clear();
    has_array_.clear();
  }

  void finish_entry() {
    const auto given = [&](const char* field) {
      return std::find(has_array_.begin(), has_array_.end(), field) != has_array_.end();
    };
    if (dtype_.empty() || !given("shape") || !given("data_offsets")) {
      refuse("one of dtype, shape and data_offsets missing in " + name_);
    }
    const Shape& offsets = fields_["data_offsets"];
    if (offsets.size() != 2 || offsets[0] > offsets[1]) {
      refuse("data_offsets that are not a range of bytes in " + name_);
    }
    const std::optional<SafetensorsType> type = safetensors_type(dtype_);
    if (!type) refuse("the unknown dtype '" + dtype_.substr(0, 40) + "' in " + name_);
    SafetensorsEntry entry;
    entry.begin = offsets[0];
    entry.end = offsets[1];
    entry.array.dtype = type->dtype;
    entry.array.description =
        std::string(type->dtype == DType::other ? type->name : attn::name(type->dtype));
    entry.array.element_size = type->bits / 8;
    entry.array.swap_bytes = std::endian::native == std::endian::big;
    entry.array.shape = fields_["shape"];
    check_size(entry, type->bits);
    entries.emplace(name_, std::move(entry));
  }

  void check_size(const SafetensorsEntry& entry, std::size_t bits) const {
    const std::string what = label_ + ":" + name_;
    // In bits, since some types have less than a byte.
    const Index expected = array_bytes(entry.array.shape, bits, what);
    const Index there = entry.end - entry.begin;
    if (expected % 8 != 0 || expected / 8 != there) {
      throw Error(Failure::input, what + " has " + std::to_string(there) + " bytes, its shape " +
                                      to_string(entry.array.shape) + " of " +
                                      entry.array.description + " needs " +
                                      std::to_string(expected / 8));
    }
  }

  const std::string& label_;
  int depth_ = 0;  // of objects
  bool keyed_ = false;
  bool metadata_ = false;
  bool had_metadata_ = false;
  bool in_array_ = false;
  std::string name_;
  std::string field_;
  std::string dtype_;
  std::map<std::string, Shape> fields_;
  std::vector<std::string> has_array_;
};

/// Checks that the arrays follow each other without gap or overlap and fill the data section.
void check_cover(const std::map<std::string, SafetensorsEntry>& entries, Index data_size,
                 const std::string& label) {
  std::vector<std::pair<std::pair<Index, Index>, const std::string*>> order;
  for (const auto& [name, entry] : entries) order.push_back({{entry.begin, entry.end}, &name});
  std::sort(order.begin(), order.end());
  Index at = 0;
  for (const auto& [place, name] : order) {
    const auto [begin, end] = place;
    if (end > data_size) {
      throw Error(Failure::input, label + ":" + *name + " ends at byte " + std::to_string(end) +
                                      " of the data, which has " + std::to_string(data_size));
    }
    if (begin != at) {
      throw Error(Failure::input, label + ":" + *name + " begins at byte " + std::to_string(begin) +
                                      " of the data, where the array before it ends at " +
                                      std::to_string(at));
    }
    at = end;
  }
  if (at != data_size) {
    throw Error(Failure::input, label + " has " + std::to_string(data_size) +
                                    " bytes of data, but its arrays end at " + std::to_string(at));
  }
}

}  // namespace

std::map<std::string, SafetensorsEntry> read_safetensors_header(std::string_view json,
                                                                Index data_size,
                                                                const std::string& label,
                                                                std::string* metadata) {
  HeaderReader reader(label);
  if (json.empty() || json.front() != '{') {
    throw Error(Failure::input, label + " has a malformed safetensors header: it is not an object");
  }
  nlohmann::json::sax_parse(json.begin(), json.end(), &reader);
  check_cover(reader.entries, data_size, label);
  if (metadata != nullptr) *metadata = std::move(reader.metadata);
  return std::move(reader.entries);
}

}  // namespace attn::io
