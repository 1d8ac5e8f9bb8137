#include "head/bias_sinks.hpp"

#include "gradient/bias_gradient.hpp"

namespace attn {

template <class T>
std::vector<std::unique_ptr<GradientSink<T>>> bias_sinks(const ScoreRecipe& recipe,
                                                         const HeadArrays<T>& head,
                                                         MatrixView<T> bias,
                                                         MatrixView<T> relative_bias) {
  std::vector<std::unique_ptr<GradientSink<T>>> sinks;
  if (bias.data != nullptr) sinks.push_back(make_bias_gradient<T>(head.queries, head.keys, bias));
  if (relative_bias.data == nullptr) return sinks;
  BucketRule rule;
  rule.bidirectional = !recipe.causal;
  rule.buckets = relative_bias.rows;
  set_to_zero(relative_bias);
  const MatrixView<T> column(relative_bias.data + head.problem % relative_bias.cols,
                             relative_bias.rows, 1, relative_bias.cols);
  sinks.push_back(make_t5_gradient<T>(head.queries, head.keys, head.offset, rule, column));
  return sinks;
}

#define ATTN_FOR_TYPE(T)                                             \
  template std::vector<std::unique_ptr<GradientSink<T>>> bias_sinks( \
      const ScoreRecipe&, const HeadArrays<T>&, MatrixView<T>, MatrixView<T>);
ATTN_FOR_TYPE(float)
ATTN_FOR_TYPE(double)
#undef ATTN_FOR_TYPE

}  // namespace attn
