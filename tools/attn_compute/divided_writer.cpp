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
      write(first, std::min(at_once, padding.last - first), zeros.data());
    }
  }
}

}  // namespace

template <class T>
ShownRows<T> DividedWriter<T>::rows(Index problem) const {
  const TileRange& own = input_.part(problem).range;
  const auto shifted = [](Index by, const ShowRows<T>& write) {
    return [=](Index first, Index count, const T* rows) { write(by + first, count, rows); };
  };
  return {shifted(own.row0, out(problem)), shifted(own.row0, gradient("grad_q", problem)),
          shifted(own.col0, gradient("grad_k", problem)),
          shifted(own.col0, gradient("grad_v", problem))};
}

template <class T>
void DividedWriter<T>::write_padding(Index problem) const {
  const TileRange& own = input_.part(problem).range;
  const auto by_query = [&](Index width, const ShowRows<T>& to) {
    write_zeros<T>({own.row0, own.row0 + own.rows}, input_.queries, width, to);
  };
  const auto by_key = [&](Index width, const ShowRows<T>& to) {
    write_zeros<T>({own.col0, own.col0 + own.cols}, input_.keys, width, to);
  };
  if (wants_.out) by_query(input_.v_head_dim, out(problem));
  if (wants_.grad_q) by_query(input_.depth, gradient("grad_q", problem));
  if (wants_.grad_k) by_key(input_.depth, gradient("grad_k", problem));
  if (wants_.grad_v) by_key(input_.v_head_dim, gradient("grad_v", problem));
}

template <class T>
ShowRows<T> DividedWriter<T>::out(Index problem) const {
  return [this, problem](Index first, Index count, const T* rows) {
    outputs_.write_lines("out", problem, first, count, rows);
  };
}

template <class T>
ShowRows<T> DividedWriter<T>::gradient(const std::string& name, Index problem) const {
  return [this, name, problem](Index first, Index count, const T* rows) {
    gradients_.write_rows(name, problem, first, count, rows);
  };
}

template class DividedWriter<float>;
template class DividedWriter<double>;

}  // namespace attn::tools
