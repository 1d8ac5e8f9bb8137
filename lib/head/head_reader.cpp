#include "head/head_reader.hpp"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "kernel/bf16.hpp"
#include "parallel/parallel_for.hpp"
#include "parallel/ranks.hpp"
#include "parallel/stop_flag.hpp"
#include "pass/rank_rows.hpp"
#include "score/panel_product.hpp"
#include "score/projection.hpp"

namespace attn {
namespace {

bool same_range(const TileRange& a, const TileRange& b) {
  return a.row0 == b.row0 && a.rows == b.rows && a.col0 == b.col0 && a.cols == b.cols;
}

// Whether two problems have the same queries, keys and sequences.
bool same_pairs(const AttentionSources& sources, Index a, Index b) {
  const OwnPart& x = sources.part(a);
  const OwnPart& y = sources.part(b);
  return same_range(x.range, y.range) && x.offset == y.offset &&
         sources.packing(a) == sources.packing(b);
}

// The rows of a head that are read, and those that are seen.
struct OwnRows {
  RowRange range;
  SeenRows seen = {};
};
const auto queries_of = [](const auto& part) {
  const TileRange& own = part.own.range;
  return OwnRows{{own.row0, own.row0 + own.rows}, part.seen.queries};
};
const auto own_queries_of = [](const auto& part) { return OwnRows{queries_of(part).range}; };
const auto keys_of = [](const auto& part) {
  const TileRange& own = part.own.range;
  return OwnRows{{own.col0, own.col0 + own.cols}, part.seen.keys};
};

// The numbers of an array whose blocks are used where they lie; null for others.
template <class T>
const T* in_place(const Operand& operand) {
  return operand.heads == HeadAxis::leading && !operand.of_cost ? operand.dataset.in_memory<T>()
                                                                : nullptr;
}

template <class T>
bool in_place(const Vectors& from) {
  return in_place<T>(from.input) != nullptr || (from.weights && in_place<T>(*from.weights));
}

// A block of such an array.
template <class T>
MatrixView<const T> block_in_place(const Operand& operand, const T* numbers, Index block) {
  const Shape* const strides = operand.dataset.strides();
  return block_at(operand, numbers, strides == nullptr ? Shape() : *strides, block);
}

Allowed allowed_in(const Operand& matrix) {
  if (matrix.finite) return Allowed::finite;
  return matrix.zero_forbids ? Allowed::finite_not_negative : Allowed::finite_or_minus_infinity;
}

}  // namespace

// Blocks are kept from batch to batch, when the memory pool of a run may be gone.
template <class T>
void HeadReader<T>::Block::reserve(Index rows, Index cols) {
  const MemoryPool::Use none(nullptr);
  storage.reserve(rows * cols);
  values = {storage.data(), rows, cols};
}

template <class T>
HeadReader<T>::HeadReader(const AttentionSources& sources, std::int64_t dense_limit, int threads)
    : sources_(sources), dense_limit_(dense_limit), threads_(threads) {}

// Returns whether the batch uses the same blocks as the one before.
template <class T>
bool HeadReader<T>::take_parts(std::span<const HeadPart> batch) {
  parts_before_.swap(parts_);
  parts_.clear();
  for (const HeadPart& head : batch) {
    Part part{head.problem, sources_.part(head.problem), 0};
    if (head.queries) {
      part.own.range.row0 += head.queries->first;
      part.own.range.rows = head.queries->last - head.queries->first;
      part.own.offset += head.queries->first;
      part.first_query = head.queries->first;
    }
    // The heads of a batch see the same.
    const bool again = !parts_.empty() && same_pairs(sources_, parts_.back().problem, head.problem);
    part.seen = head.seen ? *head.seen
                : again   ? parts_.back().seen
                          : seen_of(sources_, head.problem);
    parts_.push_back(std::move(part));
  }
  const bool had_grad_out = std::exchange(has_grad_out_, sources_.grad_out.has_value());
  const auto same = [](const Part& a, const Part& b) {
    return a.problem == b.problem && same_range(a.own.range, b.own.range) &&
           a.seen.queries == b.seen.queries && a.seen.keys == b.seen.keys;
  };
  return has_grad_out_ == had_grad_out &&
         std::equal(parts_.begin(), parts_.end(), parts_before_.begin(), parts_before_.end(), same);
}

template <class T>
typename HeadReader<T>::Set& HeadReader<T>::set_of(const Operand& operand) {
  for (Set& set : sets_) {
    if (set.operand.dataset.same_as(operand.dataset)) return set;
  }
  return sets_.emplace_back(Set{operand, {}});
}

// `rows(part)` are the rows of a head's block.
template <class T>
template <class Rows>
typename HeadReader<T>::Use HeadReader<T>::want(const Operand& operand, const Rows& rows) {
  Blocks& blocks = set_of(operand).blocks;
  const Use use{&blocks, blocks.count()};
  for (const Part& part : parts_) {
    const OwnRows own = rows(part);
    BlockKey key{operand.block(part.problem), 0, 0, own.range.first,
                 own.range.last - own.range.first};
    key.seen = own.seen;
    blocks.want(key);
  }
  return use;
}

template <class T>
typename HeadReader<T>::Use HeadReader<T>::want(const std::optional<Operand>& operand) {
  if (!operand) return {};
  return want(*operand, [&](const Part&) { return OwnRows{{0, operand->rows}}; });
}

template <class T>
template <class Rows>
void HeadReader<T>::want(const std::optional<Vectors>& from, const Rows& rows, Vector& vector) {
  vector.input = vector.weights = vector.bias = vector.all_weights = vector.all_bias = {};
  vector.products.start();
  vector.moments.start();
  if (!from) return;
  vector.input = want(from->input, rows);
  if (!from->weights) return;
  vector.weights = want(from->weights);
  vector.bias = want(from->bias);
  const bool rotates = from->transform != nullptr && from->transform->rotary;
  if (from->over_heads()) {
    vector.all_weights = want_heads(*from->weights);
    if (from->bias) vector.all_bias = want_heads(*from->bias);
  }
  for (Index n = 0; n < std::ssize(parts_); ++n) {
    const Part& part = parts_[static_cast<std::size_t>(n)];
    const OwnRows own = rows(part);
    BlockKey key{from->input.block(part.problem), from->weights->block(part.problem),
                 from->bias ? from->bias->block(part.problem) : 0, own.range.first,
                 own.range.last - own.range.first};
    key.seen = own.seen;
    if (from->over_heads()) {
      BlockKey of_heads = key;
      of_heads.weights -= key.weights % from->heads();
      of_heads.bias = 0;
      vector.moments.want(of_heads);
    }
    if (rotates) {
      key.position = positions(vector, n).first;
      key.packing = sources_.packings.empty() ? 0 : part.problem / sources_.heads();
    }
    vector.products.want(key);
  }
}

// The blocks of all heads that share the last leading axis with those of the batch.
template <class T>
typename HeadReader<T>::Use HeadReader<T>::want_heads(const Operand& operand) {
  Blocks& blocks = set_of(operand).blocks;
  const Use use{&blocks, blocks.count()};
  const Index heads = operand.leading.back();
  for (const Part& part : parts_) {
    const Index block = operand.block(part.problem);
    const Index first = block - block % heads;
    for (Index h = 0; h < heads; ++h) blocks.want({first + h, 0, 0, 0, operand.rows});
  }
  return use;
}

template <class T>
RowPositions HeadReader<T>::positions(const Vector& vector, Index n) const {
  const Part& part = parts_[static_cast<std::size_t>(n)];
  const bool of_keys = &vector == &k_;
  const TileRange& own = part.own.range;
  if (const Packing* const packing = sources_.packing(part.problem)) {
    return {of_keys ? own.col0 : own.row0, packing, of_keys};
  }
  return {of_keys ? 0 : part.own.offset, nullptr, of_keys};
}

template <class T>
ProjectedFrom<T> HeadReader<T>::made_of(const std::optional<Vectors>& from, const Vector& vector,
                                        Index n) const {
  if (!vector.weights) return {};
  ProjectedFrom<T> made{vector.input.of(n), vector.weights.of(n), vector.bias.of(n), {}, {}, {}};
  if (from->transform == nullptr) return made;
  const Index heads = from->heads();
  const Part& part = parts_[static_cast<std::size_t>(n)];
  const OwnRows own = &vector == &k_ ? keys_of(part) : queries_of(part);
  made.rows = {from->transform.get(),
               from->weights->block(part.problem) % heads,
               heads,
               positions(vector, n),
               nullptr,
               own.seen,
               own.range.first};
  if (!from->over_heads()) return made;
  made.rows.moments = vector.moments.of(n).data();
  for (Index h = 0; h < heads; ++h) {
    made.all_weights.push_back(vector.all_weights.of(n * heads + h));
    if (from->bias) made.all_bias.push_back(vector.all_bias.of(n * heads + h));
  }
  return made;
}

template <class T>
template <class U>
void HeadReader<T>::want(const std::optional<Operand>& operand, Matrices<U>& matrices,
                         std::optional<Index> cols) {
  matrices.start();
  if (!operand) return;
  for (const Part& part : parts_) {
    const TileRange& own = part.own.range;
    matrices.want({operand->block(part.problem), own.row0, own.rows, cols ? 0 : own.col0,
                   cols.value_or(own.cols)});
  }
}

// By keys along both axes.
template <class T>
void HeadReader<T>::want_cost() {
  cost_.start();
  if (!sources_.cost) return;
  for (const Part& part : parts_) {
    const TileRange& own = part.own.range;
    cost_.want({sources_.cost->block(part.problem), own.col0, own.cols, own.col0, own.cols});
  }
}

template <class T>
void HeadReader<T>::want_all() {
  for (Set& set : sets_) set.blocks.start();
  // The joined row of a query that sees no key is bo, to which its gradient belongs.
  if (sources_.bo) {
    want(sources_.grad_out, own_queries_of, grad_out_);
  } else {
    want(sources_.grad_out, queries_of, grad_out_);
  }
  want(sources_.q, queries_of, q_);
  want(sources_.k, keys_of, k_);
  energy_.clear();
  for (const auto& operand : sources_.energy_operands) energy_.push_back(want(operand));
  want(sources_.v, keys_of, v_);
  table_ = want(sources_.rel_bias);
  want(sources_.scores, scores_);
  want(sources_.bias, bias_);
  want(sources_.mask, mask_);
  want(sources_.preference, preference_);
  want_cost();
  want(sources_.gate, gate_, sources_.v_head_dim);
  for (Set& set : sets_) set.blocks.settle();
  for (Vector* vector : {&grad_out_, &q_, &k_, &v_}) {
    vector->products.settle();
    vector->moments.settle();
  }
  for (auto* matrices : {&scores_, &bias_, &preference_, &cost_, &gate_}) matrices->settle();
  mask_.settle();
}

template <class T>
void HeadReader<T>::load(Set& set) {
  const Operand& operand = set.operand;
  const T* const numbers = in_place<T>(operand);
  const auto is_input_of = [&](const std::optional<Vectors>& from) {
    return from && from->input.dataset.same_as(operand.dataset);
  };
  // Costs of points take the mean of all points, also of those that are not seen.
  const bool is_point =
      sources_.compares_points() && (is_input_of(sources_.q) || is_input_of(sources_.k));
  for (auto& part : set.blocks.parts()) {
    auto& [key, wanted_by, block, is_new] = part;
    const TileRange range{key.first, key.rows, 0, operand.cols};
    if (numbers != nullptr) {
      block.values = block_in_place(operand, numbers, key.block).row_range(key.first, key.rows);
    } else if (is_new) {
      stop_if_asked();
      block.reserve(key.rows, operand.cols);
      const BlockAxes axes(operand, key.block, key.first, key.rows, 0, operand.cols);
      operand.dataset.read(axes.start, axes.count, block.storage.data());
    } else {
      continue;
    }
    const std::size_t check =
        numbers_.add(operand, key.block, range, block.values, Allowed::finite, key.seen);
    if (!key.seen.all()) unseen_.push_back({&part, check, is_point});
  }
}

// Checks all numbers that have been loaded and placed.
template <class T>
void HeadReader<T>::look() {
  try {
    numbers_.look(threads_);
  } catch (const Error& error) {
    if (!sources_.mask || !error.hint().empty()) throw;
    throw Error(error.failure(), error.what(),
                "if the mask hides it: padding may hold any number if key_length, key_start or "
                "segment_ids say where it is, in place of the mask");
  }
}

// The caller's numbers stay as they are. If there are no products, only the seen rows were asked
// for.
template <class T>
void HeadReader<T>::clear_unseen(bool products) {
  for (const auto& [part, check, is_point] : unseen_) {
    const auto& [key, wanted_by, block, is_new] = *part;
    const MatrixView<const T> stored = block.values;
    const bool copies = stored.data != block.storage.data();
    const bool clears = !copies || is_point || !products;
    if (!clears && !numbers_.has_strange_rows(check)) continue;
    if (copies) part->thing.reserve(stored.rows, stored.cols);
    for (Index row = 0; row < stored.rows; ++row) {
      T* const to = part->thing.storage.data() + row * stored.cols;
      const bool cleared =
          !key.seen.has(key.first + row) && (clears || !all_finite(stored.row(row), stored.cols));
      if (cleared) {
        std::fill_n(to, stored.cols, T{0});
      } else if (copies) {
        std::copy_n(stored.row(row), stored.cols, to);
      }
    }
  }
}

// Places the matrices that lie in memory, and has their own parts checked.
template <class T>
template <class U>
void HeadReader<T>::place(const std::optional<Operand>& operand, Matrices<U>& matrices) {
  const U* const numbers = operand ? in_place<U>(*operand) : nullptr;
  if (numbers == nullptr) return;
  const bool by_row = operand->rows > 1;
  const bool by_col = operand->cols > 1;
  for (auto& [key, wanted_by, matrix, is_new] : matrices.parts()) {
    const bool empty = key.rows == 0 || key.cols == 0;
    const TileRange range{by_row ? key.row0 : 0, by_row ? key.rows : 1, by_col ? key.col0 : 0,
                          by_col ? key.cols : 1};
    const MatrixView<const U> block = block_in_place(*operand, numbers, key.block);
    const U* const first = block.row(range.row0) + range.col0;
    matrix.in_memory.emplace(first, by_row ? block.row_stride : 0, by_col ? 1 : 0, 1);
    matrix.check.reset();
    if constexpr (std::is_same_v<U, T>) {
      const MatrixView<const T> own{first, range.rows, range.cols, block.row_stride};
      if (!empty) {
        matrix.check = numbers_.add(*operand, key.block, range, own, allowed_in(*operand));
      }
    }
  }
}

// Reads the matrices that do not lie in memory, and tells the others what the check has found.
template <class T>
template <class U>
void HeadReader<T>::finish(const std::optional<Operand>& operand, Matrices<U>& matrices,
                           bool by_rank) {
  if (!operand) return;
  for (auto& [key, wanted_by, matrix, is_new] : matrices.parts()) {
    if (matrix.in_memory) {
      if (matrix.check) matrix.in_memory->set_bound(numbers_.largest(*matrix.check));
      continue;
    }
    if (!is_new) continue;
    stop_if_asked();
    const Part& part = parts_[static_cast<std::size_t>(wanted_by)];
    const TileRange own{key.row0, key.rows, key.col0, key.cols};
    matrix.read = matrix_source<U>(*operand, part.problem, own, dense_limit_,
                                   by_rank ? rank_part(own) : std::nullopt);
    is_new = false;
  }
}

// If the ranks of this thread hold neighbouring rows.
template <class T>
std::optional<RankPart> HeadReader<T>::rank_part(const TileRange& own) const {
  const Ranks* const ranks = Ranks::current();
  if (ranks == nullptr || Ranks::rows() != Ranks::Rows::neighbouring) return {};
  return RankPart{
      neighbouring_rows(own.rows, own.cols, sizeof(T), ranks->own(), ranks->count()),
      most_neighbouring_rows(sources_.queries, sources_.keys, sizeof(T), ranks->count())};
}

// q and k must hold bfloat16 numbers only.
template <class T>
void HeadReader<T>::require_bf16(const std::optional<Vectors>& from, const Vector& vector) const {
  if constexpr (std::is_same_v<T, float>) {
    for (const auto& [key, wanted_by, block, is_new] : vector.input.blocks->parts()) {
      const MatrixView<const T>& values = block.values;
      for (Index row = 0; row < values.rows; ++row) {
        const Index bad = kernel::first_not_bf16(values.row(row), values.cols);
        if (bad == values.cols) continue;
        const Operand& operand = from->input;
        const BlockAxes axes(operand, key.block, key.first + row, 1, bad, 1);
        refuse_element(operand.dataset, axes.start, axes.count, 0, values(row, bad),
                       "bfloat16 numbers (--precision bf16)");
      }
    }
  }
}

template <class T>
void HeadReader<T>::project_one(const Vectors& from, Vector& vector, typename Blocks::Part& part,
                                int threads) {
  const Index n = part.wanted_by;
  const MatrixView<const T> input = vector.input.of(n);
  const MatrixView<const T> weights = vector.weights.of(n);
  const MatrixView<T> product(part.thing.storage.data(), input.rows, from.cols);
  if (from.transposed) {
    multiply_transposed_by_panels(input, weights, product, threads);
    return;
  }
  const ProjectedFrom<T> made = made_of(from, vector, n);
  const Index problem = parts_[static_cast<std::size_t>(n)].problem;
  const auto what = [&] { return problem_place(from.address(), sources_.leading, problem); };
  project<T>(input, weights, made.numbers_of(made.bias), product, threads, what);
  if (made.rows.transform != nullptr) transform_rows<T>(made.rows, product, threads, what);
}

// The mean and scale of each row, over all heads.
template <class T>
void HeadReader<T>::find_moments(const Vectors& from, Vector& vector, Index n,
                                 Buffer<double>& moments) {
  const ProjectedFrom<T> made = made_of(from, vector, n);
  const Index problem = parts_[static_cast<std::size_t>(n)].problem;
  const auto what = [&] { return problem_place(from.address(), sources_.leading, problem); };
  const std::span<double> numbers(moments.data(), static_cast<std::size_t>(2 * made.input.rows));
  std::fill(numbers.begin(), numbers.end(), 0.0);
  Buffer<T> storage(made.input.rows * from.cols);
  const MatrixView<T> rows(storage.data(), made.input.rows, from.cols);
  const HeadNorm& norm = *made.rows.transform->norm;
  for (std::size_t h = 0; h < made.all_weights.size(); ++h) {
    const MatrixView<const T> bias = from.bias ? made.all_bias[h] : MatrixView<const T>();
    project<T>(made.input, made.all_weights[h], made.numbers_of(bias), rows, threads_, what);
    add_moments<T>(norm, static_cast<Index>(h) * from.cols, rows, numbers, threads_);
  }
  finish_moments(made.rows, from.heads() * from.cols, numbers, what);
}

template <class T>
void HeadReader<T>::project_all(const std::optional<Vectors>& from, Vector& vector, bool products) {
  if (!from || !from->weights) return;
  const bool changes = in_place<T>(*from);
  for (auto& part : vector.moments.parts()) {
    if (!part.is_new && !changes) continue;
    const MemoryPool::Use none(nullptr);
    part.thing.reserve(2 * part.key.rows);
    find_moments(*from, vector, part.wanted_by, part.thing);
    part.is_new = false;
  }
  if (!products) return;
  std::vector<typename Blocks::Part>& parts = vector.products.parts();
  Index count = 0;
  for (auto& part : parts) {
    part.is_new = part.is_new || changes;
    if (!part.is_new) continue;
    part.thing.reserve(part.key.rows, from->cols);
    ++count;
  }
  const auto project = [&](auto& part, int threads) {
    if (part.is_new) project_one(*from, vector, part, threads);
    part.is_new = false;
  };
  // Ranks divide each product.
  if (count >= threads_ && Ranks::current() == nullptr) {
    parallel_for(std::ssize(parts), threads_,
                 [&](Index n, int) { project(parts[static_cast<std::size_t>(n)], 1); });
  } else {
    for (auto& part : parts) project(part, threads_);
  }
}

template <class T>
void HeadReader<T>::read(std::span<const HeadPart> batch, bool products) {
  if (!take_parts(batch) || !settled_) {
    settled_ = false;
    want_all();
    settled_ = true;
  }
  numbers_.clear();
  unseen_.clear();
  for (Set& set : sets_) load(set);
  place(sources_.scores, scores_);
  place(sources_.bias, bias_);
  place(sources_.mask, mask_);
  place(sources_.preference, preference_);
  place(sources_.gate, gate_);
  look();
  clear_unseen(products);
  // Blocks whose numbers have been checked.
  for (Set& set : sets_) {
    for (auto& part : set.blocks.parts()) part.is_new = false;
  }
  if (sources_.bf16) {
    require_bf16(sources_.q, q_);
    require_bf16(sources_.k, k_);
  }
  project_all(sources_.grad_out, grad_out_, products);
  project_all(sources_.q, q_, products);
  project_all(sources_.k, k_, products);
  project_all(sources_.v, v_, products);
  finish(sources_.scores, scores_);
  finish(sources_.bias, bias_);
  finish(sources_.mask, mask_);
  finish(sources_.preference, preference_);
  finish(sources_.cost, cost_, false);
  finish(sources_.gate, gate_, false);
}

template <class T>
double HeadReader<T>::least_bias(Index n) const {
  if (!sources_.bias) return 0;
  const Matrix<T>& bias = bias_.of(n);
  return bias.read ? bias.read->least() : 0;
}

template <class T>
std::int64_t HeadReader<T>::list_bytes(Index count) const {
  // q, k, v and the gradient of the output may have products, too.
  Index lists = std::ssize(sources_.operands()) + 4;
  for (const auto* vectors : {&sources_.q, &sources_.k}) {
    if (*vectors && (*vectors)->over_heads()) lists += 1 + 2 * (*vectors)->heads();
  }
  const std::int64_t each =
      std::max(Blocks::bytes(count), Matrices<T>::bytes(count)) + NumberCheck<T>::bytes(count);
  return lists * each + 2 * count * static_cast<std::int64_t>(sizeof(Part));
}

template <class T>
void HeadReader<T>::make(Index n, int threads, Head<T>& head) const {
  const Part& part = parts_[static_cast<std::size_t>(n)];
  head.problem = part.problem;
  head.part = part.own;
  HeadArrays<T>& arrays = head.arrays_;
  arrays.problem = part.problem;
  arrays.queries = part.own.queries();
  arrays.keys = part.own.keys();
  arrays.offset = part.own.offset;
  arrays.packing = sources_.packing(part.problem);
  arrays.first_query = part.first_query;
  arrays.q = q_.of(n);
  arrays.k = k_.of(n);
  arrays.v = v_.of(n);
  for (const Use& operand : energy_) arrays.energy.push_back(operand.of(n));
  const auto matrix = [&](const std::optional<Operand>& operand, const auto& matrices) {
    return operand ? matrices.of(n).source() : nullptr;
  };
  arrays.scores = matrix(sources_.scores, scores_);
  arrays.bias = matrix(sources_.bias, bias_);
  arrays.mask = matrix(sources_.mask, mask_);
  arrays.gate = matrix(sources_.gate, gate_);
  head.grad_out_ = grad_out_.of(n);
  head.made_of_q_ = made_of(sources_.q, q_, n);
  head.made_of_k_ = made_of(sources_.k, k_, n);
  head.made_of_v_ = made_of(sources_.v, v_, n);
  head.made_of_grad_out_ = made_of(sources_.grad_out, grad_out_, n);
  head.least_bias_ = least_bias(n);
  const ScoreRecipe& any = sources_.with_preference ? sources_.preferring : sources_.plain;
  const auto relative = [&] { return relative_bias_of<T>(any, table_.of(n), arrays); };
  head.relative_ = sources_.rel_bias
                       ? naming([&] { return sources_.rel_bias->dataset.address(); }, relative)
                       : relative();
  if (head.relative_) arrays.relative = &*head.relative_;
  const auto place = [&] { return sources_.place(part.problem); };
  if (sources_.with_plain) {
    naming(place, [&] { head.plain_.emplace(sources_.plain, arrays, threads); });
  }
  arrays.preference = matrix(sources_.preference, preference_);
  if (sources_.cost) {
    const std::string name = sources_.cost->dataset.address();
    naming([&] { return sources_.cost->dataset.address(); },
           [&] {
             head.transport_.emplace(*matrix(sources_.cost, cost_), arrays.keys,
                                     *sources_.preferring.gamma, name);
           });
    arrays.transport = &*head.transport_;
  }
  if (sources_.with_preference) {
    naming(place, [&] { head.preferring_.emplace(sources_.preferring, arrays, threads); });
  }
}

template class Head<float>;
template class Head<double>;
template class HeadReader<float>;
template class HeadReader<double>;

}  // namespace attn
