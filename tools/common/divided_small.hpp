#pragma once

#include "common/divided_head.hpp"

namespace attn::tools {

/// A small head (is_small), whose gradients are computed from all of it: every rank does so for
/// itself, on one thread; the rows that are shown are those of rank 0. Throws the errors of attend.
template <class T>
DividedHead compute_small(const AttentionInput& input, const DividedWants& wants,
                          const Head<T>& head, const ShownRows<T>& show);

}  // namespace attn::tools
