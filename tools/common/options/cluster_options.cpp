#include "common/options/cluster_options.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "attnkit/error.hpp"

namespace attn::tools {
namespace {

using Range = cli::Declaration::Range;
using Points = std::vector<std::vector<double>>;

const std::vector<const char*> options = {"centres", "counts", "variance", "diagonal",
                                          "covariance"};

[[noreturn]] void usage(const std::string& message, std::string hint = {}) {
  throw Error(Failure::usage, message, std::move(hint));
}

std::vector<double> deviations(std::vector<double> variances, const char* option) {
  for (double& variance : variances) {
    if (!(variance >= 0))
      usage(fmt::format("--{} lists {}, expected numbers >= 0", option, variance));
    variance = std::sqrt(variance);
  }
  return variances;
}

// Checks rows of `columns` numbers: `each` of them for all clusters, or as many for each cluster.
void require_rows(const Points& rows, const char* option, std::size_t each, std::size_t columns,
                  std::size_t clusters) {
  if (rows.front().size() == columns && (rows.size() == each || rows.size() == each * clusters)) {
    return;
  }
  usage(fmt::format(
      "--{} has {} rows of {} numbers, expected {}, or {} for each of {} centres, of {}", option,
      rows.size(), rows.front().size(), each, each, clusters, columns));
}

std::vector<double> covariance_of(const Points& rows, std::size_t cluster, std::size_t dimension) {
  const std::size_t first = rows.size() == dimension ? 0 : cluster * dimension;
  std::vector<double> matrix;
  for (std::size_t r = first; r < first + dimension; ++r) {
    matrix.insert(matrix.end(), rows[r].begin(), rows[r].end());
  }
  for (std::size_t r = 0; r < dimension; ++r) {
    for (std::size_t c = 0; c < r; ++c) {
      if (matrix[r * dimension + c] == matrix[c * dimension + r]) continue;
      usage(fmt::format("--covariance: the matrix of centre {} is not symmetric", cluster));
    }
  }
  return matrix;
}

}  // namespace

void declare_clusters(cli::Declaration& d, const std::vector<std::string>& verbs,
                      const std::vector<std::string>& counted) {
  d.points("centres", "POINTS", "Centres: coordinates separated by commas, points by semicolons")
      .only_with(verbs)
      .numbers("variance", "LIST",
               "Variance of every coordinate, one for all centres or one per centre",
               Range::non_negative(), {1.0})
      .only_with(verbs)
      .points("diagonal", "POINTS",
              "Variance of each coordinate: one row for all centres or one per centre; replaces "
              "--variance")
      .only_with(verbs)
      .points("covariance", "POINTS",
              "Covariance matrices by rows: one for all centres or one per centre, stacked; "
              "replaces --variance")
      .only_with(verbs)
      .integers("counts", "LIST",
                "Number of points of each centre; the sum is the length of the axis of points", 1,
                std::numeric_limits<Index>::max())
      .only_with(counted);
}

bool asks_for_clusters(const cli::Arguments& arguments) {
  return std::any_of(options.begin(), options.end(),
                     [&](const char* option) { return arguments.given(option); });
}

collapse::Clusters read_clusters(const cli::Arguments& arguments) {
  collapse::Clusters clusters;
  clusters.centres = arguments.points("centres");
  if (clusters.centres.empty()) {
    usage("--centres is missing", "such as --centres \"1.8,0.7;-1,-1\"");
  }
  const std::size_t count = clusters.centres.size();
  const std::size_t dimension = clusters.centres.front().size();
  clusters.dimension = static_cast<Index>(dimension);
  const Points diagonal = arguments.points("diagonal");
  const Points covariance = arguments.points("covariance");
  std::vector<double> variance = arguments.numbers("variance");
  if ((arguments.given("variance") ? 1 : 0) + !diagonal.empty() + !covariance.empty() > 1) {
    usage("expected one of --variance, --diagonal and --covariance");
  }
  if (variance.size() == 1) variance.resize(count, variance.front());
  require_per_cluster(variance.size(), "variance", clusters);
  if (!diagonal.empty()) require_rows(diagonal, "diagonal", 1, dimension, count);
  if (!covariance.empty()) require_rows(covariance, "covariance", dimension, dimension, count);
  for (std::size_t c = 0; c < count; ++c) {
    if (covariance.empty()) {
      clusters.factors.push_back(
          diagonal.empty() ? deviations(std::vector<double>(dimension, variance[c]), "variance")
                           : deviations(diagonal[diagonal.size() == 1 ? 0 : c], "diagonal"));
      continue;
    }
    const auto factor =
        collapse::covariance_factor(covariance_of(covariance, c, dimension), clusters.dimension);
    if (!factor) {
      usage(fmt::format("--covariance: the matrix of centre {} is not positive semidefinite", c));
    }
    clusters.factors.push_back(*factor);
  }
  return clusters;
}

std::vector<Index> read_count_ends(const cli::Arguments& arguments,
                                   const collapse::Clusters& clusters) {
  if (!arguments.given("counts")) usage("--counts is missing", "such as --counts 500,50");
  std::vector<Index> ends;
  Index sum = 0;
  for (const Index points : arguments.integers("counts")) {
    if (__builtin_add_overflow(sum, points, &sum)) usage("--counts add up to too many points");
    ends.push_back(sum);
  }
  require_per_cluster(ends.size(), "counts", clusters);
  return ends;
}

std::int64_t cluster_of(const std::vector<Index>& count_ends, Index n) {
  return std::upper_bound(count_ends.begin(), count_ends.end(), n) - count_ends.begin();
}

void require_per_cluster(std::size_t items, const char* option,
                         const collapse::Clusters& clusters) {
  if (items == clusters.centres.size()) return;
  usage(fmt::format("--{} has {} items, --centres has {} points", option, items,
                    clusters.centres.size()));
}

}  // namespace attn::tools
