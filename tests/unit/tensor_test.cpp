#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <new>
#include <optional>
#include <random>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "allocation_count.hpp"
#include "tensor/batch.hpp"
#include "tensor/buffer.hpp"
#include "tensor/dtype.hpp"
#include "tensor/shape.hpp"
#include "tensor/view.hpp"
#include "thrown_error.hpp"

using namespace attn;
using attn::testing::contains;
using attn::testing::thrown_error;

namespace {

using Random = std::mt19937_64;

Index pick(Random& random, const std::vector<Index>& from) {
  return from[std::uniform_int_distribution<std::size_t>(0, from.size() - 1)(random)];
}

Shape random_shape(Random& random, Index max_axes, const std::vector<Index>& lengths) {
  const Index axes = std::uniform_int_distribution<Index>(0, max_axes)(random);
  Shape shape(static_cast<std::size_t>(axes), 0);
  for (Index& axis : shape) axis = pick(random, lengths);
  return shape;
}

// NumPy's rule as worded in its manual: ones are prepended to the shorter shape; then, axis by
// axis, all lengths other than 1 must be equal. Written for any number of shapes, from the left.
std::optional<Shape> numpy_broadcast(std::vector<Shape> shapes) {
  std::size_t axes = 0;
  for (const Shape& shape : shapes) axes = std::max(axes, shape.size());
  for (Shape& shape : shapes) shape = join(Shape(axes - shape.size(), 1), shape);
  Shape result;
  for (std::size_t axis = 0; axis < axes; ++axis) {
    std::set<Index> lengths;
    for (const Shape& shape : shapes) lengths.insert(shape[axis]);
    lengths.erase(1);
    if (lengths.size() > 1) return std::nullopt;
    result.push_back(lengths.empty() ? 1 : *lengths.begin());
  }
  return result;
}

// Σ index × (product of the axes to the right).
Index position(const Shape& index, const Shape& shape) {
  Index sum = 0;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    Index right = 1;
    for (std::size_t next = axis + 1; next < shape.size(); ++next) right *= shape[next];
    sum += index[axis] * right;
  }
  return sum;
}

// The purpose of LeadingMap, by multi-indices instead of strides.
Index mapped(Index problem, const Shape& result, const Shape& operand) {
  const Shape at = unravel(problem, result);
  const std::size_t absent = result.size() - operand.size();
  Shape index;
  for (std::size_t axis = 0; axis < operand.size(); ++axis) {
    const Index group = result[axis + absent] / operand[axis];  // all of them if it broadcasts
    index.push_back(at[axis + absent] / group);
  }
  return position(index, operand);
}

bool divides_last_axis(const Shape& operand, const Shape& result) {
  return !operand.empty() && !result.empty() && result.back() % operand.back() == 0;
}

}  // namespace

TEST_CASE("a Shape of up to 32 axes is used like a vector") {
  Shape shape = {3, 4};
  shape.push_back(5);
  CHECK(shape == Shape{3, 4, 5});
  shape.insert(shape.begin(), 2);
  shape.insert(shape.begin() + 3, {7, 8});
  CHECK(shape == Shape{2, 3, 4, 7, 8, 5});
  shape.insert(shape.end(), shape.begin(), shape.begin() + 1);
  CHECK(shape == Shape{2, 3, 4, 7, 8, 5, 2});
  shape.pop_back();
  shape.resize(3);
  CHECK(shape == Shape{2, 3, 4});
  // What was there before does not come back.
  shape.resize(5, 1);
  CHECK(shape == Shape{2, 3, 4, 1, 1});
  CHECK(shape != Shape{2, 3, 4, 1});
  CHECK(Shape(shape.begin() + 1, shape.end()) == Shape{3, 4, 1, 1});
  CHECK(Shape(2, 0) == Shape{0, 0});
  CHECK((Shape().empty() && Shape().size() == 0));

  Shape longest(Shape::most_axes, 1);
  longest.back() = 6;
  CHECK(element_count(longest) == 6);
  const Shape before = longest;
  const std::vector<Index> numbers(33, 1);
  for (const auto& refused : std::vector<std::function<void()>>{
           [&] { longest.push_back(1); }, [&] { longest.resize(33); },
           [&] { longest.insert(longest.begin(), 1); }, [&] { Shape(33, 1); },
           [&] { Shape(numbers.begin(), numbers.end()); }, [&] { join(longest, {1}); }}) {
    const Error error = thrown_error(refused);
    CHECK(error.failure() == Failure::input);
    CHECK(contains(error.what(), "33 axes, at most 32"));
    CHECK(longest == before);
  }
}

