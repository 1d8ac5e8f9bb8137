#include "attn_compute/divided_writer.hpp"

#include <algorithm>
#include <vector>

namespace attn::tools {
namespace {

template <class T>
void write_zeros(RowRange own, Index rows, Index width, const ShowRows<T>& write) {
  const Index at_once =
      std::min(rows_of_piece(width * static_cast<Index>(sizeof(T))), std::max<Index>(1, rows));
  const std::vector<T> zeros(static_cast<std::size_t>(at_once * width), T{0});
  for (const RowRange& padding : {RowRange{0, own.first}, RowRange{own.last, rows}}) {
    for (Index first = padding.first; first < padding.last; first += at_once) {
      write({0, first, std::min(at_once, padding.last - first), zeros.data()});
    }
  }
}

}  // namespace

template <class T>
ShownRows<T> DividedWriter<T>::rows(Index problem) const {
  const TileRange& own = input_.part(problem).range;
  const auto shifted = [](Index by, const ShowRows<T>& write) {
    return [=](const GatheredRows<T>& rows) { write(rows.shifted(by)); };
  };
  return {shifted(own.row0, out(problem)),
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
  if (wants_.out) write_zeros<T>(queries, input_.queries, input_.v_head_dim, out(problem));
  const auto pad = [&](bool wanted, const char* name, RowRange rows, Index all, Index width) {
    if (!wanted || gradients_.sums(name)) return;
    write_zeros<T>(rows, all, width, gradient(name, problem));
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
    if (numbers != nullptr) outputs_.write_lines("out", problem, rows.first, rows.count, numbers);
  };
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
