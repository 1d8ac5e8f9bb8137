#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "attnkit/error.hpp"
#include "io/input.hpp"
#include "tensor/shape.hpp"

/// Notes that a tool keeps in a file for another tool. Anybody may have changed the file: every
/// getter here checks what it returns. Each throws Error(input), "PLACE is damaged: ...", with the
/// file, the dataset or attribute, the member, and the expected value.
namespace attn::tools {

/// A value of JSON. Cheap to copy.
class CheckedJson {
 public:
  static constexpr int most_levels = 64;  ///< of arrays and objects within each other

  /// `place` names the text in messages: "a.h5:/attn_shard/divided". Throws for text that is not
  /// JSON or has more levels.
  CheckedJson(const std::string& text, std::string place);

  bool has(const std::string& member) const;
  CheckedJson at(const std::string& member) const;
  bool is_null() const { return value_->is_null(); }

  std::vector<CheckedJson> list() const;
  std::vector<CheckedJson> list(std::size_t count) const;  ///< of exactly `count` values
  std::vector<std::string> texts() const;
  Shape shape() const;  ///< a list of at most 32 axes whose product fits an Index

  Index count(Index most = std::numeric_limits<Index>::max(), Index least = 0) const;
  std::int64_t integer() const;
  double number() const;         ///< finite
  double number_or_nan() const;  ///< JSON has null in place of a number that is not finite
  bool flag() const;
  std::string text() const;

  const nlohmann::ordered_json& json() const { return *value_; }

  /// The error that this value is not `expected`.
  Error refused(const std::string& expected) const;

 private:
  using Json = nlohmann::ordered_json;
  CheckedJson(const CheckedJson& whole, const Json& part, const std::string& name);

  std::shared_ptr<const Json> root_;
  const Json* value_;  // in root_
  std::string place_;
  std::string path_;  // of the value: "pieces/2/shape"
};

/// A group of attributes, and of datasets that are lists.
class CheckedGroup {
 public:
  explicit CheckedGroup(io::InputBundle group);

  CheckedGroup group(const std::string& name) const;

  /// An attribute that is a whole number from `least` to `most`, or one text.
  Index whole_number(const std::string& name, Index least, Index most) const;
  std::string text_attribute(const std::string& name) const;

  std::vector<std::string> texts(const std::string& name) const;  ///< a list of strings
  std::string text(const std::string& name) const;                ///< a list of one string
  CheckedJson json(const std::string& name) const;                ///< the JSON in it
  std::vector<double> numbers(const std::string& name) const;     ///< a list of float64

  /// The place of `name` in the group: "a.h5:/attn_shard/divided".
  std::string place(const std::string& name) const;

  const io::InputBundle& bundle() const { return group_; }

 private:
  ArraySource list_of(const std::string& name, DType type) const;

  io::InputBundle group_;
};

}  // namespace attn::tools
