#include "score/head_transform.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <vector>

#include "gradient/projection_gradient.hpp"
#include "guarded.hpp"
#include "random_problem.hpp"
#include "score/projection.hpp"
#include "thrown_error.hpp"

using namespace attn;
using namespace attn::testing;

namespace {

using TransformRows = std::vector<std::vector<long double>>;

std::string no_name() { return "q"; }

// The norm over the channels of all heads in `u`, of which `head` is returned, and the rotation.
TransformRows transformed(const HeadTransform& transform, const std::vector<TransformRows>& u,
                          std::size_t head, Index first) {
  TransformRows made = u[head];
  for (std::size_t i = 0; i < made.size(); ++i) {
    std::vector<long double>& row = made[i];
    const std::size_t d = row.size();
    if (transform.norm) {
      const HeadNorm& norm = *transform.norm;
      std::vector<long double> all;
      for (std::size_t h = 0; h < u.size(); ++h) {
        if (norm.all_heads || h == head) all.insert(all.end(), u[h][i].begin(), u[h][i].end());
      }
      const auto size = static_cast<long double>(all.size());
      long double mean = 0;
      for (const long double x : all) mean += norm.centred ? x / size : 0;
      long double squares = 0;
      for (const long double x : all) squares += (x - mean) * (x - mean);
      const long double root = std::sqrt(squares / size + norm.epsilon);
      const std::size_t at = norm.weights.size() == d ? 0 : head * d;
      for (std::size_t c = 0; c < d; ++c) {
        row[c] = (row[c] - mean) / root * norm.weights[at + c] +
                 (norm.bias.empty() ? 0 : norm.bias[at + c]);
      }
    }
    for (std::size_t p = 0; transform.rotary && p < transform.rotary->frequencies.size(); ++p) {
      const Rotary& rotary = *transform.rotary;
      const std::size_t a = rotary.interleaved ? 2 * p : p;
      const std::size_t b = rotary.interleaved ? 2 * p + 1 : p + rotary.frequencies.size();
      const long double angle =
          static_cast<long double>(first + static_cast<Index>(i)) * rotary.frequencies[p];
      const long double x = row[a] * rotary.factors[p];
      const long double y = row[b] * rotary.factors[p];
      row[a] = x * std::cos(angle) - y * std::sin(angle);
      row[b] = y * std::cos(angle) + x * std::sin(angle);
    }
  }
  return made;
}

struct TransformDraw {
  Random random{7};
  std::normal_distribution<double> normal;
  double operator()() { return static_cast<float>(normal(random)); }
  std::vector<double> numbers(Index count) {
    std::vector<double> all;
    for (Index n = 0; n < count; ++n) all.push_back((*this)());
    return all;
  }
};

HeadTransform drawn_transform(TransformDraw& draw, Index heads, Index d, int kind) {
  HeadTransform made;
  if (kind % 2 == 0) {
    const Index size = kind % 8 == 0 ? d : heads * d;
    made.norm = HeadNorm{kind % 3 == 0, kind % 4 == 2, 0.01, draw.numbers(size), {}};
    if (made.norm->centred) made.norm->bias = draw.numbers(size);
  }
  if (kind % 5 != 0 && d > 1) {
    const Index pairs = kind % 3 == 1 ? 1 : d / 2;
    made.rotary = Rotary{draw.numbers(pairs), draw.numbers(pairs), kind % 2 == 1};
  }
  return made;
}

// The moments of all heads.
template <class T>
std::vector<double> moments_of_heads(const HeadTransform& transform, std::vector<Guarded<T>>& u) {
  std::vector<double> moments(static_cast<std::size_t>(2 * u[0].rows()));
  Index count = 0;
  for (Guarded<T>& head : u) {
    add_moments<T>(*transform.norm, count, head.view(), moments, 2);
    count += head.cols();
  }
  HeadRows with;
  with.transform = &transform;
  finish_moments(with, count, moments, no_name);
  return moments;
}

}  // namespace

