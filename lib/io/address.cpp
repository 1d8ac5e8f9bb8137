#include "io/address.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <limits>

#include "attnkit/error.hpp"
#include "io/arrays/sharded_file.hpp"

namespace attn::io {
namespace {

constexpr Index index_max = std::numeric_limits<Index>::max();

/// The file that `name` stands for; empty if there is none.
std::string readable_file(std::string_view name) {
  if (name == "-") return "-";
  struct stat status {};
  const std::string file(name);
  if (stat(file.c_str(), &status) != 0) return {};
  if (!S_ISDIR(status.st_mode)) return file;
  for (const std::string_view inside : {index_name, std::string_view("model.safetensors")}) {
    const std::string whole = file + (file.ends_with('/') ? "" : "/") + std::string(inside);
    if (stat(whole.c_str(), &status) == 0 && !S_ISDIR(status.st_mode)) return whole;
  }
  return {};
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t end = text.find(at);
    parts.push_back(trimmed(text.substr(0, end)));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

/// Parses the text between the brackets of one address; `address_` is used only in messages.
class SelectionParser {
 public:
  explicit SelectionParser(std::string_view address) : address_(address) {}

  std::vector<SliceItem> parse(std::string_view text) const {
    std::vector<SliceItem> items;
    std::vector<std::string_view> parts = split(text, ',');
    // As in Python, one comma may stand at the end: [3,] is [3].
    if (parts.size() > 1 && parts.back().empty()) parts.pop_back();
    for (const std::string_view part : parts) items.push_back(item(part));
    const auto is_ellipsis = [](const SliceItem& i) { return i.kind == SliceItem::Kind::ellipsis; };
    if (std::count_if(items.begin(), items.end(), is_ellipsis) > 1) {
      refuse("a selection may have at most one ellipsis");
    }
    return items;
  }

 private:
  [[noreturn]] void refuse(const std::string& why) const {
    throw Error(Failure::usage, std::string(address_) + ": " + why,
                "a selection is written as in NumPy: [0], [:, 2:10], [..., ::4]");
  }

  SliceItem item(std::string_view text) const {
    if (text == "..." || text == "\u2026") return {SliceItem::Kind::ellipsis, {}, {}, 1};
    const std::vector<std::string_view> parts = split(text, ':');
    if (parts.size() > 3) refuse("too many colons in '" + std::string(text) + "'");
    if (parts.size() == 1) return {SliceItem::Kind::integer, number(text), {}, 1};
    SliceItem range;
    if (!parts[0].empty()) range.start = number(parts[0]);
    if (!parts[1].empty()) range.stop = number(parts[1]);
    if (parts.size() == 3 && !parts[2].empty()) range.step = number(parts[2]);
    if (range.step <= 0) refuse("the step in '" + std::string(text) + "' must be positive");
    return range;
  }

  /// Saturates if the number does not fit: a bound of a range is clipped anyway, and an integer is
  /// out of range for every axis.
  Index number(std::string_view text) const {
    std::string_view digits = text;
    const bool negative = !digits.empty() && digits.front() == '-';
    if (!digits.empty() && (negative || digits.front() == '+')) digits.remove_prefix(1);
    if (digits.empty()) refuse("'" + std::string(text) + "' is not an integer");
    Index value = 0;
    for (const char c : digits) {
      if (c < '0' || c > '9') refuse("'" + std::string(text) + "' is not an integer");
      if (__builtin_mul_overflow(value, Index{10}, &value) ||
          __builtin_add_overflow(value, Index{c - '0'}, &value)) {
        value = index_max;
      }
    }
    return negative ? -value : value;
  }

  std::string_view address_;
};

/// Sets path and selection from the text after the file name.
void parse_rest(std::string_view rest, Address& address) {
  if (!rest.empty() && rest.back() == ']') {
    const std::size_t open = rest.rfind('[');
    if (open == std::string_view::npos) {
      throw Error(Failure::usage, address.text + ": ']' without '['");
    }
    const std::string_view inside = rest.substr(open + 1, rest.size() - open - 2);
    address.selection = SelectionParser(address.text).parse(inside);
    rest = rest.substr(0, open);
  }
  while (rest.size() > 1 && rest.back() == '/') rest.remove_suffix(1);
  address.path = rest.empty() || rest.front() != '/' ? "/" + std::string(rest) : std::string(rest);
}

struct Range {
  Index start;
  Index count;
};

/// Python's slice.indices for a positive step.
Range clip(const SliceItem& item, Index length) {
  const auto position = [&](Index given) {
    return std::clamp(given < 0 ? given + length : given, Index{0}, length);
  };
  const Index start = item.start ? position(*item.start) : 0;
  const Index stop = item.stop ? position(*item.stop) : length;
  return {start, stop <= start ? 0 : (stop - start - 1) / item.step + 1};
}

/// The selection with its ellipsis (or, without one, its end) filled up with full axes.
std::vector<SliceItem> expanded(const std::vector<SliceItem>& selection, const Shape& shape,
                                const std::string& what) {
  const auto ellipsis = std::find_if(selection.begin(), selection.end(), [](const SliceItem& i) {
    return i.kind == SliceItem::Kind::ellipsis;
  });
  const bool found = ellipsis != selection.end();
  const std::size_t given = selection.size() - (found ? 1 : 0);
  if (given > shape.size()) {
    throw Error(Failure::input, what + ": the selection has " + std::to_string(given) +
                                    " items, the dataset has shape " + to_string(shape));
  }
  std::vector<SliceItem> items(selection.begin(), ellipsis);
  items.resize(items.size() + shape.size() - given);
  if (found) items.insert(items.end(), ellipsis + 1, selection.end());
  return items;
}

}  // namespace

Address parse_address(std::string_view text) {
  Address address{std::string(text), std::string(text), "/", {}};
  if (std::string file = readable_file(text); !file.empty()) {
    address.file = std::move(file);
    return address;
  }
  // From the end, so that the longest file name wins; "FILE[sel]" is short for "FILE:/[sel]".
  const bool selected = !text.empty() && text.back() == ']';
  for (std::size_t at = text.size(); at-- > 1;) {
    const bool colon = text[at] == ':';
    if (!(colon || (selected && text[at] == '['))) continue;
    std::string file = readable_file(text.substr(0, at));
    if (file.empty()) continue;
    address.file = std::move(file);
    parse_rest(text.substr(colon ? at + 1 : at), address);
    return address;
  }
  return address;
}

std::string with_slashes(std::string path) {
  std::replace(path.begin(), path.end(), '.', '/');
  return path;
}

Hyperslab resolve(const std::vector<SliceItem>& selection, const Shape& shape,
                  const std::string& what) {
  const std::vector<SliceItem> items = expanded(selection, shape, what);
  Hyperslab slab;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    const SliceItem& item = items[axis];
    if (item.kind == SliceItem::Kind::integer) {
      const Index given = item.start.value();
      const Index at = given < 0 ? given + shape[axis] : given;
      if (at < 0 || at >= shape[axis]) {
        throw Error(Failure::input, what + ": position " + std::to_string(given) +
                                        " is out of range for axis " + std::to_string(axis) +
                                        " of length " + std::to_string(shape[axis]));
      }
      slab.start.push_back(at);
      slab.step.push_back(1);
      slab.count.push_back(1);
      continue;
    }
    const Range range = clip(item, shape[axis]);
    slab.start.push_back(range.start);
    slab.step.push_back(item.step);
    slab.count.push_back(range.count);
    slab.shape.push_back(range.count);
    slab.source_axis.push_back(axis);
  }
  return slab;
}

}  // namespace attn::io
