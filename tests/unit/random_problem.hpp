#pragma once

// Random attention problems, as arguments of the library and of the reference.

#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "reference/reference.hpp"
#include "scheme/scheme.hpp"
#include "score/relative_bias.hpp"
#include "score/scores.hpp"

namespace attn::testing {

using Random = std::mt19937_64;

inline Index random_index(Random& random, Index low, Index high) {
  return std::uniform_int_distribution<Index>(low, high)(random);
}

/// Log-uniform, so that small and awkward sizes are as frequent as large ones.
inline Index random_size(Random& random, Index low, Index high) {
  std::uniform_real_distribution<double> exponent(std::log(static_cast<double>(low)),
                                                  std::log(static_cast<double>(high) + 1));
  return std::min(high, static_cast<Index>(std::exp(exponent(random))));
}

inline bool chance(Random& random, double probability) {
  return std::bernoulli_distribution(probability)(random);
}

enum class Mechanism { product, bilinear, mlp };
enum class Relative { none, t5, alibi };

inline constexpr Scheme all_schemes[] = {Scheme::unas, Scheme::dnas, Scheme::hnas,
                                         Scheme::sinkhorn};
inline constexpr Scheme schemes_with_fenchel[] = {Scheme::unas, Scheme::dnas, Scheme::hnas,
                                                  Scheme::sinkhorn, Scheme::fenchel};
inline constexpr Mechanism all_mechanisms[] = {Mechanism::product, Mechanism::bilinear,
                                               Mechanism::mlp};
inline constexpr EnergyKind all_energies[] = {EnergyKind::dot, EnergyKind::scaled_dot,
                                              EnergyKind::gaussian};
/// The rule of a causal band with the offset that the alignment has.
inline BandRule causal_band(Causal causal, Index rows, Index cols) {
  return {causal != Causal::none, {}, usual_offset(causal, rows, cols)};
}

inline constexpr Causal all_causal[] = {Causal::none, Causal::top_left, Causal::bottom_right};

struct ProblemOptions {
  Index queries = 1;
  Index keys = 1;
  Index depth = 1;
  Index v_head_dim = 1;
  EnergyKind energy = EnergyKind::scaled_dot;
  double scale = 1;
  double spread = 1;     ///< standard deviation of q and k
  double offset = 0;     ///< added to every coordinate of q and k
  bool bias = false;     ///< random, some of it −inf
  double row_shift = 0;  ///< ± this added to each row of the scores, as bias
  double col_shift = 0;
  bool mask = false;  ///< random, with empty rows and columns
  Causal causal = Causal::none;
  Mechanism mechanism = Mechanism::product;  ///< the others replace `energy`
  Index key_depth = 1;                       ///< of bilinear and mlp; product has `depth`
  Index hidden = 1;                          ///< of mlp
  bool hidden_bias = false;
  Relative relative = Relative::none;
  Window window;
  std::optional<Index> query_offset;
  std::optional<Index> key_length;  ///< keys from here on are masked
  std::optional<double> softcap;
  bool preference = false;  ///< random over many decades, some of it 0
  double value_offset = 0;  ///< centre of the values
};

/// Up to `largest` queries and keys, with all terms that a product energy may have.
inline ProblemOptions random_options(Random& random, Index largest) {
  ProblemOptions options;
  options.queries = random_size(random, 1, largest);
  options.keys = random_size(random, 1, largest);
  options.depth = random_size(random, 1, 130);
  options.v_head_dim = random_size(random, 1, 70);
  options.energy = all_energies[random_index(random, 0, 2)];
  options.scale = chance(random, 0.3) ? 0.7 : 1.0;
  options.bias = chance(random, 0.3);
  options.mask = chance(random, 0.3);
  if (chance(random, 0.3)) {
    options.causal = chance(random, 0.5) ? Causal::top_left : Causal::bottom_right;
  }
  if (chance(random, 0.3)) options.row_shift = 5000;
  if (chance(random, 0.3)) options.col_shift = 5000;
  return options;
}

template <class T>
class Problem {
 public:
  Problem(const ProblemOptions& options, Random& random) : options_(options) {
    if (options.mechanism == Mechanism::product) options_.key_depth = options.depth;
    q_ = normal(options.queries * options.depth, random);
    k_ = normal(options.keys * options_.key_depth, random);
    v_.resize(static_cast<std::size_t>(options.keys * options.v_head_dim));
    std::normal_distribution<double> unit;
    for (T& value : v_) value = static_cast<T>(unit(random) + options.value_offset);
    if (options.bias || options.row_shift != 0 || options.col_shift != 0) make_bias(random);
    if (options.mask) make_mask(random);
    if (options.key_length) close_keys(*options.key_length);
    make_energy(random);
    if (options.relative != Relative::none) make_relative(random);
    if (options.preference) make_preference(random);
    typename Scores<T>::Terms terms;
    terms.energy = energy_.get();
    if (!bias_.empty()) {
      bias_source_.emplace(bias_.data(), options.keys, 1, largest(bias_));
      terms.bias = &*bias_source_;
    }
    if (!mask_.empty()) {
      // The same keys of every query, if only padding is masked.
      mask_source_.emplace(mask_.data(), options.mask ? options.keys : 0, 1);
      terms.mask = &*mask_source_;
    }
    terms.band = band();
    if (relative_) terms.relative = &*relative_;
    terms.softcap = options.softcap;
    if (!preference_.empty()) {
      preference_source_.emplace(preference_.data(), options.keys, 1);
      terms.preference = &*preference_source_;
    }
    scores_.emplace(terms);
  }
  Problem(const Problem&) = delete;
  Problem& operator=(const Problem&) = delete;

