#pragma once

#include <chrono>
#include <functional>
#include <limits>
#include <memory>
#include <stdexcept>
#include <vector>

#include "attnkit/error.hpp"
#include "cli/progress.hpp"
#include "cli/report.hpp"
#include "common/heads/attention_input.hpp"
#include "common/runs/checkpoint.hpp"
#include "common/runs/head_state.hpp"
#include "head/head_reader.hpp"
#include "parallel/busy_threads.hpp"
#include "parallel/parallel_for.hpp"
#include "parallel/stop_flag.hpp"
#include "pass/rank_rows.hpp"
#include "scheme/scheme.hpp"

namespace attn::tools {

/// How `ranks` ranks share the rows of passes by rows. If ready-made scores, a mask, a bias or a
/// preference has a row for each query, a rank gets neighbouring rows and reads only these.
RankRows rank_rows(const AttentionInput& input, Index ranks);

/// The memory that a tool needs for each head besides its inputs.
struct HeadNeeds {
  std::int64_t result_bytes = 0;  ///< kept until the head is written
  std::int64_t kept_bytes = 0;    ///< for all heads together, kept until the end
  /// Needed while `threads` threads compute one head; matrices of up to `dense_limit` bytes are
  /// held. Threads that take a head each need the memory of one thread, for each thread.
  std::function<std::int64_t(int threads, std::int64_t dense_limit)> work_bytes;
  /// Further bytes that save time while a head is computed, if memory is left.
  std::int64_t useful_bytes = 0;
  /// Queries of a head that are in memory at a time; the other members count for this many queries.
  /// Absent: all. Only for q and k that are read without a projection.
  std::optional<Index> queries = std::nullopt;
  /// The bytes that a checkpoint keeps of the head in progress.
  std::int64_t state_bytes = 0;
  /// The parts into which threads can cut a head.
  ItemParts parts = {};
  /// How ranks share the rows of passes. Ranks with neighbouring rows hold only their own rows of a
  /// mask, bias or ready-made scores.
  RankRows ranks = {};
};

/// How many heads are in memory at a time, and how many threads run. No result depends on it.
struct MemoryPlan {
  int threads = 1;
  Index batch = 1;
  std::int64_t dense_limit = 0;   ///< larger masks, biases and scores are read by tiles
  std::int64_t useful_bytes = 0;  ///< the part of HeadNeeds::useful_bytes that a head gets
  std::int64_t bytes = 0;         ///< the expected use of memory
  std::optional<Index> queries;   ///< HeadNeeds::queries
  ItemParts parts;                ///< HeadNeeds::parts

  /// Whether each thread takes one of `count` heads; else they share one head after the other, as
  /// ranks do.
  bool takes_heads_each(Index count) const {
    return Ranks::current() == nullptr && take_items_each(count, parts, threads);
  }

