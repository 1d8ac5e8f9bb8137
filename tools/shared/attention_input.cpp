#include "shared/attention_input.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "tensor/error.hpp"

namespace attn::tools {
namespace {

std::string axes_text(const io::InputDataset& dataset) {
  return dataset.address() + " has shape " + to_string(dataset.shape());
}

void require_floating(const io::InputDataset& dataset) {
  if (is_floating(dataset.dtype())) return;
  throw Error(Failure::input, fmt::format("{} has type {}, expected float16, float32 or float64",
                                          dataset.address(), name(dataset.dtype())));
}

// q, k or v: at least two axes, none empty.
void require_vectors(const io::InputDataset& dataset, const char* expected) {
  require_floating(dataset);
  const Shape& shape = dataset.shape();
  if (shape.size() < 2) {
    throw Error(Failure::input, axes_text(dataset) + ", expected " + expected);
  }
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) {
    throw Error(Failure::input, axes_text(dataset) + ": an axis is empty");
  }
}

Operand vectors_operand(const io::InputDataset& dataset, const Shape& leading, bool grouped) {
  const Shape& shape = dataset.shape();
  const Shape own = leading_axes(shape, 2);
  return Operand{dataset, own, shape[shape.size() - 2], shape.back(),
                 LeadingMap(leading, own, grouped, dataset.address())};
}

// Where element `flat` of the block that starts at `start` lies in the dataset.
std::string element_text(const Shape& start, const Shape& count, Index flat) {
  Shape index = unravel(flat, count);
  for (std::size_t axis = 0; axis < index.size(); ++axis) index[axis] += start[axis];
  return fmt::format("[{}]", fmt::join(index, ", "));
}

template <class T>
[[noreturn]] void refuse_element(const io::InputDataset& dataset, const Shape& start,
                                 const Shape& count, Index flat, T value, const char* expected) {
  if (std::isinf(value) && dataset.dtype() == DType::f64 && sizeof(T) == sizeof(float)) {
    Shape at = unravel(flat, count);
    for (std::size_t axis = 0; axis < at.size(); ++axis) at[axis] += start[axis];
    double stored = 0;
    dataset.read(at, Shape(at.size(), 1), &stored);
    if (std::isfinite(stored)) {
      throw Error(Failure::numerical,
                  fmt::format("{} has {} at {}, which is beyond float32", dataset.address(), stored,
                              element_text(start, count, flat)),
                  "--precision f64");
    }
  }
  throw Error(Failure::input, fmt::format("{} has {} at {}, expected {}", dataset.address(),
                                          std::isnan(value) ? "nan" : (value > 0 ? "inf" : "-inf"),
                                          element_text(start, count, flat), expected));
}

template <class T>
void require_finite(const io::InputDataset& dataset, const Shape& start, const Shape& count,
                    const Buffer<T>& values, Index size) {
  for (Index n = 0; n < size; ++n) {
    if (!std::isfinite(values[n])) {
      refuse_element(dataset, start, count, n, values[n], "finite numbers");
    }
  }
}

// The mask's zeros and ones need no look.
void require_scores(const io::InputDataset&, const Shape&, const Shape&, const std::uint8_t*,
                    Index) {}

template <class T>
void require_scores(const io::InputDataset& dataset, const Shape& start, const Shape& count,
                    const T* values, Index size) {
  for (Index n = 0; n < size; ++n) {
    // NaN fails the comparison.
    if (!(values[n] <= std::numeric_limits<T>::max())) {
      refuse_element(dataset, start, count, n, values[n], "finite numbers or -inf");
    }
    // A finite float64 that became −inf on its way to float32 would look like a mask.
    if (sizeof(T) == sizeof(float) && std::isinf(values[n]) && dataset.dtype() == DType::f64) {
      Shape at = unravel(n, count);
      for (std::size_t axis = 0; axis < at.size(); ++axis) at[axis] += start[axis];
      double stored = 0;
      dataset.read(at, Shape(at.size(), 1), &stored);
      if (std::isfinite(stored)) {
        refuse_element(dataset, start, count, n, values[n], "numbers within float32");
      }
    }
  }
}

double largest_finite(const std::uint8_t*, Index) { return 1; }

template <class T>
double largest_finite(const T* values, Index size) {
  double largest = 0;
  for (Index n = 0; n < size; ++n) {
    if (!std::isinf(values[n]))
      largest = std::max(largest, std::abs(static_cast<double>(values[n])));
  }
  return largest;
}

// Start and count of the rows and columns of one block, among the axes the dataset has.
struct BlockAxes {
  Shape start;
  Shape count;
  BlockAxes(const Operand& operand, Index block, Index row0, Index rows, Index col0, Index cols) {
    start = unravel(block, operand.leading);
    count.assign(start.size(), 1);
    const std::size_t own = operand.dataset.shape().size() - operand.leading.size();
    if (own >= 2) {
      start.push_back(row0);
      count.push_back(rows);
    }
    if (own >= 1) {
      start.push_back(col0);
      count.push_back(cols);
    }
  }
};

template <class T>
class HeldMatrix final : public MatrixSource<T> {
 public:
  HeldMatrix(const Operand& operand, Index block) : values_(operand.rows * operand.cols) {
    const BlockAxes axes(operand, block, 0, operand.rows, 0, operand.cols);
    operand.dataset.read(axes.start, axes.count, values_.data());
    require_scores(operand.dataset, axes.start, axes.count, values_.data(), values_.size());
    source_.emplace(values_.data(), operand.rows > 1 ? operand.cols : 0, operand.cols > 1 ? 1 : 0,
                    largest_finite(values_.data(), values_.size()));
  }
  void read(const TileRange& range, MatrixView<T> out) const override { source_->read(range, out); }
  double bound() const override { return source_->bound(); }