  MatrixView<const T> q() const { return {q_.data(), options_.queries, options_.depth}; }
  MatrixView<const T> k() const { return {k_.data(), options_.keys, options_.key_depth}; }
  MatrixView<const T> v() const { return {v_.data(), options_.keys, options_.v_head_dim}; }
  MatrixView<const T> w() const {
    const bool mlp = options_.mechanism == Mechanism::mlp;
    return {w_.data(), mlp ? options_.hidden : options_.depth,
            options_.key_depth + (mlp ? options_.depth : 0)};
  }
  MlpWeights<T> mlp_weights() const { return {w(), w2_, b1_}; }
  const ProblemOptions& options() const { return options_; }
  BandRule band() const {
    return {options_.causal != Causal::none, options_.window,
            options_.query_offset.value_or(
                usual_offset(options_.causal, options_.queries, options_.keys))};
  }
  const Energy<T>& energy() const { return *energy_; }
  const Scores<T>& scores() const { return *scores_; }

  /// The operands of the energy, as the reference takes them.
  reference::Matrix reference_q() const { return matrix(q_, options_.depth); }
  reference::Matrix reference_k() const { return matrix(k_, options_.key_depth); }
  reference::Matrix reference_w() const { return matrix(w_, w().cols); }
  reference::Matrix reference_w2() const { return matrix(w2_, 1); }
  reference::Matrix reference_b1() const { return matrix(b1_, 1); }

  reference::Matrix reference_energies() const {
    const auto q = reference_q();
    const auto k = reference_k();
    switch (options_.mechanism) {
      case Mechanism::product:
        return reference::energies(options_.energy, q, k);
      case Mechanism::bilinear:
        return reference::bilinear_energies(q, k, reference_w());
      case Mechanism::mlp:
        return reference::mlp_energies(q, k, reference_w(), reference_w2(), reference_b1());
    }
    return {};
  }
  reference::Terms reference_terms() const {
    reference::Terms terms;
    terms.scale = options_.scale;
    terms.softcap = options_.softcap.value_or(0);
    terms.bias = matrix(bias_, options_.keys);
    terms.mask = matrix(mask_, options_.keys);
    terms.causal = options_.causal;
    terms.window = options_.window;
    terms.query_offset = options_.query_offset;
    terms.preference = matrix(preference_, options_.keys);
    terms.rel_bias = matrix(rel_bias_, 1);
    terms.alibi = slope_;
    return terms;
  }
  reference::Matrix reference_scores() const {
    return reference::scores(reference_energies(), reference_terms());
  }
  reference::Matrix reference_v() const { return matrix(v_, options_.v_head_dim); }