TEST_CASE("views of many axes are made, copied and cut without an allocation") {
  float number = 0;
  const std::int64_t before = testing::allocations();
  const TensorView<float> view(&number, Shape(31, 1), Shape(31, 1));
  const TensorView<const float> copy = view;
  Shape cut = join(leading_axes(copy.shape, 2), {1, 1, 1});
  broadcast(cut, {1, 2}, cut);
  cut = join(unravel(0, cut), {});
  const std::int64_t more = testing::allocations() - before;
  CHECK(more == 0);
  CHECK(cut == Shape(32, 0));
}

TEST_CASE("element_count") {
  constexpr Index largest = std::numeric_limits<Index>::max();
  CHECK(element_count({}) == 1);
  CHECK(element_count({8, 2048, 64}) == 1048576);
  CHECK(element_count({largest}) == largest);
  CHECK(element_count({1, largest, 1}) == largest);
  CHECK(element_count({Index{1} << 31, Index{1} << 31}) == Index{1} << 62);
  // A zero decides, before or after axes whose product overflows.
  CHECK(element_count({0, largest, largest}) == 0);
  CHECK(element_count({largest, largest, 0}) == 0);
  for (const Shape& shape : {Shape{largest, 2}, Shape{Index{1} << 32, Index{1} << 31},
                             Shape{3, Index{1} << 32, Index{1} << 32}}) {
    const Error error = thrown_error([&] { element_count(shape); });
    CHECK(error.failure() == Failure::input);
    CHECK(contains(error.what(), to_string(shape)));
  }
}

TEST_CASE("element_count of random shapes is the exact product or an error") {
  Random random(20);
  int refused = 0;
  for (int n = 0; n < 2000; ++n) {
    const int axes = std::uniform_int_distribution<int>(1, 4)(random);
    Shape shape(static_cast<std::size_t>(axes), 0);
    long double product = 1;
    for (Index& axis : shape) {
      // Three bits of each axis are non-zero: products of four have 12 bits, exact in long double.
      axis = std::uniform_int_distribution<Index>(1, 7)(random)
             << std::uniform_int_distribution<int>(0, 24)(random);
      product *= static_cast<long double>(axis);
    }
    if (product < 9223372036854775808.0L) {
      CHECK(static_cast<long double>(element_count(shape)) == product);
    } else {
      ++refused;
      CHECK_THROWS_AS(element_count(shape), Error);
    }
  }
  CHECK(refused > 20);
  CHECK(refused < 1980);
}

TEST_CASE("shapes as text, in parts and joined") {
  CHECK(to_string(Shape{8, 2048, 64}) == "(8, 2048, 64)");
  CHECK(to_string(Shape{7}) == "(7)");
  CHECK(to_string(Shape{}) == "()");
  const Shape shape = {2, 3, 4, 5};
  CHECK(leading_axes(shape, 0) == shape);
  CHECK(leading_axes(shape, 2) == Shape{2, 3});
  CHECK(leading_axes(shape, 4).empty());
  for (std::size_t n = 0; n <= 4; ++n) {
    CHECK(join(leading_axes(shape, n), Shape(shape.end() - static_cast<int>(n), shape.end())) ==
          shape);
  }
}

TEST_CASE("broadcast is NumPy's") {
  Random random(21);
  int agreed = 0;
  for (int n = 0; n < 4000; ++n) {
    const Shape a = random_shape(random, 4, {0, 1, 1, 2, 3});
    const Shape b = random_shape(random, 4, {0, 1, 1, 2, 3});
    CAPTURE(to_string(a));
    CAPTURE(to_string(b));
    const auto want = numpy_broadcast({a, b});
    const Shape untouched = {-1, -2};
    Shape out = untouched;
    Shape other = untouched;
    CHECK(broadcast(a, b, out) == want.has_value());
    CHECK(out == want.value_or(untouched));
    CHECK(broadcast(b, a, other) == want.has_value());
    CHECK(other == out);
    agreed += want.has_value() ? 1 : 0;
  }
  CHECK(agreed > 400);
  CHECK(agreed < 3600);

  Shape in_place = {3, 1};
  CHECK(broadcast(in_place, {4}, in_place));
  CHECK(in_place == Shape{3, 4});
}

TEST_CASE("ravel and unravel are inverse and row-major") {
  Random random(22);
  CHECK(unravel(23, {2, 3, 4}) == Shape{1, 2, 3});
  for (int n = 0; n < 60; ++n) {
    const Shape shape = random_shape(random, 4, {1, 2, 3, 7});
    Shape before;
    for (Index flat = 0; flat < element_count(shape); ++flat) {
      const Shape index = unravel(flat, shape);
      REQUIRE(index.size() == shape.size());
      for (std::size_t axis = 0; axis < shape.size(); ++axis) {
        CHECK((index[axis] >= 0 && index[axis] < shape[axis]));
      }
      CHECK(ravel(index, shape) == flat);
      CHECK(position(index, shape) == flat);
      // The last axis varies fastest.
      if (flat > 0) CHECK(std::ranges::lexicographical_compare(before, index));
      before = index;
    }
  }
  const Shape large = {Index{1} << 20, Index{1} << 20, 3};
  CHECK(ravel(unravel((Index{3} << 40) - 2, large), large) == (Index{3} << 40) - 2);
}

