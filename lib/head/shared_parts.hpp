#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "tensor/shape.hpp"

namespace attn {

/// What the heads of a batch share: a list of keys is wanted, and equal keys get the same Thing. A
/// Thing that the next batch wants, too, is kept. Key has operator<=>, Thing can be moved. A batch
/// that wants the same list as the one before allocates nothing.
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
    if (wanted_ == settled_) return;
    settled_.clear();  // in case of an exception
    order_.resize(wanted_.size());
    for (std::size_t n = 0; n < order_.size(); ++n) order_[n] = n;
    std::sort(order_.begin(), order_.end(), [&](std::size_t a, std::size_t b) {
      return wanted_[a] != wanted_[b] ? wanted_[a] < wanted_[b] : a < b;
    });
    part_of_.resize(wanted_.size());
    std::vector<Part> parts;
    auto before = parts_.begin();
    for (const std::size_t n : order_) {
      const Key& key = wanted_[n];
      if (parts.empty() || parts.back().key != key) {
        while (before != parts_.end() && before->key < key) ++before;
        const bool known = before != parts_.end() && before->key == key;
        parts.push_back(known ? std::move(*before) : Part{key, 0, Thing(), true});
        parts.back().wanted_by = static_cast<Index>(n);
      }
      part_of_[n] = parts.size() - 1;
    }
    parts_ = std::move(parts);
    settled_ = wanted_;
  }

  /// In the order of their keys.
  std::vector<Part>& parts() { return parts_; }

  /// What the n-th of the list wants.
  const Thing& of(Index n) const { return parts_[part_of_[static_cast<std::size_t>(n)]].thing; }
  Part& part_of(Index n) { return parts_[part_of_[static_cast<std::size_t>(n)]]; }

 private:
  std::vector<Key> wanted_, settled_;  // settled_: the list that parts_ were made from
  std::vector<std::size_t> order_;
  std::vector<std::size_t> part_of_;  // by position in the list
  std::vector<Part> parts_;
};

}  // namespace attn
