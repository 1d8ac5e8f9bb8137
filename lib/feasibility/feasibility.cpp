#include "feasibility/feasibility.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>
#include <string>

#include "attnkit/error.hpp"
#include "feasibility/amounts.hpp"
#include "feasibility/max_flow.hpp"
#include "feasibility/residual.hpp"
#include "feasibility/whole_marginals.hpp"
#include "tensor/pooled_vector.hpp"

namespace attn {

using feasibility::Amounts;
using feasibility::at;

namespace {

double total(std::span<const double> marginal, const char* lines) {
  long double sum = 0;
  for (std::size_t i = 0; i < marginal.size(); ++i) {
    // NaN fails the comparison.
    if (!(marginal[i] >= 0 && std::isfinite(marginal[i]))) {
      throw Error(Failure::input, "the marginal of " + std::string(lines) + " " +
                                      std::to_string(i) + " is " + std::to_string(marginal[i]) +
                                      ", expected a finite number >= 0");
    }
    sum += marginal[i];
  }
  const auto rounded = static_cast<double>(sum);
  if (!std::isfinite(rounded)) {
    throw Error(Failure::input,
                "the marginals of " +
                    std::string(lines == std::string("query") ? "queries" : "keys") +
                    " add up to more than float64 holds");
  }
  return rounded;
}

/// The residual problem of a maximum flow.
class Examination {
 public:
  Examination(const AllowedPairs& pairs, std::span<const double> a, std::span<const double> b,
              const WholeMarginals& whole)
      : pairs_(pairs),
        a_(a),
        b_(b),
        rounding_(whole.rounding),
        flow_(maximum_flow(pairs, whole.supply, whole.room)) {
    const auto rows = std::accumulate(flow_.row_left.begin(), flow_.row_left.end(), Index{0});
    const auto cols = std::accumulate(flow_.col_left.begin(), flow_.col_left.end(), Index{0});
    short_of_ = std::min(rows, cols);
  }

  void report(Index listed, Feasibility& found) const {
    if (short_of_ > rounding_) {
      found.prospect = Prospect::no_plan;
      const AllowedPairs transposed = pairs_.transposed();
      found.rows = shortage(pairs_, flow_.row_left, a_, b_, back_arcs(rounding_), back_arcs(0));
      found.cols =
          shortage(transposed, flow_.col_left, b_, a_, forth_arcs(rounding_), forth_arcs(0));
      return;
    }
    const PooledVector<Index> components = strong_components();
    const auto differs = [&](Index row, Index col) {
      return components[at(row)] != components[at(pairs_.rows() + col)];
    };
    count_vanishing(components, differs, listed, found);
    if (found.vanishing_count > 0) found.prospect = Prospect::vanishing;
  }

 private:
  // Shipments beyond rounding, and the largest of each line, because a line must carry something.
  PooledVector<Shipment> certain(std::int64_t rounding) const {
    Amounts row_most(a_.size(), 0);
    Amounts col_most(b_.size(), 0);
    for (const Shipment& s : flow_.shipments) {
      row_most[at(s.row)] = std::max(row_most[at(s.row)], s.amount);
      col_most[at(s.col)] = std::max(col_most[at(s.col)], s.amount);
    }
    PooledVector<Shipment> kept;
    for (const Shipment& s : flow_.shipments) {
      if (s.amount > rounding || s.amount == row_most[at(s.row)] ||
          s.amount == col_most[at(s.col)]) {
        kept.push_back(s);
      }
    }
    return kept;
  }

  // A column leads back to the rows that it takes from.
  Arcs back_arcs(std::int64_t rounding) const {
    PooledVector<Arcs::Pair> arcs;
    for (const Shipment& s : certain(rounding)) arcs.emplace_back(s.col, s.row);
    return Arcs(pairs_.cols(), arcs);
  }

