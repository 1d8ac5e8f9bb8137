#pragma once

#include <string>
#include <utility>
#include <vector>

#include "common/outputs/block_layout.hpp"
#include "common/shards/shard.hpp"

namespace attn::tools {

/// A run of more problems is not divided.
inline constexpr Index most_problems = 100'000'000;

/// Which problems of an input can be computed separately: problems that add into one result belong
/// to the same unit.
class ProblemUnits {
 public:
  /// Every problem is a unit.
  explicit ProblemUnits(Index problems);

  /// Result `name` is a sum over the problems n that have the same `block_of[n]`, >= 0.
  void sum(const std::string& name, const std::vector<Index>& block_of);

  Index problems() const { return static_cast<Index>(above_.size()); }

  /// The problems of each unit, ascending; the units in the order of their first problems.
  std::vector<std::vector<Index>> units() const;

  /// The first result that is a sum over all problems; if there is none, the results that are sums
  /// over some of them, "grad_wq and grad_wk"; "" if each is a unit.
  const std::string& summed() const { return summed_; }

 private:
  Index root(Index problem) const;

  std::vector<Index> above_;  // a problem of the same unit, or the problem itself
  std::string summed_;
  bool of_all_ = false;  // whether it is over all problems
};

/// The problems that a shard computes, and its notes on results for tensor-join.
class ProblemShare {
 public:
  /// `own` ascending, of the problems 0, ..., problems - 1.
  ProblemShare(Index problems, std::vector<Index> own)
      : problems_(problems), own_(std::move(own)) {}

  Index problems() const { return problems_; }
  const std::vector<Index>& own() const { return own_; }
  Index size() const { return static_cast<Index>(own_.size()); }
  Index problem(Index n) const { return own_[static_cast<std::size_t>(n)]; }

  /// The blocks that the own problems use, ascending. Below 0 is none.
  std::vector<Index> blocks(const std::vector<Index>& block_of) const;

  /// A dataset (n, ...) that holds the blocks `blocks` of a dataset of the whole run.
  struct Piece {
    BlockLayout layout;
    std::vector<Index> blocks;
  };
  void add(Piece piece) { pieces_.push_back(std::move(piece)); }
  const std::vector<Piece>& pieces() const { return pieces_; }

  /// Attributes of the whole run that come from one problem. The joined bundle takes them from the
  /// shard with the lexicographically largest key; of several such shards, from the one with the
  /// first problem.
  struct Ranked {
    std::vector<std::string> attributes;  ///< of the results' group, or GROUP/NAME below it
    std::vector<double> key;
  };
  void rank(Ranked ranked) { ranked_.push_back(std::move(ranked)); }
  const std::vector<Ranked>& ranked() const { return ranked_; }

 private:
  Index problems_;
  std::vector<Index> own_;
  std::vector<Piece> pieces_;
  std::vector<Ranked> ranked_;
};

/// The problems of a shard, ascending: whole units of about the same work. `work` is by problem.
std::vector<Index> own_problems(const ProblemUnits& units, const std::vector<double>& work,
                                const Shard& shard);

}  // namespace attn::tools
