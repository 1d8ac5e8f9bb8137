#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <utility>
#include <vector>

#include "tensor/shape.hpp"

namespace attn {

/// What the heads of a batch share: a list of keys is wanted, and equal keys get the same Thing. A
/// Thing that the next batch wants, too, is kept; a new key gets a Thing that is no longer wanted,
/// whose memory it can use again. Key has operator<=>, Thing can be moved without exceptions. Lists
/// that are no longer than those before allocate nothing here.
template <class Key, class Thing>
class SharedParts {
 public:
  struct Part {
    Key key;
    Index wanted_by = 0;  ///< the position in the list of the first that wants the key
    Thing thing;
    bool is_new = true;  ///< whether the batch before did not want it; for the owner to clear
  };

  /// Begins a list.
  void start() { wanted_.clear(); }

  /// Appends a key. The position in the list is that of the call.
  void want(const Key& key) { wanted_.push_back(key); }

  /// The length of the list so far.
  Index count() const { return std::ssize(wanted_); }

  /// Ends the list: makes parts() from it, and drops what it does not want.
  void settle() {
    sort();
    mark_wanted();
    // From here on nothing throws.
    auto known = parts_.begin();
    auto unwanted = parts_.begin();
    for (const std::uint32_t n : order_) {
      const Key& key = wanted_[n];
      if (next_.empty() || next_.back().key != key) {
        while (known != parts_.end() && known->key < key) ++known;
        if (known != parts_.end() && known->key == key) {
          next_.push_back(std::move(*known));
        } else {
          while (unwanted != parts_.end() && unwanted->wanted_by >= 0) ++unwanted;
          const bool left = unwanted != parts_.end();
          next_.push_back({key, 0, left ? std::move((unwanted++)->thing) : Thing(), true});
        }
        next_.back().wanted_by = n;
      }
      part_of_[n] = static_cast<std::uint32_t>(next_.size() - 1);
    }
    parts_.swap(next_);
    next_.clear();
  }

  /// In the order of their keys.
  std::vector<Part>& parts() { return parts_; }

  /// What the n-th of the list wants.
  const Thing& of(Index n) const { return parts_[part_of_[static_cast<std::size_t>(n)]].thing; }

  /// The most bytes that `count` keys take, Things and what these point to not included.
  static std::int64_t bytes(Index count) {
    const std::size_t each = sizeof(Key) + 2 * sizeof(std::uint32_t) + 2 * sizeof(Part);
    return count * static_cast<std::int64_t>(each);
  }

 private:
  // Throws std::length_error for a list that is too long.
  void sort() {
    if (wanted_.size() > std::numeric_limits<std::uint32_t>::max()) {
      throw std::length_error("too many heads in a batch");
    }
    order_.resize(wanted_.size());
    for (std::size_t n = 0; n < order_.size(); ++n) order_[n] = static_cast<std::uint32_t>(n);
    std::sort(order_.begin(), order_.end(), [&](std::uint32_t a, std::uint32_t b) {
      return wanted_[a] != wanted_[b] ? wanted_[a] < wanted_[b] : a < b;
    });
    part_of_.resize(wanted_.size());
  }

  // Sets wanted_by of the parts that are not wanted to -1, and makes room for the next ones.
  void mark_wanted() {
    for (Part& part : parts_) part.wanted_by = -1;
    auto known = parts_.begin();
    const Key* last = nullptr;
    std::size_t count = 0;
    for (const std::uint32_t n : order_) {
      const Key& key = wanted_[n];
      if (last != nullptr && *last == key) continue;
      last = &key;
      ++count;
      while (known != parts_.end() && known->key < key) ++known;
      if (known != parts_.end() && known->key == key) known->wanted_by = n;
    }
    next_.reserve(count);
  }

  std::vector<Key> wanted_;
  std::vector<std::uint32_t> order_;    // positions in the list, by key
  std::vector<std::uint32_t> part_of_;  // by position in the list
  std::vector<Part> parts_, next_;      // next_: empty between calls, for its memory
};

}  // namespace attn
