// The table of energies: every one is made and differentiated by its description.

#include "energy/energy_description.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "common/results/result_kinds.hpp"
#include "gradient/projection_gradient.hpp"
#include "gradient/shared_sums.hpp"
#include "plan_problem.hpp"
#include "reference/reference_gradient.hpp"
#include "thrown_error.hpp"

using namespace attn;
using namespace attn::testing;

namespace {

// Operands of the lengths that a description asks for.
struct Operands {
  std::vector<std::vector<double>> values;
  std::vector<MatrixView<const double>> views;

  Operands(const EnergyDescription& energy, const EnergySizes& sizes, Random& random) {
    for (const EnergyOperand& operand : energy.operands()) {
      const Index rows = length_of(operand.rows, sizes);
      const Index cols = length_of(operand.cols, sizes);
      values.push_back(random_numbers<double>(rows * cols, random));
      views.emplace_back(values.back().data(), rows, cols);
    }
  }
};

}  // namespace

TEST_CASE("energies have names of their own, and unknown ones are refused by name") {
  for (const EnergyDescription* energy : energies()) {
    CHECK(&energy_called(energy->name()) == energy);
  }
  const Error error = thrown_error([] { energy_called("Dot"); });
  CHECK(error.failure() == Failure::usage);
  CHECK(contains(error.what(),
                 "'Dot', expected one of scaled-dot, dot, gaussian, euclidean, l1, "
                 "cosine, bilinear, mlp"));
}

// The directional derivative of Σ dE_ij e_ij in each argument.
TEST_CASE("the gradients that tools name are those of the energies' operands") {
  const std::vector<std::string>& named = attn::tools::gradient_names();
  std::vector<std::string> of_operands;
  for (const EnergyDescription* energy : energies()) {
    for (const EnergyOperand& operand : energy->operands()) {
      of_operands.push_back("grad_" + operand.name);
    }
  }
  const auto first = std::find(named.begin(), named.end(), "grad_rel_bias") + 1;
  const auto last = std::find(named.begin(), named.end(), "grad_x");
  CHECK(std::vector<std::string>(first, last) == of_operands);
}

TEST_CASE("every energy's gradients against differences of its energies") {
  Random random(341);
  for (const EnergyDescription* energy : energies()) {
    const std::string name(energy->name());
    CAPTURE(name);
    EnergySizes sizes{6, 5, 4, energy->needs_equal_depths() ? 4 : 3, 7};
    auto q = random_numbers<double>(sizes.queries * sizes.q_depth, random);
    auto k = random_numbers<double>(sizes.keys * sizes.k_depth, random);
    Operands operands(*energy, sizes, random);
    const auto upstream = random_numbers<double>(sizes.queries * sizes.keys, random);
    const TileRange all{0, sizes.queries, 0, sizes.keys};
    EnergyArguments<double> arguments;
    arguments.q = {q.data(), sizes.queries, sizes.q_depth};
    arguments.k = {k.data(), sizes.keys, sizes.k_depth};
    arguments.operands = operands.views;
    arguments.scale = 0.8;
    const auto value = [&] {
      const auto made = energy->make(arguments);
      std::vector<double> tile(upstream.size());
      made->fill(all, {tile.data(), sizes.queries, sizes.keys});
      double sum = 0;
      for (std::size_t n = 0; n < tile.size(); ++n) sum += tile[n] * upstream[n];
      return sum;
    };
    std::vector<std::vector<double>*> inputs{&q, &k};
    for (auto& values : operands.values) inputs.push_back(&values);
    std::vector<std::vector<double>> found;
    for (const auto* input : inputs) found.emplace_back(input->size());
    std::vector<MatrixView<double>> views;
    for (std::size_t n = 0; n < operands.views.size(); ++n) {
      views.emplace_back(found[n + 2].data(), operands.views[n].rows, operands.views[n].cols);
    }
    EnergyGradients<double> gradients;
    gradients.q = {found[0].data(), sizes.queries, sizes.q_depth};
    gradients.k = {found[1].data(), sizes.keys, sizes.k_depth};
    gradients.operands = views;
    CHECK(gradients.any());
    const auto sink = energy->differentiate(arguments, gradients);
    sink->start(1);
    sink->add(all, {upstream.data(), sizes.queries, sizes.keys}, 0);
    sink->merge(0, {});
    sink->finish();
    for (std::size_t n = 0; n < inputs.size(); ++n) {
      CAPTURE(n);
      auto& input = *inputs[n];
      const auto before = input;
      const auto direction = random_numbers<double>(static_cast<Index>(input.size()), random);
      double product = 0;
      for (std::size_t i = 0; i < input.size(); ++i) product += found[n][i] * direction[i];
      const auto moved = [&](double by) {
        for (std::size_t i = 0; i < input.size(); ++i) input[i] = before[i] + by * direction[i];
        return value();
      };
      const double difference = (moved(1e-6) - moved(-1e-6)) / 2e-6;
      input = before;
      CHECK(std::abs(difference - product) <= 1e-7 * (1 + std::abs(product)));
    }
    CHECK(energy->gradient_bytes(sizes, 8, 1) > 0);
    CHECK(energy->flops(sizes).per_pair > 0);
  }
}

