#include "head/attention_sources.hpp"

#include <algorithm>
#include <utility>

#include "attnkit/error.hpp"
#include "head/matrix_operand.hpp"
#include "score/band.hpp"
#include "score/relative_bias.hpp"

namespace attn {
namespace {

[[noreturn]] void refuse_shape(const ArraySource& source, const std::string& expected,
                               const std::string& hint = {}) {
  throw Error(
      Failure::input,
      source.address() + " has shape " + to_string(source.shape()) + ", expected " + expected,
      hint);
}

void require_axes(const ArraySource& source, const char* expected) {
  require_floating(source);
  if (source.shape().size() < 2) refuse_shape(source, expected, hint_on_vector(source));
  if (source.shape().back() > 0) return;
  throw Error(Failure::input, source.address() + " has shape " + to_string(source.shape()) +
                                  ": its last axis is empty");
}

// The input's own leading axes stand before the axis of the heads.
Shape before_heads(const ArraySource& input) {
  Shape leading = leading_axes(input.shape(), 2);
  if (!leading.empty()) leading.push_back(1);
  return leading;
}

// wq, wk or wv (…, H, D, d) for an input (…, L, D).
void require_weights(const ArraySource& weights, const ArraySource& input) {
  require_axes(weights, "(heads, D, d)");
  const Index inner = weights.shape()[weights.shape().size() - 2];
  if (inner == input.shape().back()) return;
  throw Error(Failure::input, weights.address() + ": the axis before the last is " +
                                  std::to_string(inner) + ", " + input.address() + " has " +
                                  std::to_string(input.shape().back()));
}

Vectors projected(const ArraySource& input, const ArraySource& weights,
                  const std::optional<ArraySource>& bias, const Shape& leading, bool grouped) {
  const Shape own = before_heads(input);
  Operand x{input, leading_axes(input.shape(), 2), input.shape()[input.shape().size() - 2],
            input.shape().back(), LeadingMap(leading, own, false, input.address())};
  Operand w = vectors_operand(weights, leading, grouped, HeadLayout::heads_first);
  Vectors made{std::move(x), std::move(w), {}, 0, 0};
  made.rows = made.input.rows;
  made.cols = made.weights->cols;
  if (bias) made.bias = vector_operand(*bias, leading, grouped, made.cols);
  return made;
}

void require_heads_of_keys(const Vectors& k, const std::optional<Vectors>& v) {
  std::vector<HeadsOf> arrays;
  const auto add = [&](const Vectors& made) {
    const Operand& heads = made.weights ? *made.weights : made.input;
    arrays.push_back({heads.dataset.address(), heads.leading});
    if (made.bias) arrays.push_back({made.bias->dataset.address(), made.bias->leading});
  };
  add(k);
  if (v) add(*v);
  require_same_heads(arrays);
}

// For keys (…, d, keys).
std::string transposed_hint(const Vectors& k) {
  return k.address() + " looks transposed: expected (..., keys, d), as numpy.swapaxes(k, -1, -2)";
}

// result_axes for vectors. If they may be (…, length, heads, d), the hint says how to read them so.
Shape axes_of_vectors(const ArraySource& q, const Shape& q_shape, const ArraySource& k,
                      const Shape& k_shape, HeadLayout layout) {
  const Shape q_leading = leading_axes(q_shape, 2);
  const Shape k_leading = leading_axes(k_shape, 2);
  try {
    return result_axes(q_leading, k_leading, q.address(), k.address());
  } catch (const Error& error) {
    if (layout != HeadLayout::heads_first || q_leading.empty() || k_leading.empty()) throw;
    const Index q_heads = q_shape[q_leading.size()];
    const Index k_heads = k_shape[k_leading.size()];
    // Heads are seldom more than positions, and a batch is the same for queries and keys.
    const bool may_be_inside =
        k_heads > 0 && q_heads % k_heads == 0 &&
        q_heads <= std::max(q_leading.back(), k_leading.back()) &&
        std::equal(q_leading.begin(), q_leading.end() - 1, k_leading.begin(), k_leading.end() - 1);
    if (!may_be_inside) throw;
    throw Error(error.failure(), error.what(),
                "if the axes are (batch, length, heads, depth), use --layout blhd");
  }
}

void require_keys(const ArraySource& v, Index rows, const std::string& other, Index keys,
                  const std::string& hint = {}) {
  if (rows == keys) return;
  throw Error(Failure::input,
              v.address() + ": " + std::to_string(rows) + " keys, " + other + " has " +
                  std::to_string(keys),
              hint.empty() ? "v needs a row for each key" : hint);
}

// A gate (H, dv), or (…, queries or 1, H or 1, dv or 1).
Operand gate_with_heads_inside(const ArraySource& source, const Shape& leading, Index queries,
                               Index width) {
  Shape shape = source.shape();
  const bool by_query = shape.size() >= 3;
  if (!by_query) shape.insert(shape.begin(), 1);
  std::swap(shape[shape.size() - 2], shape[shape.size() - 3]);
  const Index rows = shape[shape.size() - 2];
  const Index cols = shape.back();
  if ((rows != 1 && rows != queries) || (cols != 1 && cols != width)) {
    Shape expected = join(leading, {queries, width});
    std::swap(expected[expected.size() - 2], expected[expected.size() - 3]);
    refuse_shape(source,
                 to_string(expected) + ", or what broadcasts to it: (..., queries, heads, dv)");
  }
  const Shape own = leading_axes(shape, 2);
  Operand operand{source, own, rows, cols, LeadingMap(leading, own, false, source.address())};
  operand.heads = by_query ? HeadAxis::inside : HeadAxis::leading;
  return operand;
}

}  // namespace

Vectors vectors_as_they_are(const ArraySource& source, const Shape& leading, bool grouped,
                            HeadLayout layout) {
  Operand operand = vectors_operand(source, leading, grouped, layout);
  const Index rows = operand.rows;
  const Index cols = operand.cols;
  return Vectors{std::move(operand), {}, {}, rows, cols};
}

std::string Vectors::address() const {
  return input.dataset.address() + (weights ? " times " + weights->dataset.address() : "");
}

std::int64_t Vectors::bytes(std::size_t element_size) const {
  const auto element = static_cast<std::int64_t>(element_size);
  std::int64_t bytes = rows * cols * element;
  if (weights) bytes += (rows + cols) * inner() * element;
  if (!over_heads()) return bytes;
  // Weights of all heads, and the rows of one of them with their moments.
  return bytes + heads() * (inner() + 1) * cols * element +
         rows * (cols * element + 2 * static_cast<std::int64_t>(sizeof(double)));
}

void AttentionSources::set_extents(const Shape& axes) {
  // Other inputs that do not broadcast are refused by name when their operands are made.
  Shape common = axes;
  broadcast(axes, wider, common);
  leading = join(front, common);
  problems = element_count(leading);
}

void AttentionSources::take_vectors(const ArraySource& q_source, const ArraySource& k_source,
                                    const std::optional<ArraySource>& v_source, HeadLayout layout) {
  const bool inside = layout == HeadLayout::heads_inside;
  require_axes(q_source, inside ? "(..., queries, heads, d)" : "(..., queries, d)");
  require_axes(k_source, inside ? "(..., keys, heads, d)" : "(..., keys, d)");
  const Shape q_shape = heads_first(q_source, layout);
  const Shape k_shape = heads_first(k_source, layout);
  set_extents(axes_of_vectors(q_source, q_shape, k_source, k_shape, layout));
  q = vectors_as_they_are(q_source, leading, false, layout);
  k = vectors_as_they_are(k_source, leading, true, layout);
  queries = q->rows;
  keys = k->rows;
  depth = q->cols;
  if (!v_source) return;
  require_axes(*v_source, inside ? "(..., keys, heads, dv)" : "(..., keys, dv)");
  v = vectors_as_they_are(*v_source, leading, true, layout);
  require_heads_of_keys(*k, v);
  v_head_dim = v->cols;
  const bool transposed = k->rows == q->cols && k->cols == v->rows;
  require_keys(*v_source, v->rows, k_source.address(), keys, transposed ? transposed_hint(*k) : "");
}

void AttentionSources::take_projections(const ProjectionSources& sources) {
  const ArraySource& x = sources.x;
  const ArraySource& y = sources.y;
  require_axes(x, "(..., queries, D)");
  require_axes(y, "(..., keys, D)");
  require_weights(sources.wq, x);
  require_weights(sources.wk, y);
  // Every position of x with every head, and the same of y.
  const auto axes_of = [](const ArraySource& input, const ArraySource& weights) {
    return result_axes(before_heads(input), leading_axes(weights.shape(), 2), input.address(),
                       weights.address());
  };
  set_extents(result_axes(axes_of(x, sources.wq), axes_of(y, sources.wk),
                          x.address() + " times " + sources.wq.address(),
                          y.address() + " times " + sources.wk.address()));
  q = projected(x, sources.wq, sources.bq, leading, false);
  k = projected(y, sources.wk, sources.bk, leading, true);
  queries = q->rows;
  keys = k->rows;
  depth = q->cols;
  if (sources.wv) {
    require_weights(*sources.wv, y);
    v = projected(y, *sources.wv, sources.bv, leading, true);
    v_head_dim = v->cols;
  }
  require_heads_of_keys(*k, v);
}

void AttentionSources::take_weights(const ArraySource& source) {
  require_floating(source);
  const Shape& shape = source.shape();
  if (shape.size() < 2) refuse_shape(source, "(..., queries, keys)");
  queries = shape[shape.size() - 2];
  keys = shape.back();
  set_extents(leading_axes(shape, 2));
}

void AttentionSources::take_scores(const ArraySource& source, bool of_cost) {
  take_weights(source);
  scores = matrix_operand(source, leading, queries, keys);
  scores->of_cost = of_cost;
}

void AttentionSources::take_values(const ArraySource& source, HeadLayout layout) {
  require_axes(source, "(..., keys, dv)");
  v = vectors_as_they_are(source, leading, true, layout);
  v_head_dim = v->cols;
  require_keys(source, v->rows, scores ? scores->dataset.address() : "weights", keys);
}

void AttentionSources::take_energy_operands(const Find& find) {
  const EnergyDescription& taken = energy();
  const auto matrix = [&](const ArraySource& source, const EnergyOperand& wanted) {
    require_axes(source, "(rows, columns)");
    Operand operand = vectors_operand(source, leading, false, HeadLayout::heads_first);
    const Index rows = length_of(wanted.rows, sizes());
    const Index cols = length_of(wanted.cols, sizes());
    if ((rows > 0 ? operand.rows == rows : operand.rows > 0) && operand.cols == cols) {
      return operand;
    }
    const auto size = [](const std::string& height, Index width) {
      return height + " x " + std::to_string(width);
    };
    throw Error(Failure::input,
                source.address() + " is " + size(std::to_string(operand.rows), operand.cols) +
                    ", expected " + size(rows > 0 ? std::to_string(rows) : "A", cols) + " for " +
                    q->address() + " and " + k->address());
  };
  for (const EnergyOperand& wanted : taken.operands()) {
    const std::optional<ArraySource> source = find(wanted);
    if (!source) {
      energy_operands.emplace_back();
    } else if (wanted.is_vector()) {
      energy_operands.emplace_back(
          vector_operand(*source, leading, false, length_of(wanted.cols, sizes())));
    } else {
      energy_operands.emplace_back(matrix(*source, wanted));
    }
  }
  if (!taken.needs_equal_depths() || q->cols == k->cols) return;
  throw Error(Failure::input,
              k->address() + ": last axis is " + std::to_string(k->cols) + ", " + q->address() +
                  " has " + std::to_string(q->cols),
              k->rows == q->cols ? transposed_hint(*k)
                                 : "slice one of them, or use --energy bilinear with a w of "
                                   "(dq, dk)");
}

void AttentionSources::take_mask(const ArraySource& source) {
  mask.emplace(matrix_operand(source, leading, queries, keys));
  if (is_integral(source.dtype())) return;
  throw Error(
      Failure::input,
      source.address() + " has type " + source.type() + ", expected bool or an integer type",
      "a mask to be added to the scores is stored as bias; one of 0 and 1, as bool");
}

void AttentionSources::take_bias(const ArraySource& source) {
  bias.emplace(matrix_operand(source, leading, queries, keys));
  require_floating(source);
}

void AttentionSources::take_preference(const ArraySource& source, bool by_key) {
  preference.emplace(by_key ? vector_operand(source, leading, false, keys)
                            : matrix_operand(source, leading, queries, keys));
  require_floating(source);
  preference->zero_forbids = true;
}

void AttentionSources::take_transport_cost(const ArraySource& source) {
  require_floating(source);
  const Shape& shape = source.shape();
  if (shape.size() < 2 || shape[shape.size() - 2] != keys || shape.back() != keys) {
    refuse_shape(source,
                 to_string({keys, keys}) + " after leading axes, a number for each pair of keys");
  }
  cost.emplace(matrix_operand(source, leading, keys, keys, "keys, keys"));
  cost->of_cost = true;
  cost->from_zero = true;
}

void AttentionSources::take_relative_bias(const ArraySource& source) {
  require_floating(source);
  const Shape& shape = source.shape();
  if (shape.size() != 2 || shape.back() != heads()) {
    refuse_shape(source, "(buckets, " + std::to_string(heads()) + ")");
  }
  rel_bias.emplace(Operand{
      source, {}, shape.front(), shape.back(), LeadingMap(leading, {}, false, source.address())});
}

// It broadcasts to out, and has the layout of out.
void AttentionSources::take_gate(const ArraySource& source, HeadLayout layout) {
  const bool inside = layout == HeadLayout::heads_inside && source.shape().size() >= 2;
  gate.emplace(inside ? gate_with_heads_inside(source, leading, queries, v_head_dim)
                      : matrix_operand(source, leading, queries, v_head_dim, "queries, dv"));
  require_floating(source);
}

bool AttentionSources::compares_points() const {
  const EnergyDescription* const made_by = (with_plain ? plain : preferring).energy;
  return q && made_by != nullptr && made_by->cost_scale() != 0;
}

EnergySizes AttentionSources::sizes() const {
  EnergySizes sizes;
  sizes.queries = queries;
  sizes.keys = keys;
  if (!q) return sizes;
  sizes.q_depth = q->cols;
  sizes.k_depth = k->cols;
  for (std::size_t n = 0; n < energy_operands.size(); ++n) {
    const auto& operand = energy_operands[n];
    if (operand && energy().operands()[n].rows == OperandLength::hidden) {
      sizes.hidden = operand->rows;
    }
  }
  return sizes;
}

Shape AttentionSources::joined_shape(Index count) const {
  Shape shape = leading;
  if (!shape.empty()) shape.pop_back();
  return join(shape, {count, joined_width});
}

std::vector<const Operand*> AttentionSources::operands() const {
  std::vector<const Operand*> all;
  const auto add = [&](const std::optional<Operand>& operand) {
    if (operand) all.push_back(&*operand);
  };
  for (const auto* vectors : {&q, &k, &v, &grad_out}) {
    if (!*vectors) continue;
    const Vectors& made = **vectors;
    const bool again = std::any_of(all.begin(), all.end(), [&](const Operand* operand) {
      return operand->dataset.address() == made.input.dataset.address();
    });
    if (!again) all.push_back(&made.input);
    add(made.weights);
    add(made.bias);
  }
  for (const auto* operand : {&scores, &mask, &bias, &preference, &cost}) add(*operand);
  for (const auto& operand : energy_operands) add(operand);
  add(rel_bias);
  add(sink);
  add(gate);
  if (!grad_out || !grad_out->weights) add(wo);  // of grad_out
  add(bo);
  return all;
}

std::string AttentionSources::place(Index problem) const {
  std::string text;
  if (q) text = q->address() + " and " + k->address();
  if (scores) text = scores->dataset.address();
  return problem_place(text, leading, problem);
}

std::vector<double> AttentionSources::pairs_by_problem() const {
  std::vector<double> counts;
  double of_head = 0;
  for (std::size_t n = 0; n < parts.size(); ++n) {
    // The heads of a batch share their part.
    const OwnPart& part = parts[n];
    if (n == 0 || part.queries() != parts[n - 1].queries() || part.keys() != parts[n - 1].keys() ||
        part.offset != parts[n - 1].offset || !packings.empty()) {
      const Band band(part.queries(), part.keys(),
                      {plain.causal, plain.window, part.offset, packing(static_cast<Index>(n))});
      of_head = 0;
      for (Index row = 0; row < part.queries(); ++row) {
        of_head += static_cast<double>(band.end(row) - band.begin(row));
      }
    }
    counts.push_back(of_head);
  }
  return counts;
}

std::int64_t AttentionSources::head_bytes(std::size_t element_size, std::int64_t dense_limit,
                                          std::optional<Index> part,
                                          std::optional<Index> matrix_rows) const {
  const auto element = static_cast<std::int64_t>(element_size);
  std::int64_t bytes = 0;
  EnergySizes held = sizes();
  if (part) {
    bytes -= (queries - *part) * depth * element;
    held.queries = *part;
  }
  for (const auto* vectors : {&q, &k, &v, &grad_out}) {
    if (*vectors) bytes += (*vectors)->bytes(element_size);
  }
  if (q) {
    bytes += energy().bytes(held, element_size);
    if (energies() == 2) bytes += recipe(Scheme::fenchel).energy->bytes(held, element_size);
  }
  return bytes + matrix_bytes(element_size, dense_limit, matrix_rows);
}

std::int64_t AttentionSources::matrix_bytes(std::size_t element_size, std::int64_t dense_limit,
                                            std::optional<Index> matrix_rows) const {
  std::int64_t bytes = 0;
  if (plain.relative != RelativePositions::none) {
    bytes += relative_bias_bytes(queries, keys, element_size);
  }
  if (!packings.empty()) bytes += Band::packed_bytes(queries);
  const auto held = [&](const std::optional<Operand>& operand, std::size_t size,
                        std::optional<Index> rows) {
    if (operand) bytes += matrix_source_bytes(*operand, size, dense_limit, rows);
  };
  held(scores, element_size, matrix_rows);
  held(bias, element_size, matrix_rows);
  held(preference, element_size, matrix_rows);
  held(cost, element_size, std::nullopt);
  if (cost) bytes += TransportKernel::bytes(keys);
  held(mask, 1, matrix_rows);
  held(gate, element_size, std::nullopt);
  return bytes;
}

}  // namespace attn
