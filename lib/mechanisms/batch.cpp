#include "mechanisms/batch.hpp"

#include <algorithm>

#include "parallel/parallel_for.hpp"
#include "tensor/buffer.hpp"
#include "tensor/shape.hpp"

namespace attn::mechanisms {
namespace {

// Copies the corner of lengths `part` from one array to another.
template <class T>
void copy_corner(const T* from, const Shape& from_shape, T* to, const Shape& to_shape,
                 const Shape& part, std::size_t axis = 0) {
  if (axis == part.size()) {
    *to = *from;
    return;
  }
  if (axis + 1 == part.size()) {
    std::copy_n(from, part[axis], to);
    return;
  }
  const Index from_step = element_count(Shape(from_shape.begin() + axis + 1, from_shape.end()));
  const Index to_step = element_count(Shape(to_shape.begin() + axis + 1, to_shape.end()));
  for (Index n = 0; n < part[axis]; ++n) {
    copy_corner(from + n * from_step, from_shape, to + n * to_step, to_shape, part, axis + 1);
  }
}

// One sequence's own part of arrays of the batch, copied only if padding interrupts it.
template <class T>
class Own {
 public:
  Own(const std::vector<TensorForm>& forms, const Sizes& padded, const Sizes& own)
      : forms_(forms), padded_(padded), own_(own), copies_(forms.size()) {}

  // The own parts of arrays to read. A shared array is whole.
  template <class Element>
  Tensors<const Element> read(const Tensors<const Element>& arrays, Index sequence) {
    Tensors<const Element> made;
    for (std::size_t n = 0; n < arrays.size(); ++n) {
      made.emplace_back();
      if (!arrays[n]) continue;
      const Shape own = shape_of(forms_[n].axes, own_);
      const Shape padded = shape_of(forms_[n].axes, padded_);
      const bool shared = forms_[n].kind == TensorForm::Kind::shared;
      const Element* const data = arrays[n].data + (shared ? 0 : sequence * element_count(padded));
      if (shared || lies_together(own, padded)) {
        made[n] = {data, own};
      } else {
        copies_[n] = Buffer<T>(std::max<Index>(1, element_count(own)));
        copy_corner<Element>(data, padded, copies_[n].data(), own, own);
        made[n] = {copies_[n].data(), own};
      }
    }
    return made;
  }

  // Where to write: into the batch, or into a copy.
  Tensors<T> write(const Tensors<T>& arrays, Index sequence) {
    Tensors<T> made;
    for (std::size_t n = 0; n < arrays.size(); ++n) {
      made.emplace_back();
      if (!arrays[n]) continue;
      const Shape own = shape_of(forms_[n].axes, own_);
      const Shape padded = shape_of(forms_[n].axes, padded_);
      if (forms_[n].kind == TensorForm::Kind::sequence && own == padded) {
        made[n] = {arrays[n].data + sequence * element_count(padded), own};
      } else {
        copies_[n] = Buffer<T>(std::max<Index>(1, element_count(own)));
        made[n] = {copies_[n].data(), own};
      }
    }
    return made;
  }

  // Moves copies into the batch and fills the padding; copies of shared arrays are added to `sums`.
  void finish(const Tensors<T>& arrays, Index sequence, std::vector<std::vector<double>>* sums) {
    for (std::size_t n = 0; n < arrays.size(); ++n) {
      if (!arrays[n] || copies_[n].data() == nullptr) continue;
      const Shape own = shape_of(forms_[n].axes, own_);
      if (forms_[n].kind == TensorForm::Kind::shared) {
        std::vector<double>& sum = (*sums)[n];
        for (std::size_t i = 0; i < sum.size(); ++i) {
          sum[i] += static_cast<double>(copies_[n][static_cast<Index>(i)]);
        }
        continue;
      }
      const Shape padded = shape_of(forms_[n].axes, padded_);
      T* const data = arrays[n].data + sequence * element_count(padded);
      std::fill_n(data, element_count(padded), static_cast<T>(forms_[n].padding));
      copy_corner<T>(copies_[n].data(), own, data, padded, own);
    }
  }

 private:
  // Whether the own part is a beginning of the padded array.
  static bool lies_together(const Shape& own, const Shape& padded) {
    return own.empty() || std::equal(own.begin() + 1, own.end(), padded.begin() + 1);
  }

