#include "io/arrays/npy_header.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "attnkit/error.hpp"
#include "io/arrays/npy_dtype.hpp"

namespace attn::io {
namespace {

// NumPy itself reads headers of up to 10000 characters; only structured types have longer ones.
constexpr Index most_npy_header = Index{1} << 16;

/// Reads the Python literal {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }.
class HeaderParser {
 public:
  HeaderParser(std::string_view text, const std::string& address)
      : text_(text), address_(address) {}

  void parse(StoredArray& array) {
    std::optional<std::string> descr;
    std::optional<bool> fortran;
    std::optional<Shape> shape;
    expect('{');
    while (!accept('}')) {
      const std::string key = string();
      expect(':');
      if (key == "descr" && !descr) {
        if (peek() == '[') {
          throw Error(Failure::input, address_ + " is of a structured dtype, expected numbers",
                      "save its fields as arrays of their own");
        }
        descr = string();
      } else if (key == "fortran_order" && !fortran) {
        fortran = boolean();
      } else if (key == "shape" && !shape) {
        shape = tuple();
      } else {
        refuse("an unexpected or repeated key");
      }
      if (!accept(',') && peek() != '}') refuse("a missing comma");
    }
    if (peek() != '\0' || at_ != text_.size()) refuse("text after its end");
    if (!descr || !fortran || !shape) refuse("one of descr, fortran_order and shape missing");
    if (*descr == "|O" && shape->empty() && address_.find(":/") == std::string::npos) {
      throw Error(Failure::input, address_ + " holds a pickled Python object, expected numbers",
                  "in Python, for a dict of arrays: numpy.savez('FILE.npz', **numpy.load('FILE', "
                  "allow_pickle=True).item())");
    }
    read_npy_dtype(*descr, address_, array);
    array.fortran = *fortran;
    array.shape = *shape;
  }

 private:
  [[noreturn]] void refuse(const std::string& why) const {
    throw Error(Failure::input, address_ + " has a malformed .npy header, with " + why);
  }

  /// The next character that is not a space; '\0' at the end, and for a NUL.
  char peek() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t')) {
      ++at_;
    }
    return at_ < text_.size() ? text_[at_] : '\0';
  }

  bool accept(char c) {
    if (peek() != c || at_ == text_.size()) return false;
    ++at_;
    return true;
  }

  void expect(char c) {
    if (!accept(c)) refuse(std::string("no '") + c + "' where one is expected");
  }

  std::string string() {
    const char quote = peek();
    if (quote != '\'' && quote != '"') refuse("no string where one is expected");
    const std::size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) refuse("a string without end");
    const std::string_view inside = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    if (std::any_of(inside.begin(), inside.end(), [](char c) { return c < ' ' || c == '\\'; })) {
      refuse("a string with special characters");
    }
    return std::string(inside);
  }

  bool boolean() {
    peek();
    for (const std::string_view word : {"True", "False"}) {
      if (text_.substr(at_, word.size()) != word) continue;
      at_ += word.size();
      return word == "True";
    }
    refuse("a fortran_order other than True and False");
  }

  Shape tuple() {
    Shape shape;
    expect('(');
    while (!accept(')')) {
      if (shape.size() == Shape::most_axes) {
        refuse("more than " + std::to_string(Shape::most_axes) + " axes");
      }
      shape.push_back(length());
      const bool comma = accept(',');
      if (!comma && (peek() != ')' || shape.size() == 1)) refuse("a shape that is not a tuple");
    }
    return shape;
  }

  Index length() {
    if (accept('-')) refuse("a negative length in its shape");
    const std::size_t first = at_;
    Index value = 0;
    for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_) {
      if (__builtin_mul_overflow(value, Index{10}, &value) ||
          __builtin_add_overflow(value, Index{text_[at_] - '0'}, &value)) {
        refuse("a length in its shape beyond 64 bits");
      }
    }
    if (at_ == first) refuse("a length in its shape that is not an integer");
    if (at_ < text_.size() && text_[at_] == 'L') ++at_;  // as Python 2 wrote them
    return value;
  }

  std::string_view text_;
  const std::string& address_;
  std::size_t at_ = 0;
};

struct Preamble {
  Index begin = 0;   ///< where the header's text begins
  Index length = 0;  ///< its length
};

Preamble read_preamble(const Bytes& bytes, const std::string& address) {
  unsigned char start[12] = {};
  bytes.read(0, std::min<Index>(bytes.size(), sizeof(start)), start);
  if (bytes.size() < 10 || std::memcmp(start, npy_magic, npy_magic_size) != 0) {
    throw Error(Failure::input, address + " is not an .npy: its first bytes are wrong");
  }
  const int major = start[6];
  const int minor = start[7];
  if (major < 1 || major > 3 || minor != 0) {
    throw Error(Failure::input, address + " is an .npy of version " + std::to_string(major) + "." +
                                    std::to_string(minor) + ", expected 1.0, 2.0 or 3.0");
  }
  Index length = start[8] | Index{start[9]} << 8;
  if (major > 1) length |= Index{start[10]} << 16 | Index{start[11]} << 24;
  const Preamble preamble{major > 1 ? 12 : 10, length};
  if (length > most_npy_header || length > bytes.size() - preamble.begin) {
    throw Error(Failure::input, address + " claims an .npy header of " + std::to_string(length) +
                                    " bytes in a total of " + std::to_string(bytes.size()) +
                                    " bytes");
  }
  return preamble;
}

}  // namespace

StoredArray read_npy_header(std::shared_ptr<const Bytes> bytes, const std::string& address) {
  const Preamble preamble = read_preamble(*bytes, address);
  std::string text(static_cast<std::size_t>(preamble.length), '\0');
  bytes->read(preamble.begin, preamble.length, text.data());
  StoredArray array;
  HeaderParser(text, address).parse(array);
  array.offset = preamble.begin + preamble.length;
  const Index expected = array_bytes(array.shape, array.element_size, address);
  const Index there = bytes->size() - array.offset;
  if (expected != there) {
    throw Error(Failure::input, address + (there < expected ? " is truncated: it" : "") + " has " +
                                    std::to_string(there) + " bytes of data, but its shape " +
                                    to_string(array.shape) + " of " + array.description +
                                    " needs " + std::to_string(expected));
  }
  array.bytes = std::move(bytes);
  return array;
}

std::string npy_header(DType dtype, const Shape& shape, Index width) {
  const std::string descr =
      dtype == DType::string ? "<U" + std::to_string(width) : npy_dtype(dtype);
  std::string dict = "{'descr': '" + descr + "', 'fortran_order': False, 'shape': (";
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    dict += (axis > 0 ? ", " : "") + std::to_string(shape[axis]);
  }
  dict += shape.size() == 1 ? ",), }" : "), }";
  constexpr std::size_t preamble = 10;
  constexpr std::size_t alignment = 64;
  // Room for the first axis to grow to 21 digits in place, as NumPy leaves it.
  constexpr std::size_t growth = 21;
  if (!shape.empty()) dict.append(growth - std::to_string(shape[0]).size(), ' ');
  dict.append(alignment - (preamble + dict.size() + 1) % alignment, ' ');
  dict += '\n';
  std::string header(npy_magic, npy_magic_size);
  header +=
      {'\x01', '\x00', static_cast<char>(dict.size() & 0xff), static_cast<char>(dict.size() >> 8)};
  return header + dict;
}

}  // namespace attn::io