  // In the transposed problem, a row leads to the columns that it supplies.
  Arcs forth_arcs(std::int64_t rounding) const {
    PooledVector<Arcs::Pair> arcs;
    for (const Shipment& s : certain(rounding)) arcs.emplace_back(s.row, s.col);
    return Arcs(pairs_.rows(), arcs);
  }

  static void close(ResidualSearch& search, std::span<const double> rows,
                    std::span<const double> cols) {
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (rows[i] == 0) search.take_out(static_cast<Index>(i));
    }
    for (std::size_t j = 0; j < cols.size(); ++j) {
      if (cols[j] == 0) search.take_out(static_cast<Index>(rows.size() + j));
    }
  }

  // The cut next to the lines with amounts left. Amounts that may be rounding are followed only if
  // the proof needs them, because they add lines that lack nothing.
  Shortage shortage(const AllowedPairs& pairs, const Amounts& left, std::span<const double> a,
                    std::span<const double> b, const Arcs& beyond_rounding, const Arcs& all) const {
    Shortage likely = reached(pairs, left, rounding_, a, b, beyond_rounding);
    if (likely.demand > likely.capacity) return likely;
    return reached(pairs, left, 0, a, b, all);
  }

  static Shortage reached(const AllowedPairs& pairs, const Amounts& left, std::int64_t rounding,
                          std::span<const double> a, std::span<const double> b, const Arcs& back) {
    ResidualSearch search(pairs, back);
    close(search, a, b);
    Shortage shortage;
    long double demand = 0;
    long double capacity = 0;
    const auto count = [&](Index line) {
      if (line < pairs.rows()) {
        shortage.lines.push_back(line);
        demand += a[at(line)];
      } else {
        ++shortage.partners;
        capacity += b[at(line - pairs.rows())];
      }
    };
    for (Index row = 0; row < pairs.rows(); ++row) {
      if (left[at(row)] > rounding) search.walk(row, count);
    }
    std::sort(shortage.lines.begin(), shortage.lines.end());
    shortage.demand = static_cast<double>(demand);
    shortage.capacity = static_cast<double>(capacity);
    return shortage;
  }

  // Kosaraju's algorithm: a second walk, against the arrows, takes the lines in the reverse of the
  // order in which a first walk left them, and finds one component per start. −1 for lines with
  // marginal 0.
  PooledVector<Index> strong_components() const {
    const Index rows = pairs_.rows();
    const Index cols = pairs_.cols();
    PooledVector<Index> left;
    {
      const Arcs back = back_arcs(rounding_);
      ResidualSearch search(pairs_, back);
      close(search, a_, b_);
      for (Index line = 0; line < rows + cols; ++line) {
        search.walk(line, [&](Index l) { left.push_back(l); });
      }
    }
    const AllowedPairs transposed = pairs_.transposed();
    const Arcs forth = forth_arcs(rounding_);
    ResidualSearch search(transposed, forth);
    close(search, b_, a_);
    PooledVector<Index> components(at(rows + cols), -1);
    Index component = 0;
    for (auto line = left.rbegin(); line != left.rend(); ++line, ++component) {
      // In the transposed problem, columns are the rows.
      search.walk(*line < rows ? *line + cols : *line - rows,
                  [&](Index l) { components[at(l < cols ? l + rows : l - cols)] = component; });
    }
    return components;
  }

  template <class Differs>
  void count_vanishing(const PooledVector<Index>& components, const Differs& differs, Index listed,
                       Feasibility& found) const {
    IndexSet open = pairs_.open_cols();
    for (std::size_t j = 0; j < b_.size(); ++j) {
      if (b_[j] == 0) open.remove(static_cast<Index>(j));
    }
    const ColumnCounts counts(pairs_, components, open);
    for (Index row = 0; row < pairs_.rows(); ++row) {
      if (a_[at(row)] == 0) continue;
      const Index here = pairs_.in_runs() ? counts.elsewhere(row, components[at(row)])
                                          : count_bits(row, differs, open);
      found.vanishing_count += here;
      if (here == 0 || static_cast<Index>(found.vanishing.size()) >= listed) continue;
      for (Index col = pairs_.next(row, 0, open); col < pairs_.cols();
           col = pairs_.next(row, col + 1, open)) {
        if (!differs(row, col)) continue;
        found.vanishing.emplace_back(row, col);
        if (static_cast<Index>(found.vanishing.size()) >= listed) break;
      }
    }
  }

