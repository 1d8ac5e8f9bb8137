#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "common/checkpoint.hpp"
#include "common/divided_head.hpp"
#include "common/divided_state.hpp"
#include "kernel/few_rows.hpp"
#include "kernel/packed.hpp"
#include "kernel/rank_share.hpp"
#include "kernel/stop_flag.hpp"
#include "tensor/infinity.hpp"

namespace attn::tools {

/// One head that ranks divide. All go through the same steps.
template <class T>
class DividedRun {
 public:
  DividedRun(const AttentionInput& input, const DividedWants& wants, const DividedPlan& plan,
             HeadReader<T>& reader, Checkpoint* checkpoint, Index problem,
             const DividedProgress& progress)
      : input_(input),
        wants_(wants),
        plan_(plan),
        problem_(problem),
        whole_(input.part(problem)),
        ranks_(*kernel::Ranks::current()),
        alone_(nullptr),
        reader_(reader),
        checkpoint_(checkpoint),
        progress_(progress),
        share_(ranks_.count(), &ranks_) {
    cut(divided_steps(wants).front());
    if (keeps_state()) begin_ = DividedState::place_of(*checkpoint, progress.part);
  }

  double seconds() const { return seconds_; }

 protected:
  RankSlots slots_for(const Partition& partition) const {
    const ScoreRecipe recipe = input_.recipe(wants_.scheme);
    return {partition,
            cut_slots(partition, {recipe.causal, recipe.window, whole_.offset}, ranks_.count())};
  }

  /// Ranks have the slots of this step from now on.
  void cut(DividedStep step) {
    slots_ = slots_for(divided_partition(wants_, step, whole_.queries(), whole_.keys(), sizeof(T)));
  }

  /// The own lines, queries or keys.
  RowRange own_lines() const { return slots_.lines(ranks_.own()); }

  /// Lines of a block in this step.
  Index block_lines() const { return block_beside(slots_, plan_.block, divided_block_step); }

  /// Lines of a block, a multiple of `step` and at most `block`, beside the lines of these slots.
  /// Ranks stop after one, which should take about a second.
  Index block_beside(const RankSlots& slots, Index block, Index step) const {
    if (!wants_.stops) return block;
    Index most = 1;
    for (int rank = 0; rank < ranks_.count(); ++rank) {
      const RowRange lines = slots.lines(rank);
      most = std::max(most, lines.last - lines.first);
    }
    constexpr Index pairs = Index{1} << 28;
    return std::clamp(pairs / most / step * step, step, block);
  }

  /// In the order of the keys, `step` at a time, from key `first` on.
  std::vector<TileRange> blocks_of_keys(RowRange queries, Index step, Index first = 0) const {
    std::vector<TileRange> blocks;
    const Index keys = whole_.keys();
    for (Index key = first; key < keys; key += step) {
      blocks.push_back(
          {queries.first, queries.last - queries.first, key, std::min(step, keys - key)});
    }
    return blocks;
  }

  /// In the order of the queries, from query `first` on. None is so short that its products would
  /// take another path.
  std::vector<TileRange> blocks_of_queries(RowRange keys, Index block, Index first = 0) const {
    std::vector<TileRange> blocks;
    const Index queries = whole_.queries();
    for (Index row = first; row < queries; row += blocks.back().rows) {
      const Index left = queries - row;
      const bool last = !kernel::worth_packing(left - block);
      blocks.push_back({row, last ? left : block, keys.first, keys.last - keys.first});
    }
    return blocks;
  }

  /// The head that these pairs make; null without pairs.
  std::shared_ptr<const Head<T>> read_part(const TileRange& pairs) {
    kernel::stop_if_asked();
    if (pairs.rows == 0 || pairs.cols == 0) return nullptr;
    return reader_.read(problem_, pairs, bounds_);
  }

  /// Calls body(part), the same; does nothing without pairs.
  template <class Body>
  void with_part(const TileRange& pairs, const Body& body) {
    const std::shared_ptr<const Head<T>> part = read_part(pairs);
    if (part == nullptr) return;
    const Timed timed(*this);
    naming([&] { return input_.place(problem_); }, [&] { body(*part); });
  }

