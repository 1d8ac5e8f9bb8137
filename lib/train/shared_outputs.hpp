#pragma once

#include <functional>
#include <span>
#include <vector>

#include "parallel/parallel_for.hpp"
#include "parallel/rank_share.hpp"

namespace attn::train {

/// The outputs [0, count), of any lengths, each computed by one thread of one rank: output(n,
/// worker). All ranks return all outputs. Errors are handled as in parallel_for.
template <class Output>
std::vector<std::vector<Index>> shared_outputs(Index count, int threads, const Output& output) {
  const RankShare share(count, Ranks::current());
  std::vector<std::vector<Index>> outputs(static_cast<std::size_t>(count));
  parallel_for(share.own_count(), threads, [&](Index k, int worker) {
    const Index n = share.own_item(k);
    outputs[static_cast<std::size_t>(n)] = output(n, worker);
  });
  if (!share.divided()) return outputs;
  std::vector<Index> lengths;
  for (const std::vector<Index>& one : outputs) lengths.push_back(std::ssize(one));
  share.complete_numbers(std::span(lengths), [](Index n) { return n; });
  for (std::size_t n = 0; n < lengths.size(); ++n) {
    outputs[n].resize(static_cast<std::size_t>(lengths[n]));
  }
  share.complete([&](Index n, const RankShare::Visit& visit) {
    visit(std::as_writable_bytes(std::span(outputs[static_cast<std::size_t>(n)])));
  });
  return outputs;
}

}  // namespace attn::train
