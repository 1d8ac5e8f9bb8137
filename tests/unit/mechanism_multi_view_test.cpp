#include <algorithm>
#include <limits>

#include "attnkit/error.hpp"
#include "mechanism_check.hpp"
#include "mechanisms/multi_view.hpp"
#include "thrown_error.hpp"

using namespace attn;
using namespace attn::testing;
using mechanisms::most_views;
using mechanisms::MultiView;

namespace {

constexpr double fixed_plain_share = 0.3;
constexpr double plain_scale = 1.5;
constexpr int plain_rounds = 3;

// Exponentials of scores of two vectors with A numbers each, (n, m).
std::vector<Values> exponentials_of(const std::vector<Values>& q, const std::vector<Values>& k) {
  std::vector<Values> made;
  for (const Values& query : q) {
    made.emplace_back();
    for (const Values& key : k) {
      long double product = 0;
      for (std::size_t a = 0; a < key.size(); ++a) product += query[a] * key[a];
      const long double depth = static_cast<long double>(std::max<std::size_t>(1, key.size()));
      made.back().push_back(std::exp(plain_scale * product / std::sqrt(depth)));
    }
  }
  return made;
}

// Weights, from the exponentials of scores, with their potentials.
struct PlainWeights {
  std::vector<Values> w;
  Values f, g, unas_f;
};

void normalise_queries(PlainWeights& of) {
  for (std::size_t i = 0; i < of.w.size(); ++i) {
    long double sum = 0;
    for (const long double one : of.w[i]) sum += one;
    for (long double& one : of.w[i]) one /= sum;
    of.f[i] += std::log(sum);
  }
}

void normalise_keys(PlainWeights& of, long double total) {
  for (std::size_t j = 0; j < of.g.size(); ++j) {
    long double sum = 0;
    for (const Values& row : of.w) sum += row[j];
    for (Values& row : of.w) row[j] *= total / sum;
    of.g[j] += std::log(sum / total);
  }
}

template <Scheme scheme>
PlainWeights weights_of(const std::vector<Values>& exponentials, long double share) {
  const std::size_t queries = exponentials.size(), keys = exponentials[0].size();
  PlainWeights of = {exponentials, Values(queries, 0), Values(keys, 0), {}};
  if constexpr (scheme == Scheme::unas) {
    normalise_queries(of);
  } else if constexpr (scheme == Scheme::dnas) {
    normalise_keys(of, 1);  // for each key over the queries, then for each query over the keys
    normalise_queries(of);
  } else if constexpr (scheme == Scheme::sinkhorn) {
    for (int round = 0; round < plain_rounds; ++round) {
      normalise_keys(of, static_cast<long double>(queries) / static_cast<long double>(keys));
      normalise_queries(of);
    }
  } else {
    const PlainWeights softmax = weights_of<Scheme::unas>(exponentials, 0);
    of = weights_of<Scheme::dnas>(exponentials, 0);
    of.unas_f = softmax.f;
    for (std::size_t i = 0; i < queries; ++i) {
      for (std::size_t j = 0; j < keys; ++j) {
        of.w[i][j] = share * of.w[i][j] + (1 - share) * softmax.w[i][j];
      }
    }
  }
  return of;
}

std::vector<Values> split_rows(const Values& values, Index count, Index width) {
  std::vector<Values> rows;
  for (Index i = 0; i < count; ++i) {
    rows.emplace_back(values.begin() + i * width, values.begin() + (i + 1) * width);
  }
  return rows;
}

// Rows times a matrix (D, A).
std::vector<Values> rows_times(const std::vector<Values>& rows, const Values& w,
                               std::size_t depth) {
  std::vector<Values> made;
  for (const Values& row : rows) {
    made.emplace_back(depth, 0);
    for (std::size_t c = 0; c < row.size(); ++c) {
      for (std::size_t a = 0; a < depth; ++a) made.back()[a] += row[c] * w[c * depth + a];
    }
  }
  return made;
}

Values plain_norm(const Values& z, const Values& gain, const Values& shift) {
  const auto width = static_cast<long double>(z.size());
  long double mean = 0, variance = 0;
  for (const long double one : z) mean += one / width;
  for (const long double one : z) variance += (one - mean) * (one - mean) / width;
  Values y;
  for (std::size_t c = 0; c < z.size(); ++c) {
    const long double normal = (z[c] - mean) / std::sqrt(variance + 1e-5L);
    y.push_back((gain.empty() ? 1 : gain[c]) * normal + (shift.empty() ? 0 : shift[c]));
  }
  return y;
}

template <Scheme scheme>
std::vector<Values> plain_multi_view(const PlainSequence& at) {
  const Index rows = at.size("N"), width = at.size("D");
  const auto depth = static_cast<std::size_t>(at.size("A"));
  const auto x = split_rows(at.inputs[MultiView::x], rows, width);
  const auto q = rows_times(x, at.inputs[MultiView::wq], depth);
  // hnas without the input has a fixed share.
  const bool learns = at.inputs.size() > MultiView::hybrid;
  const long double share = learns ? at.inputs[MultiView::hybrid][0] : fixed_plain_share;
  std::vector<Values> sum = x;
  constexpr bool is_mixture = scheme == Scheme::hnas;
  std::vector<Values> results(1 + (is_mixture ? 5 : 4) * most_views);
  for (std::size_t v = 0; v < most_views; ++v) {
    const Index count = at.sizes.at("M" + std::to_string(v + 1));
    Values& sums = results[MultiView::col_sum + v];
    Values& f = results[MultiView::row_potential + v];
    Values& g = results[MultiView::col_potential + v];
    sums.assign(static_cast<std::size_t>(count), 0);
    f.assign(x.size(), -HUGE_VALL);
    g.assign(sums.size(), -HUGE_VALL);
    if (is_mixture) results[MultiView::unas_row_potential + v] = f;
    if (count == 0 || rows == 0) continue;
    const Values& own = at.inputs[MultiView::own_wk + v];
    const Values& wk = own.empty() ? at.inputs[MultiView::wk] : own;
    const auto view = split_rows(at.inputs[MultiView::view + v], count, width);
    const PlainWeights of =
        weights_of<scheme>(exponentials_of(q, rows_times(view, wk, depth)), share);
    f = of.f;
    g = of.g;
    if (is_mixture) results[MultiView::unas_row_potential + v] = of.unas_f;
    for (std::size_t i = 0; i < x.size(); ++i) {
      for (std::size_t j = 0; j < view.size(); ++j) {
        results[MultiView::weights + v].push_back(of.w[i][j]);
        sums[j] += of.w[i][j];
        for (std::size_t c = 0; c < sum[i].size(); ++c) sum[i][c] += of.w[i][j] * view[j][c];
      }
    }
  }
  for (const Values& z : sum) {
    const Values y = plain_norm(z, at.inputs[MultiView::gain], at.inputs[MultiView::shift]);
    results[MultiView::out].insert(results[MultiView::out].end(), y.begin(), y.end());
  }
  return results;
}

mechanisms::Sizes view_sizes(Index rows, Index first, Index second, Index width = 4,
                             Index depth = 3) {
  mechanisms::Sizes sizes = {{"N", rows}, {"D", width}, {"A", depth}};
  for (std::size_t v = 1; v <= most_views; ++v) sizes["M" + std::to_string(v)] = 0;
  sizes["M1"] = first;
  sizes["M2"] = second;
  return sizes;
}

MultiView::Options view_options(Scheme scheme) {
  MultiView::Options options;
  options.scheme = scheme;
  options.scale = plain_scale;
  if (scheme == Scheme::sinkhorn) options.stopping.iterations = plain_rounds;
  return options;
}

Draws view_draws(std::set<std::string> absent = {}) {
  Draws draws;
  draws.ranges["hybrid"] = {0.1, 0.9};
  draws.absent = std::move(absent);
  return draws;
}

std::set<std::string> names_of_own_keys() {
  std::set<std::string> names;
  for (std::size_t v = 1; v <= most_views; ++v) names.insert("wk" + std::to_string(v));
  return names;
}

template <class T, Scheme scheme>
void check_scheme() {
  const auto mechanism = MultiView::make<T>(view_options(scheme));
  const Plain plain = plain_multi_view<scheme>;
  for (const auto& [rows, first, second] :
       {std::tuple{5, 4, 3}, {1, 1, 1}, {2, 7, 0}, {6, 0, 2}, {3, 0, 0}, {0, 3, 2}, {0, 0, 0}}) {
    check_mechanism(*mechanism, plain, view_sizes(rows, first, second), view_draws());
  }
  check_mechanism(*mechanism, plain, view_sizes(4, 3, 5), view_draws(names_of_own_keys()));
  check_mechanism(*mechanism, plain, view_sizes(4, 3, 5), view_draws({"wk2", "gain"}));
  check_mechanism(*mechanism, plain, view_sizes(4, 3, 5), view_draws({"shift"}));
}

}  // namespace

