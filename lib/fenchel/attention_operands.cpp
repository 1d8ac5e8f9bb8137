#include "fenchel/attention_operands.hpp"

#include <algorithm>
#include <cmath>

#include "kernel/product.hpp"
#include "kernel/tile.hpp"
#include "score/energy.hpp"

namespace attn {
namespace {

// Whether all queries have the preferences of the first.
bool rows_alike(const Scores<double>::Terms& terms) {
  const auto alike = [](const auto* source) { return source == nullptr || source->rows_alike(); };
  return !terms.band.causal && terms.band.window.is_open() && terms.band.packing == nullptr &&
         terms.relative == nullptr && alike(terms.bias) && alike(terms.mask) &&
         alike(terms.preference);
}

}  // namespace

OwnedMatrix<double> preferences_of(Scores<double>::Terms terms, Index queries, Index keys) {
  const auto nothing = make_zero_energy<double>(queries, keys);
  terms.energy = nothing.get();
  const Scores<double> scores(terms);
  OwnedMatrix<double> u(rows_alike(terms) ? 1 : queries, keys);
  Scores<double>::Scratch scratch;
  scores.fill({0, u.rows(), 0, keys}, u.view(), scratch);
  for (Index i = 0; i < u.rows(); ++i) {
    const double most = kernel::row_max(u.row(i), keys, nullptr);
    if (std::isinf(most)) {
      std::fill_n(u.row(i), keys, 0.0);
    } else {
      kernel::exp_row(u.row(i), u.row(i), keys, nullptr, most);
    }
  }
  return u;
}

OwnedMatrix<double> evidence_of(MatrixView<const double> q, MatrixView<const double> wk,
                                double factor) {
  OwnedMatrix<double> evidence(q.rows, wk.rows);
  kernel::multiply_transposed(q, wk, evidence.view());
  std::for_each_n(evidence.data(), evidence.size(), [&](double& value) { value *= factor; });
  return evidence;
}

}  // namespace attn
