#include "feasibility/tree_gap.hpp"

#include <boost/pending/disjoint_sets.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

#include "feasibility/heaviest_links.hpp"
#include "tensor/pooled_vector.hpp"

namespace attn {
namespace {

// A pair of a tree as two lines, where columns are numbered after the rows.
struct Edge {
  std::size_t a = 0;
  std::size_t b = 0;
  double weight = 0;
};

// The connected parts of the lines, and the pairs that connect them.
class Forest {
 public:
  Forest(std::size_t rows, std::size_t cols) : rows_(rows), sets_(rows + cols) {
    part_.resize(rows + cols);
    number();
  }

  std::span<const Index> row_parts() const { return std::span(part_).first(rows_); }
  std::span<const Index> col_parts() const { return std::span(part_).subspan(rows_); }
  const PooledVector<Edge>& edges() const { return edges_; }

  /// Joins each part with another by the heaviest pair of its lines. Returns whether any two were
  /// joined.
  bool grow(const PooledVector<Link>& rows, const PooledVector<Link>& cols) {
    PooledVector<Edge> best(part_.size());
    const auto offer = [&](std::size_t line, std::size_t other, double weight) {
      Edge& held = best[static_cast<std::size_t>(part_[line])];
      const Edge edge{std::min(line, other), std::max(line, other), weight};
      const bool first = std::pair(edge.a, edge.b) < std::pair(held.a, held.b);
      if (weight > held.weight || (weight == held.weight && first)) held = edge;
    };
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (rows[i].weight > 0) {
        offer(i, rows_ + static_cast<std::size_t>(rows[i].other), rows[i].weight);
      }
    }
    for (std::size_t j = 0; j < cols.size(); ++j) {
      if (cols[j].weight > 0) {
        offer(rows_ + j, static_cast<std::size_t>(cols[j].other), cols[j].weight);
      }
    }
    const std::size_t before = edges_.size();
    for (const Edge& edge : best) {
      // Two parts may have chosen the same pair.
      if (!(edge.weight > 0) || sets_.find_set(edge.a) == sets_.find_set(edge.b)) continue;
      sets_.union_set(edge.a, edge.b);
      edges_.push_back(edge);
    }
    number();
    return edges_.size() > before;
  }

 private:
  void number() {
    for (std::size_t n = 0; n < part_.size(); ++n) {
      part_[n] = static_cast<Index>(sets_.find_set(n));
    }
  }

  std::size_t rows_;
  boost::disjoint_sets_with_storage<> sets_;
  PooledVector<Index> part_;
  PooledVector<Edge> edges_;
};

// Sends the missing mass from the leaves on. A line stores its number of edges and the exclusive or
// of their indices, which for a leaf is the index of its only edge.
double send(const PooledVector<Edge>& edges, PooledVector<double> missing,
            PooledVector<double> total, double rounding) {
  PooledVector<Index> count(missing.size(), 0);
  PooledVector<std::size_t> mixed(missing.size(), 0);
  for (std::size_t e = 0; e < edges.size(); ++e) {
    for (const std::size_t line : {edges[e].a, edges[e].b}) {
      ++count[line];
      mixed[line] ^= e;
    }
  }
  double gap = 0;
  for (std::size_t start = 0; start < missing.size(); ++start) {
    std::size_t leaf = start;
    while (count[leaf] == 1) {
      const std::size_t e = mixed[leaf];
      const std::size_t next = edges[e].a == leaf ? edges[e].b : edges[e].a;
      const double sent = missing[leaf];
      if (!(sent >= -edges[e].weight)) return std::numeric_limits<double>::quiet_NaN();
      gap += sent * (sent / edges[e].weight);
      missing[leaf] = 0;
      missing[next] -= sent;
      total[next] += total[leaf];
      count[leaf] = 0;
      --count[next];
      mixed[next] ^= e;
      leaf = next;
    }
  }
  // The roots now have the remainders, and the marginals of their trees.
  for (std::size_t line = 0; line < missing.size(); ++line) {
    if (!(std::abs(missing[line]) <= rounding * total[line])) {
      return std::numeric_limits<double>::quiet_NaN();
    }
  }
  return gap;
}

PooledVector<double> joined(std::span<const double> rows, std::span<const double> cols) {
  PooledVector<double> all(rows.begin(), rows.end());
  all.insert(all.end(), cols.begin(), cols.end());
  return all;
}

}  // namespace

template <class T>
double tree_gap(const Scores<T>& scores, Potentials& potentials,
                std::span<const double> row_marginal, std::span<const double> col_marginal,
                std::span<const double> row_missing, std::span<const double> col_missing,
                double rounding, int threads) {
  PooledVector<double> totals = joined(row_marginal, col_marginal);
  const auto open = static_cast<std::size_t>(
      std::count_if(totals.begin(), totals.end(), [](double total) { return total > 0; }));
  Forest forest(row_missing.size(), col_missing.size());
  bool grows = true;
  while (grows && forest.edges().size() + 1 < open) {
    HeaviestLinks<T> links(forest.row_parts(), forest.col_parts());
    show_weights<T>(scores, potentials, 0, {&links}, threads);
    grows = forest.grow(links.rows(), links.cols());
  }
  return send(forest.edges(), joined(row_missing, col_missing), std::move(totals), rounding);
}

std::int64_t tree_gap_bytes(const Partition& partition) {
  // Parts and their sets, the edges and the best ones, missing mass and edge counts.
  constexpr std::int64_t line = 3 * sizeof(Index) + 2 * sizeof(Edge) + 5 * sizeof(double);
  return (partition.rows + partition.cols) * line + HeaviestLinks<float>::bytes(partition);
}

template double tree_gap(const Scores<float>&, Potentials&, std::span<const double>,
                         std::span<const double>, std::span<const double>, std::span<const double>,
                         double, int);
template double tree_gap(const Scores<double>&, Potentials&, std::span<const double>,
                         std::span<const double>, std::span<const double>, std::span<const double>,
                         double, int);

}  // namespace attn
