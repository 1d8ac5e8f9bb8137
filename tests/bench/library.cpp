// Times the library's attention with all arrays in memory, and what the machine can do at best.
//
// attn-bench [--runs N] [--threads N] [--json] CASE...
// attn-bench [--threads N] --serve CASE
//
// A CASE is SCHEME:HxLxD[:word...], with the words f64, bf16, causal, colsum (column sums too),
// entropy, backward (followed by gradients of q, k and v), rows=N (queries), dv=N, spread=S
// (standard deviation of q and k, 1: sets the size of the scores), iterations=T and memory=BYTES
// (per head, for the kernel that sinkhorn keeps); or gemm:N[:f64], peak[:f64] or read:MIB
// (work.hpp).
//
// Prints a line per case: the median of the runs after an untimed one, and GFLOP/s, counting
// 2 Lq Lk (d + dv) per head, three times as many with gradients. --serve runs the case once and
// then answers commands of standard input: `about` by a line of JSON, `time` by the seconds of a
// run.

#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iostream>

#include "bench/work.hpp"

namespace bench {

void refuse(const std::string& text) {
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

}  // namespace bench

namespace {

using bench::Work;

struct Options {
  int runs = 9;
  int threads = 2;
  bool json = false, serve = false;
  std::vector<std::string> cases;
};

Options options_of(int argc, char** argv) {
  Options options;
  for (int n = 1; n < argc; ++n) {
    const std::string word = argv[n];
    if (word == "--json") {
      options.json = true;
    } else if (word == "--serve") {
      options.serve = true;
    } else if ((word == "--runs" || word == "--threads") && n + 1 < argc) {
      int& value = word == "--runs" ? options.runs : options.threads;
      value = std::atoi(argv[++n]);
      if (value < 1) bench::refuse(word + ": expected a number of 1 or more");
    } else {
      options.cases.push_back(word);
    }
  }
  if (options.cases.empty() || (options.serve && options.cases.size() > 1)) {
    bench::refuse(options.serve ? "--serve: expected one case" : "expected a case");
  }
  return options;
}

double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

Work prepared(const std::string& text, int threads) {
  const Work machine = bench::machine_work(text, threads);
  const Work work = machine.run ? machine : bench::attention_work(text, threads);
  work.run();  // once to warm up
  return work;
}

void serve(const std::string& text, int threads) {
  const Work work = prepared(text, threads);
  for (std::string line; std::getline(std::cin, line);) {
    if (line == "time") {
      std::printf("%.9g\n", seconds_of(work.run));
    } else {
      std::printf("{\"case\": \"%s\", \"flops\": %.17g, \"bytes\": %.17g}\n", text.c_str(),
                  work.flops, work.bytes);
    }
    std::fflush(stdout);
  }
}

void print(const std::string& text, const Options& options) {
  const Work work = prepared(text, options.threads);
  std::vector<double> times;
  for (int run = 0; run < options.runs; ++run) times.push_back(seconds_of(work.run));
  const double seconds = median(times);
  const double gflops = work.flops / seconds / 1e9;
  const double gbytes = work.bytes / seconds / 1e9;
  if (options.json) {
    std::printf(
        "{\"case\": \"%s\", \"seconds\": %.6g, \"gflops\": %.4g, \"gbytes\": %.4g, "
        "\"threads\": %d}\n",
        text.c_str(), seconds, gflops, gbytes, options.threads);
  } else {
    std::printf("%-36s %9.2f ms", text.c_str(), 1e3 * seconds);
    if (work.flops > 0) std::printf(" %8.1f GF/s", gflops);
    if (work.bytes > 0) std::printf(" %8.2f GB/s", gbytes);
    std::printf("\n");
  }
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  // As in the tools: freed blocks stay mapped. (glibc ignores larger values.)
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 64 << 20);
  try {
    const Options options = options_of(argc, argv);
    for (const std::string& text : options.cases) {
      options.serve ? serve(text, options.threads) : print(text, options);
    }
  } catch (const std::exception& error) {
    bench::refuse(error.what());
  }
  return 0;
}