TEST_CASE("grouped heads: query head h uses key head h / (Hq/Hk)") {
  const auto blocks = [](const Shape& result, const Shape& operand) {
    const LeadingMap map(result, operand, true, "k");
    std::vector<Index> found;
    for (Index p = 0; p < element_count(result); ++p) found.push_back(map(p));
    return found;
  };
  CHECK(blocks({6}, {2}) == std::vector<Index>{0, 0, 0, 1, 1, 1});
  CHECK(blocks({6}, {3}) == std::vector<Index>{0, 0, 1, 1, 2, 2});
  CHECK(blocks({}, {}) == std::vector<Index>{0});
  CHECK(blocks({2, 4}, {2, 2}) == std::vector<Index>{0, 0, 1, 1, 2, 2, 3, 3});
  CHECK(blocks({2, 4}, {1, 2}) == std::vector<Index>{0, 0, 1, 1, 0, 0, 1, 1});
  CHECK(blocks({2, 4}, {2}) == std::vector<Index>{0, 0, 1, 1, 0, 0, 1, 1});
  CHECK(blocks({2, 4}, {2, 1}) == std::vector<Index>{0, 0, 0, 0, 1, 1, 1, 1});
}

TEST_CASE("LeadingMap over random shapes: the right block, or an error that names both") {
  Random random(23);
  int fitting = 0;
  int grouping = 0;
  for (int n = 0; n < 4000; ++n) {
    const Shape result = random_shape(random, 3, {1, 2, 4, 6});
    const Shape operand = random_shape(random, 3, {1, 1, 2, 3, 4, 6});
    const bool grouped = n % 2 == 0;
    Shape stretched = operand;
    if (grouped && divides_last_axis(operand, result)) stretched.back() = result.back();
    const bool fits = numpy_broadcast({result, stretched}) == result;
    CAPTURE(to_string(result));
    CAPTURE(to_string(operand));
    CAPTURE(grouped);
    if (fits) {
      ++fitting;
      grouping += stretched != operand && operand.back() != 1 ? 1 : 0;
      const LeadingMap map(result, operand, grouped, "x");
      for (Index p = 0; p < element_count(result); ++p) {
        CHECK(map(p) == mapped(p, result, operand));
      }
    } else {
      const Error error =
          thrown_error([&] { const LeadingMap map(result, operand, grouped, "b.h5:/v"); });
      CHECK(error.failure() == Failure::input);
      CHECK(contains(error.what(), "b.h5:/v"));
      CHECK(contains(error.what(), to_string(operand)));
      CHECK(contains(error.what(), to_string(result)));
    }
  }
  CHECK(fitting > 400);
  CHECK(fitting < 3600);
  CHECK(grouping > 20);
}

TEST_CASE("result_axes") {
  const auto axes = [](const Shape& q, const Shape& k) { return result_axes(q, k, "Q", "K"); };
  CHECK(axes({}, {}).empty());
  CHECK(axes({8}, {2}) == Shape{8});
  CHECK(axes({8}, {}) == Shape{8});
  CHECK(axes({}, {4}) == Shape{4});
  CHECK(axes({1}, {4}) == Shape{4});
  CHECK(axes({5, 4}, {1, 2}) == Shape{5, 4});
  CHECK(axes({4}, {5, 2}) == Shape{5, 4});
  CHECK(axes({3, 1, 6}, {2, 3}) == Shape{3, 2, 6});
  // A shape without heads is valid.
  CHECK(axes({0}, {0}) == Shape{0});
  CHECK(axes({2, 0}, {0}) == Shape{2, 0});
}

TEST_CASE("result_axes refuses heads that do not divide and axes that do not broadcast") {
  for (const Shape& k : {Shape{8}, Shape{3}, Shape{2, 3}}) {
    const Shape q = {2, 4};
    const Error error = thrown_error([&] { result_axes(q, k, "a.h5:/q", "b.h5:/k"); });
    CHECK(error.failure() == Failure::input);
    CHECK(contains(error.what(), "a.h5:/q has " + std::to_string(q.back()) + " heads"));
    CHECK(contains(error.what(), "b.h5:/k has " + std::to_string(k.back())));
  }
  const Error error = thrown_error([&] { result_axes({2, 8}, {3, 4}, "a.h5:/q", "b.h5:/k"); });
  CHECK(error.failure() == Failure::input);
  CHECK(contains(error.what(), "a.h5:/q has leading axes (2, 8)"));
  CHECK(contains(error.what(), "b.h5:/k has (3, 4)"));
}

