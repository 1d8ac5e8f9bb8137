#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <set>

#include "paths/relu_structure.hpp"
#include "relu_problem.hpp"

using namespace attn;
using namespace attn::testing;

namespace {

Index rank_of(const ReluLayers& layers, const std::vector<Sizes>& paths) {
  ReluPathRank rank(layers);
  Index independent = 0;
  for (const Sizes& path : paths) independent += rank.add(path.data()) ? 1 : 0;
  CHECK(independent == rank.rank());
  CHECK(rank.bytes() >= ReluPathRank::bytes(layers));
  return rank.rank();
}

// By elimination modulo a prime: at most the rank, and equal to it for all but a few primes.
Index rank_modulo_prime(const ReluLayers& layers, const std::vector<Sizes>& paths) {
  constexpr std::int64_t prime = 1000003;
  std::vector<std::vector<std::int64_t>> matrix;
  for (const Sizes& path : paths) {
    std::vector<std::int64_t> row(static_cast<std::size_t>(layers.weights()), 0);
    Index first = 0;
    for (Index l = 1; l <= layers.count(); ++l) {
      const auto at = static_cast<std::size_t>(l);
      row[static_cast<std::size_t>(first + path[at - 1] * layers.size(l) + path[at])] = 1;
      first += layers.size(l - 1) * layers.size(l);
    }
    matrix.push_back(std::move(row));
  }
  const auto inverse = [](std::int64_t x) {
    std::int64_t result = 1;
    for (std::int64_t e = prime - 2; e > 0; e /= 2) {
      if (e % 2 == 1) result = result * x % prime;
      x = x * x % prime;
    }
    return result;
  };
  std::size_t rank = 0;
  for (std::size_t c = 0; c < static_cast<std::size_t>(layers.weights()); ++c) {
    std::size_t pivot = rank;
    while (pivot < matrix.size() && matrix[pivot][c] == 0) ++pivot;
    if (pivot == matrix.size()) continue;
    std::swap(matrix[rank], matrix[pivot]);
    const std::int64_t scale = inverse(matrix[rank][c]);
    for (std::size_t r = rank + 1; r < matrix.size(); ++r) {
      const std::int64_t factor = matrix[r][c] * scale % prime;
      for (std::size_t k = c; factor != 0 && k < matrix[r].size(); ++k) {
        matrix[r][k] = (matrix[r][k] + (prime - factor) * matrix[rank][k]) % prime;
      }
    }
    ++rank;
  }
  return static_cast<Index>(rank);
}

template <class T>
void check_values_and_back(const Sizes& sizes, Numbers& numbers) {
  const ReluLayers layers(sizes);
  const ReluSkeleton skeleton = random_skeleton(layers, numbers);
  const ReluBasis basis(layers, skeleton);
  const std::vector<Matrix<T>> weights = random_network<T>(layers, numbers);
  std::vector<T> values(static_cast<std::size_t>(layers.rank()));
  basis_values(basis, const_views(weights), values.data(), 2);
  const auto unit = static_cast<long double>(std::numeric_limits<T>::epsilon() / 2);
  const auto count = static_cast<long double>(layers.count());
  const std::vector<Sizes> paths = basis_of(basis);
  for (std::size_t n = 0; n < values.size(); ++n) {
    const long double want = relu_path_value(weights, paths[n]);
    CHECK(std::abs(values[n] - want) <= count * unit * std::abs(want));
  }
  std::vector<T> in_weights;
  for (Index l = 1; l < layers.count(); ++l) {
    for (Index b = 0; b < layers.size(l); ++b) {
      in_weights.push_back(weights[static_cast<std::size_t>(l - 1)](basis.in_of(l, b), b));
    }
  }
  std::vector<Matrix<T>> again = random_network<T>(layers, numbers);
  basis_weights(basis, values.data(), in_weights, views(again), 2);
  for (std::size_t l = 0; l < again.size(); ++l) {
    for (std::size_t n = 0; n < again[l].values.size(); ++n) {
      const T want = weights[l].values[n];
      CHECK(std::abs(again[l].values[n] - want) <= (2 * count + 2) * unit * std::abs(want));
    }
  }
  // Other weights of the same signs: a rescaling, with the same basis values and the same output.
  for (T& weight : in_weights) weight *= static_cast<T>(std::abs(numbers()));
  basis_weights(basis, values.data(), in_weights, views(again), 1);
  const ReluLoss loss(layers, numbers);
  for (const std::vector<double>& input : loss.inputs) {
    const auto want = ReluLoss::nodes(weights, input).back();
    const auto found = ReluLoss::nodes(again, input).back();
    for (std::size_t c = 0; c < want.size(); ++c) {
      // Sums of at most 256 products, of numbers up to 2.
      CHECK(std::abs(found[c] - want[c]) <= 256 * 64 * unit);
    }
  }
}

}  // namespace

