#include "fenchel/templates.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "fenchel/template_products.hpp"
#include "thrown_error.hpp"
#include "tile_oracle.hpp"

using namespace attn;
using namespace attn::fenchel;
using namespace attn::testing;
using namespace attn::tile_oracle;

namespace {

template <class T>
OwnedMatrix<T> template_rows(Index count, Index width, Random& random) {
  OwnedMatrix<T> made(count, width);
  std::generate_n(made.data(), made.size(), [&] { return static_cast<T>(uniform(random, -1, 1)); });
  return made;
}

}  // namespace

TEST_CASE_TEMPLATE("products with templates have the bits of packed products of any rows", T, float,
                   double) {
  on_every_target([] {
    Random random(81);
    for (const Index count : {1, 7, 33, 65, 130}) {
      for (const Index depth : {1, 5, 64, 129}) {
        const auto templates = template_rows<T>(count, depth, random);
        const auto columns = kernel::Packed<T>::of_transposed(templates.read());
        const auto axes = kernel::Packed<T>::of(templates.read());
        for (const int threads : {1, 3}) {
          const TemplateProducts<T> products(templates, threads);
          for (const Index rows : {1, 2, 5, 8, 9, 12}) {
            const auto lambda = template_rows<T>(rows, depth, random);
            const auto weights = template_rows<T>(rows, count, random);
            OwnedMatrix<T> logits(rows, count), want_logits(rows, count);
            OwnedMatrix<T> means(rows, depth), want_means(rows, depth);
            products.logits(lambda.read(), logits.view());
            products.means(weights.read(), means.view());
            kernel::multiply_packed(T{1}, lambda.read(), columns, 0, want_logits.view());
            kernel::multiply_packed(T{1}, weights.read(), axes, 0, want_means.view());
            CAPTURE(count);
            CAPTURE(depth);
            CAPTURE(rows);
            CHECK(std::equal(logits.data(), logits.data() + logits.size(), want_logits.data()));
            CHECK(std::equal(means.data(), means.data() + means.size(), want_means.data()));
          }
        }
      }
    }
  });
}

TEST_CASE("templates are centred alike on any number of threads, and their largest norm is found") {
  Random random(82);
  const Index count = 130;  // three parts
  const Index depth = 5;
  const auto given = template_rows<double>(count, depth, random);
  const Templates one(given.read(), 1);
  const Templates three(given.read(), 3);
  long double largest = 0;
  for (Index i = 0; i < count; ++i) {
    long double square = 0;
    for (Index c = 0; c < depth; ++c) {
      long double centre = 0;
      for (Index other = 0; other < count; ++other) centre += given.row(other)[c];
      const long double want = given.row(i)[c] - centre / count;
      // The mean of numbers up to 1 is rounded at each of its sums.
      CHECK(std::abs(one.centred().row(i)[c] - want) <=
            (count + 2) * std::numeric_limits<double>::epsilon());
      CHECK(one.centred().row(i)[c] == three.centred().row(i)[c]);
      square += want * want;
    }
    largest = std::max(largest, std::sqrt(square));
  }
  CHECK(std::abs(one.largest_norm() - largest) <= 1e-13L * largest);
  CHECK(one.largest_norm() == three.largest_norm());
}

TEST_CASE("a template that is not finite is refused, whichever it is") {
  Random random(83);
  for (const Index bad : {0, 64, 129}) {
    for (const double value : {std::numeric_limits<double>::quiet_NaN(), infinity, 1e200}) {
      auto given = template_rows<double>(130, 3, random);
      given.row(bad)[1] = value;
      CHECK(thrown_error([&] { const Templates made(given.read(), 2); }).failure() ==
            Failure::input);
    }
  }
}