  /// Reads all parts once, so that errors of the input come before the work, and finds what must be
  /// known of the whole. The parts of all ranks together have each pair once.
  void look(const std::vector<TileRange>& parts) {
    AllowedCounts own;
    own.keys_of_query.assign(static_cast<std::size_t>(whole_.queries()), 0);
    own.queries_of_key.assign(static_cast<std::size_t>(whole_.keys()), 0);
    Overview overview;
    for (const TileRange& pairs : parts) {
      before_look();
      with_part(pairs, [&](const Head<T>& part) {
        const Scores<T>& scores = part.scores(wants_.scheme);
        overview.join({scores.bounds(), part.least_bias(), kernel::largest_magnitude(part.v())});
        const AllowedCounts counts = scores.allowed_counts();
        add_to(own.keys_of_query, pairs.row0, counts.keys_of_query);
        add_to(own.queries_of_key, pairs.col0, counts.queries_of_key);
      });
    }
    Overview all;
    for (const Overview& of_rank : kernel::gathered(ranks_, overview)) all.join(of_rank);
    bounds_ = all.bounds;
    found_.least_bias = all.least_bias;
    largest_value_ = all.largest_value;
    AllowedCounts& allowed = found_.attention.allowed;
    allowed.keys_of_query = sum_of(own.keys_of_query);
    allowed.queries_of_key = sum_of(own.queries_of_key);
  }

  /// Row potentials of no keys.
  void start_rows() {
    Potentials& potentials = found_.attention.potentials;
    potentials.row.assign(static_cast<std::size_t>(whole_.queries()), minus_infinity);
    if (wants_.scheme == Scheme::hnas) potentials.unas_row = potentials.row;
  }

  /// A query with nothing allowed attends to the sink alone.
  void close_rows() {
    Potentials& potentials = found_.attention.potentials;
    for (PooledVector<double>* row : {&potentials.row, &potentials.unas_row}) {
      std::replace(row->begin(), row->end(), minus_infinity, input_.sink_of(problem_));
    }
  }

  /// Those from `first` on; of nothing, nothing.
  static std::span<double> lines_from(std::span<double> numbers, std::size_t first) {
    return numbers.empty() ? numbers : numbers.subspan(first);
  }

  /// Sums over the ranks in their order: `add` adds what this one has to `totals`, whose memory it
  /// visits.
  void add_up(const kernel::RankShare::Memory& totals, const std::function<void()>& add) {
    const Timed timed(*this);
    share_.add_in_turn(ranks_.own(), totals, add);
    share_.take_totals(totals);
  }

  /// The same if rank 0 alone needs the totals.
  void add_up_for_first(const kernel::RankShare::Memory& totals, const std::function<void()>& add) {
    const Timed timed(*this);
    share_.add_in_turn(ranks_.own(), totals, add);
    const int last = ranks_.count() - 1;
    if (last == 0) return;
    totals([&](std::span<std::byte> bytes) {
      if (ranks_.own() == last) ranks_.send(0, bytes);
      if (ranks_.own() == 0) ranks_.receive(last, bytes);
    });
  }

  /// Completes a vector of all lines of which each rank has those of its own.
  void complete_lines(std::span<double> numbers) { complete_lines(numbers, slots_); }
  void complete_lines(std::span<double> numbers, const RankSlots& slots) {
    const Timed timed(*this);
    share_.complete_numbers(numbers, [&](Index rank) {
      return rank < ranks_.count() ? slots.lines(static_cast<int>(rank)).first
                                   : static_cast<Index>(numbers.size());
    });
  }

  /// Shows rows of `width` numbers of which each rank has its lines, in the order of the ranks.
  void show_rows(const RankSlots& slots, const T* own_rows, Index width, const ShowRows<T>& show) {
    if (slots.lines(ranks_.count() - 1).last == 0) return show({});
    const Index at_once = rows_of_piece(width * static_cast<Index>(sizeof(T)));
    for (int rank = 0; rank < ranks_.count(); ++rank) {
      const RowRange lines = slots.lines(rank);
      for (Index first = lines.first; first < lines.last; first += at_once) {
        const T* const own =
            rank == ranks_.own() ? own_rows + (first - lines.first) * width : nullptr;
        show({rank, first, std::min(at_once, lines.last - first), own});
      }
    }
  }