TEST_CASE("rows that are not seen become 0, and need no scale") {
  HeadTransform transform;
  transform.norm = HeadNorm{false, false, 0, {1, 2}, {5, 5}};
  HeadRows with;
  with.transform = &transform;
  with.seen = SeenRows({8, 9});
  with.first = 7;
  std::vector<double> rows{0, 0, 3, 4};
  const MatrixView<double> view(rows.data(), 2, 2);
  transform_rows<double>(with, view, 1, no_name);
  CHECK(rows[0] == 0);
  CHECK(rows[1] == 0);
  CHECK(rows[2] == doctest::Approx(5 + 3 / std::sqrt(12.5)));
  CHECK(rows[3] == doctest::Approx(5 + 8 / std::sqrt(12.5)));
  rows = {0, 0, 3, 4};
  with.first = 8;
  CHECK(thrown_error([&] { transform_rows<double>(with, view, 1, no_name); }).failure() ==
        Failure::numerical);
}

TEST_CASE_TEMPLATE("norms and rotations agree with the reference on any number of threads", T,
                   float, double) {
  TransformDraw draw;
  for (const Index length : {0, 1, 257}) {
    for (const Index d : {1, 2, 7}) {
      for (int kind = 0; kind < 16; ++kind) {
        const Index heads = 3;
        const HeadTransform transform = drawn_transform(draw, heads, d, kind);
        if (!transform.norm && !transform.rotary) continue;
        std::vector<Guarded<T>> u;
        std::vector<TransformRows> exact;
        for (Index h = 0; h < heads; ++h) {
          u.emplace_back(length, d);
          u.back().fill([&] { return static_cast<T>(draw()); });
          exact.emplace_back();
          for (Index i = 0; i < length; ++i) {
            exact.back().emplace_back(u.back().view().row(i), u.back().view().row(i) + d);
          }
        }
        std::vector<double> moments;
        HeadRows with{&transform, 1, heads, {-5, nullptr, false}, nullptr};
        if (transform.over_heads()) {
          moments = moments_of_heads<T>(transform, u);
          with.moments = moments.data();
        }
        Guarded<T> again(length, d);
        for (Index i = 0; i < length; ++i) {
          std::copy_n(u[1].view().row(i), d, again.view().row(i));
        }
        transform_rows<T>(with, u[1].view(), 1, no_name);
        transform_rows<T>(with, again.view(), 3, no_name);
        CHECK(again == u[1]);
        CHECK(again.intact());
        const TransformRows want = transformed(transform, exact, 1, -5);
        long double largest = 0;
        for (Index i = 0; i < length; ++i) {
          for (Index c = 0; c < d; ++c) {
            const long double off =
                std::abs(again.view()(i, c) -
                         want[static_cast<std::size_t>(i)][static_cast<std::size_t>(c)]);
            largest = std::max(largest, off);
          }
        }
        CAPTURE(length);
        CAPTURE(d);
        CAPTURE(kind);
        // Numbers are below 50; one rounding, and angles of up to 252 · 5 rounded in float64.
        CHECK(largest < 50 * std::numeric_limits<T>::epsilon() + 1e-11);
      }
    }
  }
}