 private:
  Buffer<T> values_;
  std::optional<BroadcastMatrix<T>> source_;
};

template <class T>
class TiledMatrix final : public MatrixSource<T> {
 public:
  // Looks at all of it once: what is refused must not depend on which tiles a pass will read.
  TiledMatrix(const Operand& operand, Index block) : operand_(operand), block_(block) {
    constexpr Index rows_at_once = 64;
    Buffer<T> values(std::min(rows_at_once, operand.rows) * operand.cols);
    for (Index row0 = 0; row0 < operand.rows; row0 += rows_at_once) {
      const Index rows = std::min(rows_at_once, operand.rows - row0);
      const BlockAxes axes(operand, block, row0, rows, 0, operand.cols);
      operand.dataset.read(axes.start, axes.count, values.data());
      require_scores(operand.dataset, axes.start, axes.count, values.data(), rows * operand.cols);
      bound_ = std::max(bound_, largest_finite(values.data(), rows * operand.cols));
    }
  }

  void read(const TileRange& range, MatrixView<T> out) const override {
    const Index rows = operand_.rows > 1 ? range.rows : 1;
    const Index cols = operand_.cols > 1 ? range.cols : 1;
    const BlockAxes axes(operand_, block_, operand_.rows > 1 ? range.row0 : 0, rows,
                         operand_.cols > 1 ? range.col0 : 0, cols);
    Buffer<T> values(rows * cols);
    operand_.dataset.read(axes.start, axes.count, values.data());
    require_scores(operand_.dataset, axes.start, axes.count, values.data(), values.size());
    const BroadcastMatrix<T> tile(values.data(), rows > 1 ? cols : 0, cols > 1 ? 1 : 0);
    tile.read(TileRange{0, range.rows, 0, range.cols}, out);
  }
  double bound() const override { return bound_; }

 private:
  const Operand& operand_;
  Index block_;
  double bound_ = 0;
};

template <class T>
std::int64_t matrix_bytes(const Operand& operand) {
  return operand.rows * operand.cols * static_cast<std::int64_t>(sizeof(T));
}

}  // namespace

Operand matrix_operand(const io::InputBundle& bundle, const std::string& name, const Shape& leading,
                       Index rows, Index cols) {
  const io::InputDataset dataset = bundle.dataset(name);
  const Shape& shape = dataset.shape();
  const std::size_t own = std::min<std::size_t>(2, shape.size());
  const Index own_cols = own >= 1 ? shape.back() : 1;
  const Index own_rows = own >= 2 ? shape[shape.size() - 2] : 1;
  if ((own_cols != 1 && own_cols != cols) || (own_rows != 1 && own_rows != rows)) {
    throw Error(Failure::input, axes_text(dataset) + ", expected it to broadcast to " +
                                    to_string(join(leading, {rows, cols})) +
                                    ", (..., queries, keys)");
  }
  const Shape own_leading = leading_axes(shape, own);
  return Operand{dataset, own_leading, own_rows, own_cols,
                 LeadingMap(leading, own_leading, false, dataset.address())};
}

