#pragma once

#include <string>
#include <vector>

#include "tensor/shape.hpp"
#include "tensor/view.hpp"

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

/// A part of an array of matrices: some rows and columns of one block.
struct NumberRegion {
  Index block = 0;
  TileRange range;
};

/// Checks the numbers of some arrays, in parallel, before anything is computed from them. Arrays
/// are added once, with the number of regions of every run; their addresses and regions are set
/// before every check. Numbers outside all regions are never read.
template <class T>
class NumberCheck {
 public:
  /// An array of blocks, rows × cols. Returns its index for the other functions.
  std::size_t add(const std::string& name, const Shape& shape, Index rows, Index cols,
                  Allowed allowed, Index regions);

  void set(std::size_t array, const T* values) { arrays_[array].values = values; }
  void set_region(std::size_t array, Index region, const NumberRegion& numbers);

  /// The region that is a whole block.
  NumberRegion whole(std::size_t array, Index block) const {
    return {block, {0, arrays_[array].rows, 0, arrays_[array].cols}};
  }

  /// Checks all regions. Throws Error(input) that names the array, the first number that is not
  /// allowed, and its index.
  void look(int threads);

  /// The largest magnitude of a region's finite numbers; valid after `look`.
  double largest(std::size_t array, Index region) const;

 private:
  struct Array {
    std::string name;
    Shape shape;
    Index rows, cols;
    Allowed allowed;
    const T* values;
    std::vector<NumberRegion> regions;
    std::size_t first_piece;
    Index pieces_of_region;
  };
  // Some rows of a region.
  struct Piece {
    std::size_t array;
    Index region;
    Index row0;
    T largest;
  };

  void look(Piece& piece) const;
  [[noreturn]] void refuse(const Array& array, Index at) const;
  static Index rows_of_piece(Index cols);

  std::vector<Array> arrays_;
  std::vector<Piece> pieces_;
};

}  // namespace attn
