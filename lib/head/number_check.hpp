#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "head/operand.hpp"
#include "score/seen_rows.hpp"
#include "tensor/view.hpp"

namespace attn {

/// Which numbers an operand may hold.
enum class Allowed {
  finite,
  finite_or_minus_infinity,
  finite_not_negative,
};

/// Whether values[0, count) contain neither a NaN nor an infinity.
template <class T>
bool all_finite(const T* values, Index count);

/// Checks numbers of operands, in parallel, before anything is computed from them.
template <class T>
class NumberCheck {
 public:
  /// Forgets all parts, but keeps their memory.
  void clear();

  /// A part of a block: some rows and columns, which lie at `values`. `operand` and the numbers
  /// must outlive `look`. Rows that are not seen may hold anything. Returns the index of the part.
  std::size_t add(const Operand& operand, Index block, const TileRange& range,
                  const MatrixView<const T>& values, Allowed allowed, const SeenRows& seen = {});

  /// Checks all parts, on up to `threads` threads. Throws Error(input) that names the operand, the
  /// first number that is not allowed, and its index; Error(numerical) if the number is only beyond
  /// float32.
  void look(int threads);

  /// The largest magnitude of a part's finite numbers; valid after `look`.
  double largest(std::size_t part) const { return static_cast<double>(parts_[part].largest); }

  /// Whether rows that are not seen hold a number that is not allowed; valid after `look`.
  bool has_strange_rows(std::size_t part) const { return parts_[part].strange; }

  /// Bytes that `count` parts of up to 65536 numbers take.
  static std::int64_t bytes(Index count) {
    return count * static_cast<std::int64_t>(sizeof(Part) + sizeof(Piece));
  }

 private:
  struct Part {
    const Operand* operand;
    Index block;
    TileRange range;
    MatrixView<const T> values;
    Allowed allowed;
    SeenRows seen;
    T largest = 0;
    bool strange = false;
  };
  // Some rows of a part.
  struct Piece {
    std::size_t part;
    Index row0;
    Index rows;
    T largest = 0;
    bool strange = false;
  };

  void look(Piece& piece) const;
  [[noreturn]] static void refuse(const Part& part, Index row, Index col);

  std::vector<Part> parts_;
  std::vector<Piece> pieces_;
};

}  // namespace attn