  /// The most heads that are computed at the same time.
  Index heads_at_once() const;
};

/// The bytes that one head needs at least, with matrices read by tiles.
std::int64_t least_bytes(const AttentionInput& input, std::size_t element_size,
                         const HeadNeeds& needs, int threads);

/// Fits the work into `memory` bytes: first without useful_bytes, then with fewer heads at a time,
/// then with masks by tiles, then with fewer threads. Throws Error(memory)
/// that states the bytes needed if none of these is enough, and the errors of require_readable.
MemoryPlan plan_memory(const AttentionInput& input, std::size_t element_size,
                       const HeadNeeds& needs, int threads, std::int64_t memory);

/// Runs `body`, which works on `head`. An Error that it throws names the head and, if a finite bias
/// leaves no room for scores, hints at −inf.
template <class T, class Body>
auto naming_head(const AttentionInput& input, const Head<T>& head, const Body& body) {
  try {
    return naming([&] { return input.place(head.problem); }, body);
  } catch (const Error& error) {
    const bool overflows = head.least_bias() < -std::numeric_limits<T>::max() / 32;
    if (error.failure() != Failure::numerical || !overflows) throw;
    throw Error(error.failure(), error.what(),
                "only -inf forbids a pair; bias has very low finite numbers");
  }
}

/// The data of a head: the number that for_each_head shows to `look`, and the result.
template <class Result>
struct HeadFound {
  double least_bias = 0;
  Result result;
  bool done = false;
};

/// Puts what is found into a checkpoint, or takes it from there.
template <class Archive, class Result>
void archive_found(Archive& with, HeadFound<Result>& found) {
  if constexpr (requires { archive(with, found.result); }) {
    archive(with, found.result);
    archive(with, found.least_bias);
  } else {
    throw std::logic_error("a checkpoint needs a function archive() for the results");
  }
}

/// The heads to compute, or, if the plan has only some queries in memory at a time, parts of these:
/// all keys, and neighbouring queries that are not padding.
std::vector<HeadPart> parts_of_heads(const AttentionInput& input, const MemoryPlan& plan);

/// The share of the head's queries that a part has.
double share_of_head(const AttentionInput& input, const HeadPart& part);

/// Reads the heads to compute, or parts of them, shows the least bias of each to `look`, computes a
/// Result from each, and hands the results to `keep` in order, on the calling thread; returns the
/// seconds spent computing. With a checkpoint, which needs a function archive(Archive&, Result&),
/// the heads that it holds are not read and computed again. Throws Stopped if the thread's
/// StopFlag is set; the heads done by then are in the checkpoint.
template <class T, class Result>
double for_each_head(const AttentionInput& input, const MemoryPlan& plan, cli::Progress& progress,
                     const std::function<void(double least_bias)>& look,
                     const std::function<Result(const Head<T>& head, int threads)>& compute,
                     const std::function<void(Index problem, Result& result)>& keep,
                     Checkpoint* checkpoint = nullptr) {
  using Found = HeadFound<Result>;
  const auto store = [&](Found& found) {
    if (checkpoint == nullptr) return;
    checkpoint->add_unit([&](SavingArchive& to) { archive_found(to, found); });
  };
  const std::vector<HeadPart> parts = parts_of_heads(input, plan);
  const auto part = [&](Index n) -> const HeadPart& { return parts[static_cast<std::size_t>(n)]; };
  Index first = 0;
  for (; checkpoint != nullptr && checkpoint->has_unit() && first < std::ssize(parts); ++first) {
    stop_if_asked();
    Found found;
    checkpoint->take_unit([&](LoadingArchive& from) { archive_found(from, found); });
    look(found.least_bias);
    keep(part(first).problem, found.result);
    progress.advance(share_of_head(input, part(first)));
  }
  HeadReader<T> reader(input, plan.dense_limit, plan.threads);
  double seconds = 0;
  for (; first < std::ssize(parts); first += plan.batch) {
    const Index count = std::min(plan.batch, std::ssize(parts) - first);
    std::vector<Found> found(static_cast<std::size_t>(count));
    reader.read({&part(first), found.size()});
    for (Index n = 0; n < count; ++n) {
      found[static_cast<std::size_t>(n)].least_bias = reader.least_bias(n);
      look(reader.least_bias(n));
    }
    const auto start = std::chrono::steady_clock::now();
    const bool apart = plan.takes_heads_each(count);
    const bool in_turn = !apart || plan.threads == 1;
    if (checkpoint != nullptr) checkpoint->take_states(in_turn);
    const auto compute_one = [&](Index n, int threads) {
      Found& one = found[static_cast<std::size_t>(n)];
      Head<T> head;
      reader.make(n, threads, head);
      one.result = compute(head, threads);
      one.done = true;
      progress.advance(share_of_head(input, part(first + n)));
      if (!in_turn || checkpoint == nullptr) return;
      store(one);
      checkpoint->write_if_due();
    };
    try {
      if (Ranks::current() != nullptr) {
        // Ranks divide each head.
        for (Index n = 0; n < count; ++n) compute_one(n, plan.threads);
      } else {
        parallel_for(count, apart ? plan.threads : 1,
                     [&](Index n, int) { compute_one(n, apart ? 1 : plan.threads); });
      }
    } catch (const Stopped&) {
      for (std::size_t n = 0; !in_turn && n < found.size() && found[n].done; ++n) store(found[n]);
      throw;
    }
    seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    for (Index n = 0; n < count; ++n) {
      Found& one = found[static_cast<std::size_t>(n)];
      if (!in_turn) store(one);
      keep(part(first + n).problem, one.result);
    }
    if (checkpoint != nullptr) checkpoint->write_if_due();
  }
  return seconds;
}

}  // namespace attn::tools