TEST_CASE("shared sums are in the order of the problems, and rounded once") {
  SharedSums<float> sums({0, 1, 0, 2, 0}, 3);
  CHECK(sums.any_shared());
  CHECK(!sums.is_alone(0));
  CHECK(sums.is_alone(1));
  CHECK(sums.most_open() == 1);
  const std::vector<float> large{1e8F, 1}, small{1, 2}, minus{-1e8F, 3};
  for (int again = 0; again < 2; ++again) {
    CHECK(sums.add(0, large).empty());
    CHECK(sums.add(2, small).empty());
    const auto total = sums.add(4, minus);
    REQUIRE(total.size() == 2);
    CHECK(total[0] == 1);  // float32 would have lost it
    CHECK(total[1] == 6);
    sums.restart();
    if (again > 0) continue;
    CHECK(sums.add(0, large).empty());  // left open, as by an error
    sums.restart();
    // Parts of zeros may be empty, before the size is known, too.
    CHECK(sums.add(0, {}).empty());
    CHECK(sums.add(2, small).empty());
    CHECK(sums.add(4, minus)[1] == 5);
    sums.restart();
  }
  CHECK(!SharedSums<double>({0, 1}, 2).any_shared());
}

TEST_CASE_TEMPLATE("the gradient of a projection", T, float, double) {
  Random random(342);
  for (const Index rows : {1, 3, 300}) {
    const Index inner = 5, cols = 4;
    const auto x = random_numbers<T>(rows * inner, random);
    const auto w = random_numbers<T>(inner * cols, random);
    const auto up = random_numbers<T>(rows * cols, random);
    std::vector<T> dx(x.size(), T{2}), dw(w.size()), db(static_cast<std::size_t>(cols));
    for (const int threads : {1, 3}) {
      std::fill(dx.begin(), dx.end(), T{2});
      differentiate_projection<T>(
          {x.data(), rows, inner}, {w.data(), inner, cols}, {up.data(), rows, cols},
          {{dx.data(), rows, inner}, {dw.data(), inner, cols}, {db.data(), 1, cols}}, threads);
      const auto at = [](const auto& values, Index i, Index width, Index j) {
        return static_cast<double>(values[static_cast<std::size_t>(i * width + j)]);
      };
      const double bound = 4e3 * static_cast<double>(std::numeric_limits<T>::epsilon());
      for (Index i = 0; i < rows; ++i) {
        for (Index c = 0; c < inner; ++c) {
          double want = 2;
          for (Index j = 0; j < cols; ++j) want += at(up, i, cols, j) * at(w, c, cols, j);
          CHECK(std::abs(at(dx, i, inner, c) - want) <= bound);
        }
      }
      for (Index j = 0; j < cols; ++j) {
        double sum = 0;
        for (Index i = 0; i < rows; ++i) sum += at(up, i, cols, j);
        CHECK(std::abs(static_cast<double>(db[static_cast<std::size_t>(j)]) - sum) <= bound);
        for (Index c = 0; c < inner; ++c) {
          double want = 0;
          for (Index i = 0; i < rows; ++i) want += at(x, i, inner, c) * at(up, i, cols, j);
          CHECK(std::abs(at(dw, c, cols, j) - want) <= bound);
        }
      }
    }
  }
}
