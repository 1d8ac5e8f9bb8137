#include "common/divided_small.hpp"

#include "kernel/ranks.hpp"
#include "pass/output.hpp"
#include "plan/output_gate.hpp"
#include "stats/observers.hpp"

namespace attn::tools {
namespace {

template <class T>
class Rows {
 public:
  Rows(bool wanted, Index rows, Index cols)
      : storage_(wanted ? rows * cols : 0), view_(wanted ? storage_.data() : nullptr, rows, cols) {}

  MatrixView<T> view() const { return view_; }
  void show(const ShowRows<T>& to) const {
    if (view_.data != nullptr) to({0, 0, view_.rows, view_.data});
  }

 private:
  Buffer<T> storage_;
  MatrixView<T> view_;
};

}  // namespace

template <class T>
DividedHead compute_small(const AttentionInput& input, const DividedWants& wants,
                          const Head<T>& head, const ShownRows<T>& show) {
  const Index queries = head.part.queries();
  const Index keys = head.part.keys();
  const Rows<T> out(true, queries, input.v_head_dim);
  const Rows<T> grad_q(wants.grad_q, queries, input.depth);
  const Rows<T> grad_k(wants.grad_k, keys, input.depth);
  const Rows<T> grad_v(wants.grad_v, keys, input.v_head_dim);
  const Rows<T> grad_gate(wants.grad_gate, input.has_gate_by_query() ? queries : 1,
                          input.gate ? input.gate->cols : 0);
  const Rows<T> grad_sink(wants.grad_sink, 1, 1);
  HeadGradientTargets<T> targets;
  targets.q = grad_q.view();
  targets.k = grad_k.view();
  targets.v = grad_v.view();
  targets.gate = grad_gate.view();
  targets.sink = grad_sink.view().data;
  DividedHead found;
  found.least_bias = head.least_bias();
  naming([&] { return input.place(head.problem); },
         [&, rows = out.view()] {
           const kernel::Ranks::Use alone(nullptr);
           Output<T> output(head.v(), rows);
           ColumnSums<T> sums;
           RowEntropy<T> entropy;
           const ScoreRecipe recipe = input.recipe(wants.scheme);
           HeadForward<T> forward;
           forward.recipe = &recipe;
           forward.arrays = &head.arrays();
           forward.scores = &head.scores(wants.scheme);
           forward.options.scheme = wants.scheme;
           forward.options.sink = input.sink_of(head.problem);
           forward.options.hybrid = wants.hybrid_of(head.problem);
           // Others would make another pass, with other bits.
           ObserverList<T> observers = {&output};
           if (wants.col_sum) observers.push_back(&sums);
           if (wants.row_entropy) observers.push_back(&entropy);
           found.attention = attend<T>(*forward.scores, forward.options, observers, 1);
           if (wants.col_sum) found.col_sum = sums.values();
           if (wants.row_entropy) found.row_entropy = entropy.values();
           forward.attention = &found.attention;
           forward.out = rows;
           forward.grad_out = head.grad_out();
           differentiate_head(forward, targets, 1);
           if (input.gate) apply_gate<T>(*head.arrays().gate, rows);
         });
  if (wants.out) out.show(show.out);
  grad_q.show(show.grad_q);
  grad_k.show(show.grad_k);
  grad_v.show(show.grad_v);
  grad_sink.show(show.grad_sink);
  grad_gate.show(show.grad_gate);
  return found;
}

#define ATTN_FOR_TYPE(T)                                                                         \
  template DividedHead compute_small(const AttentionInput&, const DividedWants&, const Head<T>&, \
                                     const ShownRows<T>&);
ATTN_FOR_TYPE(float)
ATTN_FOR_TYPE(double)
#undef ATTN_FOR_TYPE

}  // namespace attn::tools
