#pragma once

#include <string>
#include <vector>

#include "tensor/shape.hpp"

namespace attn {

/// Which numbers an array may hold.
enum class Allowed {
  finite,
  finite_or_minus_infinity,
  finite_not_negative,
};

/// Whether values[0, count) contain neither a NaN nor an infinity.
template <class T>
bool all_finite(const T* values, Index count);

/// Checks all numbers of some arrays, in parallel, before anything is computed from them. Arrays
/// are added once; their addresses are set before every check.
template <class T>
class NumberCheck {
 public:
  /// Returns the index of the array for `set` and `largest`. A block is a run of `block_size`
  /// elements.
  std::size_t add(const std::string& name, const Shape& shape, Index block_size, Allowed allowed);

  void set(std::size_t array, const T* values) { arrays_[array].values = values; }

  /// Checks all arrays. Throws Error(input) that names the array, the first number that is not
  /// allowed, and its index.
  void look(int threads);

  /// The largest finite number of a block, in magnitude; valid after `look`.
  double largest(std::size_t array, Index block) const;

 private:
  struct Array {
    std::string name;
    Shape shape;
    Allowed allowed;
    const T* values;
    std::vector<std::size_t> first_piece;  // by block, and one more
  };
  struct Piece {
    std::size_t array;
    Index first;
    Index count;
    T largest;
  };

  void look(Piece& piece) const;
  [[noreturn]] void refuse(const Array& array, Index at) const;

  std::vector<Array> arrays_;
  std::vector<Piece> pieces_;
};

}  // namespace attn
