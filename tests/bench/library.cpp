// Times the library's attention with all arrays in memory, and OpenBLAS' matrix product for
// comparison.
//
// attn-bench [--runs N] [--threads N] [--json] CASE...
//
// A CASE is SCHEME:HxLxD[:word...], with the words f64, bf16, causal, colsum (column sums too),
// entropy, backward (followed by gradients of q, k and v), rows=N (queries), dv=N, spread=S
// (standard deviation of q and k, 1: sets the size of the scores), iterations=T and memory=BYTES
// (per head, for the kernel that sinkhorn keeps). Prints a line per case: GFLOP/s, counting 2 Lq Lk
// (d + dv) per head, the median of the runs, and its ratio to sgemm (dgemm) of 4096 cubed on as
// many threads, timed between the runs.

#include <cblas.h>
#include <malloc.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "gradient/energy_gradient.hpp"
#include "kernel/parallel.hpp"
#include "pass/output.hpp"
#include "scheme/gradient.hpp"
#include "scheme/scheme.hpp"
#include "stats/observers.hpp"

namespace {

using namespace attn;

struct Case {
  std::string name;
  SchemeOptions scheme;
  Index heads = 1, queries = 1, keys = 1, depth = 1, v_head_dim = 1;
  bool f64 = false, bf16 = false, causal = false, column_sums = false, entropies = false,
       backward = false;
  double spread = 1;
};

double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

[[noreturn]] void refuse(const std::string& text) {
  std::fprintf(stderr, "attn-bench: error: %s\n", text.c_str());
  std::exit(2);
}

std::vector<std::string> split(const std::string& text, char by) {
  std::vector<std::string> parts;
  std::size_t first = 0;
  for (std::size_t at = text.find(by); at != std::string::npos; at = text.find(by, first)) {
    parts.push_back(text.substr(first, at - first));
    first = at + 1;
  }
  parts.push_back(text.substr(first));
  return parts;
}

Case parse(const std::string& text) {
  Case c;
  c.name = text;
  const auto words = split(text, ':');
  const auto shape = words.size() > 1 ? split(words[1], 'x') : std::vector<std::string>{};
  if (shape.size() != 3) refuse(text + ": expected SCHEME:HxLxD");
  c.heads = std::stol(shape[0]);
  c.queries = c.keys = std::stol(shape[1]);
  c.depth = c.v_head_dim = std::stol(shape[2]);
  const std::vector<std::pair<std::string, Scheme>> schemes = {{"unas", Scheme::unas},
                                                               {"dnas", Scheme::dnas},
                                                               {"hnas", Scheme::hnas},
                                                               {"sinkhorn", Scheme::sinkhorn}};
  const auto scheme = std::find_if(schemes.begin(), schemes.end(),
                                   [&](const auto& entry) { return entry.first == words[0]; });
  if (scheme == schemes.end()) refuse(text + ": no scheme is called " + words[0]);
  c.scheme.scheme = scheme->second;
  for (std::size_t n = 2; n < words.size(); ++n) {
    const auto pair = split(words[n], '=');
    const std::string value = pair.size() > 1 ? pair[1] : "";
    if (pair[0] == "f64") {
      c.f64 = true;
    } else if (pair[0] == "bf16") {
      c.bf16 = true;
    } else if (pair[0] == "causal") {
      c.causal = true;
    } else if (pair[0] == "colsum") {
      c.column_sums = true;
    } else if (pair[0] == "entropy") {
      c.entropies = true;
    } else if (pair[0] == "backward") {
      c.backward = true;
    } else if (pair[0] == "rows") {
      c.queries = std::stol(value);
    } else if (pair[0] == "dv") {
      c.v_head_dim = std::stol(value);
    } else if (pair[0] == "spread") {
      c.spread = std::stod(value);
    } else if (pair[0] == "memory") {
      c.scheme.kept_bytes = std::stol(value);
    } else if (pair[0] == "iterations") {
      c.scheme.iterations = std::stol(value);
    } else {
      refuse(text + ": " + words[n]);
    }
  }
  return c;
}

template <class T>
struct Head {
  std::vector<T> q, k, v, out;
  std::vector<T> grad_out, grad_q, grad_k, grad_v;
};

template <class T>
std::vector<T> normal(Index count, double spread, std::mt19937_64& random) {
  std::normal_distribution<double> value(0, spread);
  std::vector<T> values(static_cast<std::size_t>(count));
  for (T& x : values) x = static_cast<T>(value(random));
  return values;
}

// Cuts float32 numbers to their upper halves.
template <class T>
void to_bf16(std::vector<T>& values) {
  if constexpr (std::is_same_v<T, float>) {
    for (T& x : values) x = std::bit_cast<float>(std::bit_cast<std::uint32_t>(x) & 0xFFFF0000U);
  }
}

// scaled-dot, of bfloat16 numbers if the case says so.
template <class T>
std::unique_ptr<Energy<T>> energy_of(const Case& c, MatrixView<const T> q, MatrixView<const T> k) {
  if constexpr (std::is_same_v<T, float>) {
    if (c.bf16) return make_bf16_energy(q, k, 1 / std::sqrt(static_cast<double>(q.cols)));
  }
  return make_product_energy<T>(EnergyKind::scaled_dot, q, k, 1);
}

template <class T>
void compute(const Case& c, Head<T>& head, int threads) {
  const MatrixView<const T> q(head.q.data(), c.queries, c.depth);
  const MatrixView<const T> k(head.k.data(), c.keys, c.depth);
  const auto energy = energy_of<T>(c, q, k);
  typename Scores<T>::Terms terms;
  terms.energy = energy.get();
  terms.band.causal = c.causal;
  const Scores<T> scores(terms);
  Output<T> output({head.v.data(), c.keys, c.v_head_dim},
                   {head.out.data(), c.queries, c.v_head_dim});
  ColumnSums<T> sums;
  RowEntropy<T> entropies;
  std::vector<Observer<T>*> observers = {&output};
  if (c.column_sums) observers.push_back(&sums);
  if (c.entropies) observers.push_back(&entropies);
  const Attention attention = attend(scores, c.scheme, observers, threads);
  if (!c.backward) return;

  const auto gradient = make_product_gradient<T>(EnergyKind::scaled_dot, q, k, 1,
                                                 {head.grad_q.data(), c.queries, c.depth},
                                                 {head.grad_k.data(), c.keys, c.depth});
  Forward<T> forward;
  forward.scores = &scores;
  forward.options = c.scheme;
  forward.attention = &attention;
  forward.v = {head.v.data(), c.keys, c.v_head_dim};
  forward.out = {head.out.data(), c.queries, c.v_head_dim};
  forward.grad_out = {head.grad_out.data(), c.queries, c.v_head_dim};
  GradientTargets<T> targets;
  targets.v = {head.grad_v.data(), c.keys, c.v_head_dim};
  targets.energies = {gradient.get()};
  differentiate(forward, targets, threads);
}

void product(bool f64, Index n, std::vector<double>& memory) {
  const auto m = static_cast<blasint>(n);
  const auto size = static_cast<std::size_t>(n * n);
  memory.resize(3 * size, 1.0);
  if (f64) {
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, m, m, m, 1, memory.data(), m,
                memory.data() + size, m, 0, memory.data() + 2 * size, m);
  } else {
    auto* p = reinterpret_cast<float*>(memory.data());
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, m, m, m, 1, p, m, p + size, m, 0,
                p + 2 * size, m);
  }
}

