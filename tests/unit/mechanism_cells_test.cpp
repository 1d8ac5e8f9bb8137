// lib/mechanisms: recurrent cells against a plain evaluation in long double, and their gradients
// against differences.

#include <doctest/doctest.h>

#include <cmath>
#include <random>
#include <vector>

#include "attnkit/error.hpp"
#include "mechanisms/gru.hpp"
#include "mechanisms/lstm.hpp"

using namespace attn;

namespace {

using Wide = long double;

// A cell of width D for inputs of E numbers, and a sequence of T of them.
struct CellProblem {
  Index gates, width, inputs, steps;
  bool backwards, biased;
  std::vector<double> w, b, x;

  CellProblem(Index gates_of_cell, Index d, Index e, Index t, bool from_end, bool with_bias)
      : gates(gates_of_cell),
        width(d),
        inputs(e),
        steps(t),
        backwards(from_end),
        biased(with_bias) {
    std::mt19937_64 random(static_cast<std::uint64_t>(100 * d + 10 * e + t));
    std::uniform_real_distribution<double> unit(-1, 1);
    const auto fill = [&](std::vector<double>& numbers, Index count) {
      for (Index n = 0; n < count; ++n) numbers.push_back(static_cast<float>(unit(random)));
    };
    fill(w, gates * d * (d + e));
    fill(b, gates * d);
    fill(x, t * e);
  }

