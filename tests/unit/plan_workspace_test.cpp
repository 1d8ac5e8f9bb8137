// The memory that plans keep from run to run, and the independence of plans from each other.

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "attnkit/attention.hpp"
#include "parallel/busy_threads.hpp"
#include "pass/partition.hpp"
#include "plan_problem.hpp"
#include "repeats.hpp"
#include "sanitized.hpp"
#include "tensor/buffer.hpp"
#include "tensor/large_memory.hpp"
#include "tensor/memory_pool.hpp"

using namespace attn;
using namespace attn::testing;

namespace {

AttentionOptions workspace_options(Scheme scheme) {
  AttentionOptions options;
  options.scheme = scheme;
  if (scheme == Scheme::sinkhorn) {
    options.stopping.iterations = 4;
    options.tuning.kept_bytes = std::int64_t{1} << 20;
  }
  return options;
}

// A plan reserves its memory at its first run: one part for each head that is computed at a time,
// and one for what they share. Gradients may reserve as much again.
template <class T>
void check_reservations(const Batch<T>& batch, const BatchSizes& sizes,
                        const AttentionOptions& options, int threads, int runs) {
  AttentionPlan<T> plan(shapes_of(batch.inputs()), options, threads);
  Results<T> got(sizes, options.scheme == Scheme::hnas);
  const std::int64_t start = MemoryPool::growths();
  plan.run(batch.inputs(), got.views);
  const bool each = take_items_each(
      sizes.problems(), attend_parts(options.scheme, true, sizes.queries, sizes.keys, sizeof(T)),
      threads);
  const Index pools = 1 + (each ? std::min<Index>(sizes.problems(), threads) : 1);
  CHECK(MemoryPool::growths() == start + pools);
  const Results<T> before = got;
  for (int n = 0; n < runs; ++n) plan.run(batch.inputs(), got.views);
  CHECK(MemoryPool::growths() == start + pools);
  CHECK(got.out == before.out);
  CHECK(plan.workspace_bytes() > 0);
  std::vector<T> q(batch.q.size()), k(batch.k.size()), v(batch.v.size());
  AttentionGradients<T> to;
  to.q = {q.data(), batch.inputs().q.shape};
  to.k = {k.data(), batch.inputs().k.shape};
  to.v = {v.data(), batch.inputs().v.shape};
  plan.gradients(batch.inputs(), batch.upstream(), to);
  const std::int64_t differentiated = MemoryPool::growths();
  CHECK(differentiated <= start + 2 * pools);
  for (int n = 0; n < runs; ++n) plan.gradients(batch.inputs(), batch.upstream(), to);
  plan.run(batch.inputs(), got.views);
  CHECK(MemoryPool::growths() == differentiated);
}

const BatchSizes reserved_sizes[] = {{2, 4, 2, 130, 150, 16, 16},
                                     {1, 1, 1, 700, 600, 8, 24},
                                     {1, 3, 1, 1, 90, 8, 4},
                                     {1, 2, 1, 90, 1, 8, 4}};

}  // namespace

TEST_CASE("a pool hands out the same memory again") {
  MemoryPool pool;
  pool.reserve(10000);
  const std::int64_t bytes = pool.bytes();
  CHECK(bytes >= 10000);
  const std::int64_t growths = MemoryPool::growths();
  std::vector<double*> first;
  for (int n = 0; n < 3; ++n) {
    const MemoryPool::Use use(&pool);
    const Buffer<double> a(100);
    const Buffer<float> b(7);
    Buffer<double> c(0);
    c.reserve(300);
    for (const Buffer<double>* buffer : std::initializer_list<const Buffer<double>*>{&a, &c}) {
      std::fill(buffer->begin(), buffer->end(), 1.5);
    }
    std::fill(b.begin(), b.end(), 2.5F);
    CHECK(std::count(a.begin(), a.end(), 1.5) == 100);
    CHECK(std::count(c.begin(), c.end(), 1.5) == 300);
    CHECK(reinterpret_cast<std::uintptr_t>(c.data()) % 64 == 0);
    if (n == 0) first = {a.data(), c.data()};
    CHECK(first == std::vector<double*>{a.data(), c.data()});
    CHECK(pool.bytes_in_use() > 0);
  }
  CHECK(pool.bytes_in_use() == 0);
  CHECK(pool.most_bytes_in_use() >= 400 * 8 + 7 * 4);
  CHECK(MemoryPool::growths() == growths);
  CHECK(MemoryPool::current() == nullptr);
}

