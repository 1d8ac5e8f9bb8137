#include "sinkhorn/marginals.hpp"

#include <numeric>

namespace attn {
namespace {

std::vector<double> where_open(const std::vector<Index>& partners, double value) {
  std::vector<double> marginal;
  for (const Index count : partners) marginal.push_back(count > 0 ? value : 0);
  return marginal;
}

double open(const std::vector<Index>& partners, Index empty) {
  return static_cast<double>(static_cast<Index>(partners.size()) - empty);
}

}  // namespace

double Marginals::total() const { return std::accumulate(row.begin(), row.end(), 0.0); }

Marginals attention_marginals(const AllowedCounts& allowed) {
  const double queries = open(allowed.keys_of_query, allowed.empty_queries());
  const double keys = open(allowed.queries_of_key, allowed.empty_keys());
  return {where_open(allowed.keys_of_query, 1), where_open(allowed.queries_of_key, queries / keys)};
}

Marginals uniform_marginals(const AllowedCounts& allowed) {
  const double queries = open(allowed.keys_of_query, allowed.empty_queries());
  const double keys = open(allowed.queries_of_key, allowed.empty_keys());
  return {where_open(allowed.keys_of_query, 1 / queries),
          where_open(allowed.queries_of_key, 1 / keys)};
}

}  // namespace attn
