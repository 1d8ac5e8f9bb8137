#include "mechanisms/alignment.hpp"

#include <algorithm>
#include <vector>

#include "kernel/product.hpp"
#include "kernel/tile.hpp"
#include "mechanisms/alignment_form.hpp"
#include "mechanisms/alignment_rows.hpp"

namespace attn::mechanisms {
namespace {

template <class T>
class AlignmentMechanism : public Mechanism<T> {
  using Form = Alignment;

 public:
  const MechanismForm& form() const override { return Form::form(); }

  void forward(const Sequence<T>& sequence, const Tensors<T>& results, int threads) const override {
    AlignmentRows<T> rows(sequence.inputs, threads);
    const auto context = matrix(results[Form::context]);
    const auto all = matrix(results[Form::weights]);
    std::vector<double> sums(static_cast<std::size_t>(rows.places()));
    OwnedMatrix<T> panel(std::min(rows.rows(), rows.rows_at_once()), rows.places());
    for (Index first = 0; first < rows.rows(); first += panel.rows()) {
      const MatrixView<T> weights =
          panel.view().row_range(0, std::min(panel.rows(), rows.rows() - first));
      rows.weigh(first, weights);
      rows.set_previous(weights.row(weights.rows - 1));
      kernel::add_columns(weights, sums.data());
      if (all.data != nullptr) {
        std::copy_n(weights.data, weights.rows * weights.cols, all.row(first));
      }
      if (context.data != nullptr) {
        kernel::multiply(weights, matrix(sequence.inputs[Form::source]),
                         context.row_range(first, weights.rows));
      }
    }
    if (results[Form::fertility]) {
      std::copy(sums.begin(), sums.end(), results[Form::fertility].data);
    }
  }

  void backward(const Sequence<T>& sequence, const Tensors<const T>& grad_results,
                const Tensors<T>& gradients, int threads) const override {
    const auto dcontext = matrix(grad_results[Form::context]);
    const auto dsource = matrix(gradients[Form::source]);
    set_to_zero(dsource);
    AlignmentRows<T> rows(sequence.inputs, threads);
    const Index most = std::min(rows.rows(), rows.rows_at_once());
    OwnedMatrix<T> kept = keep(rows);
    OwnedMatrix<T> panel(rows.look_back() ? 0 : most, rows.places());
    OwnedMatrix<T> scores(most, rows.places());                      // ∂L/∂α, then ∂L/∂f
    OwnedMatrix<T> later = OwnedMatrix<T>::zeros(1, rows.places());  // of α, from the row after
    for (Index end = rows.rows(); end > 0;) {
      const Index count = std::min(most, end);
      const Index first = end - count;
      MatrixView<T> weights;
      if (rows.look_back()) {
        weights = kept.view().row_range(first, count);
        rows.set_previous(first > 0 ? kept.view().row(first - 1) : nullptr);
      } else {
        weights = panel.view().row_range(0, count);
        rows.weigh(first, weights);
      }
      const MatrixView<T> own = scores.view().row_range(0, count);
      write_upstream(sequence, grad_results, first, own);
      if (dsource.data != nullptr && dcontext.data != nullptr) {
        kernel::add_transposed_product(MatrixView<const T>(weights),
                                       dcontext.row_range(first, count), dsource);
      }
      for (Index r = 0; r < count; ++r) {
        add_row(later.read(), 0, own.row(r));
        softmax_gradient(weights.row(r), own.row(r), rows.places());
      }
      rows.differentiate(first, own, later.data());
      end = first;
    }
    rows.finish(gradients);
  }

  std::int64_t working_bytes(const Sizes& sizes, bool gradients) const override {
    const Index places = sizes.at("I");
    const bool look_back = sizes.count("K") != 0;
    const Index panel =
        std::min(sizes.at("J"), AlignmentRows<T>::rows_at_once(places, look_back)) * places;
    Index numbers = panel;
    if (gradients) numbers += places + (look_back ? sizes.at("J") * places : panel);
    return AlignmentRows<T>::bytes(sizes, gradients) +
           static_cast<std::int64_t>(sizeof(T)) * numbers +
           static_cast<std::int64_t>(sizeof(double)) * places;
  }

 private:
  // All weights, if rows depend on the row before.
  static OwnedMatrix<T> keep(AlignmentRows<T>& rows) {
    if (!rows.look_back()) return {};
    OwnedMatrix<T> kept(rows.rows(), rows.places());
    for (Index j = 0; j < rows.rows(); ++j) {
      rows.weigh(j, kept.view().row_range(j, 1));
      rows.set_previous(kept.view().row(j));
    }
    return kept;
  }

  static void add_row(MatrixView<const T> from, Index row, T* to) {
    if (from.data == nullptr) return;
    for (Index i = 0; i < from.cols; ++i) to[i] += from(row, i);
  }

  // Writes ∂L/∂α of rows from `first` on, without the part from the rows after.
  static void write_upstream(const Sequence<T>& sequence, const Tensors<const T>& grad_results,
                             Index first, MatrixView<T> own) {
    const auto dcontext = matrix(grad_results[Form::context]);
    if (dcontext.data != nullptr) {
      kernel::multiply_transposed(dcontext.row_range(first, own.rows),
                                  matrix(sequence.inputs[Form::source]), own);
    } else {
      set_to_zero(own);
    }
    for (Index r = 0; r < own.rows; ++r) {
      add_row(matrix(grad_results[Form::weights]), first + r, own.row(r));
      add_row(matrix(grad_results[Form::fertility]), 0, own.row(r));
    }
  }
};

}  // namespace

const MechanismForm& Alignment::form() { return alignment_form(); }

template <class T>
std::unique_ptr<Mechanism<T>> Alignment::make() {
  return std::make_unique<AlignmentMechanism<T>>();
}

template std::unique_ptr<Mechanism<float>> Alignment::make();
template std::unique_ptr<Mechanism<double>> Alignment::make();

}  // namespace attn::mechanisms