 private:
  std::vector<T> normal(Index count, Random& random) {
    std::normal_distribution<double> unit;
    std::vector<T> values(static_cast<std::size_t>(count));
    for (T& value : values) {
      value = static_cast<T>(options_.offset + options_.spread * unit(random));
    }
    return values;
  }

  std::vector<T> weights(Index count, double spread, Random& random) {
    std::normal_distribution<double> normal(0, spread);
    std::vector<T> values(static_cast<std::size_t>(count));
    for (T& value : values) value = static_cast<T>(normal(random));
    return values;
  }

  void make_energy(Random& random) {
    const Index depth = options_.depth;
    const Index key_depth = options_.key_depth;
    const Index hidden = options_.hidden;
    const auto root = [](Index n) { return 1 / std::sqrt(static_cast<double>(n)); };
    switch (options_.mechanism) {
      case Mechanism::product:
        energy_ = make_product_energy<T>(options_.energy, q(), k(), options_.scale);
        break;
      case Mechanism::bilinear:
        w_ = weights(depth * key_depth, root(depth * key_depth), random);
        energy_ = make_bilinear_energy<T>(q(), k(), w(), options_.scale);
        break;
      case Mechanism::mlp:
        w_ = weights(hidden * (depth + key_depth), root(depth + key_depth), random);
        w2_ = weights(hidden, 1, random);
        if (options_.hidden_bias) b1_ = weights(hidden, 1, random);
        energy_ = make_mlp_energy<T>(q(), k(), mlp_weights(), options_.scale);
        break;
    }
  }

  void make_relative(Random& random) {
    const Index queries = options_.queries;
    const Index keys = options_.keys;
    if (options_.relative == Relative::t5) {
      rel_bias_ = weights(32, 2, random);
      relative_.emplace(t5_relative_bias<T>({rel_bias_.data(), 32, 1}, 0, queries, keys, band()));
    } else {
      const auto slopes = alibi_slopes(12);
      slope_ = slopes[static_cast<std::size_t>(random_index(random, 0, 11))];
      relative_.emplace(alibi_bias<T>(slope_, queries, keys, band()));
    }
  }

  void make_preference(Random& random) {
    preference_.resize(static_cast<std::size_t>(options_.queries * options_.keys));
    std::uniform_real_distribution<double> decades(-20, 2);
    for (T& u : preference_) {
      u = static_cast<T>(chance(random, 0.1) ? 0 : std::pow(10, decades(random)));
    }
  }

  void make_bias(Random& random) {
    std::normal_distribution<double> unit;
    bias_.resize(static_cast<std::size_t>(options_.queries * options_.keys));
    std::vector<double> row(static_cast<std::size_t>(options_.queries));
    std::vector<double> col(static_cast<std::size_t>(options_.keys));
    for (double& shift : row)
      shift = chance(random, 0.5) ? options_.row_shift : -options_.row_shift;
    for (double& shift : col)
      shift = chance(random, 0.5) ? options_.col_shift : -options_.col_shift;
    for (std::size_t i = 0; i < row.size(); ++i) {
      for (std::size_t j = 0; j < col.size(); ++j) {
        double value = row[i] + col[j] + (options_.bias ? unit(random) : 0);
        if (options_.bias && chance(random, 0.1)) value = -std::numeric_limits<double>::infinity();
        bias_[i * col.size() + j] = static_cast<T>(value);
      }
    }
  }

