#include "train/multi_view_attention.hpp"

#include <utility>

#include "kernel/product.hpp"
#include "train/heads.hpp"

namespace attn::train {
namespace {

HeadAttentionOptions view_head_options(const MultiViewOptions& options) {
  return {.scheme = options.scheme,
          .heads = options.heads,
          .depth = depth_of_heads(options.width, options.heads),
          .first_share = options.first_share,
          .constant_values = true};
}

}  // namespace

MultiViewAttention::MultiViewAttention(Parameters& parameters, const std::string& prefix,
                                       const MultiViewOptions& options, std::uint32_t place)
    : options_(options),
      wq_(parameters.add_matrix(prefix + "wq", options.width, options.width, options.deviation)) {
  if (options.views < 2) {
    throw Error(Failure::usage, "multi-view attention has " + std::to_string(options.views) +
                                    " views, at least 2 are needed");
  }
  for (Index v = 1; v < options.views; ++v) {
    wk_.push_back(parameters.add_matrix(prefix + "wk" + std::to_string(v), options.width,
                                        options.width, options.deviation));
  }
  const HeadAttention first(parameters, prefix, view_head_options(options), place);
  for (std::uint32_t v = 0; v < wk_.size(); ++v) heads_.push_back(first.with_place(place + v));
}

template <class T>
OwnedMatrix<T> MultiViewAttention::forward(const Slot<T>& slot, const std::vector<View<T>>& views,
                                           Kept<T>& kept) const {
  const Index heads = options_.heads;
  const Index depth = options_.depth();
  const View<T>& primary = views.front();
  const auto projected_heads = [&](const MatrixPlace& place, const View<T>& view) {
    OwnedMatrix<T> made(view.rows.rows, place.rows);
    kernel::multiply_transposed(view.rows, place.in(slot.weights), made.view());
    return split_heads(std::as_const(made).view(), 0, view.sequences, heads, depth);
  };
  const OwnedMatrix<T> q = projected_heads(wq_, primary);
  OwnedMatrix<T> sum = OwnedMatrix<T>::zeros(primary.rows.rows, options_.width);
  OwnedMatrix<T> gathered(primary.rows.rows, options_.width);
  kept.views.resize(wk_.size());
  for (std::size_t v = 0; v < wk_.size(); ++v) {
    const View<T>& view = views[v + 1];
    HeadAttention::Kept<T>& one = kept.views[v];
    one.q = OwnedMatrix<T>::copy_of(q);
    one.k = projected_heads(wk_[v], view);
    one.v = split_heads(view.rows, 0, view.sequences, heads, depth);
    heads_[v].forward(slot, primary.sequences, view.sequences, one);
    join_heads(one.out, gathered.view(), 0, primary.sequences, heads, depth);
    add_to(sum, std::as_const(gathered).view());
  }
  return sum;
}

template <class T>
void MultiViewAttention::backward(const Slot<T>& slot, const std::vector<View<T>>& views,
                                  const Kept<T>& kept, MatrixView<const T> dout) const {
  const Index heads = options_.heads;
  const Index depth = options_.depth();
  const View<T>& primary = views.front();
  const auto back = [&](const OwnedMatrix<T>& above, const MatrixPlace& place,
                        const View<T>& view) {
    OwnedMatrix<T> joined(view.rows.rows, options_.width);
    join_heads(above, joined.view(), 0, view.sequences, heads, depth);
    kernel::transposed_product(std::as_const(joined).view(), view.rows, place.in(slot.gradients));
  };
  const OwnedMatrix<T> grad_out = split_heads(dout, 0, primary.sequences, heads, depth);
  OwnedMatrix<T> dq = OwnedMatrix<T>::zeros(grad_out.rows(), grad_out.cols());
  for (std::size_t v = 0; v < wk_.size(); ++v) {
    const HeadAttention::Gradients<T> d = heads_[v].backward(
        slot, primary.sequences, views[v + 1].sequences, kept.views[v], grad_out, v > 0);
    add_to(dq, d.q.view());
    back(d.k, wk_[v], views[v + 1]);
  }
  back(dq, wq_, primary);
}

template <class T>
std::vector<std::vector<double>> MultiViewAttention::column_sums(const Slot<T>& slot,
                                                                 const std::vector<View<T>>& views,
                                                                 const Kept<T>& kept) const {
  std::vector<std::vector<double>> found(wk_.size());
  for (std::size_t v = 0; v < wk_.size(); ++v) {
    const Sequences& boxes = views[v + 1].sequences;
    const OwnedMatrix<double> sums =
        heads_[v].column_sums(slot, views.front().sequences, boxes, kept.views[v]);
    for (Index b = 0; b < boxes.count; ++b) {
      const Index own = boxes.lengths == nullptr ? boxes.length : boxes.lengths[b];
      for (Index h = 0; h < options_.heads; ++h) {
        const double* const first = sums.data() + (b * options_.heads + h) * boxes.length;
        found[v].insert(found[v].end(), first, first + own);
      }
    }
  }
  return found;
}

template <class T>
PassBytes MultiViewAttention::bytes(const Sequences& boxes) const {
  const std::int64_t all = row_bytes<T>(boxes.rows(), options_.width);
  const PassBytes one = heads_.front().bytes<T>(boxes, boxes);
  return {std::ssize(heads_) * one.kept, 4 * all + one.forward, 3 * all + one.backward};
}

#define ATTN_MULTI_VIEW_ATTENTION(T)                                                               \
  template OwnedMatrix<T> MultiViewAttention::forward(const Slot<T>&, const std::vector<View<T>>&, \
                                                      Kept<T>&) const;                             \
  template void MultiViewAttention::backward(const Slot<T>&, const std::vector<View<T>>&,          \
                                             const Kept<T>&, MatrixView<const T>) const;           \
  template PassBytes MultiViewAttention::bytes<T>(const Sequences&) const;                         \
  template std::vector<std::vector<double>> MultiViewAttention::column_sums(                       \
      const Slot<T>&, const std::vector<View<T>>&, const Kept<T>&) const;
ATTN_MULTI_VIEW_ATTENTION(float)
ATTN_MULTI_VIEW_ATTENTION(double)
#undef ATTN_MULTI_VIEW_ATTENTION

}  // namespace attn::train