AttentionInput::AttentionInput(const io::InputBundle& bundle, const ScoreOptions& score_options,
                               bool with_values)
    : options(score_options) {
  if (options.source != ScoreOptions::Source::vectors) {
    const bool ready_made = options.source == ScoreOptions::Source::scores;
    const io::InputDataset dataset = bundle.dataset(ready_made ? "scores" : "weights");
    require_vectors(dataset, "(..., queries, keys)");
    const Shape& shape = dataset.shape();
    queries = shape[shape.size() - 2];
    keys = shape.back();
    leading = leading_axes(shape, 2);
    if (ready_made) scores = matrix_operand(bundle, "scores", leading, queries, keys);
  } else {
    const io::InputDataset q_data = bundle.dataset("q");
    const io::InputDataset k_data = bundle.dataset("k");
    require_vectors(q_data, "(..., queries, d)");
    require_vectors(k_data, "(..., keys, d)");
    const Shape& q_shape = q_data.shape();
    const Shape& k_shape = k_data.shape();
    if (q_shape.back() != k_shape.back()) {
      throw Error(Failure::input, fmt::format("{}: last axis is {}, {} has {}", k_data.address(),
                                              k_shape.back(), q_data.address(), q_shape.back()));
    }
    queries = q_shape[q_shape.size() - 2];
    keys = k_shape[k_shape.size() - 2];
    depth = q_shape.back();
    leading = result_axes(leading_axes(q_shape, 2), leading_axes(k_shape, 2), q_data.address(),
                          k_data.address());
    q.emplace(vectors_operand(q_data, leading, false));
    k.emplace(vectors_operand(k_data, leading, true));
  }
  problems = element_count(leading);
  causal = resolve_causal(options, queries, keys);

  if (with_values && bundle.has("v")) {
    const io::InputDataset v_data = bundle.dataset("v");
    require_vectors(v_data, "(..., keys, dv)");
    const Shape& v_shape = v_data.shape();
    if (v_shape[v_shape.size() - 2] != keys) {
      throw Error(
          Failure::input,
          fmt::format("{}: {} keys, {} has {}", v_data.address(), v_shape[v_shape.size() - 2],
                      k ? k->dataset.address() : scores->dataset.address(), keys));
    }
    v.emplace(vectors_operand(v_data, leading, true));
    value_depth = v_shape.back();
  }
  if (bundle.has("mask")) {
    mask.emplace(matrix_operand(bundle, "mask", leading, queries, keys));
    if (!is_integral(mask->dataset.dtype())) {
      throw Error(Failure::input,
                  fmt::format("{} has type {}, expected bool or an integer type",
                              mask->dataset.address(), name(mask->dataset.dtype())),
                  "a mask to be added to the scores is called bias");
    }
  }
  if (bundle.has("bias")) {
    bias.emplace(matrix_operand(bundle, "bias", leading, queries, keys));
    require_floating(bias->dataset);
  }
  for (const auto* operand : {&q, &k, &v, &scores, &bias}) {
    if (*operand && (*operand)->dataset.dtype() == DType::f64) any_float64 = true;
  }
}

std::vector<io::InputDataset> AttentionInput::datasets() const {
  std::vector<io::InputDataset> all;
  for (const auto* operand : {&q, &k, &v, &scores, &mask, &bias}) {
    if (*operand) all.push_back((*operand)->dataset);
  }
  return all;
}

std::int64_t AttentionInput::head_bytes(std::size_t element_size, std::int64_t dense_limit) const {
  const auto element = static_cast<std::int64_t>(element_size);
  std::int64_t bytes = (queries * depth + keys * depth + keys * value_depth) * element;
  if (q) bytes += product_energy_bytes(options.energy, queries, keys, depth, element_size);
  const auto held = [&](const std::optional<Operand>& operand, std::int64_t size) {
    if (!operand) return;
    const std::int64_t whole = operand->rows * operand->cols * size;
    if (whole <= dense_limit) bytes += whole;
  };
  held(scores, element);
  held(bias, element);
  held(mask, 1);
  return bytes;
}

