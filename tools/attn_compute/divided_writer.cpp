#include "attn_compute/divided_writer.hpp"

#include <algorithm>
#include <vector>

#include "attnkit/error.hpp"

namespace attn::tools {
namespace {

template <class T>
void write_zeros(RowRange rows, Index width, const ShowRows<T>& write) {
  const Index count = std::max<Index>(1, rows.last - rows.first);
  const Index at_once = std::min(rows_of_piece(width * static_cast<Index>(sizeof(T))), count);
  const std::vector<T> zeros(static_cast<std::size_t>(at_once * width), T{0});
  for (Index first = rows.first; first < rows.last; first += at_once) {
    write({0, first, std::min(at_once, rows.last - first), zeros.data()});
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
ShownRows<T> DividedWriter<T>::rows(Index problem) const {
  const TileRange& own = input_.part(problem).range;
  const auto write_out = [this, problem, write = out(problem),
                          by = own.row0](const GatheredRows<T>& rows) {
    if (rows.first == 0) begin_out(problem);
    write(rows.shifted(by));
  };
  const auto shifted = [](Index by, const ShowRows<T>& write) {
    return [=](const GatheredRows<T>& rows) { write(rows.shifted(by)); };
  };
  return {write_out,
          shifted(own.row0, gradient("grad_q", problem)),
          shifted(own.col0, gradient("grad_k", problem)),
          shifted(own.col0, gradient("grad_v", problem)),
          shifted(input_.has_gate_by_query() ? own.row0 : 0, gradient("grad_gate", problem)),
          gradient("grad_sink", problem)};
}

template <class T>
void DividedWriter<T>::end_head(Index problem) const {
  const TileRange& own = input_.part(problem).range;
  const RowRange queries{own.row0, own.row0 + own.rows};
  const RowRange keys{own.col0, own.col0 + own.cols};
  if (!wants_.out || queries.first == queries.last) begin_out(problem);
  if (wants_.out) {
    write_zeros<T>({queries.last, input_.queries}, input_.v_head_dim, out(problem));
  }
  const auto pad = [&](bool wanted, const char* name, RowRange rows, Index all, Index width) {
    if (!wanted || gradients_.sums(name)) return;
    write_zeros<T>({0, rows.first}, width, gradient(name, problem));
    write_zeros<T>({rows.last, all}, width, gradient(name, problem));
  };
  pad(wants_.grad_q, "grad_q", queries, input_.queries, input_.depth);
  if (input_.has_gate_by_query()) {
    pad(wants_.grad_gate, "grad_gate", queries, input_.queries, input_.gate->cols);
  }
  pad(wants_.grad_k, "grad_k", keys, input_.keys, input_.depth);
  pad(wants_.grad_v, "grad_v", keys, input_.keys, input_.v_head_dim);
  gradients_.end_head(problem);
}

template <class T>
ShowRows<T> DividedWriter<T>::out(Index problem) const {
  return [this, problem](const GatheredRows<T>& rows) {
    Buffer<T> room;
    const T* const numbers = at_first_rank(ranks_, rows, input_.v_head_dim, room);
    if (numbers == nullptr) return;
    outputs_.write_lines("out", problem, rows.first, rows.count, numbers);
    if (checkpoint_ == nullptr) return;
    const auto size = static_cast<std::size_t>(rows.count * input_.v_head_dim);
    checkpoint_->first_parts().bytes(numbers, size * sizeof(T));
  };
}

// Before the own rows: the size, and zeros for queries of padding.
template <class T>
void DividedWriter<T>::begin_out(Index problem) const {
  if (checkpoint_ != nullptr) {
    SavingArchive to = checkpoint_->first_parts();
    archived::length(to, out_size(), sizeof(T));
  }
  if (!wants_.out) return;
  write_zeros<T>({0, input_.part(problem).range.row0}, input_.v_head_dim, out(problem));
}

template <class T>
std::size_t DividedWriter<T>::out_size() const {
  return wants_.out ? static_cast<std::size_t>(input_.queries * input_.v_head_dim) : 0;
}

template <class T>
void DividedWriter<T>::take_out(Index problem, LoadingArchive& from) const {
  const std::size_t size = archived::length(from, 0, sizeof(T));
  if (size != out_size()) throw Error(Failure::input, "its output has another size");
  if (ranks_.own() > 0 || size == 0) return from.skip(size * sizeof(T));
  const Index width = input_.v_head_dim;
  const Index at_once = rows_of_piece(width * static_cast<Index>(sizeof(T)));
  Buffer<T> rows(at_once * width);
  for (Index first = 0; first < input_.queries; first += at_once) {
    const Index count = std::min(at_once, input_.queries - first);
    from.bytes(rows.data(), static_cast<std::size_t>(count * width) * sizeof(T));
    outputs_.write_lines("out", problem, first, count, rows.data());
  }
}

template <class T>
ShowRows<T> DividedWriter<T>::gradient(const std::string& name, Index problem) const {
  return [this, name, problem](const GatheredRows<T>& rows) {
    gradients_.take_rows(name, problem, rows);
  };
}

template class DividedWriter<float>;
template class DividedWriter<double>;

}  // namespace attn::tools
