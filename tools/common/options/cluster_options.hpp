#pragma once

#include <string>
#include <vector>

#include "cli/command.hpp"
#include "collapse/clusters.hpp"

namespace attn::tools {

/// Declares --centres, --variance, --diagonal and --covariance for `verbs`, and --counts for the
/// verbs in `counted`.
void declare_clusters(cli::Declaration& d, const std::vector<std::string>& verbs,
                      const std::vector<std::string>& counted);

/// Whether any of these options is given.
bool asks_for_clusters(const cli::Arguments& arguments);

/// The clusters that the options describe. Throws Error(usage) if there are no centres, counts of
/// numbers do not match, or a covariance is not symmetric and positive semidefinite.
collapse::Clusters read_clusters(const cli::Arguments& arguments);

/// The running sum of --counts, one for each of the clusters. Throws Error(usage).
std::vector<Index> read_count_ends(const cli::Arguments& arguments,
                                   const collapse::Clusters& clusters);

/// The cluster of point `n`, given the running sum of the counts.
std::int64_t cluster_of(const std::vector<Index>& count_ends, Index n);

/// Throws Error(usage) unless `option` has one item for each cluster.
void require_per_cluster(std::size_t items, const char* option, const collapse::Clusters& clusters);

}  // namespace attn::tools