TEST_CASE("paths of a ReLU network have the rank of its weights less its hidden nodes") {
  Numbers numbers(1);
  for (const Sizes& sizes : relu_sizes()) {
    const ReluLayers layers(sizes);
    Index weights = 0;
    for (std::size_t l = 1; l < sizes.size(); ++l) weights += sizes[l - 1] * sizes[l];
    Index hidden = 0;
    for (std::size_t l = 1; l + 1 < sizes.size(); ++l) hidden += sizes[l];
    CHECK(layers.weights() == weights);
    CHECK(layers.hidden() == hidden);
    const std::vector<Sizes> paths = all_relu_paths(layers);
    CHECK(*layers.path_count() == static_cast<Index>(paths.size()));
    CHECK(rank_of(layers, paths) == weights - hidden);
    CHECK(rank_modulo_prime(layers, paths) == weights - hidden);
  }
  CHECK(!ReluLayers({Index{1} << 30, 1, Index{1} << 30, 16}).path_count().has_value());
}

TEST_CASE("ranks of any sets of paths of a ReLU network") {
  Numbers numbers(2);
  for (int trial = 0; trial < 200; ++trial) {
    const ReluLayers layers(relu_sizes()[static_cast<std::size_t>(numbers.below(8))]);
    std::vector<Sizes> some;
    for (Index n = numbers.below(layers.weights() + 3); n > 0; --n) {
      Sizes path;
      for (const Index size : layers.sizes()) path.push_back(numbers.below(size));
      some.push_back(std::move(path));
    }
    CHECK(rank_of(layers, some) == rank_modulo_prime(layers, some));
  }
  // Each of the eight weights is in two of these paths: in a field of two elements their sum is 0.
  const ReluLayers deep({2, 1, 2, 1, 2});
  CHECK(rank_of(deep, {{1, 0, 0, 0, 1}, {0, 0, 0, 0, 0}, {1, 0, 1, 0, 0}, {0, 0, 1, 0, 1}}) == 4);
}

TEST_CASE("every skeleton of a ReLU network has a basis, which goes through it") {
  Numbers numbers(3);
  for (const Sizes& sizes : relu_sizes()) {
    const ReluLayers layers(sizes);
    for (const bool cyclic : {true, false}) {
      const ReluSkeleton skeleton =
          cyclic ? cyclic_skeleton(layers) : random_skeleton(layers, numbers);
      const ReluBasis basis(layers, skeleton);
      const std::vector<Sizes> paths = basis_of(basis);
      CHECK(std::set<Sizes>(paths.begin(), paths.end()).size() == paths.size());
      CHECK(rank_of(layers, paths) == layers.rank());
      Index counted = 0;
      for (Index l = 1; l <= layers.count(); ++l) {
        for (Index a = 0; a < layers.size(l - 1); ++a) {
          for (Index b = 0; b < layers.size(l); ++b) {
            if (basis.is_out(l, a, b)) continue;
            // Numbers run in order; the path comes to the weight and goes on along the skeleton.
            CHECK(basis.number(l, a, b) == counted);
            const Sizes& path = paths[static_cast<std::size_t>(counted)];
            CHECK(path[static_cast<std::size_t>(l - 1)] == a);
            CHECK(path[static_cast<std::size_t>(l)] == b);
            for (Index m = 1; m <= layers.count(); ++m) {
              const Index from = path[static_cast<std::size_t>(m - 1)];
              const Index to = path[static_cast<std::size_t>(m)];
              if (m < l) CHECK(basis.is_in(m, from, to));
              if (m > l) CHECK(basis.is_out(m, from, to));
            }
            ++counted;
          }
        }
      }
      CHECK(counted == layers.rank());
      std::vector<std::int32_t> block(static_cast<std::size_t>(2 * (layers.count() + 1)));
      if (counted < 2) continue;
      basis.paths(counted - 2, 2, block.data(), 2);
      for (std::size_t n = 0; n < sizes.size(); ++n) {
        CHECK(block[n] == paths[static_cast<std::size_t>(counted - 2)][n]);
        CHECK(block[sizes.size() + n] == paths[static_cast<std::size_t>(counted - 1)][n]);
      }
    }
  }
}

