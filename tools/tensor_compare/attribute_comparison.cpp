#include "tensor_compare/attribute_comparison.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <string_view>
#include <utility>
#include <variant>

#include "attnkit/error.hpp"
#include "io/contents.hpp"
#include "io/result_mark.hpp"

namespace attn::tools {
namespace {

using Described = io::AttributeValue::Described;
using Doubles = std::vector<double>;
using Integers = std::vector<std::int64_t>;
using Texts = std::vector<std::string>;

// The root and the objects below it, in the order of the file.
std::vector<io::Item> objects_of(const io::InputBundle& bundle) {
  constexpr Index all = std::numeric_limits<Index>::max();
  io::Item root;
  root.is_group = true;
  root.attributes = io::root_attributes(bundle, all);
  std::vector<io::Item> items = io::contents(bundle, all);
  items.insert(items.begin(), std::move(root));
  return items;
}

using Attributes = std::map<std::string, const io::AttributeValue*>;

Attributes compared_of(const io::Item& item) {
  constexpr std::array<std::string_view, 5> left_out = {
      "history", io::result_mark, "DIMENSION_LIST", "REFERENCE_LIST", "DIMENSION_LABELS"};
  Attributes found;
  for (const io::AttributeValue& attribute : item.attributes) {
    if (std::find(left_out.begin(), left_out.end(), attribute.name) != left_out.end()) continue;
    found.emplace(attribute.name, &attribute);
  }
  // HDF5 owns these attributes only on dimension scales.
  const auto marked = found.find("CLASS");
  if (marked == found.end()) return found;
  const auto* texts = std::get_if<Texts>(&marked->second->value);
  if (texts != nullptr && texts->front() == "DIMENSION_SCALE") {
    found.erase("CLASS");
    found.erase("NAME");
  }
  return found;
}

Doubles as_doubles(const io::AttributeValue& attribute) {
  if (const auto* integers = std::get_if<Integers>(&attribute.value)) {
    return {integers->begin(), integers->end()};
  }
  return std::get<Doubles>(attribute.value);
}

void add_texts(const Texts& a, const Texts& b, Difference& difference) {
  difference.compared = static_cast<Index>(a.size());
  for (std::size_t k = 0; k < a.size(); ++k) {
    if (a[k] == b[k]) continue;
    if (difference.differing++ == 0) difference.absolute_at = static_cast<Index>(k);
  }
}

void require_comparable(const std::string& side, const std::string& name,
                        const io::AttributeValue& attribute) {
  const auto* described = std::get_if<Described>(&attribute.value);
  if (described == nullptr || described->is_empty) return;
  throw Error(Failure::input, side + ": attribute " + name + " is " + described->text +
                                  ", which cannot be compared");
}

std::string kind_of(const io::AttributeValue& attribute) {
  if (const auto* described = std::get_if<Described>(&attribute.value)) return described->text;
  return std::holds_alternative<Texts>(attribute.value) ? "text" : "numbers";
}

Compared compare(const std::string& name, const io::AttributeValue& a, const io::AttributeValue& b,
                 const Tolerance& tolerance) {
  Compared item;
  item.name = name;
  item.shape = a.shape;
  const std::string kind = kind_of(a);
  if (kind != kind_of(b)) {
    item.reason = kind + " against " + kind_of(b);
    return item;
  }
  if (a.shape != b.shape) {
    item.reason = "shape " + to_string(a.shape) + " against " + to_string(b.shape);
    return item;
  }
  item.comparable = true;
  item.is_text = kind != "numbers";
  const auto* integers_a = std::get_if<Integers>(&a.value);
  const auto* integers_b = std::get_if<Integers>(&b.value);
  if (kind == "text") {
    add_texts(std::get<Texts>(a.value), std::get<Texts>(b.value), item.difference);
  } else if (integers_a != nullptr && integers_b != nullptr) {
    item.difference.add(integers_a->data(), integers_b->data(), 0,
                        static_cast<Index>(integers_a->size()), tolerance);
  } else if (kind == "numbers") {
    const Doubles numbers_a = as_doubles(a);
    const Doubles numbers_b = as_doubles(b);
    item.difference.add(numbers_a.data(), numbers_b.data(), 0, static_cast<Index>(numbers_a.size()),
                        tolerance);
  }
  return item;
}

}  // namespace

std::vector<Compared> compare_attributes(const io::InputBundle& a, const io::InputBundle& b,
                                         const std::optional<std::set<std::string>>& datasets,
                                         const Tolerance& tolerance) {
  const std::vector<io::Item> items_a = objects_of(a);
  const std::vector<io::Item> items_b = objects_of(b);
  std::map<std::string, const io::Item*> in_a, in_b;
  for (const io::Item& item : items_a) in_a.emplace(item.path, &item);
  for (const io::Item& item : items_b) in_b.emplace(item.path, &item);

  std::vector<Compared> all;
  const io::Item none;
  const auto take = [&](const std::string& path, const io::Item& from_a, const io::Item& from_b) {
    const Attributes of_a = compared_of(from_a);
    const Attributes of_b = compared_of(from_b);
    for (const auto& [name, attribute] : of_a) {
      require_comparable(a.description(), path + "@" + name, *attribute);
      const auto found = of_b.find(name);
      if (found != of_b.end()) {
        require_comparable(b.description(), path + "@" + name, *found->second);
        all.push_back(compare(path + "@" + name, *attribute, *found->second, tolerance));
      } else {
        all.push_back({path + "@" + name, attribute->shape, false, false, {}, "only in A", ""});
      }
    }
    for (const auto& [name, attribute] : of_b) {
      if (of_a.count(name) > 0) continue;
      all.push_back({path + "@" + name, attribute->shape, false, false, {}, "only in B", ""});
    }
  };
  const auto wanted = [&](const io::Item& item) {
    return datasets ? !item.is_group && datasets->count(item.path) > 0 : true;
  };
  for (const io::Item& item : items_a) {
    const auto found = in_b.find(item.path);
    const bool in_both = found != in_b.end() && found->second->is_group == item.is_group;
    // A dataset in only one bundle is reported as such.
    if (wanted(item) && (in_both || item.is_group))
      take(item.path, item, in_both ? *found->second : none);
  }
  for (const io::Item& item : items_b) {
    const auto found = in_a.find(item.path);
    const bool in_both = found != in_a.end() && found->second->is_group == item.is_group;
    if (wanted(item) && !in_both && item.is_group) take(item.path, none, item);
  }
  return all;
}

}  // namespace attn::tools
