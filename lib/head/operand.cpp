#include "head/operand.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "attnkit/error.hpp"
#include "head/number_check.hpp"
#include "tensor/number_text.hpp"

namespace attn {
namespace {

std::string axes_text(const ArraySource& dataset) {
  return dataset.address() + " has shape " + to_string(dataset.shape());
}

std::string range_text(double low, double high) {
  if (std::isinf(low) && high == std::numeric_limits<double>::max()) {
    return "a finite number or -inf";
  }
  return "a number in [" + number_text(low) + ", " + number_text(high) + "]";
}

std::string number_at(const ArraySource& dataset, const std::string& number,
                      const std::string& index) {
  return dataset.address() + " has " + number + " at " + index;
}

}  // namespace

std::string element_text(const Shape& start, const Shape& count, Index flat) {
  Shape index = unravel(flat, count);
  for (std::size_t axis = 0; axis < index.size(); ++axis) index[axis] += start[axis];
  return index_text(index);
}

BlockAxes::BlockAxes(const Operand& operand, Index block, Index row0, Index rows, Index col0,
                     Index cols)
    : start(unravel(block, operand.leading)), count(start.size(), 1) {
  if (operand.heads == HeadAxis::inside) {
    const Index head = start.back();
    start.back() = row0;
    count.back() = rows;
    start.insert(start.end(), {head, col0});
    count.insert(count.end(), {1, cols});
    return;
  }
  if (operand.heads == HeadAxis::whole && !start.empty()) {
    const Index heads = operand.dataset.shape()[start.size() - 1];
    count.back() = heads;
    (operand.rows > 1 ? rows : cols) /= heads;
  }
  const bool in_rows = operand.heads == HeadAxis::in_rows;
  if ((in_rows || operand.heads == HeadAxis::in_columns) && !start.empty()) {
    (in_rows ? row0 : col0) += start.back() * (in_rows ? operand.rows : operand.cols);
    start.pop_back();
    count.pop_back();
  }
  const std::size_t own = operand.dataset.shape().size() - start.size();
  if (own >= 2) {
    start.push_back(row0);
    count.push_back(rows);
  }
  if (own >= 1) {
    start.push_back(col0);
    count.push_back(cols);
  }
}

std::string problem_place(const std::string& what, const Shape& leading, Index problem) {
  if (leading.empty()) return what;
  return what + ", head " + index_text(unravel(problem, leading));
}

namespace {

std::string hint_on_type(const ArraySource& dataset) {
  const std::string type = dataset.type();
  if (dataset.dtype() == DType::boolean) return "true and false, for a mask, are stored as mask";
  if (dataset.dtype() == DType::string) return "numbers in text: x.astype(numpy.float32)";
  if (type.starts_with("complex")) return "save the real and imaginary parts apart";
  if (type.find("floating-point") != std::string::npos) {
    return "save it as float64: x.astype(numpy.float64)";
  }
  if (!is_integral(dataset.dtype())) return "save an array of float32 of each member";
  // NumPy has no bfloat16: its bits are saved as uint16.
  return std::string("save it as float32: x.astype(numpy.float32)") +
         (type == "uint16" ? "; bfloat16 is read from .safetensors" : "");
}

}  // namespace

void require_numbers(const ArraySource& dataset, NumberTypes types) {
  const bool any = types == NumberTypes::any;
  if (is_floating(dataset.dtype()) || (any && is_integral(dataset.dtype()))) return;
  throw Error(Failure::input,
              dataset.address() + " has type " + dataset.type() + ", expected " +
                  (any ? "integers, " : "") + "float16, float32 or float64",
              hint_on_type(dataset));
}

void require_floating(const ArraySource& dataset) {
  require_numbers(dataset, NumberTypes::floating);
}

std::string hint_on_vector(const ArraySource& dataset) {
  return dataset.shape().size() == 1 ? "a single vector x is a matrix as x[None]" : "";
}

void require_vectors(const ArraySource& dataset, const char* expected, NumberTypes types) {
  require_numbers(dataset, types);
  const Shape& shape = dataset.shape();
  if (shape.size() < 2) {
    throw Error(Failure::input, axes_text(dataset) + ", expected " + expected,
                hint_on_vector(dataset));
  }
  require_no_empty_axis(dataset);
}

void require_no_empty_axis(const ArraySource& dataset) {
  const Shape& shape = dataset.shape();
  if (std::find(shape.begin(), shape.end(), 0) == shape.end()) return;
  throw Error(Failure::input, axes_text(dataset) + ": an axis is empty");
}

Shape heads_first(const ArraySource& dataset, HeadLayout layout) {
  Shape shape = dataset.shape();
  if (layout == HeadLayout::heads_first) return shape;
  if (shape.size() < 3) {
    throw Error(Failure::input, axes_text(dataset) + ", expected (..., length, heads, d)");
  }
  std::swap(shape[shape.size() - 2], shape[shape.size() - 3]);
  return shape;
}

Operand vectors_operand(const ArraySource& dataset, const Shape& leading, bool grouped,
                        HeadLayout layout) {
  const Shape shape = heads_first(dataset, layout);
  const Shape own = leading_axes(shape, 2);
  const bool inside = layout == HeadLayout::heads_inside;
  return Operand{.dataset = dataset,
                 .leading = own,
                 .rows = shape[shape.size() - 2],
                 .cols = shape.back(),
                 .block = LeadingMap(leading, own, grouped, dataset.address()),
                 .heads = inside ? HeadAxis::inside : HeadAxis::leading};
}

Operand vector_operand(const ArraySource& dataset, const Shape& leading, bool grouped, Index length,
                       NumberTypes types) {
  require_numbers(dataset, types);
  const Shape& shape = dataset.shape();
  if (shape.empty() || shape.back() != length) {
    throw Error(Failure::input,
                axes_text(dataset) + ", expected (..., " + std::to_string(length) + ")");
  }
  const Shape own = leading_axes(shape, 1);
  return Operand{dataset, own, 1, length, LeadingMap(leading, own, grouped, dataset.address())};
}

std::vector<Index> integers_per_problem(const ArraySource& dataset, const Shape& leading, Index low,
                                        Index high) {
  if (!is_integral(dataset.dtype()) || dataset.dtype() == DType::boolean) {
    throw Error(Failure::input,
                dataset.address() + " has type " + dataset.type() + ", expected an integer type",
                dataset.dtype() == DType::boolean
                    ? "a padding mask (batch, keys) is stored as mask: "
                      "mask[:, None, None, :]"
                    : "");
  }
  const Shape& shape = dataset.shape();
  const auto fits = [](Index have, Index want) { return have == 1 || have == want; };
  if (shape.size() > leading.size() ||
      !std::equal(shape.begin(), shape.end(), leading.begin(), fits)) {
    throw Error(Failure::input, axes_text(dataset) + ", expected the first of the leading axes " +
                                    to_string(leading) + ", or 1 in their place");
  }
  const Index count = element_count(shape);
  std::vector<std::int64_t> stored(static_cast<std::size_t>(count));
  dataset.read(Shape(shape.size(), 0), shape, stored.data());
  for (Index n = 0; n < count; ++n) {
    const std::int64_t value = stored[static_cast<std::size_t>(n)];
    if (value >= low && value <= high) continue;
    throw Error(Failure::input,
                number_at(dataset, std::to_string(value), index_text(unravel(n, shape))) +
                    ", expected a whole number in [" + std::to_string(low) + ", " +
                    std::to_string(high) + "]");
  }
  Shape aligned = shape;
  aligned.resize(leading.size(), 1);
  const LeadingMap map(leading, aligned, false, dataset.address());
  std::vector<Index> values;
  for (Index problem = 0; problem < element_count(leading); ++problem) {
    values.push_back(stored[static_cast<std::size_t>(map(problem))]);
  }
  return values;
}

Operand matrix_operand(const ArraySource& dataset, const Shape& leading, Index rows, Index cols,
                       const char* axes) {
  const Shape& shape = dataset.shape();
  const std::size_t own = std::min<std::size_t>(2, shape.size());
  const Index own_cols = own >= 1 ? shape.back() : 1;
  const Index own_rows = own >= 2 ? shape[shape.size() - 2] : 1;
  if ((own_cols != 1 && own_cols != cols) || (own_rows != 1 && own_rows != rows)) {
    throw Error(Failure::input, axes_text(dataset) + ", expected it to broadcast to " +
                                    to_string(join(leading, {rows, cols})) + ", (..., " + axes +
                                    ")");
  }
  const Shape own_leading = leading_axes(shape, own);
  return Operand{dataset, own_leading, own_rows, own_cols,
                 LeadingMap(leading, own_leading, false, dataset.address())};
}

std::vector<double> numbers_per_problem(const ArraySource& dataset, const Shape& leading,
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
                  number_at(dataset, number_text(value), index_text(unravel(n, shape))) +
                      ", expected " + range_text(low, high));
    }
  }
  std::vector<double> values;
  for (Index problem = 0; problem < element_count(leading); ++problem) {
    values.push_back(stored[static_cast<std::size_t>(map(problem))]);
  }
  return values;
}

