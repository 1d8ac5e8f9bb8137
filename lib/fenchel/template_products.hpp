#pragma once

#include <algorithm>

#include "kernel/few_rows.hpp"
#include "kernel/packed.hpp"
#include "tensor/owned_matrix.hpp"

namespace attn::fenchel {

/// Products of blocks of rows with templates (n, d). The templates are read in place, and packed
/// once for logits. The bits of a row depend only on that row.
template <class T>
class TemplateProducts {
 public:
  TemplateProducts() = default;

  /// The numbers of `templates` must outlive the object; the Rows that own them may be moved.
  TemplateProducts(const OwnedMatrix<T>& templates, int threads)
      : templates_(templates.read()),
        by_template_(kernel::Packed<T>::of_transposed(templates_, threads)) {}

  /// out = rows (m, d) times each template: (m, n).
  void logits(MatrixView<const T> rows, MatrixView<T> out) const {
    if (rows.rows > few) {
      kernel::multiply_packed(T{1}, rows, by_template_, 0, out);
      return;
    }
    // The same sums, panel by panel; each panel stays in cache for all rows.
    set_to_zero(out);
    const Index width = kernel::packed_width<T>();
    for (Index col = 0; col < out.cols; col += width) {
      const auto panel = by_template_.panel(col, 0);
      const Index cols = std::min({width, panel.width, out.cols - col});
      kernel::few_rows_add(rows, {panel.at, rows.cols, cols, panel.stride},
                           {out.data + col, out.rows, cols, out.row_stride});
    }
  }

  /// out = weights (m, n) times the templates: (m, d).
  void means(MatrixView<const T> weights, MatrixView<T> out) const {
    set_to_zero(out);
    kernel::few_rows_add(weights, templates_, out);
  }

 private:
  // The number of rows that few_rows_add takes at a time with wide registers.
  static constexpr Index few = 8;

  MatrixView<const T> templates_;
  kernel::Packed<T> by_template_;  // (d, n)
};

}  // namespace attn::fenchel
