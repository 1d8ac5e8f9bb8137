#include "feasibility/max_flow.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "feasibility/amounts.hpp"
#include "parallel/stop_flag.hpp"

namespace attn {

using feasibility::Amounts;
using feasibility::at;

namespace {

Flow flow_along_runs(const AllowedPairs& pairs, Amounts supply, Amounts room) {
  Flow flow;
  const IndexSet open = pairs.open_cols();
  Index row = 0;  // earlier rows have nothing left or end too early
  for (Index col = open.next(0); col < pairs.cols(); col = open.next(col + 1)) {
    while (room[at(col)] > 0) {
      while (row < pairs.rows() && (supply[at(row)] == 0 || pairs.run_end(row) <= col)) ++row;
      if (row == pairs.rows() || pairs.run_begin(row) > col) break;
      const std::int64_t amount = std::min(supply[at(row)], room[at(col)]);
      flow.shipments.push_back({row, col, amount});
      supply[at(row)] -= amount;
      room[at(col)] -= amount;
    }
  }
  flow.row_left = std::move(supply);
  flow.col_left = std::move(room);
  return flow;
}

// Dinic's method. A row may send any amount to each of its columns, so only the amounts sent need
// to be remembered: a column can return them.
class FlowOverBits {
 public:
  FlowOverBits(const AllowedPairs& pairs, Amounts supply, Amounts room)
      : pairs_(pairs),
        supply_(std::move(supply)),
        room_(std::move(room)),
        taken_(room_.size()),
        cursor_(supply_.size()),
        col_cursor_(room_.size()) {
    sort_rows();
  }

  Flow solve() {
    while (find_layers()) {
      for (const Index row : order_) {
        if (supply_[at(row)] > 0) send_from(row);
      }
      settle();
    }
    Flow flow;
    for (std::size_t col = 0; col < taken_.size(); ++col) {
      for (const Taken& taken : taken_[col]) {
        flow.shipments.push_back({taken.row, static_cast<Index>(col), taken.amount});
      }
    }
    flow.row_left = std::move(supply_);
    flow.col_left = std::move(room_);
    return flow;
  }

 private:
  using Word = AllowedPairs::Word;
  static constexpr Index word_bits = IndexSet::word_bits;
  static constexpr Index nowhere = -1;

  struct Taken {
    Index row;
    std::int64_t amount;
  };
  // One step of a path: from a row to a column, which returns mass to the next row.
  struct Step {
    Index row;
    Index col;
  };

  // Rows with the fewest columns come first. If every column of a row is also open to all later
  // rows, as under a causal mask in any order, the first phase is then the last.
  void sort_rows() {
    PooledVector<std::pair<Index, Index>> counted;
    for (Index row = 0; row < pairs_.rows(); ++row) {
      Index count = 0;
      for (const Word word : pairs_.bits(row)) count += std::popcount(word);
      counted.emplace_back(count, row);
    }
    std::sort(counted.begin(), counted.end());
    for (const auto& [count, row] : counted) order_.push_back(row);
  }

  template <class Body>
  static void for_each_bit(const PooledVector<Word>& words, const Body& body) {
    for (std::size_t w = 0; w < words.size(); ++w) {
      for (Word left = words[w]; left != 0; left &= left - 1) {
        body(static_cast<Index>(w) * word_bits + std::countr_zero(left));
      }
    }
  }

  // Breadth first from the rows with supply left to the nearest columns with room. Returns false if
  // there is none.
  bool find_layers() {
    layers_.clear();
    depth_.assign(supply_.size(), nowhere);
    std::fill(cursor_.begin(), cursor_.end(), 0);
    std::fill(col_cursor_.begin(), col_cursor_.end(), 0);
    PooledVector<Index> rows;
    for (Index row = 0; row < pairs_.rows(); ++row) {
      if (supply_[at(row)] == 0) continue;
      depth_[at(row)] = 0;
      rows.push_back(row);
    }
    PooledVector<Word> unseen = IndexSet(pairs_.cols()).words();
    while (!rows.empty()) {
      stop_if_asked();
      PooledVector<Word> layer(unseen.size(), 0);
      for (const Index row : rows) {
        const auto bits = pairs_.bits(row);
        for (std::size_t w = 0; w < bits.size(); ++w) {
          layer[w] |= bits[w] & unseen[w];
          unseen[w] &= ~bits[w];
        }
      }
      PooledVector<Word> with_room(layer.size(), 0);
      bool any = false;
      for_each_bit(layer, [&](Index col) {
        if (room_[at(col)] == 0) return;
        with_room[at(col / word_bits)] |= Word{1} << (col % word_bits);
        any = true;
      });
      if (any) {
        layers_.push_back(std::move(with_room));
        return true;
      }
      rows.clear();
      const auto depth = static_cast<Index>(layers_.size()) + 1;
      for_each_bit(layer, [&](Index col) {
        for (const Taken& taken : taken_[at(col)]) {
          if (depth_[at(taken.row)] != nowhere) continue;
          depth_[at(taken.row)] = depth;
          rows.push_back(taken.row);
        }
      });
      layers_.push_back(std::move(layer));
    }
    return false;
  }

