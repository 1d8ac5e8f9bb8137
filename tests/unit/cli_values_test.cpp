#include <doctest/doctest.h>

#include <limits>

#include "attnkit/error.hpp"
#include "cli/values.hpp"
#include "infinity.hpp"

using namespace attn;
using namespace attn::cli;
using attn::testing::infinity;

namespace {

// The error message; empty if the value is accepted.
std::string refusal(const Option& option, const std::string& text) {
  try {
    parse_value(option, text);
  } catch (const Error& error) {
    CHECK(error.failure() == Failure::usage);
    return error.what();
  }
  return "";
}

std::string hint(const Option& option, const std::string& text) {
  try {
    parse_value(option, text);
  } catch (const Error& error) {
    return error.hint();
  }
  return "accepted";
}

Option number(Declaration::Range range) {
  return {.name = "x", .kind = Option::Kind::number, .range = range};
}

}  // namespace

TEST_CASE("a number is the whole text and finite") {
  CHECK(to_number("1") == 1.0);
  CHECK(to_number("-1.5e3") == -1500.0);
  CHECK(to_number("0.1") == 0.1);
  CHECK(to_number(".5") == 0.5);
  CHECK(to_number("4.9406564584124654e-324") == 4.9406564584124654e-324);
  for (const char* const text : {"", " 1", "1 ", "+1", "1x", "1,5", "0x10", "inf", "-inf", "nan",
                                 "infinity", "1e400", "--1", "e5", "."}) {
    CAPTURE(text);
    CHECK_FALSE(to_number(text));
  }
}

TEST_CASE("an integer is the whole text and fits") {
  CHECK(to_integer("9223372036854775807") == std::numeric_limits<Index>::max());
  CHECK(to_integer("-3") == -3);
  for (const char* const text :
       {"", "3.5", "3.0", "1e3", "9223372036854775808", " 3", "+3", "0x3"}) {
    CAPTURE(text);
    CHECK_FALSE(to_integer(text));
  }
}

TEST_CASE("sizes are in powers of 1024") {
  CHECK(to_bytes("1") == 1);
  CHECK(to_bytes("65536") == 65536);
  CHECK(to_bytes("1K") == 1024);
  CHECK(to_bytes("512M") == Index{512} << 20);
  CHECK(to_bytes("1.5G") == Index{3} << 29);
  CHECK(to_bytes("2g") == Index{2} << 30);
  CHECK(to_bytes("1T") == Index{1} << 40);
  CHECK(to_bytes("0.001K") == 1);
  CHECK(to_bytes("9223372036854775807") == std::numeric_limits<Index>::max());
  for (const char* const text : {"", "0", "-1", "1.5", "G", "1GB", "1KiB", "1 G", "0.0001K", "-1G",
                                 "9999999999T", "infG", "1e30G", "9223372036854775808"}) {
    CAPTURE(text);
    CHECK_FALSE(to_bytes(text));
  }
}

TEST_CASE("compression is gzip with a level") {
  CHECK(to_deflate_level("gzip") == 4);
  CHECK(to_deflate_level("gzip:1") == 1);
  CHECK(to_deflate_level("gzip:9") == 9);
  const Option option{.name = "compress", .kind = Option::Kind::compression};
  CHECK(std::get<std::string>(parse_value(option, "gzip")) == "gzip:4");
  CHECK(refusal(option, "") == "--compress is empty, expected gzip or gzip:N with N in [1, 9]");
  CHECK(hint(option, "6") == "--compress gzip:6");
  CHECK(hint(option, "0").empty());
  for (const char* const text : {"gzip:0", "gzip:10", "gzip:", "gzip4", "zstd", "4", "gzip:x"}) {
    CAPTURE(text);
    CHECK(to_deflate_level(text) == 0);
    CHECK(refusal(option, text) ==
          std::string("--compress is ") + text + ", expected gzip or gzip:N with N in [1, 9]");
  }
}

