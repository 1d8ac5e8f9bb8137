#include <algorithm>

#include "mechanism_check.hpp"
#include "mechanisms/decomposable.hpp"

using namespace attn;
using namespace attn::testing;
using mechanisms::Decomposable;

namespace {

// W₂ ReLU(W₁ x + b₁) + b₂, and its ReLU.
Values plain_net(const PlainSequence& at, std::size_t first, const Values& x, bool ends_in_relu) {
  const auto layer = [&](std::size_t n, const Values& in, bool cuts) {
    Values out = at.inputs[n + 1];
    for (std::size_t r = 0; r < out.size(); ++r) {
      for (std::size_t c = 0; c < in.size(); ++c) out[r] += at.inputs[n][r * in.size() + c] * in[c];
      if (cuts) out[r] = std::max(0.0L, out[r]);
    }
    return out;
  };
  return layer(first + 2, layer(first, x, true), ends_in_relu);
}

std::vector<Values> rows_of(const Values& values, Index count) {
  std::vector<Values> rows;
  for (Index i = 0; i < count; ++i) {
    const auto width = static_cast<std::ptrdiff_t>(values.size()) / count;
    rows.emplace_back(values.begin() + i * width, values.begin() + (i + 1) * width);
  }
  return rows;
}

void append(Values& all, const Values& more) { all.insert(all.end(), more.begin(), more.end()); }

std::vector<Values> plain_decomposable(const PlainSequence& at) {
  const Index width = at.size("D");
  const std::vector<Values> x[2] = {rows_of(at.inputs[0], at.size("M")),
                                    rows_of(at.inputs[1], at.size("N"))};
  std::vector<Values> attended[2];
  for (int side = 0; side < 2; ++side) {
    for (const Values& one : x[side]) {
      attended[side].push_back(plain_net(at, Decomposable::f1, one, true));
    }
  }
  Values aligned[2], weights[2], sums;
  for (int side = 0; side < 2; ++side) {
    Values sum(static_cast<std::size_t>(at.size("C")), 0);
    for (std::size_t i = 0; i < x[side].size(); ++i) {
      Values exponentials;
      long double total = 0;
      for (const Values& other : attended[1 - side]) {
        long double energy = 0;
        for (std::size_t c = 0; c < other.size(); ++c) energy += attended[side][i][c] * other[c];
        exponentials.push_back(std::exp(energy));
        total += exponentials.back();
      }
      Values mean(static_cast<std::size_t>(width), 0);
      for (std::size_t j = 0; j < exponentials.size(); ++j) {
        weights[side].push_back(exponentials[j] / total);
        for (std::size_t c = 0; c < mean.size(); ++c) {
          mean[c] += weights[side].back() * x[1 - side][j][c];
        }
      }
      append(aligned[side], mean);
      Values compared = x[side][i];
      append(compared, mean);
      const Values one = plain_net(at, Decomposable::g1, compared, true);
      for (std::size_t c = 0; c < sum.size(); ++c) sum[c] += one[c];
    }
    append(sums, sum);
  }
  return {plain_net(at, Decomposable::h1, sums, false), aligned[0], aligned[1], weights[0],
          weights[1]};
}

const mechanisms::Sizes widths = {{"D", 3}, {"F", 4}, {"E", 5}, {"G", 4},
                                  {"C", 3}, {"H", 4}, {"K", 2}};

mechanisms::Sizes sizes_with(Index m, Index n) {
  mechanisms::Sizes sizes = widths;
  sizes["M"] = m;
  sizes["N"] = n;
  return sizes;
}

}  // namespace

TEST_CASE_TEMPLATE("decomposable attention", T, float, double) {
  const auto mechanism = Decomposable::make<T>();
  for (const auto& [m, n] : {std::pair{1, 1}, {4, 7}, {9, 2}, {0, 3}, {2, 0}, {0, 0}}) {
    check_mechanism(*mechanism, plain_decomposable, sizes_with(m, n));
  }
}

TEST_CASE_TEMPLATE("decomposable attention over padded batches", T, float, double) {
  const auto mechanism = Decomposable::make<T>();
  std::vector<mechanisms::Sizes> own;
  for (Index b = 0; b < 10; ++b) own.push_back(sizes_with(b * 3 % 6, b * 7 % 5));
  for (const int threads : {1, 3}) check_batch(*mechanism, sizes_with(5, 4), own, threads);
}
