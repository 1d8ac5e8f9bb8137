#include "attn_compute/divided_writer.hpp"

#include <algorithm>
#include <utility>

#include "attnkit/error.hpp"

namespace attn::tools {
namespace {

const char* const output_name = "out";

// Calls body(first, count) for pieces of these rows.
template <class Body>
void in_pieces(RowRange rows, Index row_bytes, const Body& body) {
  const Index at_once = rows_of_piece(row_bytes);
  for (Index first = rows.first; first < rows.last; first += at_once) {
    body(first, std::min(at_once, rows.last - first));
  }
}

}  // namespace

template <class T>
DividedWriter<T>::DividedWriter(const AttentionInput& input, const DividedWants& wants,
                                HeadOutputs& outputs, GradientWriter<T>& gradients,
                                kernel::Ranks& ranks, Checkpoint* checkpoint)
    : input_(input),
      wants_(wants),
      outputs_(outputs),
      gradients_(gradients),
      ranks_(ranks),
      checkpoint_(checkpoint) {
  gradients.divide(ranks);
}

template <class T>
auto DividedWriter<T>::out(Index problem) const -> Result {
  const TileRange& own = input_.part(problem).range;
  return {output_name,
          &ShownRows<T>::out,
          {own.row0, own.row0 + own.rows},
          input_.queries,
          input_.v_head_dim};
}

// Those that are wanted, in the order of the kinds.
template <class T>
auto DividedWriter<T>::gradients(Index problem) const -> std::vector<Result> {
  using Rows = ShownRows<T>;
  const TileRange& own = input_.part(problem).range;
  const RowRange queries{own.row0, own.row0 + own.rows};
  const RowRange keys{own.col0, own.col0 + own.cols};
  const Index depth = input_.depth;
  const Index width = input_.v_head_dim;
  std::vector<Result> results;
  if (wants_.grad_q) results.push_back({"grad_q", &Rows::grad_q, queries, input_.queries, depth});
  if (wants_.grad_k) results.push_back({"grad_k", &Rows::grad_k, keys, input_.keys, depth});
  if (wants_.grad_v) results.push_back({"grad_v", &Rows::grad_v, keys, input_.keys, width});
  if (wants_.grad_sink) results.push_back({"grad_sink", &Rows::grad_sink, {0, 1}, 1, 1});
  if (wants_.grad_gate) {
    const bool by_query = input_.has_gate_by_query();
    results.push_back({"grad_gate", &Rows::grad_gate, by_query ? queries : RowRange{0, 1},
                       by_query ? input_.queries : 1, input_.gate->cols});
  }
  return results;
}

template <class T>
bool DividedWriter<T>::is_sum(const Result& result, Index problem) const {
  return result.name != output_name && gradients_.sums(result.name, problem);
}

template <class T>
ShownRows<T> DividedWriter<T>::rows(Index problem) const {
  ShownRows<T> rows;
  rows.out = shown(out(problem), problem, [=, this] { save_length(out(problem).size()); });
  const std::vector<Result> gradients = this->gradients(problem);
  for (const Result& result : gradients) {
    const bool first = &result == gradients.data();
    rows.*result.show =
        shown(result, problem, [this, first, size = result.size(), count = gradients.size()] {
          if (first) save_gradient_count(count);
          save_length(size);
        });
  }
  return rows;
}

// Puts rows, and zeros around the own ones.
template <class T>
ShowRows<T> DividedWriter<T>::shown(const Result& result, Index problem,
                                    std::function<void()> begin) const {
  return [=, this, begin = std::move(begin)](const GatheredRows<T>& rows) {
    const RowRange own = result.own;
    if (rows.first == 0) {
      begin();
      put_zeros(result, problem, {0, own.first});
    }
    put(result, problem, rows.shifted(own.first));
    if (own.first + rows.first + rows.count == own.last) {
      put_zeros(result, problem, {own.last, result.rows});
    }
  };
}

template <class T>
void DividedWriter<T>::put(const Result& result, Index problem, const GatheredRows<T>& rows) const {
  const bool sum = is_sum(result, problem);
  if (sum) gradients_.take_rows(result.name, problem, rows);
  if (sum && checkpoint_ == nullptr) return;
  Buffer<T> room;
  const T* const numbers = at_first_rank(ranks_, rows, result.width, room);
  if (numbers == nullptr) return;
  if (!sum) write(result, problem, rows.first, rows.count, numbers);
  save(result, numbers, rows.count);
}

// Sums begin as zeros.
template <class T>
void DividedWriter<T>::put_zeros(const Result& result, Index problem, RowRange rows) const {
  if (ranks_.own() > 0) return;
  const bool sum = is_sum(result, problem);
  Buffer<T> zeros;
  in_pieces(rows, result.width * static_cast<Index>(sizeof(T)), [&](Index first, Index count) {
    if (zeros.size() == 0) {
      zeros = Buffer<T>(count * result.width);
      std::fill(zeros.begin(), zeros.end(), T{0});
    }
    if (!sum) write(result, problem, first, count, zeros.data());
    save(result, zeros.data(), count);
  });
}

// Rows that rank 0 has.
template <class T>
void DividedWriter<T>::write(const Result& result, Index problem, Index first, Index count,
                             const T* numbers) const {
  if (result.name == output_name) {
    outputs_.write_lines(output_name, problem, first, count, numbers);
  } else {
    gradients_.take_rows(result.name, problem, {0, first, count, numbers});
  }
}

template <class T>
void DividedWriter<T>::save(const Result& result, const T* numbers, Index rows) const {
  if (checkpoint_ == nullptr) return;
  checkpoint_->first_parts().bytes(numbers,
                                   static_cast<std::size_t>(rows * result.width) * sizeof(T));
}

template <class T>
void DividedWriter<T>::save_length(std::size_t size) const {
  if (checkpoint_ == nullptr) return;
  SavingArchive to = checkpoint_->first_parts();
  archived::length(to, size, sizeof(T));
}

// What stands between the output, which is empty if it is not wanted, and the gradients.
template <class T>
void DividedWriter<T>::save_gradient_count(std::size_t count) const {
  if (!wants_.out) save_length(0);
  save_length(count);
}

template <class T>
void DividedWriter<T>::end_head(Index problem) const {
  if (!wants_.gradients()) save_gradient_count(0);
  gradients_.end_head(problem);
}

template <class T>
void DividedWriter<T>::take(Index problem, LoadingArchive& from) const {
  const auto require = [&](std::size_t expected, std::size_t element) {
    if (archived::length(from, 0, element) != expected) {
      throw Error(Failure::input, "its results have another size");
    }
  };
  require(wants_.out ? out(problem).size() : 0, sizeof(T));
  if (wants_.out) take(out(problem), problem, from);
  const std::vector<Result> gradients = this->gradients(problem);
  require(gradients.size(), 1);
  for (const Result& result : gradients) {
    require(result.size(), sizeof(T));
    take(result, problem, from);
  }
  gradients_.end_head(problem);
}

template <class T>
void DividedWriter<T>::take(const Result& result, Index problem, LoadingArchive& from) const {
  const bool sum = is_sum(result, problem);
  if (ranks_.own() > 0 && !sum) return from.skip(result.size() * sizeof(T));
  const Index row_bytes = result.width * static_cast<Index>(sizeof(T));
  Buffer<T> rows;
  in_pieces({0, result.rows}, row_bytes, [&](Index first, Index count) {
    rows.reserve(count * result.width);
    from.bytes(rows.data(), static_cast<std::size_t>(count * row_bytes));
    if (sum) {
      gradients_.take_known_rows(result.name, first, count, rows.data());
    } else {
      write(result, problem, first, count, rows.data());
    }
  });
}

template class DividedWriter<float>;
template class DividedWriter<double>;

}  // namespace attn::tools