TEST_CASE("a number outside of its range is refused with the range") {
  CHECK(refusal(number({0, 1}), "0") == "");
  CHECK(refusal(number({0, 1}), "1") == "");
  CHECK(refusal(number({0, 1}), "1.5") == "--x is 1.5, expected a number in [0, 1]");
  CHECK(refusal(number({0, 1}), "one") == "--x is one, expected a number in [0, 1]");
  CHECK(refusal(number({0, 1}), "") == "--x is empty, expected a number in [0, 1]");
  CHECK(refusal(number({0, 1, true, true}), "0") == "--x is 0, expected a number in (0, 1)");
  CHECK(refusal(number({0, 1, true, true}), "1") == "--x is 1, expected a number in (0, 1)");
  CHECK(refusal(number({0, infinity, true}), "0") == "--x is 0, expected a number > 0");
  CHECK(refusal(number({0, infinity}), "-1") == "--x is -1, expected a number >= 0");
  CHECK(refusal(number({-infinity, 2}), "3") == "--x is 3, expected a number <= 2");
  CHECK(refusal(number({-infinity, 2, false, true}), "2") == "--x is 2, expected a number < 2");
  CHECK(refusal(number({-infinity, infinity}), "inf") == "--x is inf, expected a finite number");
  CHECK(refusal(number({-infinity, infinity}), "nan") == "--x is nan, expected a finite number");
}

TEST_CASE("an integer outside of its range is refused with the range") {
  Option option{.name = "n", .kind = Option::Kind::integer, .low = 1, .high = 64};
  CHECK(refusal(option, "64") == "");
  CHECK(refusal(option, "65") == "--n is 65, expected an integer in [1, 64]");
  CHECK(refusal(option, "3.5") == "--n is 3.5, expected an integer in [1, 64]");
  option.high = Index{1} << 40;
  CHECK(refusal(option, "0") == "--n is 0, expected an integer in [1, 2^40]");
  CHECK(refusal(option, "1099511627776") == "");
  CHECK(refusal(option, "1099511627777") != "");
  option.high = (Index{1} << 40) + 1;
  CHECK(refusal(option, "0") == "--n is 0, expected an integer in [1, 1099511627777]");
  option.high = std::numeric_limits<Index>::max();
  CHECK(refusal(option, "0") == "--n is 0, expected an integer >= 1");
  CHECK(refusal(option, "99999999999999999999") ==
        "--n is 99999999999999999999, expected an integer >= 1");
}

TEST_CASE("numbers and lists that are written in another way") {
  Option one = number({0, 1});
  CHECK(hint(one, "0,1") == "a decimal has a point: --x 0.1");
  CHECK(hint(one, "10%") == "10 % is written 0.1");
  CHECK(hint(one, "10") == "10 % is written 0.1");
  for (const char* const text : {"1.5", "120", "120%", "1,5", "0,1,1", "0,x", "ten"}) {
    CAPTURE(text);
    CHECK(hint(one, text).empty());
  }
  one.range = {0, infinity, true};
  CHECK(hint(one, "-5").empty());
  one.kind = Option::Kind::numbers;
  CHECK(hint(one, "0,1") == "a decimal has a point: --x 0.1");
  CHECK(hint(one, "1,2") == "accepted");
  for (const char* const text : {"1e-1;1e-2", "1e-1, 1e-2", "[1e-1 1e-2]", "(1e-1,1e-2)"}) {
    CAPTURE(text);
    CHECK(hint(one, text) == "a list has commas and no blanks: --x 1e-1,1e-2");
  }
  CHECK(hint(one, "1e-1;0").empty());
  CHECK(hint(one, "1,") == "a list has commas and no blanks");

  const Option counts{.name = "n", .kind = Option::Kind::integers, .low = 1, .high = 9};
  CHECK(hint(counts, "2,4e0") == "4e0 is written 4");
  CHECK(hint(counts, "2.0") == "2.0 is written 2");
  CHECK(hint(counts, "1%") == "--n counts: whole numbers, not shares");
  for (const char* const text : {"2.5", "1e4", "1e300", "%", "x%"}) {
    CAPTURE(text);
    CHECK(hint(counts, text).empty());
  }
  CHECK(hint(counts, "1 2;3") == "a list has commas and no blanks: --n 1,2,3");
  const Option words{.name = "emit", .kind = Option::Kind::choices, .values = {"out", "weights"}};
  CHECK(hint(words, "out; weights") == "a list has commas and no blanks: --emit out,weights");
}

