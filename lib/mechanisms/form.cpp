#include "mechanisms/form.hpp"

#include <algorithm>
#include <optional>
#include <string_view>

#include "attnkit/error.hpp"

namespace attn::mechanisms {
namespace {

using Product = Axis::Product;

// The part of `text` up to `separator`, which it loses with the separator.
std::string_view take_part(std::string_view& text, char separator) {
  const std::size_t end = std::min(text.find(separator), text.size());
  const std::string_view part = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return part;
}

Product product_of(std::string_view text) {
  Product product;
  while (!text.empty()) {
    const std::string factor(take_part(text, '*'));
    if (factor.find_first_not_of("0123456789") == std::string::npos) {
      product.factor *= std::stoll(factor);
    } else {
      product.symbols.push_back(factor);
    }
  }
  return product;
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

std::optional<Index> length_of(const Axis& axis, const Sizes& sizes) {
  Index length = 0;
  for (const Product& product : axis.sum) {
    const auto value = value_of(product, sizes);
    if (!value) return std::nullopt;
    length += *value;
  }
  return length;
}

// Notes the length of the only unknown symbol of an axis, if it has one that occurs once.
bool solve(const Axis& axis, Index length, Sizes& sizes) {
  const Product* unknown = nullptr;
  Index rest = length;
  for (const Product& product : axis.sum) {
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
std::string expected(const Axes& axes, const Sizes& sizes) {
  Sizes named;
  for (const Axis& axis : axes) {
    for (const Product& product : axis.sum) {
      for (const std::string& symbol : product.symbols) {
        const auto found = sizes.find(symbol);
        if (found != sizes.end()) named.insert(*found);
      }
    }
  }
  std::string text = "(" + axes.words() + ")";
  const char* separator = ", with ";
  for (const auto& [symbol, length] : named) {
    text += separator + symbol + " = " + std::to_string(length);
    separator = ", ";
  }
  return text;
}

// The shape of a tensor without its leading axes.
struct OwnShape {
  const TensorForm* form;
  Shape shape;
};

[[noreturn]] void refuse(const OwnShape& own, const Sizes& sizes) {
  throw Error(Failure::input, own.form->name + " has the shape " + text_of(own.shape) +
                                  ", expected " + expected(own.form->axes, sizes));
}

}  // namespace

Axes::Axes(const char* text) {
  for (std::string_view axes = text; !axes.empty();) {
    std::string_view sum = take_part(axes, ' ');
    Axis& axis = all_.emplace_back();
    axis.text = sum;
    while (!sum.empty()) axis.sum.push_back(product_of(take_part(sum, '+')));
  }
}

Axes::Axes(const std::string& text) : Axes(text.c_str()) {}

std::string Axes::words() const {
  std::string words;
  for (const Axis& axis : all_) words += (words.empty() ? "" : ", ") + axis.text;
  return words;
}

Shape shape_of(const Axes& axes, const Sizes& sizes) {
  Shape shape;
  for (const Axis& axis : axes) shape.push_back(length_of(axis, sizes).value());
  return shape;
}

bool is_known(const Axes& axes, const Sizes& sizes) {
  return std::all_of(axes.begin(), axes.end(),
                     [&](const Axis& axis) { return length_of(axis, sizes).has_value(); });
}

Sizes sizes_of(const std::vector<KnownShape>& known) {
  std::vector<OwnShape> all;
  Sizes sizes;
  for (const KnownShape& one : known) {
    if (one.shape.size() < one.leading) refuse({one.form, one.shape}, sizes);
    all.push_back({one.form, Shape(one.shape.begin() + one.leading, one.shape.end())});
    const OwnShape& own = all.back();
    const Axes& axes = one.form->axes;
    if (own.shape.size() != axes.size()) refuse(own, sizes);
    for (std::size_t n = 0; n < axes.size(); ++n) {
      if (axes[n].is_symbol()) sizes.try_emplace(axes[n].text, own.shape[n]);
    }
  }
  for (bool found = true; found;) {
    found = false;
    for (const OwnShape& own : all) {
      for (std::size_t n = 0; n < own.shape.size(); ++n) {
        found = solve(own.form->axes[n], own.shape[n], sizes) || found;
      }
    }
  }
  for (const OwnShape& own : all) {
    for (std::size_t n = 0; n < own.shape.size(); ++n) {
      if (length_of(own.form->axes[n], sizes) != own.shape[n]) refuse(own, sizes);
    }
  }
  return sizes;
}

}  // namespace attn::mechanisms