TEST_CASE_TEMPLATE("multi-view attention under each scheme", T, float, double) {
  check_scheme<T, Scheme::unas>();
  check_scheme<T, Scheme::dnas>();
  check_scheme<T, Scheme::hnas>();
  check_scheme<T, Scheme::sinkhorn>();
}

TEST_CASE_TEMPLATE("all views at once, and a share of its own", T, float, double) {
  mechanisms::Sizes sizes = view_sizes(5, 2, 3);
  for (std::size_t v = 3; v <= most_views; ++v) sizes["M" + std::to_string(v)] = v % 4;
  MultiView::Options options = view_options(Scheme::hnas);
  options.hybrid = fixed_plain_share;
  const auto mechanism = MultiView::make<T>(options);
  CHECK(mechanism->form().inputs.size() == MultiView::hybrid);
  check_mechanism(*mechanism, plain_multi_view<Scheme::hnas>, sizes, view_draws());
}

TEST_CASE_TEMPLATE("few features, and one query number", T, float, double) {
  const auto mechanism = MultiView::make<T>(view_options(Scheme::dnas));
  for (const auto& [width, depth] : {std::pair{1, 2}, {3, 1}, {1, 1}}) {
    check_mechanism(*mechanism, plain_multi_view<Scheme::dnas>, view_sizes(3, 4, 2, width, depth),
                    view_draws());
  }
}

