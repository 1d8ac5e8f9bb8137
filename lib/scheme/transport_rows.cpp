#include "scheme/transport_rows.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>

#include "attnkit/error.hpp"
#include "kernel/gradient.hpp"
#include "kernel/product.hpp"
#include "kernel/tile.hpp"
#include "pass/partition.hpp"
#include "tensor/infinity.hpp"

namespace attn {
namespace {

// Flushed exponentials are below 2⁻¹⁰²²; a sum of this size loses nothing to them.
constexpr double smallest_sum = 0x1p-800;

// Below this share of its largest term, a derivative has lost too many digits.
constexpr double most_cancelled = 0x1p-24;

const TransportKernel& required(const TransportKernel* kernel) {
  if (kernel == nullptr) throw std::logic_error("transport has no costs");
  return *kernel;
}

}  // namespace

template <class T>
TransportRows<T>::TransportRows(const Scores<T>& scores, Index most_rows, bool differentiates)
    : scores_(scores),
      kernel_(required(scores.terms().transport)),
      keys_(scores.cols()),
      score_storage_(most_rows * keys_),
      exponentials_(most_rows, keys_),
      weights_(most_rows, keys_),
      shares_(most_rows, keys_),
      sums_(most_rows, keys_),
      shift_(static_cast<std::size_t>(most_rows)),
      total_(shift_.size()),
      potential_(shift_.size()),
      all_direct_(shift_.size()),
      targets_(keys_) {
  if (scores.terms().sources != nullptr) preference_storage_ = Buffer<T>(most_rows * keys_);
  direct_.reserve(static_cast<std::size_t>(most_rows * keys_));  // all of them, as bytes() says
  if (!differentiates) return;
  gradient_ = OwnedMatrix<double>(most_rows, keys_);
  weighted_ = OwnedMatrix<double>(most_rows, keys_);
  means_ = OwnedMatrix<double>(most_rows, keys_);
  opposite_ = OwnedMatrix<double>(most_rows, keys_);
}

template <class T>
void TransportRows<T>::make(RowRange rows) {
  rows_ = rows;
  direct_.clear();
  fill();
  const Index n = count();
  for (Index i = 0; i < n; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const T* const scores = score_storage_.data() + i * keys_;
    double* const e = exponentials_.row(i);
    std::copy_n(scores, keys_, e);
    shift_[at] = kernel::row_max(e, keys_, nullptr);
    if (shift_[at] == minus_infinity) shift_[at] = 0;
    kernel::exp_row(e, e, keys_, nullptr, shift_[at]);
    take_preferences(i);
  }
  const MatrixView<const double> k = kernel_.exponentials();
  kernel::multiply_transposed(exponentials_.first(n), k, sums_.first(n));
  for (Index i = 0; i < n; ++i) {
    potential_[static_cast<std::size_t>(i)] =
        has_source(i) ? shift_[static_cast<std::size_t>(i)] : minus_infinity;
    for (Index source = 0; source < keys_; ++source) add_source(i, source);
  }
  kernel::multiply(shares_.first(n), k, weights_.first(n));
  for (Index i = 0; i < n; ++i) {
    double* const w = weights_.row(i);
    const double* const e = exponentials_.row(i);
    for (Index j = 0; j < keys_; ++j) w[j] *= e[j];
  }
  for (const Direct& of : direct_) {
    double* const w = weights_.row(of.row);
    take_targets(of, targets_.data());
    for (Index j = 0; j < keys_; ++j) w[j] += of.share * targets_[j];
  }
}

// Reads the scores and preferences of the queries.
template <class T>
void TransportRows<T>::fill() {
  const MatrixSource<T>* const sources = scores_.terms().sources;
  for (Index col = 0; col < keys_; col += pass_tile_length) {
    const TileRange tile{rows_.first, count(), col, std::min(pass_tile_length, keys_ - col)};
    const MatrixView<T> scores(score_storage_.data() + col, tile.rows, tile.cols, keys_);
    if (scores_.empty(tile)) {
      for (Index i = 0; i < tile.rows; ++i) {
        std::fill_n(scores.row(i), tile.cols, -std::numeric_limits<T>::infinity());
      }
    } else {
      scores_.fill(tile, scores, scratch_);
    }
    if (sources == nullptr) continue;
    const MatrixView<T> preference(preference_storage_.data() + col, tile.rows, tile.cols, keys_);
    sources->read(tile, preference);
    scores_.require_preference(tile, preference);
  }
}

// u of query i: of the keys that it may attend to, divided by their sum.
template <class T>
void TransportRows<T>::take_preferences(Index i) {
  const T* const scores = score_storage_.data() + i * keys_;
  const bool uniform = scores_.terms().sources == nullptr;
  const T* const given = uniform ? nullptr : preference_storage_.data() + i * keys_;
  double* const u = shares_.row(i);
  double largest = 0;
  for (Index j = 0; j < keys_; ++j) {
    const bool allowed = scores[j] != -std::numeric_limits<T>::infinity();
    u[j] = !allowed ? 0.0 : uniform ? 1.0 : static_cast<double>(given[j]);
    largest = std::max(largest, u[j]);
  }
  total_[static_cast<std::size_t>(i)] = 0;
  if (!(largest > 0)) return;
  double sum = 0;
  for (Index j = 0; j < keys_; ++j) {
    u[j] /= largest;
    sum += u[j];
  }
  for (Index j = 0; j < keys_; ++j) u[j] /= sum;
  total_[static_cast<std::size_t>(i)] = largest * sum;
}

// Turns the share of a source into R, and adds its part of the potential.
template <class T>
void TransportRows<T>::add_source(Index i, Index source) {
  double& share = shares_.row(i)[source];
  const double sum = sums_.row(i)[source];
  // Without a share, a source that may have one counts in the gradient only.
  const bool allowed = score_storage_[i * keys_ + source] != -std::numeric_limits<T>::infinity();
  if (!(share > 0) && (sum >= smallest_sum || !allowed || gradient_.rows() == 0)) return;
  double log_of_sum = 0;
  if (sum >= smallest_sum) {
    log_of_sum = std::log(sum);
  } else {
    const Direct found = direct(i, source, share);
    log_of_sum = found.largest + std::log(found.sum);
    if (share > 0 && found.largest == minus_infinity) refuse(i, source);
    direct_.push_back(found);
  }
  if (!(share > 0)) return;
  potential_[static_cast<std::size_t>(i)] += share * (log_of_sum - kernel_.least(source));
  share = sum >= smallest_sum ? share / sum : 0;
}

template <class T>
void TransportRows<T>::refuse(Index i, Index source) const {
  throw Error(Failure::numerical,
              "query " + std::to_string(scores_.terms().first_query + rows_.first + i) +
                  ": source " + std::to_string(source) +
                  " has a preference but no allowed target: its costs in " + kernel_.name() +
                  " are inf for all of them");
}

template <class T>
void TransportRows<T>::take_logits(Index i, Index source, double* to) const {
  const T* const scores = score_storage_.data() + i * keys_;
  const double* const cost = kernel_.scaled(source);
  const double shift = shift_[static_cast<std::size_t>(i)];
  for (Index j = 0; j < keys_; ++j) to[j] = static_cast<double>(scores[j]) - shift - cost[j];
}

template <class T>
typename TransportRows<T>::Direct TransportRows<T>::direct(Index i, Index source, double share) {
  double* const p = targets_.data();
  take_logits(i, source, p);
  Direct found{i, source, share, kernel::row_max(p, keys_, nullptr)};
  if (found.largest == minus_infinity) return found;
  found.likeliest = std::find(p, p + keys_, found.largest) - p;
  found.sum = kernel::exp_row(p, p, keys_, nullptr, found.largest);
  return found;
}

// The sum is no part of the logarithm, beside which it might be rounded away.
template <class T>
void TransportRows<T>::take_targets(const Direct& of, double* p) const {
  if (of.largest == minus_infinity) {
    std::fill_n(p, keys_, 0.0);
    return;
  }
  take_logits(of.row, of.source, p);
  kernel::exp_row(p, p, keys_, nullptr, of.largest);
  for (Index j = 0; j < keys_; ++j) p[j] /= of.sum;
}

template <class T>
void TransportRows<T>::take_mean(Direct& of) {
  const double* const g = gradient_.row(of.row);
  const double at_likeliest = g[of.likeliest];
  take_targets(of, targets_.data());
  of.mean = 0;
  for (Index j = 0; j < keys_; ++j) of.mean += targets_[j] * (g[j] - at_likeliest);
  means_.row(of.row)[of.source] = of.largest == minus_infinity ? 0 : at_likeliest + of.mean;
}

// Whether the terms of ∂L/∂s leave too few digits.
template <class T>
bool TransportRows<T>::cancels(Index i) const {
  const double* const w = weights_.row(i);
  const double* const g = gradient_.row(i);
  const double* const of_scores = sums_.row(i);
  double terms = 0;
  double largest = 0;
  for (Index j = 0; j < keys_; ++j) {
    terms = std::max(terms, std::abs(w[j] * g[j]));
    largest = std::max(largest, std::abs(of_scores[j]));
  }
  return largest < most_cancelled * terms;
}

// Takes all sources of a query out of the products.
template <class T>
void TransportRows<T>::make_direct(Index i) {
  all_direct_[static_cast<std::size_t>(i)] = 1;
  std::fill_n(sums_.row(i), keys_, 0.0);
  double* const in_products = opposite_.row(i);
  std::copy_n(shares_.row(i), keys_, in_products);
  take_preferences(i);
  for (Index source = 0; source < keys_; ++source) {
    if (!(in_products[source] > 0)) continue;
    direct_.push_back(direct(i, source, shares_.row(i)[source]));
    take_mean(direct_.back());
  }
  std::fill_n(in_products, keys_, 0.0);
  std::fill_n(shares_.row(i), keys_, 0.0);
}

template <class T>
void TransportRows<T>::differentiate() {
  const Index n = count();
  for (Index i = 0; i < n; ++i) {
    // Only differences of G count; those from their mean keep small gradients of weights near 1.
    double* const g = gradient_.row(i);
    const double mean = kernel::weighted_sum(weights_.row(i), g, keys_);
    const double* const e = exponentials_.row(i);
    double* const weighted = weighted_.row(i);
    for (Index j = 0; j < keys_; ++j) {
      g[j] -= mean;
      weighted[j] = e[j] * g[j];
    }
  }
  const MatrixView<const double> k = kernel_.exponentials();
  kernel::multiply_transposed(weighted_.first(n), k, means_.first(n));
  for (Index i = 0; i < n; ++i) {
    double* const means = means_.row(i);
    for (Index s = 0; s < keys_; ++s) {
      const double sum = sums_.row(i)[s];
      means[s] = sum >= smallest_sum ? means[s] / sum : 0;
      opposite_.row(i)[s] = -shares_.row(i)[s] * means[s];
    }
  }
  for (Direct& of : direct_) take_mean(of);
  // Z is no longer needed.
  kernel::multiply(opposite_.first(n), k, sums_.first(n));
  for (Index i = 0; i < n; ++i) {
    const double* const g = gradient_.row(i);
    double* const of_scores = sums_.row(i);
    for (Index j = 0; j < keys_; ++j) {
      of_scores[j] = weights_.row(i)[j] * g[j] + exponentials_.row(i)[j] * of_scores[j];
    }
    all_direct_[static_cast<std::size_t>(i)] = 0;
  }
  for (const Direct& of : direct_) {
    double* const of_scores = sums_.row(of.row);
    const double mean = means_.row(of.row)[of.source];
    take_targets(of, targets_.data());
    for (Index j = 0; j < keys_; ++j) of_scores[j] -= of.share * targets_[j] * mean;
  }
  for (Index i = 0; i < n; ++i) {
    if (cancels(i)) make_direct(i);
  }
  for (const Direct& of : direct_) {
    if (all_direct_[static_cast<std::size_t>(of.row)] == 0) continue;
    const double* const g = gradient_.row(of.row);
    double* const of_scores = sums_.row(of.row);
    take_targets(of, targets_.data());
    for (Index j = 0; j < keys_; ++j) {
      of_scores[j] += of.share * targets_[j] * ((g[j] - g[of.likeliest]) - of.mean);
    }
  }
  for (Index i = 0; i < n; ++i) {
    const auto at = static_cast<std::size_t>(i);
    double* const means = means_.row(i);
    for (Index j = 0; j < keys_; ++j) {
      const bool allowed =
          score_storage_[i * keys_ + j] != -std::numeric_limits<T>::infinity() && has_source(i);
      means[j] = allowed ? means[j] / total_[at] : 0;
    }
  }
}

template <class T>
void TransportRows<T>::add_cost(RowRange sources, MatrixView<double> by_source,
                                MatrixView<double> rest) const {
  const Index n = count();
  const Index width = sources.last - sources.first;
  const auto columns = [&](const OwnedMatrix<double>& of) {
    return MatrixView<const double>(of.data() + sources.first, n, width, keys_);
  };
  const auto first = [&](const OwnedMatrix<double>& of) { return of.read().row_range(0, n); };
  kernel::add_transposed_product(columns(shares_), first(weighted_), by_source);
  kernel::add_transposed_product(columns(opposite_), first(exponentials_), by_source);
  Buffer<double> p;
  for (const Direct& of : direct_) {
    if (of.source < sources.first || of.source >= sources.last || !(of.share > 0)) continue;
    const double* const g = gradient_.row(of.row);
    double* const to = rest.row(of.source - sources.first);
    p.reserve(keys_);
    take_targets(of, p.data());
    for (Index j = 0; j < keys_; ++j) {
      to[j] += of.share * p[j] * ((g[j] - g[of.likeliest]) - of.mean);
    }
  }
}

template <class T>
std::int64_t TransportRows<T>::bytes(Index rows, Index keys, bool differentiates) {
  const Index matrices = differentiates ? 8 : 4;
  return rows * (keys * (matrices * static_cast<Index>(sizeof(double)) +
                         2 * static_cast<Index>(sizeof(T)) + static_cast<Index>(sizeof(Direct))) +
                 3 * static_cast<Index>(sizeof(double)) + 1) +
         keys * static_cast<Index>(sizeof(double)) +
         // Bias and mask of a tile.
         rows * pass_tile_length * static_cast<Index>(sizeof(T) + 1);
}

template class TransportRows<float>;
template class TransportRows<double>;

}  // namespace attn