  // Sends as much as possible from one row through the layers, depth first. Dead ends are removed
  // and never visited again.
  void send_from(Index source) {
    PooledVector<Step> path;
    Index row = source;
    while (supply_[at(source)] > 0) {
      stop_if_asked();
      const Index col = next_col(row, static_cast<Index>(path.size()));
      if (col == nowhere) {
        if (path.empty()) return;
        depth_[at(row)] = nowhere;
        row = retreat(path, source);
        continue;
      }
      path.push_back({row, col});
      if (path.size() == layers_.size()) {
        send(path, source);
        path.clear();
        row = source;
        continue;
      }
      const Index giver = next_row(col, static_cast<Index>(path.size()));
      row = giver != nowhere ? giver : retreat(path, source);
    }
  }

  // After a dead end behind the last column of the path: returns the row to continue from.
  Index retreat(PooledVector<Step>& path, Index source) {
    while (!path.empty()) {
      const Step step = path.back();
      const Index row = next_row(step.col, static_cast<Index>(path.size()));
      if (row != nowhere) return row;
      remove(static_cast<Index>(path.size()) - 1, step.col);
      path.pop_back();
      return step.row;
    }
    return source;
  }

  void remove(Index layer, Index col) {
    layers_[at(layer)][at(col / word_bits)] &= ~(Word{1} << (col % word_bits));
  }

  Index next_col(Index row, Index layer) {
    const auto bits = pairs_.bits(row);
    const PooledVector<Word>& wanted = layers_[at(layer)];
    for (std::size_t& w = cursor_[at(row)]; w < bits.size(); ++w) {
      const Word found = bits[w] & wanted[w];
      if (found != 0) return static_cast<Index>(w) * word_bits + std::countr_zero(found);
    }
    return nowhere;
  }

  // The row of the next layer to which `col` returns mass.
  Index next_row(Index col, Index depth) {
    const auto& taken = taken_[at(col)];
    for (std::size_t& c = col_cursor_[at(col)]; c < taken.size(); ++c) {
      if (taken[c].amount > 0 && depth_[at(taken[c].row)] == depth) return taken[c].row;
    }
    return nowhere;
  }

  void send(const PooledVector<Step>& path, Index source) {
    const Index last = path.back().col;
    std::int64_t amount = std::min(supply_[at(source)], room_[at(last)]);
    for (std::size_t s = 0; s + 1 < path.size(); ++s) {
      amount = std::min(amount, given_back(path[s].col).amount);
    }
    for (std::size_t s = 0; s < path.size(); ++s) {
      sent_.push_back({path[s].row, path[s].col, amount});
      if (s + 1 < path.size()) given_back(path[s].col).amount -= amount;
    }
    supply_[at(source)] -= amount;
    room_[at(last)] -= amount;
    if (room_[at(last)] == 0) remove(static_cast<Index>(layers_.size()) - 1, last);
  }

  Taken& given_back(Index col) { return taken_[at(col)][col_cursor_[at(col)]]; }

  // Turns the sent amounts into amounts that may be returned, each pair once. Only after a phase,
  // as no amount sent within a phase can be returned in it.
  void settle() {
    PooledVector<Index> touched;
    for (const Shipment& sent : sent_) {
      taken_[at(sent.col)].push_back({sent.row, sent.amount});
      touched.push_back(sent.col);
    }
    sent_.clear();
    std::sort(touched.begin(), touched.end());
    touched.erase(std::unique(touched.begin(), touched.end()), touched.end());
    for (const Index col : touched) {
      auto& taken = taken_[at(col)];
      std::sort(taken.begin(), taken.end(),
                [](const Taken& a, const Taken& b) { return a.row < b.row; });
      std::size_t kept = 0;
      for (std::size_t c = 0; c < taken.size();) {
        Taken sum{taken[c].row, 0};
        for (; c < taken.size() && taken[c].row == sum.row; ++c) sum.amount += taken[c].amount;
        if (sum.amount > 0) taken[kept++] = sum;
      }
      taken.resize(kept);
    }
  }

  const AllowedPairs& pairs_;
  Amounts supply_;
  Amounts room_;
  PooledVector<Index> order_;                // of rows
  PooledVector<PooledVector<Taken>> taken_;  // by column
  PooledVector<Shipment> sent_;              // in this phase
  PooledVector<PooledVector<Word>> layers_;  // the columns of each depth
  PooledVector<Index> depth_;                // of rows
  PooledVector<std::size_t> cursor_;         // rows: earlier words lead to nothing
  PooledVector<std::size_t> col_cursor_;     // columns: earlier entries of taken_ lead to nothing
};

}  // namespace

Flow maximum_flow(const AllowedPairs& pairs, PooledVector<std::int64_t> supply,
                  PooledVector<std::int64_t> room) {
  return pairs.in_runs() ? flow_along_runs(pairs, std::move(supply), std::move(room))
                         : FlowOverBits(pairs, std::move(supply), std::move(room)).solve();
}

}  // namespace attn