TEST_CASE_TEMPLATE("multi-view attention over padded batches", T, float, double) {
  std::vector<mechanisms::Sizes> own;
  for (Index b = 0; b < 9; ++b) own.push_back(view_sizes(b * 5 % 8, b * 2 % 5, b * 3 % 4));
  for (const Scheme scheme : {Scheme::unas, Scheme::dnas, Scheme::hnas, Scheme::sinkhorn}) {
    const auto mechanism = MultiView::make<T>(view_options(scheme));
    for (const int threads : {1, 4}) {
      check_batch(*mechanism, view_sizes(7, 4, 3), own, threads, view_draws());
    }
  }
}

namespace {

// out of one view for one sequence of float32.
std::vector<float> one_view_out(const MultiView::Options& options, std::vector<float> x,
                                std::vector<float> view, Index width,
                                std::vector<float> hybrid = {}, int threads = 1) {
  const auto rows = static_cast<Index>(x.size()) / width;
  const auto view_rows = static_cast<Index>(view.size()) / width;
  std::vector<float> identity(static_cast<std::size_t>(width * width), 0);
  for (Index c = 0; c < width; ++c) identity[static_cast<std::size_t>(c * width + c)] = 1;
  mechanisms::Tensors<const float> inputs(MultiView::hybrid);
  inputs[MultiView::x] = {x.data(), {rows, width}};
  inputs[MultiView::view] = {view.data(), {view_rows, width}};
  inputs[MultiView::wq] = {identity.data(), {width, width}};
  inputs[MultiView::wk] = {identity.data(), {width, width}};
  if (!hybrid.empty()) inputs.push_back({hybrid.data(), {}});
  std::vector<float> out(x.size(), std::numeric_limits<float>::quiet_NaN());
  mechanisms::Tensors<float> results(MultiView::unas_row_potential);
  results[MultiView::out] = {out.data(), {rows, width}};
  MultiView::make<float>(options)->forward({inputs, {}}, results, threads);
  return out;
}

Failure view_failure(const MultiView::Options& options, const std::vector<float>& x,
                     const std::vector<float>& view, Index width,
                     const std::vector<float>& hybrid = {}) {
  try {
    one_view_out(options, x, view, width, hybrid);
  } catch (const Error& error) {
    return error.failure();
  }
  return Failure::output;  // none
}

}  // namespace

