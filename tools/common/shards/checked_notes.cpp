#include "common/shards/checked_notes.hpp"

#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "common/shards/json_text.hpp"

namespace attn::tools {
namespace {

// Longer lists are refused: a vector could not hold them.
constexpr Index most_elements = Index{1} << 40;

Error damaged(const std::string& place, const std::string& why) {
  return Error(Failure::input, place + " is damaged: " + why);
}

std::string shortened(const std::string& text) {
  constexpr std::size_t most = 60;
  return text.size() <= most ? text : text.substr(0, most) + "...";
}

// nlohmann's library recurses over nested values. Null if the text is no JSON.
std::shared_ptr<const nlohmann::ordered_json> parsed(const std::string& text, bool& too_deep) {
  using Json = nlohmann::ordered_json;
  const auto is_shallow = [&](int depth, Json::parse_event_t event, const Json&) {
    const bool opens =
        event == Json::parse_event_t::object_start || event == Json::parse_event_t::array_start;
    if (opens && depth >= CheckedJson::most_levels) too_deep = true;
    return !too_deep;
  };
  auto json = std::make_shared<Json>(Json::parse(text, is_shallow, false));
  return too_deep || json->is_discarded() ? nullptr : json;
}

}  // namespace

CheckedJson::CheckedJson(const std::string& text, std::string place) : place_(std::move(place)) {
  bool too_deep = false;
  root_ = parsed(text, too_deep);
  if (!root_) {
    throw damaged(place_, too_deep ? fmt::format("its JSON has more than {} levels", most_levels)
                                   : "it is no JSON");
  }
  value_ = root_.get();
}

CheckedJson::CheckedJson(const CheckedJson& whole, const Json& part, const std::string& name)
    : root_(whole.root_),
      value_(&part),
      place_(whole.place_),
      path_(whole.path_.empty() ? name : whole.path_ + "/" + name) {}

Error CheckedJson::refused(const std::string& expected) const {
  return damaged(place_, fmt::format("{} is {}, expected {}", path_.empty() ? "its JSON" : path_,
                                     shortened(json_text(*value_)), expected));
}

bool CheckedJson::has(const std::string& member) const {
  if (!value_->is_object()) throw refused("an object");
  return value_->contains(member);
}

CheckedJson CheckedJson::at(const std::string& member) const {
  if (!has(member)) {
    throw damaged(place_,
                  fmt::format("{} is missing", path_.empty() ? member : path_ + "/" + member));
  }
  return {*this, *value_->find(member), member};
}

std::vector<CheckedJson> CheckedJson::list() const {
  if (!value_->is_array()) throw refused("a list");
  std::vector<CheckedJson> values;
  values.reserve(value_->size());
  for (const Json& one : *value_) values.push_back({*this, one, std::to_string(values.size())});
  return values;
}

std::vector<CheckedJson> CheckedJson::list(std::size_t count) const {
  if (!value_->is_array() || value_->size() != count) {
    throw refused(fmt::format("a list of {}", count));
  }
  return list();
}

std::vector<std::string> CheckedJson::texts() const {
  std::vector<std::string> all;
  for (const CheckedJson& one : list()) all.push_back(one.text());
  return all;
}

Shape CheckedJson::shape() const {
  const std::vector<CheckedJson> lengths = list();
  if (lengths.size() > Shape::most_axes) throw refused("the shape of a dataset");
  Shape shape;
  for (const CheckedJson& one : lengths) shape.push_back(one.count());
  Index product = 1;
  for (const Index axis : shape) {
    // Axes of length 0 do not hide others that are too long together.
    if (__builtin_mul_overflow(product, axis == 0 ? 1 : axis, &product)) product = -1;
    if (product < 0) throw refused("the shape of a dataset");
  }
  return shape;
}

Index CheckedJson::count(Index most, Index least) const {
  const bool small = value_->is_number_integer() &&
                     (!value_->is_number_unsigned() ||
                      value_->get<std::uint64_t>() <=
                          static_cast<std::uint64_t>(std::numeric_limits<Index>::max()));
  const Index found = small ? value_->get<Index>() : -1;
  if (!small || found < least || found > most) {
    throw refused(most == std::numeric_limits<Index>::max()
                      ? fmt::format("a whole number of at least {}", least)
                      : fmt::format("a whole number from {} to {}", least, most));
  }
  return found;
}

std::int64_t CheckedJson::integer() const {
  return count(std::numeric_limits<Index>::max(), std::numeric_limits<Index>::min());
}

double CheckedJson::number() const {
  if (!value_->is_number() || !std::isfinite(value_->get<double>())) throw refused("a number");
  return value_->get<double>();
}

double CheckedJson::number_or_nan() const {
  return is_null() ? std::numeric_limits<double>::quiet_NaN() : number();
}

bool CheckedJson::flag() const {
  if (!value_->is_boolean()) throw refused("true or false");
  return value_->get<bool>();
}

std::string CheckedJson::text() const {
  if (!value_->is_string()) throw refused("a text");
  return value_->get<std::string>();
}

CheckedGroup::CheckedGroup(io::InputBundle group) : group_(std::move(group)) {}

CheckedGroup CheckedGroup::group(const std::string& name) const {
  return CheckedGroup(group_.group(name));
}

std::string CheckedGroup::place(const std::string& name) const {
  return group_.description() + "/" + name;
}

Index CheckedGroup::whole_number(const std::string& name, Index least, Index most) const {
  const auto found = group_.number_attribute(name);
  if (!found) throw damaged(place(name), "the attribute is missing");
  // The bounds are far below 2^53.
  if (!(*found >= static_cast<double>(least) && *found <= static_cast<double>(most)) ||
      *found != std::floor(*found)) {
    throw damaged(place(name), fmt::format("the attribute is {}, expected a whole number from {} "
                                           "to {}",
                                           *found, least, most));
  }
  return static_cast<Index>(*found);
}

std::string CheckedGroup::text_attribute(const std::string& name) const {
  const auto found = group_.text_attribute(name);
  if (!found) throw damaged(place(name), "the attribute is missing");
  return *found;
}

ArraySource CheckedGroup::list_of(const std::string& name, DType type) const {
  ArraySource dataset = group_.dataset(name);
  if (dataset.dtype() != type || dataset.shape().size() != 1 ||
      dataset.shape().front() > most_elements) {
    throw damaged(place(name),
                  fmt::format("it has shape {} and type {}, expected a list of {}",
                              to_string(dataset.shape()), dataset.type(), attn::name(type)));
  }
  return dataset;
}

std::vector<std::string> CheckedGroup::texts(const std::string& name) const {
  return list_of(name, DType::string).read_strings();
}

std::string CheckedGroup::text(const std::string& name) const {
  const ArraySource dataset = list_of(name, DType::string);
  if (dataset.shape().front() != 1) {
    throw damaged(place(name), fmt::format("it has {} strings, expected 1", dataset.shape()[0]));
  }
  return dataset.read_strings().front();
}

CheckedJson CheckedGroup::json(const std::string& name) const { return {text(name), place(name)}; }

std::vector<double> CheckedGroup::numbers(const std::string& name) const {
  const ArraySource dataset = list_of(name, DType::f64);
  std::vector<double> values(static_cast<std::size_t>(dataset.shape().front()));
  dataset.read({0}, dataset.shape(), values.data());
  return values;
}

}  // namespace attn::tools
