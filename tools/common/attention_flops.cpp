// What the scores of an input cost, for --dry-run.

#include "common/attention_input.hpp"
#include "score/band.hpp"

namespace attn::tools {

double AttentionInput::pairs() const {
  const auto left = [&](std::optional<Index> length) {
    const Band band(queries, keys, causal, options.window, length);
    double count = 0;
    for (Index row = 0; row < queries; ++row) {
      count += static_cast<double>(band.end(row) - band.begin(row));
    }
    return count;
  };
  if (key_length.empty()) return static_cast<double>(problems) * left(std::nullopt);
  double count = 0;
  double same = 0;  // of the problem before: the heads of a batch share their length
  for (std::size_t n = 0; n < key_length.size(); ++n) {
    if (n == 0 || key_length[n] != key_length[n - 1]) same = left(key_length[n]);
    count += same;
  }
  return count;
}

double AttentionInput::score_flops(Scheme scheme, double passes) const {
  if (!q) return 0;
  const auto heads = static_cast<double>(problems);
  const auto product = [](Index rows, Index inner, Index cols) {
    return 2 * static_cast<double>(rows) * static_cast<double>(inner) * static_cast<double>(cols);
  };
  double before = 0;
  for (const auto* vectors : {&q, &k, &v}) {
    if (!*vectors || !(*vectors)->weights) continue;
    before += product((*vectors)->rows, (*vectors)->weights->rows, (*vectors)->cols);
  }
  double per_pair = 2 * static_cast<double>(q->cols);
  switch (options.energy_of(scheme)) {
    case ScoreOptions::Energy::dot:
    case ScoreOptions::Energy::scaled_dot:
    case ScoreOptions::Energy::gaussian:
      break;
    case ScoreOptions::Energy::bilinear: {
      // make_bilinear_energy takes the cheaper way, by one pass.
      const auto work = [&](Index projected, Index width) {
        return product(projected, q->cols, k->cols) + product(queries, keys, width);
      };
      const bool of_queries = work(queries, k->cols) <= work(keys, q->cols);
      before += product(of_queries ? queries : keys, q->cols, k->cols);
      per_pair = 2 * static_cast<double>(of_queries ? k->cols : q->cols);
      break;
    }
    case ScoreOptions::Energy::mlp:
      before += product(queries, q->cols, w1->rows) + product(keys, k->cols, w1->rows);
      per_pair = 4 * static_cast<double>(w1->rows);  // a sum, a tanh, a product, a sum
      break;
  }
  return heads * before + passes * pairs() * per_pair;
}

}  // namespace attn::tools
