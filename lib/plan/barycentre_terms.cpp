#include "plan/barycentre_terms.hpp"

namespace attn {

PooledVector<PlanTerm> barycentre_plans(const Barycentre& found, const Histograms& histograms,
                                        double factor) {
  const auto rows = static_cast<Index>(found.masses.size());
  const Index cols = static_cast<Index>(histograms.masses.size()) / histograms.count;
  PooledVector<PlanTerm> plans;
  for (Index k = 0; k < histograms.count; ++k) {
    const double weight = histograms.weights[static_cast<std::size_t>(k)];
    if (weight == 0) continue;
    plans.push_back({factor * weight, part_of(found.row, k, rows), part_of(found.col, k, cols)});
  }
  return plans;
}

PooledVector<SolutionTerm> barycentre_terms(const Barycentre& found, const Histograms& histograms,
                                            const ImplicitBarycentre& solved) {
  const auto rows = static_cast<Index>(found.masses.size());
  const Index cols = static_cast<Index>(histograms.masses.size()) / histograms.count;
  PooledVector<SolutionTerm> terms;
  for (Index k = 0; k < histograms.count; ++k) {
    const double weight = histograms.weights[static_cast<std::size_t>(k)];
    if (weight == 0) continue;
    terms.push_back({weight, part_of(found.row, k, rows), part_of(found.col, k, cols),
                     part_of(solved.row, k, rows), part_of(solved.col, k, cols)});
  }
  return terms;
}

}  // namespace attn