  /// The place from which an earlier run's state goes on, if it is in that step.
  std::optional<DividedPlace> begin(DividedStep step) const {
    return begin_ && begin_->step == step ? begin_ : std::nullopt;
  }

  /// Such a place after g is complete.
  std::optional<DividedPlace> begin_after_columns() const {
    return begin(DividedStep::columns) ? std::nullopt : begin_;
  }

  /// Where the loop of a round begins: it may be after the last line.
  static Index first_line(const std::optional<DividedPlace>& begin, int round) {
    return begin && begin->round == round ? begin->line : 0;
  }

  /// Reads the state in which the head goes on.
  void load(const DividedState& state) const { state.load(*checkpoint_, ranks_.own()); }

  /// After a block: if it is time to write the checkpoint, or to stop, writes it with what
  /// describe(state) adds.
  template <class Describe>
  void after_block(const DividedPlace& place, const Describe& describe) {
    if (checkpoint_ == nullptr) return;
    if (!keeps_state()) return checkpoint_->stop_if_asked();
    const auto write = [&] {
      DividedState state;
      describe(state);
      state.save(progress_, place, *checkpoint_, ranks_);
    };
    try {
      if (!checkpoint_->is_due()) return;
    } catch (const kernel::Stopped&) {
      write();
      throw;
    }
    write();
  }

  const AttentionInput& input_;
  const DividedWants& wants_;
  const DividedPlan& plan_;
  const Index problem_;
  const OwnPart whole_;
  kernel::Ranks& ranks_;
  const kernel::Ranks::Use alone_;  ///< the loops of the library are those of this rank alone
  HeadReader<T>& reader_;
  Checkpoint* const checkpoint_;  ///< or null
  const DividedProgress& progress_;
  RankSlots slots_;
  T largest_value_ = 0;
  DividedHead found_;

 private:
  // Adds the time of a scope.
  class Timed {
   public:
    explicit Timed(DividedRun& run) : run_(run), start_(Clock::now()) {}
    ~Timed() { run_.seconds_ += std::chrono::duration<double>(Clock::now() - start_).count(); }
    Timed(const Timed&) = delete;
    Timed& operator=(const Timed&) = delete;

   private:
    using Clock = std::chrono::steady_clock;
    DividedRun& run_;
    Clock::time_point start_;
  };

  // If the run is to stop, keeps what was done before this part of the head.
  void before_look() {
    if (checkpoint_ == nullptr) return;
    try {
      checkpoint_->stop_if_asked();
    } catch (const kernel::Stopped&) {
      if (progress_.part > 0 && !begin_) {
        DividedState().save(progress_, std::nullopt, *checkpoint_, ranks_);
      }
      throw;
    }
  }

  // Short heads are begun anew. KeyBlocks::resume needs as many queries.
  bool keeps_state() const {
    constexpr Index least_queries = 96;
    return checkpoint_ != nullptr && whole_.queries() >= least_queries;
  }

  struct Overview {
    ScoreBounds bounds;
    double least_bias = 0;
    T largest_value = 0;

    void join(const Overview& other) {
      bounds = bounds.joined(other.bounds);
      least_bias = std::min(least_bias, other.least_bias);
      largest_value = std::max(largest_value, other.largest_value);
    }
  };

  static void add_to(PooledVector<Index>& totals, Index first, const PooledVector<Index>& more) {
    for (std::size_t n = 0; n < more.size(); ++n)
      totals[static_cast<std::size_t>(first) + n] += more[n];
  }

  PooledVector<Index> sum_of(const PooledVector<Index>& own) {
    PooledVector<Index> totals(own.size());
    add_up(
        [&](const kernel::RankShare::Visit& visit) {
          visit(std::as_writable_bytes(std::span(totals)));
        },
        [&] { add_to(totals, 0, own); });
    return totals;
  }

  const kernel::RankShare share_;
  std::optional<DividedPlace> begin_;  // of a state of this head
  std::optional<ScoreBounds> bounds_;  // of the whole head, once they are known
  double seconds_ = 0;
};

}  // namespace attn::tools