  void make_mask(Random& random) {
    mask_.resize(static_cast<std::size_t>(options_.queries * options_.keys));
    const double density = std::uniform_real_distribution<double>(0.1, 1)(random);
    for (auto& may : mask_) may = chance(random, density) ? 1 : 0;
    const Index closed_row = random_index(random, 0, options_.queries - 1);
    const Index closed_col = random_index(random, 0, options_.keys - 1);
    for (Index j = 0; j < options_.keys; ++j) mask_at(closed_row, j) = 0;
    for (Index i = 0; i < options_.queries; ++i) mask_at(i, closed_col) = 0;
  }

  void close_keys(Index first) {
    if (mask_.empty()) {
      mask_.assign(static_cast<std::size_t>(options_.queries * options_.keys), 1);
    }
    for (Index i = 0; i < options_.queries; ++i) {
      for (Index j = first; j < options_.keys; ++j) mask_at(i, j) = 0;
    }
  }

  std::uint8_t& mask_at(Index i, Index j) {
    return mask_[static_cast<std::size_t>(i * options_.keys + j)];
  }

  static double largest(const std::vector<T>& values) {
    double bound = 0;
    for (const T value : values) {
      if (!std::isinf(value)) bound = std::max(bound, std::abs(static_cast<double>(value)));
    }
    return bound;
  }

  template <class U>
  static reference::Matrix matrix(const std::vector<U>& values, Index cols) {
    if (values.empty()) return {};
    reference::Matrix m(static_cast<Index>(values.size()) / cols, cols);
    for (std::size_t n = 0; n < values.size(); ++n) m.values[n] = values[n];
    return m;
  }

  ProblemOptions options_;
  std::vector<T> q_, k_, v_, bias_, w_, w2_, b1_, rel_bias_, preference_;
  std::vector<std::uint8_t> mask_;
  std::unique_ptr<Energy<T>> energy_;
  std::optional<BroadcastMatrix<T>> bias_source_;
  std::optional<BroadcastMatrix<std::uint8_t>> mask_source_;
  std::optional<BroadcastMatrix<T>> preference_source_;
  std::optional<RelativeBias<T>> relative_;
  double slope_ = 0;
  std::optional<Scores<T>> scores_;
};

/// max |got − want| / max |want|; NaN and infinite if the numbers cannot be compared, so that
/// "error <= tolerance" fails. If `want` is all zero, `got` must be, too.
template <class Got, class Want>
double relative_error(const Got& got, const Want& want) {
  if (static_cast<std::size_t>(std::size(got)) != static_cast<std::size_t>(std::size(want))) {
    return std::numeric_limits<double>::infinity();
  }
  long double largest = 0;
  long double error = 0;
  for (std::size_t n = 0; n < std::size(want); ++n) {
    const long double difference = std::abs(static_cast<long double>(got[n]) - want[n]);
    if (std::isnan(difference)) return std::numeric_limits<double>::quiet_NaN();
    error = std::max(error, difference);
    largest = std::max(largest, std::abs(static_cast<long double>(want[n])));
  }
  if (largest == 0) return error == 0 ? 0 : std::numeric_limits<double>::infinity();
  return static_cast<double>(error / largest);
}

/// Largest finite |s|.
inline double largest_score(const reference::Matrix& s) {
  long double largest = 0;
  for (const long double value : s.values) {
    if (!std::isinf(value)) largest = std::max(largest, std::abs(value));
  }
  return static_cast<double>(largest);
}

/// The bound on out, weights and column sums: 2e-5 (1e-12) for the exponentials and sums, and four
/// roundings of the largest score, which no computation in the format can avoid.
template <class T>
double tolerance(double largest_score) {
  return sizeof(T) == sizeof(float) ? 2e-5 + 4 * std::ldexp(largest_score, -24)
                                    : 1e-12 + 4 * std::ldexp(largest_score, -53);
}

// Compiled once, in shared/random_problem.cpp.
extern template class Problem<float>;
extern template class Problem<double>;

}  // namespace attn::testing