void refuse_beyond_float32(const ArraySource& dataset, double value, const std::string& index,
                           const std::string& hint) {
  throw Error(Failure::numerical,
              number_at(dataset, number_text(value), index) + ", which is beyond float32", hint);
}

template <class T>
[[noreturn]] void refuse_element(const ArraySource& dataset, const Shape& start, const Shape& count,
                                 Index flat, T value, const char* expected) {
  if (std::isinf(value) && dataset.dtype() == DType::f64 && sizeof(T) == sizeof(float)) {
    Shape at = unravel(flat, count);
    for (std::size_t axis = 0; axis < at.size(); ++axis) at[axis] += start[axis];
    double stored = 0;
    dataset.read(at, Shape(at.size(), 1), &stored);
    if (std::isfinite(stored)) {
      refuse_beyond_float32(dataset, stored, element_text(start, count, flat), "--precision f64");
    }
  }
  throw Error(Failure::input,
              number_at(dataset, number_text(value), element_text(start, count, flat)) +
                  ", expected " + expected);
}

template <class T>
void require_finite(const ArraySource& dataset, const Shape& start, const Shape& count,
                    const T* values) {
  const Index size = element_count(count);
  if (all_finite(values, size)) return;
  for (Index n = 0; n < size; ++n) {
    if (!std::isfinite(values[n])) {
      refuse_element(dataset, start, count, n, values[n], "finite numbers");
    }
  }
}

template void refuse_element(const ArraySource&, const Shape&, const Shape&, Index, float,
                             const char*);
template void refuse_element(const ArraySource&, const Shape&, const Shape&, Index, double,
                             const char*);
template void require_finite(const ArraySource&, const Shape&, const Shape&, const float*);
template void require_finite(const ArraySource&, const Shape&, const Shape&, const double*);

}  // namespace attn