TEST_CASE("types by the names of other programs") {
  Option type{.name = "dtype", .kind = Option::Kind::choice, .values = {"f16", "f32", "f64"}};
  CHECK(hint(type, "Float32") == "Float32 is called f32 here");
  CHECK(hint(type, "half") == "half is called f16 here");
  CHECK(hint(type, "bfloat16") == "f32 takes bfloat16 as it is");
  type.values = {"out"};
  CHECK(hint(type, "float32").empty());
}

TEST_CASE("words come from a list") {
  const Option one{.name = "scheme", .kind = Option::Kind::choice, .values = {"unas", "dnas"}};
  CHECK(std::get<std::string>(parse_value(one, "dnas")) == "dnas");
  CHECK(refusal(one, "foo") == "--scheme is foo, expected one of unas, dnas");
  CHECK(refusal(one, "una") == "--scheme is una, expected one of unas, dnas");
  CHECK(refusal(one, "") == "--scheme is empty, expected one of unas, dnas");
  CHECK(hint(one, "una") == "did you mean unas?");
  CHECK(hint(one, "foo").empty());
  Option known = one;
  known.synonyms["softmax"] = "unas";
  CHECK(hint(known, "softmax") == "softmax is called unas here");
  CHECK(hint(known, "Softmax") == "Softmax is called unas here");
  CHECK(hint(known, "DNAS") == "did you mean dnas?");

  const Option many{.name = "emit", .kind = Option::Kind::choices, .values = {"out", "weights"}};
  CHECK(std::get<std::vector<std::string>>(parse_value(many, "weights,out")) ==
        std::vector<std::string>{"weights", "out"});
  CHECK(refusal(many, "out,foo") == "--emit lists foo, expected a list of out, weights");
  CHECK(refusal(many, "out,out") == "--emit lists out twice");
  CHECK(refusal(many, "out,") == "--emit has an empty item, expected a list of out, weights");
  CHECK(refusal(many, "") == "--emit is empty, expected a list of out, weights");
}

TEST_CASE("lists and points") {
  const Option numbers{.name = "r", .kind = Option::Kind::numbers, .range = {0, infinity, true}};
  CHECK(std::get<std::vector<double>>(parse_value(numbers, "1,2.5,1e-8")) ==
        std::vector<double>{1, 2.5, 1e-8});
  CHECK(refusal(numbers, "1,0") == "--r lists 0, expected numbers > 0 separated by commas");
  CHECK(refusal(numbers, "1;2") == "--r lists 1;2, expected numbers > 0 separated by commas");

  const Option integers{.name = "n", .kind = Option::Kind::integers, .low = 0, .high = 9};
  CHECK(std::get<std::vector<Index>>(parse_value(integers, "5,0")) == std::vector<Index>{5, 0});
  CHECK(refusal(integers, "5,10") ==
        "--n lists 10, expected integers in [0, 9] separated by commas");

  const Option points{.name = "centres", .kind = Option::Kind::points};
  CHECK(std::get<std::vector<std::vector<double>>>(parse_value(points, "1.8,0.7;-1,-1")) ==
        std::vector<std::vector<double>>{{1.8, 0.7}, {-1, -1}});
  CHECK(std::get<std::vector<std::vector<double>>>(parse_value(points, "1")) ==
        std::vector<std::vector<double>>{{1}});
  CHECK(refusal(points, "1,2;3") == "--centres has points of 2 and of 1 coordinates");
  CHECK(refusal(points, "1,2;") == "--centres is 1,2;, expected points such as \"1.8,0.7;-1,-1\"");
}

TEST_CASE("a seed is any of the unsigned 64-bit numbers") {
  const Option seed{.name = "seed", .kind = Option::Kind::seed};
  CHECK(std::get<std::uint64_t>(parse_value(seed, "18446744073709551615")) ==
        std::numeric_limits<std::uint64_t>::max());
  for (const char* const text : {"-1", "18446744073709551616", "1.0", "0x1"}) {
    CAPTURE(text);
    CHECK_FALSE(refusal(seed, text).empty());
  }
}
