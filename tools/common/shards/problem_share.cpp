#include "common/shards/problem_share.hpp"

#include <algorithm>
#include <map>
#include <numeric>

namespace attn::tools {

ProblemUnits::ProblemUnits(Index problems) : above_(static_cast<std::size_t>(problems)) {
  std::iota(above_.begin(), above_.end(), Index{0});
}

Index ProblemUnits::root(Index problem) const {
  while (above_[static_cast<std::size_t>(problem)] != problem) {
    problem = above_[static_cast<std::size_t>(problem)];
  }
  return problem;
}

void ProblemUnits::sum(const std::string& name, const std::vector<Index>& block_of) {
  std::map<Index, Index> first_of;  // from a block to the first problem of its unit
  bool merges = false;
  for (std::size_t n = 0; n < block_of.size(); ++n) {
    const Index own = root(static_cast<Index>(n));
    const auto [found, is_new] = first_of.emplace(block_of[n], own);
    if (is_new) continue;
    merges = true;
    const Index other = root(found->second);
    // The first problem of a unit is its root.
    const Index first = std::min(own, other);
    above_[static_cast<std::size_t>(std::max(own, other))] = first;
    above_[n] = first;
    found->second = first;
  }
  if (!merges || of_all_) return;
  of_all_ = first_of.size() == 1;
  if (of_all_) summed_.clear();
  summed_ += (summed_.empty() ? "" : " and ") + name;
}

std::vector<std::vector<Index>> ProblemUnits::units() const {
  std::map<Index, std::vector<Index>> by_root;
  for (Index problem = 0; problem < problems(); ++problem)
    by_root[root(problem)].push_back(problem);
  std::vector<std::vector<Index>> found;
  for (auto& unit : by_root) found.push_back(std::move(unit.second));
  return found;
}

std::vector<Index> ProblemShare::blocks(const std::vector<Index>& block_of) const {
  std::vector<Index> found;
  for (const Index problem : own_) {
    const Index block = block_of[static_cast<std::size_t>(problem)];
    if (block >= 0) found.push_back(block);
  }
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

std::vector<Index> own_problems(const ProblemUnits& units, const std::vector<double>& work,
                                const Shard& shard) {
  const std::vector<std::vector<Index>> all = units.units();
  std::vector<double> of_unit;
  for (const std::vector<Index>& unit : all) {
    double sum = 0;
    for (const Index problem : unit) sum += work[static_cast<std::size_t>(problem)];
    of_unit.push_back(sum);
  }
  const auto [first, last] = share_of(std::move(of_unit), shard);
  std::vector<Index> own;
  for (std::size_t n = first; n < last; ++n) own.insert(own.end(), all[n].begin(), all[n].end());
  std::sort(own.begin(), own.end());
  return own;
}

}  // namespace attn::tools