  // W[h; x] + b in one row.
  Wide product(Index row, const std::vector<Wide>& h, Index t) const {
    Wide sum = biased ? static_cast<Wide>(b[static_cast<std::size_t>(row)]) : 0;
    const Index cols = width + inputs;
    for (Index n = 0; n < cols; ++n) {
      const Wide value =
          n < width ? h[static_cast<std::size_t>(n)]
                    : static_cast<Wide>(x[static_cast<std::size_t>(t * inputs + n - width)]);
      sum += static_cast<Wide>(w[static_cast<std::size_t>(row * cols + n)]) * value;
    }
    return sum;
  }
};

Wide cell_logistic(Wide z) { return 1 / (1 + std::exp(-z)); }

// States by position.
std::vector<Wide> plain_states(const CellProblem& p) {
  const auto d = static_cast<std::size_t>(p.width);
  std::vector<Wide> h(d, 0);
  std::vector<Wide> c(d, 0);
  std::vector<Wide> all(static_cast<std::size_t>(p.steps) * d);
  for (Index step = 0; step < p.steps; ++step) {
    const Index t = p.backwards ? p.steps - 1 - step : step;
    std::vector<Wide> next(d);
    std::vector<Wide> reset(d);
    for (std::size_t n = 0; n < d; ++n)
      reset[n] = cell_logistic(p.product(static_cast<Index>(n), h, t)) * h[n];
    for (std::size_t n = 0; n < d; ++n) {
      const auto gate = [&](Index k) {
        return p.product(k * p.width + static_cast<Index>(n), h, t);
      };
      if (p.gates == 4) {
        c[n] = cell_logistic(gate(1)) * c[n] + cell_logistic(gate(0)) * std::tanh(gate(3));
        next[n] = cell_logistic(gate(2)) * std::tanh(c[n]);
      } else {
        const Wide z = cell_logistic(gate(1));
        const Wide candidate = std::tanh(p.product(2 * p.width + static_cast<Index>(n), reset, t));
        next[n] = z * h[n] + (1 - z) * candidate;
      }
    }
    h = next;
    std::copy(h.begin(), h.end(), all.begin() + static_cast<std::ptrdiff_t>(t * p.width));
  }
  return all;
}

template <class T>
struct Found {
  std::vector<T> h, dw, db, dx;
};

// The states, and the gradients of Σ u h for weights u that depend on the place alone.
template <class T, class Cell>
Found<T> found_states(const CellProblem& p) {
  const std::vector<T> w(p.w.begin(), p.w.end());
  const std::vector<T> b(p.b.begin(), p.b.end());
  const std::vector<T> x(p.x.begin(), p.x.end());
  const Index rows = p.gates * p.width;
  const Index cols = p.width + p.inputs;
  const MatrixView<const T> inputs(x.data(), p.steps, p.inputs);
  const Cell cell({{w.data(), rows, cols}, {p.biased ? b.data() : nullptr, 1, rows}}, p.backwards);
  auto kept = cell.forward(inputs);
  Found<T> found;
  found.h.assign(kept.h.data(), kept.h.data() + kept.h.size());
  found.dw.resize(w.size());
  found.db.resize(b.size());
  found.dx.resize(x.size());
  OwnedMatrix<T> dh(p.steps, p.width);
  for (Index n = 0; n < dh.size(); ++n) dh.data()[n] = static_cast<T>(std::sin(n + 1));
  cell.backward(inputs, kept, dh, {found.dw.data(), rows, cols}, {found.db.data(), 1, rows},
                {found.dx.data(), p.steps, p.inputs});
  return found;
}

double plain_loss(const CellProblem& p) {
  Wide sum = 0;
  const std::vector<Wide> h = plain_states(p);
  for (std::size_t n = 0; n < h.size(); ++n) sum += static_cast<Wide>(std::sin(n + 1)) * h[n];
  return static_cast<double>(sum);
}

// The largest |gradient − difference| over all numbers.
double difference_error_of(CellProblem& p, std::vector<double>& numbers,
                           const std::vector<double>& gradient) {
  double worst = 0;
  for (std::size_t n = 0; n < numbers.size(); ++n) {
    const double kept = numbers[n];
    const double h = 1e-5;
    numbers[n] = kept + h;
    const double above = plain_loss(p);
    numbers[n] = kept - h;
    const double below = plain_loss(p);
    numbers[n] = kept;
    const double error = std::abs((above - below) / (2 * h) - gradient[n]);
    if (!(error <= worst)) worst = error;
  }
  return worst;
}

template <template <class> class Cell>
void check_cell(Index gates) {
  for (const Index steps : {0, 1, 2, 7}) {
    for (const Index width : {1, 3}) {
      for (const bool backwards : {false, true}) {
        CAPTURE(steps);
        CAPTURE(width);
        CAPTURE(backwards);
        CellProblem p(gates, width, width + 1, steps, backwards, steps != 2);
        const std::vector<Wide> want = plain_states(p);
        const auto f64 = found_states<double, Cell<double>>(p);
        const auto f32 = found_states<float, Cell<float>>(p);
        REQUIRE(f64.h.size() == want.size());
        for (std::size_t n = 0; n < want.size(); ++n) {
          CHECK(std::abs(static_cast<double>(want[n]) - f64.h[n]) <= 1e-14);
          // Some roundings in each of 7 steps.
          CHECK(std::abs(static_cast<double>(want[n]) - static_cast<double>(f32.h[n])) <= 2e-6);
        }
        // h² and 1e-16/h for sums of numbers of the order of 1.
        CHECK(difference_error_of(p, p.w, f64.dw) <= 1e-8);
        CHECK(difference_error_of(p, p.x, f64.dx) <= 1e-8);
        if (p.biased) CHECK(difference_error_of(p, p.b, f64.db) <= 1e-8);
        for (std::size_t n = 0; n < f64.dw.size(); ++n) {
          CHECK(std::abs(f64.dw[n] - static_cast<double>(f32.dw[n])) <= 2e-5);
        }
      }
    }
  }
}

}  // namespace

TEST_CASE("a long short-term memory") { check_cell<mechanisms::Lstm>(4); }

TEST_CASE("a gated recurrent unit") { check_cell<mechanisms::Gru>(3); }

TEST_CASE("a cell refuses numbers beyond the range") {
  for (const std::size_t row : {0, 1, 2}) {
    CAPTURE(row);
    CellProblem p(3, 1, 1, 2, false, true);
    p.w[2 * row + 1] = 1e30;
    for (double& x : p.x) x = 1e30;
    CHECK_THROWS_AS((found_states<float, mechanisms::Gru<float>>(p)), Error);
    CHECK_NOTHROW((found_states<double, mechanisms::Gru<double>>(p)));
  }
}
