#pragma once

// What attn-bench can time.

#include <functional>
#include <string>
#include <vector>

namespace bench {

struct Work {
  double flops = 0;  ///< floating-point operations of a run; 0: it is not counted
  double bytes = 0;  ///< of memory that a run has to read and write at least; 0: it is not counted
  std::function<void()> run;
};

/// Prints one line and ends the program with status 2.
[[noreturn]] void refuse(const std::string& text);

std::vector<std::string> split(const std::string& text, char by);

/// SCHEME:HxLxD[:word...] with all arrays in memory; operations are counted as 2 Lq Lk (d + dv) per
/// head, three times as many with gradients.
Work attention_work(const std::string& text, int threads);

/// What the machine can do at best: gemm:N[:f64], the product of two N x N matrices by OpenBLAS;
/// peak[:f64], multiplications with an addition, in registers; read:MIB, a sum of as many
/// mebibytes. Without `run` if it is called something else.
Work machine_work(const std::string& text, int threads);

}  // namespace bench
