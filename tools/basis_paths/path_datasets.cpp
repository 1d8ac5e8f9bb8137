#include "basis_paths/path_verbs.hpp"

#include "common/options/dataset_words.hpp"

namespace attn::tools {
namespace {

// S is the row of the skeleton in a column, i any other row.
void declare_formulas(cli::Declaration& d) {
  d.formula("path(i, j, c) = wq[i,c] wk[j,c],   rank = d2 (2 d1 - 1)")
      .formula("path(i, j, c) = path(i, S, c) path(S, j, c) / path(S, S, c)")
      .formula("S = c mod d1 (cyclic),  (h d2 + c) mod d1 in head h (--across-heads)")
      .formula("si-sgd, in each column with skeleton row S, for rows i other than S:")
      .formula("  G     = (grad_wq[S] - sum_i grad_wk[i] wk[i] / wq[S]) / wk[S]")
      .formula("  R     = 1 - rate G / (wq[S] wk[S])")
      .formula("  wq[S] = wq[S] R,   wk[S] stays")
      .formula("  wq[i] = wq[i] - rate grad_wq[i] / wk[S]^2")
      .formula("  wk[i] = (wk[i] - rate grad_wk[i] / wq[S]^2) / R");
}

void declare_inputs(cli::Declaration& d) {
  d.dataset("wq, wk", "(..., d1, d2)", "the projections; leading axes are layers and heads")
      .dataset("grad_wq, grad_wk", "(..., d1, d2)", "step, rescale: their gradients")
      .dataset("scale", "(..., d2)", "rescale: the factor of each column")
      .dataset("skeleton_q, skeleton_k", "(..., d2)", "the rows of the skeleton by column")
      .dataset("basis_value", "(..., 2 d1 - 1, d2)", "reconstruct: the values of the basis paths")
      .dataset("wk_skeleton", "(..., d2)", "reconstruct: the weights of wk in the skeleton")
      .dataset("path", "(..., n, 3)",
               "identify, reconstruct, check: paths, each as row of wq, row of wk, column")
      .dataset("bq, bk", "(..., d2)", "rescale: biases, scaled with their columns")
      .dataset("adam_m, adam_v, adam_step, si_adam_m, si_adam_v, si_adam_step, sgd_m, si_sgd_m", "",
               "step: the state of the optimizer")
      .dataset("x", "(..., S, D)", "check: S, if --length is not given");
}

void declare_results(cli::Declaration& d) {
  d.result("skeleton_q, skeleton_k", "(..., d2)", "the rows of the skeleton by column")
      .result("basis_path", "(..., 2 d1 - 1, d2, 3)",
              "identify: row of wq, row of wk and column of each basis path, int32. Entry r < d1 "
              "holds the paths through row r of wq; later entries hold the paths through the other "
              "rows of wk, in order")
      .result("path_basis, path_exponent", "(..., n, 3)",
              "identify: each path of a list is a product of one or three basis paths. These are "
              "their entries in basis_path, in the path's column, and their exponents, int32: 1, "
              "or 1, 1 and -1; unused places have entry -1 and exponent 0")
      .result("basis_value", "(..., 2 d1 - 1, d2)", "values: the values of the basis paths")
      .result(
          "wk_skeleton", "(..., d2)",
          "values: the weights of wk in the skeleton, with which values can be turned into weights")
      .result("path_value", "(..., n) or (..., d1, d1, d2)",
              "reconstruct: the values of the chosen paths, or of all")
      .result("wq, wk", "(..., d1, d2)", "reconstruct, rescale, start, step: the new weights")
      .result("adam_m, adam_v, adam_step, si_adam_m, si_adam_v, si_adam_step, sgd_m, si_sgd_m", "",
              "step: the state of the optimizer")
      .report_member("shape, skeleton", "the shape of the weights and the rule of the skeleton")
      .report_member("basis_paths", "identify, values: the number of basis paths")
      .report_member(
          "paths",
          "identify, reconstruct, check: the number of paths of the list; in check d1^2 d2")
      .report_member("rescaled", "rescale: the names of the datasets that were scaled")
      .report_member(
          "optimizer, step, ratio, inconsistency, singular",
          "step: the optimizer, the number of the step, min and max of R, the relative "
          "difference of grad_wq wq and grad_wk wk, and the number of singular columns or "
          "nodes")
      .report_member("weights, rank, expected_rank, path_instances",
                     "check: the number of weights, the rank of all paths, d2 (2 d1 - 1), and "
                     "S^2 d1^2 d2")
      .report_member("judged, basis",
                     "check: which paths were judged (path, basis_path or skeleton); of these, "
                     "paths (their number), rank, independent and complete")
      .report_member("heads",
                     "step, check: an array of these figures for each head, with index; in step, "
                     "singular is an array of column and ratio");
}

// w is a matrix of weights, S the node after b on the skeleton's path, U(b) and D(b) the products
// of the skeleton's weights on the path into b and from b on.
void declare_network_formulas(cli::Declaration& d) {
  d.formula("--network relu: path(i0, ..., iL) = w1[i0,i1] w2[i1,i2] ... wL[iL-1,iL]")
      .formula("  rank = weights - hidden nodes")
      .formula("  w[a,b] of basis path v:  w = v U(b) / (U(a) T(b)),  T(b) = U(b) D(b)")
      .formula("  r(b) = sum_{c != S} grad_w[b,c] w[b,c],")
      .formula("         plus r(S) if w[b,S] is the skeleton's weight into S")
      .formula("  R(b) = 1 - rate (grad_w[a,b] w[a,b] - r(b)) / T(b)^2,  skeleton's w[a,b]")
      .formula("  w[a,b] = w[a,b] R(a) / R(b)   the skeleton's out of a; its w into b stay")
      .formula("  w[a,b] = (w[a,b] - rate grad_w[a,b] / (U(a) D(b))^2) / R(b)   the others");
}

void declare_network_inputs(cli::Declaration& d) {
  d.dataset("w1, w2, ...", "(..., n0, n1), (..., n1, n2)",
            "--network relu: the weights; leading axes are independent networks")
      .dataset("grad_w1, grad_w2, ...", "as w1, w2, ...",
               "--network relu, step, rescale: their gradients")
      .dataset("skeleton_in, skeleton_out", "(..., hidden)",
               "--network relu: for each hidden node, layer by layer, the nodes that the skeleton "
               "connects it to in the layers before and after")
      .dataset("scale", "(..., hidden)",
               "--network relu, rescale: a factor > 0 for each hidden node; it multiplies the "
               "weights into the node and divides the weights out of it")
      .dataset(
          "basis_value, layer_sizes", "(..., weights - hidden), (L + 1)",
          "--network relu, reconstruct: the values of the basis paths, and the number of nodes "
          "of each layer")
      .dataset("skeleton_weight", "(..., hidden)",
               "--network relu, reconstruct: the skeleton's weights into the hidden nodes. Other "
               "weights with the same signs give a rescaled network, which computes the same. The "
               "signs do not follow from the values of paths")
      .dataset("si_adam_m, si_adam_v, si_adam_step, si_sgd_m", "(..., weights - hidden), ()",
               "--network relu, step: the state of si-adam and the momentum of si-sgd, by basis "
               "path")
      .dataset("adam_m, adam_v, adam_step, sgd_m", "(..., weights), ()",
               "--network relu, step: the state of adam and the momentum of sgd, by weight, matrix "
               "by matrix, row by row; rescale: the same, to match")
      .dataset("path", "(..., n, L + 1)",
               "--network relu, check: paths, each as one node of each layer");
}

void declare_network_results(cli::Declaration& d) {
  d.result("skeleton_in, skeleton_out", "(..., hidden)",
           "--network relu: the skeleton, by hidden node")
      .result("layer_sizes", "(L + 1)",
              "--network relu, identify, values: the number of nodes of each layer, int32")
      .result("basis_path", "(..., weights - hidden, L + 1)",
              "--network relu, identify: the nodes of each basis path, int32. Each weight has one, "
              "except the skeleton's weights out of hidden nodes; layer by layer, row by row")
      .result("basis_value, skeleton_weight", "(..., weights - hidden), (..., hidden)",
              "--network relu, values: the values of the basis paths, and the skeleton's weights "
              "into the hidden nodes")
      .result("w1, w2, ...", "(..., n0, n1), (..., n1, n2)",
              "--network relu, reconstruct, rescale, step: the new weights")
      .result(
          "si_adam_m, si_adam_v, si_adam_step, si_sgd_m", "(..., weights - hidden), ()",
          "--network relu, step: the state of si-adam and the momentum of si-sgd, by basis path")
      .result("adam_m, adam_v, adam_step, sgd_m", "(..., weights), ()",
              "--network relu, step, rescale: the state of adam and the momentum of sgd, by weight")
      .report_member(
          "hidden, networks",
          "--network relu, step, check: the number of hidden nodes, and an array of the "
          "figures of each network, with index; in step, singular is an array of layer, node "
          "and ratio");
}

}  // namespace

void declare_path_datasets(cli::Declaration& d) {
  declare_formulas(d);
  declare_network_formulas(d);
  declare_inputs(d);
  declare_network_inputs(d);
  declare_results(d);
  declare_network_results(d);
  declare_groups_member(d);
  d.reference(scale_invariant_reference);
  d.reference(
      "Q. Meng, S. Zheng, H. Zhang, W. Chen, Q. Ye, Z.-M. Ma, N. Yu, T.-Y. Liu: G-SGD: Optimizing "
      "ReLU Neural Networks in its Positively Scale-Invariant Space. ICLR 2019, arXiv:1802.03713");
}

}  // namespace attn::tools
