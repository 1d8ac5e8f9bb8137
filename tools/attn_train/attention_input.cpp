#include "attn_train/attention_input.hpp"

#include <algorithm>

#include "attn_train/run_tensors.hpp"

namespace attn::tools {

template <class T>
void AttentionInput<T>::Side::add(const train::Sequences& added, MatrixView<const T> rows) {
  width = rows.cols;
  for (Index n = 0; n < added.count; ++n) {
    const Index own = added.lengths == nullptr ? added.length : added.lengths[n];
    const T* const first = rows.row(n * added.length);
    sequences.emplace_back(first, first + own * width);
  }
}

template <class T>
void AttentionInput<T>::Side::write(const char* name, io::OutputBundle& group) const {
  std::size_t most = 0;
  for (const std::vector<T>& one : sequences) most = std::max(most, one.size());
  std::vector<T> all;
  for (const std::vector<T>& one : sequences) {
    all.insert(all.end(), one.begin(), one.end());
    all.resize(all.size() + most - one.size(), T{0});
  }
  const Shape shape = {std::ssize(sequences), static_cast<Index>(most) / width, width};
  group.create(name, dtype_of<T>(), shape, {"sequence", "position", "channel"})
      .write({0, 0, 0}, shape, all.data());
}

template <class T>
void AttentionInput<T>::Side::write_lengths(const char* name, io::OutputBundle& group) const {
  std::vector<std::int64_t> lengths;
  for (const std::vector<T>& one : sequences) lengths.push_back(std::ssize(one) / width);
  if (std::all_of(lengths.begin(), lengths.end(), [&](auto n) { return n == lengths.front(); })) {
    return;
  }
  const Index count = std::ssize(lengths);
  group.create(name, DType::i64, {count}, {"sequence"}).write({0}, {count}, lengths.data());
}

template <class T>
void AttentionInput<T>::add(const train::AttentionSite<T>& site) {
  queries_.add(site.queries, site.x);
  crosses_ = site.x.data != site.y.data;
  keys_.add(site.keys, site.y);
}

template <class T>
void AttentionInput<T>::write(io::OutputBundle& group) const {
  queries_.write("x", group);
  if (crosses_) keys_.write("y", group);
  queries_.write_lengths("query_length", group);
  keys_.write_lengths("key_length", group);
}

template class AttentionInput<float>;
template class AttentionInput<double>;

}  // namespace attn::tools