  template <class Differs>
  Index count_bits(Index row, const Differs& differs, const IndexSet& open) const {
    Index count = 0;
    for (Index col = pairs_.next(row, 0, open); col < pairs_.cols();
         col = pairs_.next(row, col + 1, open)) {
      count += differs(row, col) ? 1 : 0;
    }
    return count;
  }

  /// The number of open columns of a row's run that are in another component.
  class ColumnCounts {
   public:
    ColumnCounts(const AllowedPairs& pairs, const PooledVector<Index>& components,
                 const IndexSet& open)
        : pairs_(pairs), open_before_(at(pairs.cols()) + 1, 0) {
      if (!pairs.in_runs()) return;
      for (Index col = 0; col < pairs.cols(); ++col) {
        const bool is_open = open.contains(col);
        open_before_[at(col) + 1] = open_before_[at(col)] + (is_open ? 1 : 0);
        if (is_open) sorted_.emplace_back(components[at(pairs.rows() + col)], col);
      }
      std::sort(sorted_.begin(), sorted_.end());
    }

    Index elsewhere(Index row, Index component) const {
      const Index begin = pairs_.run_begin(row);
      const Index end = pairs_.run_end(row);
      const Index open = open_before_[at(end)] - open_before_[at(begin)];
      return open - (rank(component, end) - rank(component, begin));
    }

   private:
    Index rank(Index component, Index col) const {
      return std::lower_bound(sorted_.begin(), sorted_.end(), std::pair(component, col)) -
             sorted_.begin();
    }

    const AllowedPairs& pairs_;
    PooledVector<Index> open_before_;
    PooledVector<std::pair<Index, Index>> sorted_;
  };

  const AllowedPairs& pairs_;
  std::span<const double> a_;
  std::span<const double> b_;
  std::int64_t rounding_;
  Flow flow_;
  std::int64_t short_of_ = 0;
};

}  // namespace

bool totals_count_as_equal(double x, double y, std::size_t lines, double epsilon) {
  return std::abs(x - y) <= 4 * epsilon * std::sqrt(static_cast<double>(lines)) * std::max(x, y);
}

Feasibility examine(const AllowedPairs& pairs, std::span<const double> a, std::span<const double> b,
                    const FeasibilityOptions& options) {
  if (static_cast<Index>(a.size()) != pairs.rows() ||
      static_cast<Index>(b.size()) != pairs.cols()) {
    throw std::logic_error("marginals and pairs differ in size");
  }
  Feasibility found;
  found.row_total = total(a, "query");
  found.col_total = total(b, "key");
  const double most = std::max(found.row_total, found.col_total);
  if (!totals_count_as_equal(found.row_total, found.col_total, a.size() + b.size(),
                             options.epsilon)) {
    found.prospect = Prospect::unequal_totals;
    return found;
  }
  if (most == 0 || pairs.whole()) return found;
  const double rounding = 4 * options.epsilon * most + std::abs(found.row_total - found.col_total);
  Examination(pairs, a, b, in_whole_numbers(a, b, most, rounding)).report(options.listed, found);
  return found;
}

template <class T>
std::int64_t feasibility_bytes(const Scores<T>& scores) {
  const Index lines = scores.rows() + scores.cols();
  const std::int64_t pairs = allowed_pairs_bytes(scores);
  // Besides the pairs: their transpose, or the layers of a flow, each of which has a column.
  const std::int64_t vectors = lines * (scores.rows_alike() ? 200 : 200 + 16 * 48);
  return 2 * pairs + vectors;
}

template std::int64_t feasibility_bytes(const Scores<float>&);
template std::int64_t feasibility_bytes(const Scores<double>&);

}  // namespace attn