template <class T>
void run(const Case& c, int runs, int threads, bool json) {
  std::mt19937_64 random(1);
  std::vector<Head<T>> heads(static_cast<std::size_t>(c.heads));
  for (Head<T>& head : heads) {
    head.q = normal<T>(c.queries * c.depth, c.spread, random);
    head.k = normal<T>(c.keys * c.depth, c.spread, random);
    if (c.bf16) to_bf16(head.q), to_bf16(head.k);
    head.v = normal<T>(c.keys * c.v_head_dim, 1, random);
    head.out.resize(static_cast<std::size_t>(c.queries * c.v_head_dim));
    if (c.backward) {
      head.grad_out = normal<T>(c.queries * c.v_head_dim, 1, random);
      head.grad_q.resize(head.q.size());
      head.grad_k.resize(head.k.size());
      head.grad_v.resize(head.v.size());
    }
  }
  const bool over_heads = c.heads >= threads;
  const auto all = [&] {
    kernel::parallel_for(c.heads, over_heads ? threads : 1, [&](Index h, int) {
      compute(c, heads[static_cast<std::size_t>(h)], over_heads ? 1 : threads);
    });
  };
  constexpr Index n = 4096;
  std::vector<double> memory;
  std::vector<double> ours;
  std::vector<double> gemm;
  all();  // once to warm up
  for (int r = 0; r < runs; ++r) {
    ours.push_back(seconds_of(all));
    if (r % 3 == 0) {
      openblas_set_num_threads(threads);
      gemm.push_back(seconds_of([&] { product(c.f64, n, memory); }));
      openblas_set_num_threads(1);
    }
  }
  const double flops = 2.0 * static_cast<double>(c.heads * c.queries * c.keys) *
                       static_cast<double>(c.depth + c.v_head_dim);
  const double rate = flops / median(ours) / 1e9;
  const double peak = 2.0 * n * n * n / median(gemm) / 1e9;
  if (json) {
    std::printf(
        "{\"case\": \"%s\", \"seconds\": %.6g, \"gflops\": %.4g, \"gemm_gflops\": %.4g, "
        "\"ratio\": %.4g, \"threads\": %d}\n",
        c.name.c_str(), median(ours), rate, peak, rate / peak, threads);
  } else {
    std::printf("%-36s %9.2f ms %8.1f GF/s  gemm %6.1f  ratio %5.2f\n", c.name.c_str(),
                1e3 * median(ours), rate, peak, rate / peak);
  }
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  // As in the tools: freed blocks stay mapped. (glibc ignores larger values.)
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 64 << 20);
  int runs = 7;
  int threads = 2;
  bool json = false;
  for (int n = 1; n < argc; ++n) {
    const std::string word = argv[n];
    if (word == "--json") {
      json = true;
    } else if ((word == "--runs" || word == "--threads") && n + 1 < argc) {
      (word == "--runs" ? runs : threads) = std::atoi(argv[++n]);
    } else {
      const Case c = parse(word);
      c.f64 ? run<double>(c, runs, threads, json) : run<float>(c, runs, threads, json);
    }
  }
  return 0;
}