  const std::vector<TensorForm>& forms_;
  const Sizes& padded_;
  const Sizes& own_;
  std::vector<Buffer<T>> copies_;
};

template <class T>
Sizes own_sizes(const MechanismForm& form, const Batch<T>& batch, Index sequence) {
  Sizes own = batch.sizes;
  for (std::size_t n = 0; n < form.lengths.size() && n < batch.lengths.size(); ++n) {
    if (batch.lengths[n]) own[form.lengths[n].symbol] = batch.lengths[n].data[sequence];
  }
  return own;
}

}  // namespace

template <class T>
void for_sequences(const MechanismForm& form, const Batch<T>& batch, int threads,
                   const std::function<void(Index, const Sequence<T>&)>& use) {
  parallel_for(batch.count, threads, [&](Index sequence, int /*worker*/) {
    const Sizes sizes = own_sizes(form, batch, sequence);
    Own<T> inputs(form.inputs, batch.sizes, sizes);
    Own<Index> tokens(form.tokens, batch.sizes, sizes);
    use(sequence, {inputs.read(batch.inputs, sequence), tokens.read(batch.tokens, sequence)});
  });
}

template <class T>
void forward(const Mechanism<T>& mechanism, const Batch<T>& batch, const Tensors<T>& results,
             int threads) {
  const MechanismForm& form = mechanism.form();
  const int inner = batch.count >= threads ? 1 : threads;
  parallel_for(batch.count, inner == 1 ? threads : 1, [&](Index sequence, int /*worker*/) {
    const Sizes sizes = own_sizes(form, batch, sequence);
    Own<T> inputs(form.inputs, batch.sizes, sizes);
    Own<Index> tokens(form.tokens, batch.sizes, sizes);
    Own<T> made(form.results, batch.sizes, sizes);
    mechanism.forward({inputs.read(batch.inputs, sequence), tokens.read(batch.tokens, sequence)},
                      made.write(results, sequence), inner);
    made.finish(results, sequence, nullptr);
  });
}

template <class T>
BatchGradients<T>::BatchGradients(const Mechanism<T>& mechanism, Index count)
    : mechanism_(mechanism), sums_(static_cast<std::size_t>(std::min(most_parts, count))) {}

template <class T>
void BatchGradients<T>::add(const Batch<T>& piece, Index first,
                            const Tensors<const T>& grad_results, const Tensors<T>& gradients,
                            int threads) {
  const MechanismForm& form = mechanism_.form();
  const Index parts = std::ssize(sums_);
  const int inner = std::min(parts, piece.count) >= threads ? 1 : threads;
  parallel_for(parts, inner == 1 ? threads : 1, [&](Index part, int /*worker*/) {
    auto& sums = sums_[static_cast<std::size_t>(part)];
    sums.resize(gradients.size());
    for (std::size_t n = 0; n < gradients.size(); ++n) {
      if (!gradients[n] || form.inputs[n].kind != TensorForm::Kind::shared) continue;
      sums[n].resize(static_cast<std::size_t>(element_count(gradients[n].shape)));
    }
    // The first sequence of this part in the piece.
    const Index begin = (part - first % parts + parts) % parts;
    for (Index sequence = begin; sequence < piece.count; sequence += parts) {
      const Sizes sizes = own_sizes(form, piece, sequence);
      Own<T> inputs(form.inputs, piece.sizes, sizes);
      Own<Index> tokens(form.tokens, piece.sizes, sizes);
      Own<T> upstream(form.results, piece.sizes, sizes);
      Own<T> made(form.inputs, piece.sizes, sizes);
      mechanism_.backward(
          {inputs.read(piece.inputs, sequence), tokens.read(piece.tokens, sequence)},
          upstream.read(grad_results, sequence), made.write(gradients, sequence), inner);
      made.finish(gradients, sequence, &sums);
    }
  });
}

template <class T>
void BatchGradients<T>::finish(const Tensors<T>& gradients) const {
  for (std::size_t n = 0; n < gradients.size(); ++n) {
    if (!gradients[n] || mechanism_.form().inputs[n].kind != TensorForm::Kind::shared) continue;
    for (Index i = 0; i < element_count(gradients[n].shape); ++i) {
      double total = 0;
      for (const auto& sums : sums_) {
        if (n < sums.size() && !sums[n].empty()) total += sums[n][static_cast<std::size_t>(i)];
      }
      gradients[n].data[i] = static_cast<T>(total);
    }
  }
}

template <class T>
void backward(const Mechanism<T>& mechanism, const Batch<T>& batch,
              const Tensors<const T>& grad_results, const Tensors<T>& gradients, int threads) {
  BatchGradients<T> all(mechanism, batch.count);
  all.add(batch, 0, grad_results, gradients, threads);
  all.finish(gradients);
}

std::int64_t gradient_sums_bytes(const MechanismForm& form, const Sizes& sizes, Index count) {
  Index shared = 0;
  for (const TensorForm& input : form.inputs) {
    if (input.kind != TensorForm::Kind::shared || !is_known(input.axes, sizes)) continue;
    shared += element_count(shape_of(input.axes, sizes));
  }
  return std::min(most_parts, count) * shared * static_cast<std::int64_t>(sizeof(double));
}

template <class T>
std::int64_t batch_bytes(const Mechanism<T>& mechanism, const Sizes& sizes,
                         const std::vector<bool>& results, Index count, bool gradients,
                         int threads) {
  const MechanismForm& form = mechanism.form();
  const Index parts = std::min(most_parts, count);
  const Index at_once = std::min<Index>(threads, gradients ? parts : count);
  std::int64_t own = mechanism.working_bytes(sizes, gradients);
  for (const TensorForm& input : form.inputs) {
    if (!is_known(input.axes, sizes)) continue;  // absent
    const Index size = element_count(shape_of(input.axes, sizes));
    own += (gradients ? 2 : 1) * size * static_cast<std::int64_t>(sizeof(T));
  }
  for (std::size_t n = 0; n < form.results.size(); ++n) {
    if (!results[n]) continue;
    own +=
        element_count(shape_of(form.results[n].axes, sizes)) * static_cast<std::int64_t>(sizeof(T));
  }
  return at_once * own + (gradients ? gradient_sums_bytes(form, sizes, count) : 0);
}

#define ATTN_BATCH(T)                                                                            \
  template void for_sequences(const MechanismForm&, const Batch<T>&, int,                        \
                              const std::function<void(Index, const Sequence<T>&)>&);            \
  template void forward(const Mechanism<T>&, const Batch<T>&, const Tensors<T>&, int);           \
  template class BatchGradients<T>;                                                              \
  template void backward(const Mechanism<T>&, const Batch<T>&, const Tensors<const T>&,          \
                         const Tensors<T>&, int);                                                \
  template std::int64_t batch_bytes(const Mechanism<T>&, const Sizes&, const std::vector<bool>&, \
                                    Index, bool, int);
ATTN_BATCH(float)
ATTN_BATCH(double)
#undef ATTN_BATCH

}  // namespace attn::mechanisms
