#include "mechanisms/form.hpp"

#include <algorithm>
#include <optional>
#include <sstream>

#include "attnkit/error.hpp"

namespace attn::mechanisms {
namespace {

// A product such as "4*D": a number times symbols.
struct Product {
  Index factor = 1;
  std::vector<std::string> symbols;
};

std::vector<std::string> parts_of(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) {
    if (!part.empty()) parts.push_back(part);
  }
  return parts;
}

bool is_number(const std::string& text) {
  return text.find_first_not_of("0123456789") == std::string::npos;
}

std::vector<Product> products_of(const std::string& axis) {
  std::vector<Product> products;
  for (const std::string& term : parts_of(axis, '+')) {
    Product product;
    for (const std::string& factor : parts_of(term, '*')) {
      if (is_number(factor)) {
        product.factor *= std::stoll(factor);
      } else {
        product.symbols.push_back(factor);
      }
    }
    products.push_back(product);
  }
  return products;
}

// The value of a product; absent if a symbol is unknown.
std::optional<Index> value_of(const Product& product, const Sizes& sizes) {
  Index value = product.factor;
  for (const std::string& symbol : product.symbols) {
    const auto found = sizes.find(symbol);
    if (found == sizes.end()) return std::nullopt;
    value *= found->second;
  }
  return value;
}

std::optional<Index> length_of(const std::string& axis, const Sizes& sizes) {
  Index length = 0;
  for (const Product& product : products_of(axis)) {
    const auto value = value_of(product, sizes);
    if (!value) return std::nullopt;
    length += *value;
  }
  return length;
}

// Notes the length of the only unknown symbol of an axis, if it has one that occurs once.
bool solve(const std::string& axis, Index length, Sizes& sizes) {
  const Product* unknown = nullptr;
  Index rest = length;
  const std::vector<Product> products = products_of(axis);
  for (const Product& product : products) {
    const auto value = value_of(product, sizes);
    if (!value && unknown != nullptr) return false;
    if (value) {
      rest -= *value;
    } else {
      unknown = &product;
    }
  }
  if (unknown == nullptr) return false;
  Index factor = unknown->factor;
  std::string symbol;
  for (const std::string& one : unknown->symbols) {
    const auto found = sizes.find(one);
    if (found != sizes.end()) {
      factor *= found->second;
    } else if (symbol.empty()) {
      symbol = one;
    } else {
      return false;
    }
  }
  if (factor == 0 || rest < 0 || rest % factor != 0) return false;
  sizes[symbol] = rest / factor;
  return true;
}

std::string text_of(const Shape& shape) {
  std::string text = "(";
  for (std::size_t n = 0; n < shape.size(); ++n) {
    text += (n > 0 ? ", " : "") + std::to_string(shape[n]);
  }
  return text + ")";
}

// "(A, 2*D), with D = 5"
std::string expected(const std::vector<std::string>& axes, const Sizes& sizes) {
  std::string text;
  Sizes named;
  for (const std::string& axis : axes) {
    text += (text.empty() ? "" : ", ") + axis;
    for (const Product& product : products_of(axis)) {
      for (const std::string& symbol : product.symbols) {
        const auto found = sizes.find(symbol);
        if (found != sizes.end()) named.insert(*found);
      }
    }
  }
  text = "(" + text + ")";
  const char* separator = ", with ";
  for (const auto& [symbol, length] : named) {
    text += separator + symbol + " = " + std::to_string(length);
    separator = ", ";
  }
  return text;
}

struct KnownAxes {
  const KnownShape* of;
  std::vector<std::string> axes;
  Shape shape;  // without the leading axes
};

[[noreturn]] void refuse(const KnownAxes& known, const Sizes& sizes) {
  throw Error(Failure::input, known.of->form->name + " has the shape " + text_of(known.shape) +
                                  ", expected " + expected(known.axes, sizes));
}

}  // namespace

Shape shape_of(const std::string& axes, const Sizes& sizes) {
  Shape shape;
  for (const std::string& axis : parts_of(axes, ' ')) {
    shape.push_back(length_of(axis, sizes).value());
  }
  return shape;
}

bool is_known(const std::string& axes, const Sizes& sizes) {
  const std::vector<std::string> all = parts_of(axes, ' ');
  return std::all_of(all.begin(), all.end(),
                     [&](const std::string& axis) { return length_of(axis, sizes).has_value(); });
}

Sizes sizes_of(const std::vector<KnownShape>& known) {
  std::vector<KnownAxes> all;
  Sizes sizes;
  for (const KnownShape& one : known) {
    KnownAxes axes = {&one, parts_of(one.form->axes, ' '), {}};
    if (one.shape.size() < one.leading) refuse({&one, axes.axes, one.shape}, sizes);
    axes.shape = Shape(one.shape.begin() + one.leading, one.shape.end());
    if (axes.shape.size() != axes.axes.size()) refuse(axes, sizes);
    for (std::size_t n = 0; n < axes.axes.size(); ++n) {
      const std::string& axis = axes.axes[n];
      if (axis.find_first_of("+*") == std::string::npos && !is_number(axis)) {
        sizes.try_emplace(axis, axes.shape[n]);
      }
    }
    all.push_back(std::move(axes));
  }
  for (bool found = true; found;) {
    found = false;
    for (const KnownAxes& one : all) {
      for (std::size_t n = 0; n < one.axes.size(); ++n) {
        found = solve(one.axes[n], one.shape[n], sizes) || found;
      }
    }
  }
  for (const KnownAxes& one : all) {
    for (std::size_t n = 0; n < one.axes.size(); ++n) {
      if (length_of(one.axes[n], sizes) != one.shape[n]) refuse(one, sizes);
    }
  }
  return sizes;
}

}  // namespace attn::mechanisms
