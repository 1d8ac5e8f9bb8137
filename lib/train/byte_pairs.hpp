#pragma once

#include <compare>
#include <map>
#include <optional>
#include <queue>
#include <string>
#include <vector>

#include "tensor/shape.hpp"

namespace attn::train {

inline constexpr Index no_place = -1;

/// Two tokens whose concatenated symbols are also a symbol.
struct Merge {
  Index left = 0;
  Index right = 0;

  auto operator<=>(const Merge&) const = default;
};

/// Symbols of words; neighbours in a word are joined. A joined symbol takes the place of its first
/// part, so that places in a word stay in order.
class SymbolChain {
 public:
  void add(Index symbol, bool begins_word) {
    const auto at = static_cast<Index>(links_.size());
    links_.push_back({symbol, begins_word ? no_place : at - 1, no_place});
    if (!begins_word) link(at - 1).next = at;
  }

  Index size() const { return static_cast<Index>(links_.size()); }
  Index before(Index at) const { return link(at).previous; }
  Index after(Index at) const { return link(at).next; }
  Index symbol(Index at) const { return link(at).symbol; }  // no_place: joined to the one before

  // The pair that begins at a place, if any.
  std::optional<Merge> pair(Index at) const {
    if (at == no_place || symbol(at) == no_place || after(at) == no_place) return std::nullopt;
    return Merge{symbol(at), symbol(after(at))};
  }

  void join(Index at, Index symbol) {
    const Index gone = after(at);
    link(at).next = after(gone);
    if (after(gone) != no_place) link(after(gone)).previous = at;
    link(at).symbol = symbol;
    link(gone).symbol = no_place;
  }

 private:
  struct Link {
    Index symbol;
    Index previous;
    Index next;
  };
  Link& link(Index at) { return links_[static_cast<std::size_t>(at)]; }
  const Link& link(Index at) const { return links_[static_cast<std::size_t>(at)]; }

  std::vector<Link> links_;
};

/// Learns merges of neighbours in words (Sennrich et al., ACL 2016). Keeps the counts and possible
/// places of all pairs up to date. Writes each merge and its symbol.
class PairLearner {
 public:
  /// Keeps references to both.
  PairLearner(std::vector<std::string>& symbols, std::vector<Merge>& merges)
      : symbols_(symbols), merges_(merges), queue_(Later{symbols}) {}

  /// Adds a word of tokens of `symbols`, which occurs `count` times.
  void add(const std::vector<Index>& word, Index count);

  /// Joins the most frequent pair; ties go to the first by the bytes of the left symbol, then of
  /// the right one. False if no pair occurs twice.
  bool join_next();

 private:
  struct Occurrences {
    Index count = 0;
    std::vector<Index> places;  // all present places, and some former ones
  };
  struct Candidate {
    Index count;
    Merge pair;
  };
  struct Later {
    const std::vector<std::string>& symbols;

    bool operator()(const Candidate& a, const Candidate& b) const;
  };

  // Counts the pair that begins at a place, if any, once more (1) or less (-1).
  void change(Index at, Index sign);
  void join_all(const Merge& pair);

  std::vector<std::string>& symbols_;
  std::vector<Merge>& merges_;
  SymbolChain chain_;
  std::vector<Index> weights_;  // by place: how often its word occurs
  std::map<Merge, Occurrences> pairs_;
  std::priority_queue<Candidate, std::vector<Candidate>, Later> queue_;
};

}  // namespace attn::train
