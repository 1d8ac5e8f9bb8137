#include <numeric>

#include "mechanism_check.hpp"
#include "mechanisms/over_attention.hpp"

using namespace attn;
using namespace attn::testing;
using mechanisms::OverAttention;

namespace {

std::vector<Values> plain_over_attention(const PlainSequence& at) {
  const auto m = static_cast<std::size_t>(at.size("M")), n = static_cast<std::size_t>(at.size("N"));
  const auto width = static_cast<std::size_t>(at.size("D"));
  Values exponentials(m * n), by_row(m, 0), by_column(n, 0);
  for (std::size_t i = 0; i < m; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      long double energy = 0;
      for (std::size_t c = 0; c < width; ++c) {
        energy += at.inputs[0][i * width + c] * at.inputs[1][j * width + c];
      }
      exponentials[i * n + j] = std::exp(energy);
      by_row[i] += exponentials[i * n + j];
      by_column[j] += exponentials[i * n + j];
    }
  }
  Values s(m, 0), p(m, 0), beta(n, 0), weights_d(m * n), weights_q(m * n);
  for (std::size_t i = 0; i < m; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      weights_d[i * n + j] = exponentials[i * n + j] / by_column[j];
      weights_q[i * n + j] = exponentials[i * n + j] / by_row[i];
      beta[j] += weights_q[i * n + j] / static_cast<long double>(m);
    }
  }
  for (std::size_t i = 0; i < m; ++i) {
    for (std::size_t j = 0; j < n; ++j) s[i] += weights_d[i * n + j] * beta[j];
  }
  for (std::size_t i = 0; i < m; ++i) {
    for (std::size_t k = 0; k < m; ++k) {
      if (at.tokens[0][i] == at.tokens[0][k]) p[i] += s[k];
    }
  }
  return {s, p, beta, weights_d, weights_q};
}

}  // namespace

TEST_CASE_TEMPLATE("attention over attention", T, float, double) {
  const auto mechanism = OverAttention::make<T>();
  for (const auto& [m, n] : {std::pair{1, 1}, {7, 3}, {2, 9}, {0, 3}, {4, 0}, {0, 0}}) {
    check_mechanism(*mechanism, plain_over_attention, {{"M", m}, {"N", n}, {"D", 3}});
  }
}

TEST_CASE_TEMPLATE("attention over attention in more panels than one", T, float, double) {
  // A panel has at most 256 rows.
  const auto mechanism = OverAttention::make<T>();
  std::mt19937_64 random(3);
  for (const Index m : {256, 257, 600}) {
    MechanismCheck<T> check(
        *mechanism, plain_over_attention,
        random_sequence(OverAttention::form(), {{"M", m}, {"N", 3}, {"D", 2}}, 40, random));
    CHECK(check.error_of_results() < (std::is_same_v<T, double> ? 1e-12 : 1e-5));
  }
}

TEST_CASE_TEMPLATE("attention over attention over padded batches", T, float, double) {
  const auto mechanism = OverAttention::make<T>();
  std::vector<mechanisms::Sizes> own;
  for (Index b = 0; b < 9; ++b) own.push_back({{"M", b * 5 % 8}, {"N", b * 2 % 5}, {"D", 3}});
  for (const int threads : {1, 4}) {
    check_batch(*mechanism, {{"M", 8}, {"N", 5}, {"D", 3}}, own, threads);
  }
}

TEST_CASE("energies that are far apart") {
  const auto mechanism = OverAttention::make<float>();
  std::vector<float> d = {300, -300, 0};
  std::vector<float> q = {30, -30};
  std::vector<float> s(3);
  mechanisms::Tensors<float> results(5);
  results[OverAttention::s] = {s.data(), {3}};
  mechanism->forward({{{d.data(), {3, 1}}, {q.data(), {2, 1}}}, {{}}}, results, 1);
  // α is one-hot in each column, and β̄ = ½ each.
  CHECK(s == std::vector<float>{0.5F, 0.5F, 0});
  CHECK(std::accumulate(s.begin(), s.end(), 0.0F) == 1);
}