template <class T>
std::shared_ptr<MatrixSource<T>> matrix_source(const Operand& operand, Index problem,
                                               std::int64_t dense_limit) {
  const Index block = operand.block(problem);
  if (matrix_bytes<T>(operand) <= dense_limit) {
    return std::make_shared<HeldMatrix<T>>(operand, block);
  }
  return std::make_shared<TiledMatrix<T>>(operand, block);
}

template <class T>
HeadReader<T>::HeadReader(const AttentionInput& input, std::int64_t dense_limit)
    : input_(input), dense_limit_(dense_limit) {}

template <class T>
std::shared_ptr<Block<T>> HeadReader<T>::vectors(const Operand& operand, Index problem,
                                                 std::shared_ptr<Block<T>>& last) {
  const Index index = operand.block(problem);
  if (last && last->index == index) return last;
  auto block = std::make_shared<Block<T>>();
  block->index = index;
  block->values = Buffer<T>(operand.rows * operand.cols);
  const BlockAxes axes(operand, index, 0, operand.rows, 0, operand.cols);
  operand.dataset.read(axes.start, axes.count, block->values.data());
  require_finite(operand.dataset, axes.start, axes.count, block->values, block->values.size());
  last = block;
  return block;
}

template <class T>
std::shared_ptr<Head<T>> HeadReader<T>::read(Index problem) {
  auto head = std::make_shared<Head<T>>();
  head->problem = problem;
  const auto source = [&]<class U>(const Operand& operand, Matrix<U>& last) {
    const Index index = operand.block(problem);
    if (last.index != index) last = {index, matrix_source<U>(operand, problem, dense_limit_)};
    return last.source;
  };
  if (input_.scores) {
    head->stored_ = source(*input_.scores, last_scores_);
    head->energy_ =
        make_stored_energy<T>(*head->stored_, input_.queries, input_.keys, input_.options.scale);
  } else if (!input_.q) {
    head->energy_ = make_zero_energy<T>(input_.queries, input_.keys);
  } else {
    head->q_block_ = vectors(*input_.q, problem, last_q_);
    head->k_block_ = vectors(*input_.k, problem, last_k_);
    const MatrixView<const T> q(head->q_block_->values.data(), input_.queries, input_.depth);
    const MatrixView<const T> k(head->k_block_->values.data(), input_.keys, input_.depth);
    head->energy_ = make_product_energy<T>(input_.options.energy, q, k, input_.options.scale);
  }
  if (input_.v) {
    head->v_block_ = vectors(*input_.v, problem, last_v_);
    head->v_ = MatrixView<const T>(head->v_block_->values.data(), input_.keys, input_.value_depth);
  }
  typename Scores<T>::Terms terms;
  terms.energy = head->energy_.get();
  terms.causal = input_.causal;
  if (input_.bias) {
    head->bias_ = source(*input_.bias, last_bias_);
    terms.bias = head->bias_.get();
  }
  if (input_.mask) {
    head->mask_ = source(*input_.mask, last_mask_);
    terms.mask = head->mask_.get();
  }
  head->scores_.emplace(terms);
  return head;
}

std::vector<double> numbers_per_problem(const io::InputDataset& dataset, const Shape& leading,
                                        double low, double high) {
  const Shape& shape = dataset.shape();
  const LeadingMap map(leading, shape, false, dataset.address());
  const Index count = element_count(shape);
  std::vector<double> stored(static_cast<std::size_t>(count));
  dataset.read(Shape(shape.size(), 0), shape, stored.data());
  for (Index n = 0; n < count; ++n) {
    const double value = stored[static_cast<std::size_t>(n)];
    if (!(value >= low && value <= high)) {
      throw Error(Failure::input,
                  fmt::format("{} has {} at {}, expected a number in [{}, {}]", dataset.address(),
                              value, element_text(Shape(shape.size(), 0), shape, n), low, high));
    }
  }
  std::vector<double> values;
  for (Index problem = 0; problem < element_count(leading); ++problem) {
    values.push_back(stored[static_cast<std::size_t>(map(problem))]);
  }
  return values;
}

template class HeadReader<float>;
template class HeadReader<double>;
template std::shared_ptr<MatrixSource<float>> matrix_source(const Operand&, Index, std::int64_t);
template std::shared_ptr<MatrixSource<double>> matrix_source(const Operand&, Index, std::int64_t);

}  // namespace attn::tools
