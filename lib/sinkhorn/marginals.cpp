#include "sinkhorn/marginals.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace attn {
namespace {

PooledVector<double> where_open(const PooledVector<Index>& partners, double value) {
  PooledVector<double> marginal;
  for (const Index count : partners) marginal.push_back(count > 0 ? value : 0);
  return marginal;
}

double open(const PooledVector<Index>& partners, Index empty) {
  return static_cast<double>(static_cast<Index>(partners.size()) - empty);
}

double sum_of(const PooledVector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

// The same value for all lines with an allowed pair, which add up to `total`.
PooledVector<double> spread(double total, const PooledVector<Index>& partners, Index empty) {
  return where_open(partners, total / open(partners, empty));
}

}  // namespace

double Marginals::total() const {
  return penalties ? std::max(sum_of(row), sum_of(col)) : sum_of(row);
}

Marginals attention_marginals(const AllowedCounts& allowed) {
  const double queries = open(allowed.keys_of_query, allowed.empty_queries());
  const double keys = open(allowed.queries_of_key, allowed.empty_keys());
  return {where_open(allowed.keys_of_query, 1), where_open(allowed.queries_of_key, queries / keys)};
}

double log_column_marginal(const AllowedCounts& allowed) {
  const double queries = open(allowed.keys_of_query, allowed.empty_queries());
  const double keys = open(allowed.queries_of_key, allowed.empty_keys());
  return keys > 0 ? std::log(queries / keys) : 0;
}

Marginals uniform_marginals(const AllowedCounts& allowed) {
  const double queries = open(allowed.keys_of_query, allowed.empty_queries());
  const double keys = open(allowed.queries_of_key, allowed.empty_keys());
  return {where_open(allowed.keys_of_query, 1 / queries),
          where_open(allowed.queries_of_key, 1 / keys)};
}

Marginals complete_marginals(std::optional<PooledVector<double>> row,
                             std::optional<PooledVector<double>> col, const AllowedCounts& allowed,
                             bool of_cost) {
  Marginals found = of_cost ? uniform_marginals(allowed) : attention_marginals(allowed);
  if (row) found.row = std::move(*row);
  if (col) {
    found.col = std::move(*col);
    if (!row && of_cost) {
      found.row = spread(sum_of(found.col), allowed.keys_of_query, allowed.empty_queries());
    }
  } else if (row) {
    found.col = spread(sum_of(found.row), allowed.queries_of_key, allowed.empty_keys());
  }
  return found;
}

}  // namespace attn
