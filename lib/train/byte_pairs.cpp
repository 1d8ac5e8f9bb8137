#include "train/byte_pairs.hpp"

namespace attn::train {

void PairLearner::add(const std::vector<Index>& word, Index count) {
  const Index first = chain_.size();
  for (const Index token : word) chain_.add(token, chain_.size() == first);
  weights_.resize(static_cast<std::size_t>(chain_.size()), count);
  for (Index at = first; at < chain_.size(); ++at) change(at, 1);
}

bool PairLearner::join_next() {
  while (!queue_.empty()) {
    const Candidate best = queue_.top();
    queue_.pop();
    const Index count = pairs_[best.pair].count;
    if (count == best.count) {
      join_all(best.pair);
      return true;
    }
    // The count has fallen since; a risen count would have been queued again and come first.
    if (count < best.count && count > 1) queue_.push({count, best.pair});
  }
  return false;
}

bool PairLearner::Later::operator()(const Candidate& a, const Candidate& b) const {
  if (a.count != b.count) return a.count < b.count;
  const auto name = [&](Index n) -> const std::string& {
    return symbols[static_cast<std::size_t>(n)];
  };
  const int left = name(a.pair.left).compare(name(b.pair.left));
  return left != 0 ? left > 0 : name(a.pair.right) > name(b.pair.right);
}

void PairLearner::change(Index at, Index sign) {
  const std::optional<Merge> pair = chain_.pair(at);
  if (!pair) return;
  Occurrences& found = pairs_[*pair];
  found.count += sign * weights_[static_cast<std::size_t>(at)];
  if (sign < 0) return;
  found.places.push_back(at);
  if (found.count > 1) queue_.push({found.count, *pair});
}

// The joined symbol is new: all earlier merges have been made here, and one to the same bytes would
// have joined this pair, too.
void PairLearner::join_all(const Merge& pair) {
  const auto name = [&](Index n) { return symbols_[static_cast<std::size_t>(n)]; };
  const Index joined = std::ssize(symbols_);
  symbols_.push_back(name(pair.left) + name(pair.right));
  merges_.push_back(pair);
  // In order where it matters, as "aaa" becomes "aa", "a": equal symbols were made in one pass
  // from left to right.
  std::vector<Index> places;
  places.swap(pairs_[pair].places);
  for (const Index at : places) {
    if (chain_.pair(at) != pair) continue;
    change(chain_.before(at), -1);
    change(at, -1);
    change(chain_.after(at), -1);
    chain_.join(at, joined);
    change(chain_.before(at), 1);
    change(at, 1);
  }
}

}  // namespace attn::train
