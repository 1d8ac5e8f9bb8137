#include "fenchel/space.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include "attnkit/error.hpp"
#include "fenchel/kullback_leibler.hpp"
#include "kernel/conjugate.hpp"
#include "kernel/product.hpp"

namespace attn::fenchel {
namespace {

std::string shape_text(MatrixView<const double> matrix) {
  return to_string({matrix.rows, matrix.cols});
}

double largest_norm(MatrixView<const double> rows, Index first, const char* what) {
  double largest = 0;
  for (Index i = 0; i < rows.rows; ++i) {
    const double norm = std::sqrt(kernel::dot(rows.row(i), rows.row(i), rows.cols));
    if (!std::isfinite(norm)) {
      throw Error(Failure::input, std::string(what) + " " + std::to_string(first + i) +
                                      " has a component that is not finite, or too large");
    }
    largest = std::max(largest, norm);
  }
  return largest;
}

}  // namespace

void require_shapes(const DualProblem& problem) {
  const Index n = problem.templates.rows;
  const Index queries = problem.evidence.rows;
  if (problem.evidence.cols != problem.templates.cols) {
    throw Error(Failure::input, "the evidence is " + shape_text(problem.evidence) +
                                    ", the templates are " + shape_text(problem.templates));
  }
  const MatrixView<const double>& u = problem.preference;
  if (u.cols != n || (u.rows != 1 && u.rows != queries)) {
    throw Error(Failure::input, "the preference is " + shape_text(u) + ", expected " +
                                    to_string({1, n}) + " or " + to_string({queries, n}));
  }
}

void require_range(const DualProblem& problem, const Templates& templates) {
  const double z = largest_norm(problem.evidence, problem.first_query, "evidence");
  const double reach = templates.largest_norm();
  const double lambda = problem.alpha * (z + 2 * reach);
  if (!(lambda < dual_range && reach < dual_range && lambda * reach < dual_range)) {
    throw Error(Failure::numerical,
                "alpha times evidence and templates exceeds the range of logits");
  }
}

Space::Space(const Templates& all, bool reduce) : templates_(&all) {
  if (!reduce) return;
  reduced_ = std::make_unique<Templates>(all.reduced(basis_));
  templates_ = reduced_.get();
}

void Space::project(MatrixView<const double> rows, MatrixView<double> out) const {
  if (is_reduced()) {
    // By pieces, so that parts of the rows have the same bits.
    for (Index first = 0; first < rows.rows; first += dual_part_step) {
      const Index count = std::min(dual_part_step, rows.rows - first);
      kernel::multiply_transposed(rows.row_range(first, count), basis_.read(),
                                  out.row_range(first, count));
    }
    return;
  }
  for (Index i = 0; i < rows.rows; ++i) std::copy_n(rows.row(i), rows.cols, out.row(i));
}

void Space::add_lifted(MatrixView<const double> rows, MatrixView<double> out) const {
  if (is_reduced()) {
    kernel::multiply_add(rows, basis_.read(), out);
    return;
  }
  for (Index i = 0; i < rows.rows; ++i) kernel::axpy(out.row(i), rows.row(i), rows.cols, 1);
}

OwnedMatrix<double> Space::outside(MatrixView<const double> row, const double* coordinates) const {
  OwnedMatrix<double> left(1, row.cols);
  if (!is_reduced()) {
    std::fill_n(left.row(0), row.cols, 0.0);
    return left;
  }
  std::copy_n(row.data, row.cols, left.row(0));
  PooledVector<double> negative(coordinates, coordinates + depth());
  for (double& value : negative) value = -value;
  add_lifted({negative.data(), 1, depth()}, left.view());
  return left;
}

OwnedDivergence::OwnedDivergence(const ScaledCost* cost, const double* u, Index n)
    : price_(static_cast<std::size_t>(n)) {
  if (!minus_log_preference(u, n, price_.data())) return;
  if (cost != nullptr) {
    divergence_ = std::make_unique<Transport>(*cost, u);
  } else {
    divergence_ = std::make_unique<KullbackLeibler>(price_.data(), n);
  }
}

}  // namespace attn::fenchel
