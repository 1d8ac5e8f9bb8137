#pragma once

// Random problems of Fenchel-dual inference and their solutions, which own their memory.

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "fenchel/dual.hpp"
#include "random_problem.hpp"

namespace attn::testing {

struct DualShape {
  Index count = 1;
  Index depth = 1;
  Index queries = 1;
  double alpha = 1;
  double norm = 2;        ///< of the longest template and evidence
  double offset = 0;      ///< added to every component of every template
  bool by_query = false;  ///< a preference for each query
  bool zeros = false;  ///< zeros in preferences; whole rows of zeros if preferences are per query
  double decades = 3;  ///< range of the preferences in decades
  double gamma = 0;    ///< for optimal transport; 0: KL
};

class OwnedDual {
 public:
  OwnedDual(const DualShape& shape, Random& random) : shape_(shape) {
    std::normal_distribution<double> normal;
    const auto rows = [&](Index count, double norm) {
      std::vector<double> values(static_cast<std::size_t>(count * shape.depth));
      for (Index i = 0; i < count; ++i) {
        double* row = values.data() + i * shape.depth;
        double square = 0;
        for (Index c = 0; c < shape.depth; ++c) {
          row[c] = normal(random);
          square += row[c] * row[c];
        }
        const double length = norm * (1 - 0.5 * std::generate_canonical<double, 53>(random));
        for (Index c = 0; c < shape.depth; ++c) row[c] *= length / std::sqrt(square);
      }
      return values;
    };
    templates_ = rows(shape.count, shape.norm);
    for (double& value : templates_) value += shape.offset;
    evidence_ = rows(shape.queries, shape.norm);
    const Index preferences = shape.by_query ? shape.queries : 1;
    std::uniform_real_distribution<double> exponent(-shape.decades, 0);
    for (Index q = 0; q < preferences; ++q) {
      const bool nothing = shape.by_query && shape.zeros && chance(random, 0.2);
      for (Index i = 0; i < shape.count; ++i) {
        const bool zero = nothing || (shape.zeros && i > 0 && chance(random, 0.3));
        preference_.push_back(zero ? 0 : std::pow(10, exponent(random)));
      }
    }
    if (shape.gamma == 0) return;
    for (Index at = 0; at < shape.count * shape.count; ++at) {
      const bool diagonal = at % (shape.count + 1) == 0;
      const double cost = 3 * std::generate_canonical<double, 53>(random);
      const bool forbidden = !diagonal && chance(random, 0.2);
      cost_.push_back(forbidden ? std::numeric_limits<double>::infinity()
                                : (diagonal ? cost / 10 : cost));
    }
  }

  DualProblem problem() const {
    DualProblem made;
    made.templates = {templates_.data(), shape_.count, shape_.depth};
    made.evidence = {evidence_.data(), shape_.queries, shape_.depth};
    made.preference = {preference_.data(), shape_.by_query ? shape_.queries : 1, shape_.count};
    made.alpha = shape_.alpha;
    if (!cost_.empty()) {
      made.transport = TransportCost{{cost_.data(), shape_.count, shape_.count}, shape_.gamma};
    }
    return made;
  }

  Index count() const { return shape_.count; }
  Index depth() const { return shape_.depth; }
  Index queries() const { return shape_.queries; }
  double preference_of(Index q, Index i) const {
    return preference_[static_cast<std::size_t>((shape_.by_query ? q : 0) * shape_.count + i)];
  }
  bool is_empty(Index q) const {
    for (Index i = 0; i < shape_.count; ++i) {
      if (preference_of(q, i) > 0) return false;
    }
    return true;
  }
  double largest_template() const { return shape_.norm; }  // without the offset
  double largest_evidence() const { return shape_.norm; }
  double largest_component() const { return shape_.norm + std::abs(shape_.offset); }

  std::vector<double> templates_, evidence_, preference_, cost_;

 private:
  DualShape shape_;
};

struct SolvedDual {
  SolvedDual(const DualProblem& problem, const DualOptions& options, int threads = 1)
      : depth(problem.templates.cols),
        count(problem.templates.rows),
        lambdas(size(problem.evidence.rows * depth)),
        hs(lambdas.size(), missing),
        ps(size(problem.evidence.rows * count), missing) {
    std::fill(lambdas.begin(), lambdas.end(), missing);
    const Index queries = problem.evidence.rows;
    summaries = solve_dual(problem, options, threads,
                           {{lambdas.data(), queries, depth},
                            {hs.data(), queries, depth},
                            {ps.data(), queries, count}});
  }
  static std::size_t size(Index n) { return static_cast<std::size_t>(n); }
  double lambda(Index q, Index c) const { return lambdas[size(q * depth + c)]; }
  double h(Index q, Index c) const { return hs[size(q * depth + c)]; }
  double p(Index q, Index i) const { return ps[size(q * count + i)]; }

  static constexpr double missing = std::numeric_limits<double>::quiet_NaN();
  Index depth, count;
  std::vector<double> lambdas, hs, ps;
  std::vector<DualSummary> summaries;
};

}  // namespace attn::testing