TEST_CASE_TEMPLATE("gradients through norms and rotations agree with differences", T, float,
                   double) {
  TransformDraw draw;
  const Index length = 5, inner = 3, d = 4, heads = 2;
  for (int kind = 0; kind < 16; ++kind) {
    const HeadTransform transform = drawn_transform(draw, heads, d, kind);
    if (!transform.norm && !transform.rotary) continue;
    const bool over = transform.over_heads();
    HeadTransform moved = transform;
    Guarded<T> x(length, inner), w(heads * inner, d), bias(heads, d), grad(heads * length, d);
    for (Guarded<T>* one : {&x, &w, &bias, &grad}) {
      one->fill([&] { return static_cast<T>(draw()); });
    }
    // The loss Σ grad · transformed rows of head 1, with a norm over all heads of all.
    const auto loss = [&] {
      std::vector<TransformRows> u;
      for (Index h = 0; h < heads; ++h) {
        u.emplace_back();
        for (Index i = 0; i < length; ++i) {
          u.back().emplace_back();
          for (Index c = 0; c < d; ++c) {
            long double sum = bias.view()(h, c);
            for (Index k = 0; k < inner; ++k) {
              sum += static_cast<long double>(x.view()(i, k)) * w.view()(h * inner + k, c);
            }
            u.back().back().push_back(sum);
          }
        }
      }
      long double sum = 0;
      for (Index h = over ? 0 : 1; h < heads; ++h) {
        const TransformRows made = transformed(moved, u, static_cast<std::size_t>(h), 3);
        for (Index i = 0; i < length; ++i) {
          for (Index c = 0; c < d; ++c) {
            sum += made[static_cast<std::size_t>(i)][static_cast<std::size_t>(c)] *
                   grad.view()(h * length + i, c);
          }
        }
      }
      return sum;
    };
    HeadRows with{&transform, 1, heads, {3, nullptr, false}, nullptr};
    ProjectedFrom<T> from{
        x.view(), w.view().row_range(inner, inner), bias.view().row_range(1, 1), with, {}, {}};
    std::vector<double> moments;
    if (over) {
      std::vector<Guarded<T>> u;
      for (Index h = 0; h < heads; ++h) {
        from.all_weights.push_back(w.view().row_range(h * inner, inner));
        from.all_bias.push_back(bias.view().row_range(h, 1));
        u.emplace_back(length, d);
        project<T>(x.view(), from.all_weights.back(), from.numbers_of(from.all_bias.back()),
                   u.back().view(), 1, no_name);
      }
      moments = moments_of_heads<T>(transform, u);
      from.rows.moments = moments.data();
    }
    Guarded<T> dx(length, inner), dw(over ? heads * inner : inner, d, 0),
        db(1, over ? heads * d : d);
    const Index size = transform.norm ? std::ssize(transform.norm->weights) : 1;
    Guarded<T> dnorm(1, size), dnorm_bias(1, size);
    const ProjectionTargets<T> targets{dx.view(), dw.view(), db.view(), dnorm.view(),
                                       dnorm_bias.view()};
    const auto differentiate = [&](int threads, const ProjectionTargets<T>& to) {
      for (Guarded<T>* one : {&dx, &dw, &db, &dnorm, &dnorm_bias}) {
        one->fill([] { return T{0}; });
      }
      Guarded<T> upstream = grad;
      const auto of_head = [&](Index h) { return upstream.view().row_range(h * length, length); };
      if (!over) return differentiate_projected<T>(from, of_head(1), to, threads);
      for (Index h = 0; h < heads; ++h) rotate_back<T>(with, of_head(h), threads);
      differentiate_over_heads<T>(from, {of_head(0), of_head(1)}, to, threads);
    };
    if (transform.norm) {
      // Alone they are the same.
      differentiate(1, {{}, {}, {}, targets.norm, targets.norm_bias});
      const Guarded<T> alone = dnorm, bias_alone = dnorm_bias;
      differentiate(2, targets);
      CHECK(alone == dnorm);
      CHECK(bias_alone == dnorm_bias);
    } else {
      differentiate(2, targets);
    }
    const auto near = [&](long double difference, double step, T found) {
      const auto expected = static_cast<double>(difference / (2 * static_cast<long double>(step)));
      CAPTURE(kind);
      CHECK(std::abs(found - expected) <=
            (sizeof(T) == 4 ? 2e-2 : 2e-8) * (1 + std::abs(expected)));
    };
    const auto check_norm = [&](std::vector<double> HeadNorm::*of, const Guarded<T>& found) {
      for (std::size_t c = 0; c < ((*moved.norm).*of).size(); ++c) {
        double& number = ((*moved.norm).*of)[c];
        const double start = number;
        number = start + 0x1p-20;
        const long double high = loss();
        number = start - 0x1p-20;
        const long double low = loss();
        number = start;
        // The weights of another head have no gradient here.
        const bool own = over || size == d || static_cast<Index>(c) / d == 1;
        near(own ? high - low : 0, 0x1p-20, found.view()(0, static_cast<Index>(c)));
      }
    };
    if (transform.norm) {
      check_norm(&HeadNorm::weights, dnorm);
      check_norm(&HeadNorm::bias, dnorm_bias);
    }
    const auto check = [&](const char* name, Guarded<T>& of, Index row, Index col, T found) {
      T& number = of.view()(row, col);
      const T start = number;
      const T step = static_cast<T>(sizeof(T) == 4 ? 0x1p-8 : 0x1p-20);
      number = start + step;
      const long double high = loss();
      number = start - step;
      const long double low = loss();
      number = start;
      CAPTURE(name);
      near(high - low, step, found);
    };
    for (Index i = 0; i < length; ++i) {
      for (Index k = 0; k < inner; ++k) check("x", x, i, k, dx.view()(i, k));
    }
    const Index first = over ? 0 : inner;
    for (Index k = 0; k < dw.rows(); ++k) {
      for (Index c = 0; c < d; ++c) check("w", w, first + k, c, dw.view()(k, c));
    }
    for (Index c = 0; c < db.cols(); ++c) {
      check("bias", bias, over ? c / d : 1, c % d, db.view()(0, c));
    }
  }
}

