#pragma once

#include <map>
#include <string>
#include <vector>

#include "attnkit/tensor.hpp"

namespace attn::mechanisms {

/// Lengths of axes by symbol, such as T = 12.
using Sizes = std::map<std::string, Index>;

/// An axis of a tensor, whose length is a sum of products, such as 4*D + E.
struct Axis {
  struct Product {
    Index factor = 1;
    std::vector<std::string> symbols;
  };

  std::string text;  ///< "4*D+E"
  std::vector<Product> sum;

  bool is_symbol() const {
    return sum.size() == 1 && sum[0].factor == 1 && sum[0].symbols.size() == 1;
  }
};

/// The axes of a tensor; a scalar has none. Forms write them as a text with blanks between the
/// axes, "4*D D+E".
class Axes {
 public:
  Axes() = default;
  Axes(const char* text);         // NOLINT(google-explicit-constructor)
  Axes(const std::string& text);  // NOLINT(google-explicit-constructor)

  std::size_t size() const { return all_.size(); }
  bool empty() const { return all_.empty(); }
  auto begin() const { return all_.begin(); }
  auto end() const { return all_.end(); }
  const Axis& operator[](std::size_t n) const { return all_[n]; }

  /// "4*D, D+E"
  std::string words() const;

 private:
  std::vector<Axis> all_;
};

/// A tensor that a mechanism reads or computes.
struct TensorForm {
  enum class Kind {
    sequence,  ///< each sequence has its own
    shared,    ///< weights: all sequences have the same
  };

  std::string name;
  Axes axes;
  std::string help;
  Kind kind = Kind::sequence;
  bool optional = false;  ///< for an input
  /// For an optional input. If the input `needed_with` is present, this input must be present; or
  /// `or_else` in its place, unless that is empty.
  std::string needed_with = {};
  std::string or_else = {};
  std::vector<std::string> needs = {};  ///< for a result: the optional inputs that it needs
  bool differentiable = true;           ///< for a result: a loss may depend on it
  bool by_default = true;               ///< for a result: computed unless others are requested
  double padding = 0;                   ///< for a result: its number outside the own lengths
  /// For tokens: they are in 0 … the length of this axis − 1. In a sequence with length 0 of this
  /// axis they may be any number.
  std::string below = {};
  bool repeated = false;  ///< one more of a numbered series: help describes only the first
};

/// Weights of attention as a result, on which no loss may depend.
inline TensorForm of_weights(const std::string& name, const Axes& axes, const std::string& help) {
  return {.name = name, .axes = axes, .help = help, .differentiable = false, .by_default = false};
}

/// The own lengths of the sequences of a padded batch.
struct LengthForm {
  std::string name;       ///< of the array of lengths
  std::string symbol;     ///< of the axes that have this length
  bool repeated = false;  ///< as for a tensor
};

/// What a mechanism reads and computes.
struct MechanismForm {
  std::vector<TensorForm> inputs;
  std::vector<TensorForm> tokens;  ///< integers, each sequence has its own
  std::vector<TensorForm> results;
  std::vector<LengthForm> lengths;
  Sizes chosen = {};  ///< lengths of axes of results that an option sets
};

/// The lengths of axes. Every symbol must be in `sizes`.
Shape shape_of(const Axes& axes, const Sizes& sizes);

/// Whether every symbol of the axes is in `sizes`. Symbols that only an absent input has are not.
bool is_known(const Axes& axes, const Sizes& sizes);

/// The shape of a named tensor; its `leading` axes before those of the form are ignored.
struct KnownShape {
  const TensorForm* form = nullptr;
  Shape shape;
  std::size_t leading = 0;
};

/// The lengths that all shapes agree on. A symbol gets its length from an axis with this symbol
/// alone, else from an axis where it is the only unknown. Throws Error(input) that names the tensor
/// whose shape does not fit, and the expected shape.
Sizes sizes_of(const std::vector<KnownShape>& known);

}  // namespace attn::mechanisms