TEST_CASE("result_axes of random shapes: both operands map into the result") {
  Random random(24);
  int agreed = 0;
  for (int n = 0; n < 4000; ++n) {
    const Shape q = random_shape(random, 3, {1, 2, 4, 6});
    const Shape k = random_shape(random, 3, {1, 1, 2, 3, 4});
    Shape stretched = k;
    if (divides_last_axis(k, q)) stretched.back() = q.back();
    const auto want = numpy_broadcast({q, stretched});
    CAPTURE(to_string(q));
    CAPTURE(to_string(k));
    if (want) {
      ++agreed;
      const Shape result = result_axes(q, k, "q", "k");
      CHECK(result == *want);
      CHECK_NOTHROW(LeadingMap(result, q, false, "q"));
      CHECK_NOTHROW(LeadingMap(result, k, true, "k"));
    } else {
      CHECK(thrown_error([&] { result_axes(q, k, "q", "k"); }).failure() == Failure::input);
    }
  }
  CHECK(agreed > 400);
  CHECK(agreed < 3600);
}

TEST_CASE("types by name, size and kind") {
  using Row = std::tuple<DType, const char*, std::size_t, bool, bool>;
  const Row table[] = {
      {DType::f16, "float16", 2, true, false},  {DType::bf16, "bfloat16", 2, true, false},
      {DType::f32, "float32", 4, true, false},  {DType::f64, "float64", 8, true, false},
      {DType::i8, "int8", 1, false, true},      {DType::i16, "int16", 2, false, true},
      {DType::i32, "int32", 4, false, true},    {DType::i64, "int64", 8, false, true},
      {DType::u8, "uint8", 1, false, true},     {DType::u16, "uint16", 2, false, true},
      {DType::u32, "uint32", 4, false, true},   {DType::u64, "uint64", 8, false, true},
      {DType::boolean, "bool", 1, false, true}, {DType::string, "string", 0, false, false},
      {DType::other, "other", 0, false, false},
  };
  for (const auto& [type, called, size, floating, integral] : table) {
    CHECK(name(type) == called);
    CHECK(size_of(type) == size);
    CHECK(is_floating(type) == floating);
    CHECK(is_integral(type) == integral);
  }
}

TEST_CASE_TEMPLATE("Buffer", T, std::uint8_t, float, double) {
  CHECK(Buffer<T>().size() == 0);
  for (const Index size : {0, 1, 2, 15, 64, 1001}) {
    Buffer<T> buffer(size);
    CHECK(buffer.size() == size);
    CHECK(reinterpret_cast<std::uintptr_t>(buffer.data()) % 64 == 0);
    CHECK(buffer.end() - buffer.begin() == size);
    for (Index i = 0; i < size; ++i) buffer[i] = static_cast<T>(i % 100);
    buffer.reserve(size / 2);  // enough capacity: nothing moves
    CHECK(buffer.size() == size);
    bool kept = true;
    for (Index i = 0; i < size; ++i) kept = kept && buffer.data()[i] == static_cast<T>(i % 100);
    CHECK(kept);
    const T* const room = buffer.data();
    Buffer<T> moved = std::move(buffer);
    CHECK(moved.data() == room);
    CHECK(moved.size() == size);
    moved.reserve(2 * size + 1);
    CHECK(moved.size() >= 2 * size + 1);
    std::fill(moved.begin(), moved.end(), T{1});
  }
  CHECK_THROWS_AS(Buffer<T>(-1), std::bad_alloc);
  // 2^64 bytes and more: a wrapped product would request, and get, nothing.
  const Index wraps = sizeof(T) == 8 ? Index{1} << 61 : Index{1} << 62;
  if (sizeof(T) > 1) CHECK_THROWS_AS(Buffer<T>{wraps}, std::bad_alloc);
}

TEST_CASE("MatrixView") {
  std::vector<double> numbers(20);
  for (std::size_t n = 0; n < numbers.size(); ++n) numbers[n] = static_cast<double>(n);
  const MatrixView<double> view(numbers.data(), 4, 3, 5);
  CHECK(view(2, 1) == 11);
  CHECK(view.row(3) == numbers.data() + 15);
  const MatrixView<const double> part = view.row_range(1, 2);
  CHECK(Shape{part.rows, part.cols, part.row_stride} == Shape{2, 3, 5});
  CHECK(part(1, 2) == 12);
  view(1, 0) = -1;
  CHECK(part(0, 0) == -1);
  CHECK(MatrixView<double>(numbers.data(), 4, 5)(1, 0) == -1);
}
