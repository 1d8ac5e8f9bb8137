#pragma once

#include "attnkit/attention.hpp"
#include "head/own_part.hpp"

namespace attn {

/// Calls body(name, a.operand, b.operand) for every operand except the energy's.
template <class A, class B, class Body>
void for_operand_pairs(A& a, B& b, const Body& body) {
  body("q", a.q, b.q);
  body("k", a.k, b.k);
  body("v", a.v, b.v);
  body("scores", a.scores, b.scores);
  body("x", a.x, b.x);
  body("y", a.y, b.y);
  body("wq", a.wq, b.wq);
  body("wk", a.wk, b.wk);
  body("wv", a.wv, b.wv);
  body("bq", a.bq, b.bq);
  body("bk", a.bk, b.bk);
  body("bv", a.bv, b.bv);
  body("bias", a.bias, b.bias);
  body("preference", a.preference, b.preference);
  body("cost", a.cost, b.cost);
  body("rel_bias", a.rel_bias, b.rel_bias);
  body("mask", a.mask, b.mask);
  for_bound_pairs(a, b, body);
  body("cu_seqlens_q", a.cu_seqlens_q, b.cu_seqlens_q);
  body("cu_seqlens_k", a.cu_seqlens_k, b.cu_seqlens_k);
  body("hybrid", a.hybrid, b.hybrid);
  body("sink", a.sink, b.sink);
  body("gate", a.gate, b.gate);
}

}  // namespace attn