TEST_CASE("numbers beyond the range are an error") {
  const MultiView::Options softmax;
  CHECK(view_failure(softmax, {1e30F, -1e30F}, {1, 2}, 2) == Failure::numerical);  // scores
  CHECK(view_failure(softmax, {1e30F, -1e30F}, {0, 0}, 2) == Failure::numerical);  // variance
  CHECK(view_failure(softmax, std::vector<float>(200, 3e38F), {}, 200) ==
        Failure::numerical);  // mean
  CHECK(view_failure(softmax, {1e15F, -1e15F}, {0, 0}, 2) == Failure::output);
}

TEST_CASE("queries without numbers are refused") {
  std::vector<double> numbers(6, 1);
  const auto mechanism = MultiView::make<double>({});
  for (const auto& [width, depth] : {std::pair<Index, Index>{3, 0}, {0, 3}}) {
    mechanisms::Tensors<const double> inputs(MultiView::hybrid);
    inputs[MultiView::x] = inputs[MultiView::view] = {numbers.data(), {2, width}};
    inputs[MultiView::wq] = inputs[MultiView::wk] = {numbers.data(), {width, depth}};
    const Error error = thrown_error([&] {
      mechanism->forward({inputs, {}}, mechanisms::Tensors<double>(MultiView::unas_row_potential),
                         1);
    });
    CHECK(error.failure() == Failure::input);
    CHECK(contains(error.what(), "wq"));
    CHECK(mechanism->working_bytes({{"N", 2}, {"D", width}, {"A", depth}, {"M1", 2}}, true) > 0);
  }
}

TEST_CASE("a share outside of [0, 1] is refused, also where no view has rows") {
  MultiView::Options mixture;
  mixture.scheme = Scheme::hnas;
  for (const float share : {-0.01F, 1.01F}) {
    CHECK(view_failure(mixture, {1, 2}, {3, 4}, 2, {share}) == Failure::input);
    CHECK(view_failure(mixture, {1, 2}, {}, 2, {share}) == Failure::input);
  }
  MultiView::Options pure;
  CHECK(one_view_out(mixture, {1, 2, 4, 3}, {3, 4, 1, 5}, 2, {0}) ==
        one_view_out(pure, {1, 2, 4, 3}, {3, 4, 1, 5}, 2));
  pure.scheme = Scheme::dnas;
  CHECK(one_view_out(mixture, {1, 2, 4, 3}, {3, 4, 1, 5}, 2, {1}) ==
        one_view_out(pure, {1, 2, 4, 3}, {3, 4, 1, 5}, 2));
}

TEST_CASE("iterations that do not converge are an error") {
  MultiView::Options iterated;
  iterated.scheme = Scheme::sinkhorn;
  iterated.scale = 20;
  iterated.stopping = {1, 1e-6};
  CHECK(view_failure(iterated, {1, 2, -2, 3}, {3, 4, 1, -5}, 2) == Failure::numerical);
  iterated.scale = 0.1;
  iterated.stopping = {};
  CHECK(view_failure(iterated, {1, 2, -2, 3}, {3, 4, 1, -5}, 2) == Failure::output);
}

TEST_CASE("multi-view attention of long views on any number of threads") {
  std::mt19937_64 random(2);
  std::vector<float> x, view;
  for (const long double one : random_values(300 * 8, random)) x.push_back(static_cast<float>(one));
  for (const long double one : random_values(900 * 8, random)) {
    view.push_back(static_cast<float>(one));
  }
  MultiView::Options options;
  for (const Scheme scheme : {Scheme::unas, Scheme::dnas}) {
    options.scheme = scheme;
    const auto alone = one_view_out(options, x, view, 8);
    CHECK(one_view_out(options, x, view, 8, {}, 3) == alone);
    CHECK(std::all_of(alone.begin(), alone.end(), [](float one) { return std::isfinite(one); }));
  }
}
