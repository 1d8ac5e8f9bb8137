// The table of schemes: names, options, and the cost that follows from a description.

#include "scheme/scheme_description.hpp"

#include <doctest/doctest.h>

#include "scheme/gradient.hpp"
#include "scheme/scheme.hpp"
#include "scheme/table.hpp"
#include "thrown_error.hpp"

using namespace attn;
using namespace attn::testing;

namespace {

const SchemeDescription& described(const char* name) {
  const SchemeDescription* const found = scheme_called(name);
  REQUIRE(found != nullptr);
  return *found;
}

}  // namespace

TEST_CASE("schemes have names and constants of their own, and unknown ones are refused") {
  REQUIRE(schemes().size() == scheme_names.size());
  for (std::size_t n = 0; n < schemes().size(); ++n) {
    const SchemeDescription* const scheme = schemes()[n];
    CHECK(scheme->name() == scheme_names[n]);
    CHECK(scheme_called(scheme->name()) == scheme);
    CHECK(&description_of(scheme->scheme()) == scheme);
    CHECK(!scheme->help().empty());
    CHECK(!scheme->formula().empty());
    CHECK(scheme->usual_energy() == (scheme->has_preference() ? "dot" : "scaled-dot"));
  }
  CHECK(scheme_called("DNAS") == nullptr);
  const Error error = thrown_error([] { description_of(static_cast<Scheme>(77)); });
  CHECK(error.failure() == Failure::usage);
  CHECK(contains(error.what(), "no such scheme"));
}

TEST_CASE("only what normalises by query has no bound on column sums; softmax takes least memory") {
  for (const SchemeDescription* scheme : schemes()) {
    CAPTURE(scheme->name());
    const bool by_query = is_by_query(scheme->scheme());
    CHECK(scheme->column_sum_bound({0.5, 4}).has_value() == !by_query);
    const std::int64_t bytes = scheme->bytes(1000, 1000, 4, 2);
    CHECK(bytes >= described("unas").bytes(1000, 1000, 4, 2));
  }
}

TEST_CASE("the passes of a scheme") {
  SchemeOptions three;
  three.stopping.iterations = 3;
  SchemeOptions at_most = three;
  at_most.stopping.tolerance = 1e-3;
  for (const SchemeDescription* scheme : schemes()) {
    CAPTURE(scheme->name());
    const SchemePasses before = scheme->gradient_passes(three);
    if (scheme->is_iterated()) {
      CHECK(scheme->score_passes(three) == 6);
      CHECK(scheme->score_passes(at_most) == 8);
      CHECK(scheme->score_passes({}) == 2 * usual_iterations + 2);
      CHECK(before.scores == 10);
      CHECK(scheme->useful_bytes(three, 10, 20, 4) == 800);
    } else {
      CHECK(scheme->score_passes(at_most) == (is_by_query(scheme->scheme()) ? 1 : 2));
      CHECK(before.scores == (scheme->is_mixture() ? 1 : 0));
      CHECK(scheme->useful_bytes(three, 10, 20, 4) == 0);
    }
    CHECK(before.values == (before.scores > 0 ? 1 : 0));
  }
}

TEST_CASE("the bytes of a gradient grow with what a scheme holds") {
  const GradientSizes sizes{500, 700, 32, 4, 2};
  const auto bytes = [&](const char* name, Index iterations) {
    SchemeOptions options;
    options.stopping.iterations = iterations;
    return described(name).gradient_bytes(sizes, options);
  };
  CHECK(bytes("dnas", 1) < bytes("hnas", 1));
  CHECK(bytes("dnas", 1) < bytes("sinkhorn", 1));
  CHECK(bytes("sinkhorn", 2) < bytes("sinkhorn", 20));
  // The gradient of preferences takes the values of keys without a preference, too.
  CHECK(bytes("unas", 1) < bytes("fenchel", 1));
  SchemeOptions options;
  options.scheme = Scheme::hnas;
  CHECK(differentiate_bytes(options, sizes) == bytes("hnas", 1));
}
