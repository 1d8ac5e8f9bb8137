// The rates that others are compared with: of products, of arithmetic and of memory.

#include "bench/work.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "bench/machine_work.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernel/vectors-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace attn::kernel::HWY_NAMESPACE {

// Two units with a latency of 4 cycles have 8 in flight; 12 and their operands fit into 16
// registers.
constexpr int in_flight = 12;

// Returns the number of operations.
template <class T>
double MultiplyAdds(Index rounds, T* total) {
  const Tag<T> d;
  const Vec<T> factor = hn::Set(d, static_cast<T>(0.5));
  const Vec<T> term = hn::Set(d, *total);
  Vec<T> values[in_flight];
  for (Vec<T>& value : values) value = term;
  for (Index round = 0; round < rounds; ++round) {
    for (Vec<T>& value : values) value = hn::MulAdd(value, factor, term);
  }
  for (const Vec<T>& value : values) *total += hn::GetLane(value);
  return 2.0 * in_flight * static_cast<double>(lanes<T>() * rounds);
}

// The sum of the numbers that fill whole groups of vectors.
template <class T>
T PlainSum(const T* x, Index n) {
  constexpr int vectors = 8;
  const Tag<T> d;
  const Index width = lanes<T>();
  Vec<T> sums[vectors];
  for (Vec<T>& sum : sums) sum = hn::Zero(d);
  for (Index j = 0; j + vectors * width <= n; j += vectors * width) {
    for (int k = 0; k < vectors; ++k) sums[k] = hn::Add(sums[k], hn::LoadU(d, x + j + k * width));
  }
  for (int k = 1; k < vectors; ++k) sums[0] = hn::Add(sums[0], sums[k]);
  return hn::GetLane(hn::SumOfLanes(d, sums[0]));
}

}  // namespace attn::kernel::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#define ATTN_KERNELS(KERNEL, T)                                                              \
  KERNEL(T, double, multiply_adds, MultiplyAdds, (Index rounds, T * total), (rounds, total)) \
  KERNEL(T, T, plain_sum, PlainSum, (const T* x, Index n), (x, n))
#include "kernel/dispatch-inl.hpp"

#if HWY_ONCE

#include <cblas.h>

#include <cstdlib>
#include <memory>
#include <type_traits>

#include "parallel/parallel_for.hpp"

namespace bench {
namespace {

using namespace attn;

template <class T>
Work gemm(Index n, int threads) {
  const auto size = static_cast<std::size_t>(n * n);
  const auto matrices = std::make_shared<std::vector<T>>(3 * size, T{1});
  Work work;
  work.flops = 2.0 * static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n);
  work.run = [m = static_cast<blasint>(n), size, matrices, threads] {
    T* const a = matrices->data();
    openblas_set_num_threads(threads);
    if constexpr (std::is_same_v<T, double>) {
      cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, m, m, m, 1, a, m, a + size, m, 0,
                  a + 2 * size, m);
    } else {
      cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, m, m, m, 1, a, m, a + size, m, 0,
                  a + 2 * size, m);
    }
    openblas_set_num_threads(1);
  };
  return work;
}

// Results, so that no computation is left out.
struct alignas(64) Result {
  double value = 0;
};

template <class T>
Work peak(int threads) {
  constexpr Index rounds = 10'000'000;
  T total = 0;
  Work work;
  work.flops = threads * kernel::multiply_adds(rounds, &total);
  const auto results = std::make_shared<std::vector<Result>>(static_cast<std::size_t>(threads));
  work.run = [threads, results] {
    parallel_for(threads, threads, [&](Index part, int) {
      T sum = 1;
      kernel::multiply_adds(rounds, &sum);
      (*results)[static_cast<std::size_t>(part)].value = static_cast<double>(sum);
    });
  };
  return work;
}

Work read(Index mebibytes, int threads) {
  const Index count = (mebibytes << 20) / static_cast<Index>(sizeof(float));
  const auto numbers = std::make_shared<std::vector<float>>(static_cast<std::size_t>(count), 1.0F);
  const auto results = std::make_shared<std::vector<Result>>(static_cast<std::size_t>(threads));
  Work work;
  work.bytes = static_cast<double>(count) * sizeof(float);
  work.run = [count, threads, numbers, results] {
    parallel_for(threads, threads, [&](Index part, int) {
      const Index first = part * count / threads;
      const Index end = (part + 1) * count / threads;
      (*results)[static_cast<std::size_t>(part)].value =
          static_cast<double>(kernel::plain_sum(numbers->data() + first, end - first));
    });
  };
  return work;
}

}  // namespace

Work machine_work(const std::string& text, int threads) {
  const auto words = split(text, ':');
  const bool f64 = words.back() == "f64";
  const std::size_t numbers = words.size() - (f64 ? 1 : 0);
  if (words[0] == "peak" && numbers == 1) return f64 ? peak<double>(threads) : peak<float>(threads);
  if (words[0] != "gemm" && words[0] != "read") return {};
  const Index size = numbers == 2 ? std::atol(words[1].c_str()) : 0;
  if (size < 1 || (f64 && words[0] == "read")) refuse(text + ": expected gemm:N[:f64] or read:MIB");
  if (words[0] == "read") return read(size, threads);
  return f64 ? gemm<double>(size, threads) : gemm<float>(size, threads);
}

}  // namespace bench

#endif
