#pragma once

#include <memory>

#include "score/energy.hpp"
#include "score/row_source.hpp"

namespace attn {

/// The energies dot and scaled_dot of queries in memory, at least 16 or none, and of keys that are
/// read as they are needed: with the bits of make_product_energy. The rows of queries that a tile
/// has should be many, as its keys are read and packed for them. Reads all keys once. `keys` and
/// the memory of q must outlive it. Throws what the source throws.
template <class T>
std::unique_ptr<Energy<T>> make_read_energy(EnergyKind kind, MatrixView<const T> q,
                                            const RowSource<T>& keys, double scale);

/// Bytes that it allocates for each thread.
std::int64_t read_energy_bytes(Index keys, Index depth, std::size_t element_size);

}  // namespace attn