TEST_CASE("a pool grows where a block fits nowhere, and gaps join") {
  MemoryPool pool;
  pool.reserve(4096);
  {
    const MemoryPool::Use use(&pool);
    Buffer<char> parts[4];
    for (auto& part : parts) part = Buffer<char>(900);
    const Buffer<char> large(100000);
    CHECK(pool.bytes() > 100000);
    // A buffer that is moved out of the scope still belongs to the pool.
    const MemoryPool::Use none(nullptr);
    Buffer<char> outside = std::move(parts[1]);
    CHECK(outside.size() == 900);
  }
  CHECK(pool.bytes_in_use() == 0);
  const std::int64_t growths = MemoryPool::growths();
  const MemoryPool::Use use(&pool);
  const Buffer<char> whole(3900);  // the size of the four parts together
  const LargeMemory more(90000);
  CHECK(more.data() != nullptr);
  CHECK(MemoryPool::growths() == growths);
}

TEST_CASE_TEMPLATE("a plan allocates at its first run only, and no more than it says", T, float,
                   double) {
  Random random(321);
  for (const Scheme scheme : {Scheme::unas, Scheme::dnas, Scheme::hnas, Scheme::sinkhorn}) {
    for (const BatchSizes& sizes : reserved_sizes) {
      for (const char* energy : {"scaled-dot", "gaussian"}) {
        for (const int threads : sanitized ? std::vector{3} : std::vector{1, 3}) {
          CAPTURE(static_cast<int>(scheme));
          CAPTURE(sizes.queries);
          CAPTURE(threads);
          AttentionOptions options = workspace_options(scheme);
          options.energy = energy;
          const Batch<T> batch(sizes, random, threads == 1);
          check_reservations(batch, sizes, options, threads, repeats(3));
        }
      }
    }
  }
}

TEST_CASE_TEMPLATE("repeated attention allocates at its first run only", T, float, double) {
  Random random(323);
  for (const Scheme scheme : {Scheme::unas, Scheme::dnas}) {
    for (const BatchSizes& sizes : reserved_sizes) {
      for (const int threads : sanitized ? std::vector{3} : std::vector{1, 3}) {
        CAPTURE(static_cast<int>(scheme));
        CAPTURE(sizes.queries);
        CAPTURE(threads);
        AttentionOptions options = workspace_options(scheme);
        const bool em = scheme == Scheme::dnas;
        options.repetition = Repetition{3, em, em};
        const Batch<T> batch(sizes, random, false);
        check_reservations(batch, sizes, options, threads, 1);
      }
    }
  }
}

TEST_CASE("two plans at once") {
  Random random(322);
  const BatchSizes sizes{2, 4, 2, 100, 120, 16, 8};
  const Batch<float> batch(sizes, random, true);
  const auto run = [&](Scheme scheme, int threads, int times) {
    AttentionPlan<float> plan(shapes_of(batch.inputs()), workspace_options(scheme), threads);
    Results<float> got(sizes, scheme == Scheme::hnas);
    for (int n = 0; n < times; ++n) plan.run(batch.inputs(), got.views);
    return got.out;
  };
  const auto unas = run(Scheme::unas, 1, 1);
  const auto dnas = run(Scheme::dnas, 1, 1);
  std::vector<float> unas_beside, dnas_beside;
  std::thread other([&] { unas_beside = run(Scheme::unas, 2, 20); });
  dnas_beside = run(Scheme::dnas, 2, 20);
  other.join();
  CHECK(unas_beside == unas);
  CHECK(dnas_beside == dnas);
}

TEST_CASE("one plan runs again after an error") {
  Random random(323);
  const BatchSizes sizes{1, 2, 1, 30, 40, 8, 8};
  Batch<float> batch(sizes, random, false);
  AttentionPlan<float> plan(shapes_of(batch.inputs()), {}, 2);
  Results<float> got(sizes, false);
  plan.run(batch.inputs(), got.views);
  const auto out = got.out;
  const float good = batch.q[100];
  batch.q[100] = std::numeric_limits<float>::quiet_NaN();
  CHECK_THROWS_AS(plan.run(batch.inputs(), got.views), Error);
  batch.q[100] = 3e38F;  // its scores are beyond float32
  CHECK_THROWS_AS(plan.run(batch.inputs(), got.views), Error);
  batch.q[100] = good;
  plan.run(batch.inputs(), got.views);
  CHECK(got.out == out);
}

TEST_CASE("bytes of attention over very long sequences") {
  AttentionShapes shapes;
  shapes.q = shapes.k = shapes.v = Shape{Index{2'000'000'000}, 4};
  AttentionOptions options;
  options.window = {.left = 128, .right = 0};
  const std::int64_t bytes = AttentionPlan<double>(shapes, options, 1).workspace_bytes();
  CHECK(bytes > 0);
  CHECK(bytes < std::int64_t{1} << 44);
}
