#pragma once

#include <cstdint>

#include "score/matrix_source.hpp"
#include "tensor/buffer.hpp"
#include "tensor/view.hpp"

/// Output gates: out_ic is multiplied by σ(gate_ic), σ(x) = 1/(1 + exp(−x)).
namespace attn {

/// Multiplies `out` (Lq, dv) by σ(gate), computed in float64 and rounded once.
template <class T>
void apply_gate(const MatrixSource<T>& gate, MatrixView<T> out);

/// σ(gate)·rows: turns the output before the gate into the output after it, and the gradient after
/// the gate into the gradient before it.
template <class T>
Buffer<T> through_gate(const MatrixSource<T>& gate, MatrixView<const T> rows);

/// Writes the gradient of a gate that broadcasts: Σ grad_out·out·σ(gate)(1 − σ(gate)) over the axes
/// on which `gradient` (Lq or 1, dv or 1) has length 1, in float64. `out` is the output before the
/// gate.
template <class T>
void differentiate_gate(const MatrixSource<T>& gate, MatrixView<const T> out,
                        MatrixView<const T> grad_out, MatrixView<T> gradient);

/// Bytes that through_gate and differentiate_gate allocate.
std::int64_t gate_bytes(Index queries, Index width, std::size_t element_size);

}  // namespace attn