TEST_CASE("the largest skeleton of a ReLU network has the largest path through each node") {
  Numbers numbers(4);
  for (const Sizes& sizes : relu_sizes()) {
    const ReluLayers layers(sizes);
    std::vector<Matrix<double>> weights = random_network<double>(layers, numbers);
    const ReluSkeleton skeleton = largest_skeleton(layers, const_views(weights));
    const ReluBasis basis(layers, skeleton);
    const ReluProducts products(basis, const_views(weights));
    for (Index l = 1; l < layers.count(); ++l) {
      for (Index b = 0; b < layers.size(l); ++b) {
        long double largest = 0;
        for (const Sizes& path : all_relu_paths(layers)) {
          if (path[static_cast<std::size_t>(l)] != b) continue;
          largest = std::max(largest, std::abs(relu_path_value(weights, path)));
        }
        const auto at = static_cast<std::size_t>(layers.node(l, b));
        CHECK(std::abs(products.into[at] * products.onward[at]) ==
              doctest::Approx(static_cast<double>(largest)).epsilon(1e-15));
      }
    }
    std::vector<double> factors;
    for (Index n = 0; n < layers.hidden(); ++n) {
      factors.push_back(std::ldexp(1.0, static_cast<int>(numbers.below(9)) - 4));
    }
    rescale_nodes(layers, factors, false, views(weights), 2);
    const ReluSkeleton same = largest_skeleton(layers, const_views(weights));
    CHECK(same.in == skeleton.in);
    CHECK(same.out == skeleton.out);
  }
}

TEST_CASE("values of basis paths of a ReLU network, and weights made of them") {
  Numbers numbers(5);
  for (const Sizes& sizes : relu_sizes()) {
    check_values_and_back<double>(sizes, numbers);
    check_values_and_back<float>(sizes, numbers);
  }
}

TEST_CASE("rescaled nodes of a ReLU network keep the values of paths") {
  Numbers numbers(6);
  for (const Sizes& sizes : relu_sizes()) {
    const ReluLayers layers(sizes);
    const ReluSkeleton skeleton = random_skeleton(layers, numbers);
    const ReluBasis basis(layers, skeleton);
    const std::vector<Matrix<double>> weights = random_network<double>(layers, numbers);
    std::vector<double> values(static_cast<std::size_t>(layers.rank()));
    basis_values(basis, const_views(weights), values.data(), 1);
    for (const bool powers : {true, false}) {
      std::vector<double> factors;
      for (Index n = 0; n < layers.hidden(); ++n) {
        const double factor = std::abs(numbers());
        factors.push_back(powers ? std::ldexp(1.0, static_cast<int>(8 * factor) - 6) : factor);
      }
      std::vector<Matrix<double>> scaled = weights;
      rescale_nodes(layers, factors, false, views(scaled), 1);
      std::vector<double> same(values.size());
      basis_values(basis, const_views(scaled), same.data(), 1);
      if (powers) CHECK(same == values);
      for (std::size_t n = 0; n < values.size(); ++n) {
        CHECK(same[n] == doctest::Approx(values[n]).epsilon(1e-14));
      }
      // Gradients the other way round: as the chain rule has it.
      const ReluLoss loss(layers, numbers);
      std::vector<Matrix<double>> gradients = loss.gradients(weights);
      rescale_nodes(layers, factors, true, views(gradients), 1);
      const std::vector<Matrix<double>> want = loss.gradients(scaled);
      for (std::size_t l = 0; l < want.size(); ++l) {
        for (std::size_t n = 0; n < want[l].values.size(); ++n) {
          CHECK(gradients[l].values[n] == doctest::Approx(want[l].values[n]).epsilon(1e-11));
        }
      }
    }
  }
}

TEST_CASE("a skeleton's weight of 0 is found") {
  Numbers numbers(7);
  const ReluLayers layers({2, 3, 3, 2});
  const ReluSkeleton skeleton = cyclic_skeleton(layers);
  const std::vector<Matrix<double>> weights = random_network<double>(layers, numbers);
  CHECK(!zero_in_skeleton(layers, skeleton, const_views(weights)));
  const auto found = [&](Index layer, Index row, Index col) {
    std::vector<Matrix<double>> changed = weights;
    changed[static_cast<std::size_t>(layer - 1)](row, col) = 0;
    const auto zero = zero_in_skeleton(layers, skeleton, const_views(changed));
    if (!zero) return false;
    CHECK(zero->layer == layer);
    CHECK(zero->row == row);
    CHECK(zero->col == col);
    return true;
  };
  CHECK(found(1, 0, 2));
  CHECK(!found(1, 1, 2));
  CHECK(found(2, 1, 1));
  CHECK(!found(2, 1, 2));
  CHECK(found(3, 2, 0));
  CHECK(!found(3, 2, 1));
}