TEST_CASE("a rotation keeps lengths, depends on distances, and is undone by its adjoint") {
  TransformDraw draw;
  const HeadTransform transform{std::nullopt, Rotary{draw.numbers(3), {1, 1, 1}, true}};
  std::vector<double> q = draw.numbers(6), k = draw.numbers(6);
  const auto product = [](const std::vector<double>& a, const std::vector<double>& b) {
    double sum = 0;
    for (std::size_t c = 0; c < a.size(); ++c) sum += a[c] * b[c];
    return sum;
  };
  const auto at = [&](std::vector<double> row, Index position) {
    transform_rows<double>({&transform, 0, 1, {position, nullptr, false}, nullptr},
                           {row.data(), 1, 6}, 1, no_name);
    return row;
  };
  CHECK(product(at(q, 900), at(q, 900)) == doctest::Approx(product(q, q)).epsilon(1e-13));
  CHECK(product(at(q, 907), at(k, 900)) == doctest::Approx(product(at(q, 7), k)).epsilon(1e-10));
  std::vector<double> back = at(q, 11);
  rotate_back<double>({&transform, 0, 1, {11, nullptr, false}, nullptr}, {back.data(), 1, 6}, 1);
  for (std::size_t c = 0; c < 6; ++c) CHECK(back[c] == doctest::Approx(q[c]).epsilon(1e-14));
}

TEST_CASE("positions of packed rows begin anew, and those beyond the range are refused") {
  const std::vector<Index> queries = {0, 2, 2, 5}, keys = {0, 3, 4, 8};
  const Packing packing(queries, keys, Causal::bottom_right);
  const auto positions = [&](bool of_keys, Index count) {
    std::vector<Index> found;
    for (Index n = 0; n < count; ++n) found.push_back(RowPositions{0, &packing, of_keys}.at(n));
    return found;
  };
  CHECK(positions(false, 5) == std::vector<Index>{1, 2, 1, 2, 3});
  CHECK(positions(true, 8) == std::vector<Index>{0, 1, 2, 0, 0, 1, 2, 3});
  const HeadTransform transform{HeadNorm{false, false, 0, {1, 1}, {}}, std::nullopt};
  std::vector<double> row = {1e200, 1};
  const auto error = [&] {
    return thrown_error([&] {
      transform_rows<double>({&transform, 0, 1, {}, nullptr}, {row.data(), 1, 2}, 1, no_name);
    });
  };
  CHECK(contains(error().what(), "the sum of squares of row 0 of q"));
  row = {0, 0};
  CHECK(contains(error().what(), "row 0 of q, after norm and rotation"));
  CHECK(error().failure() == Failure::numerical);
}
