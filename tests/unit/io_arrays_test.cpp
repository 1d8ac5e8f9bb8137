#include <doctest/doctest.h>

#include <zip.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <random>

#include "io/arrays/array_output.hpp"
#include "io/arrays/array_paths.hpp"
#include "io/arrays/npy_header.hpp"
#include "io/contents.hpp"
#include "io/result_mark.hpp"
#include "io_fixture.hpp"
#include "thrown_error.hpp"

using namespace attn;
using namespace attn::io;
using namespace attn::testing;

namespace {

OutputBundle::Options to(const std::string& path, const TemporaryFolder& folder) {
  OutputBundle::Options options;
  options.target = path;
  options.force = true;
  options.tmpdir = folder.path();
  return options;
}

std::vector<float> counting_floats(Index count) {
  std::vector<float> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i) - 3;
  return values;
}

const std::vector<ArrayPlan> plans = {{"q", DType::f32, {5, 3}},
                                      {"mask", DType::boolean, {4}},
                                      {"none", DType::f64, {0, 2}},
                                      {"n", DType::i64, {}}};

/// Writes those of the plans above that the format can store, with elements.
void write_good(const std::string& path, ArrayFormat format, const TemporaryFolder& folder) {
  std::vector<ArrayPlan> some = plans;
  if (format == ArrayFormat::npy) some.resize(1);
  ArrayOutput output(to(path, folder), format, some);
  for (const ArrayPlan& plan : output.order()) {
    const std::vector<float> floats = counting_floats(15);
    const std::uint8_t truths[] = {1, 0, 0, 1};
    const std::int64_t number = -7;
    if (plan.name == "q") output.write(floats.data(), 15);
    if (plan.name == "mask") output.write(truths, 4);
    if (plan.name == "n") output.write(&number, 1);
  }
  output.commit();
}

struct Named {
  const char* file;
  ArrayFormat format;
};
const Named array_formats[] = {{"a.npy", ArrayFormat::npy},
                               {"a.npz", ArrayFormat::npz},
                               {"a.safetensors", ArrayFormat::safetensors}};

}  // namespace

TEST_CASE("an .npy header is NumPy's") {
  // numpy.save of float32 (3, 4), written out.
  std::string expected("\x93NUMPY\x01\x00\x76\x00", 10);
  expected += "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }";
  expected.append(128 - expected.size() - 1, ' ');
  expected += '\n';
  CHECK(npy_header(DType::f32, {3, 4}) == expected);
  CHECK(contains(npy_header(DType::boolean, {7}), "'|b1', 'fortran_order': False, 'shape': (7,)"));
  CHECK(contains(npy_header(DType::i8, {}), "'|i1', 'fortran_order': False, 'shape': (), "));
  CHECK(npy_header(DType::f64, Shape(32, 1000000)).size() % 64 == 0);
  CHECK_THROWS_AS(npy_header(DType::bf16, {1}), std::invalid_argument);
}

TEST_CASE("arrays are written whole and read back") {
  const TemporaryFolder folder;
  for (const Named& named : array_formats) {
    CAPTURE(named.file);
    const std::string path = folder / named.file;
    write_good(path, named.format, folder);
    const std::string first = content_of(path);
    write_good(path, named.format, folder);
    CHECK(content_of(path) == first);
    CHECK(folder.entries() == std::vector<std::string>{named.file});
    if (named.format == ArrayFormat::npy) {
      const InputBundle bundle = open_input("", {{"x", path}});
      CHECK(values_of<float>(bundle.dataset("x")) == counting_floats(15));
    } else {
      const InputBundle bundle = open_input(path);
      CHECK(bundle.names() == std::vector<std::string>{"mask", "n", "none", "q"});
      CHECK(values_of<float>(bundle.dataset("q")) == counting_floats(15));
      CHECK(values_of<std::uint8_t>(bundle.dataset("mask")) ==
            std::vector<std::uint8_t>{1, 0, 0, 1});
      CHECK(bundle.dataset("none").shape() == Shape{0, 2});
      CHECK(values_of<std::int64_t>(bundle.dataset("n")) == std::vector<std::int64_t>{-7});
      CHECK(bundle.has("q"));
      CHECK_FALSE(bundle.has("x"));
      CHECK_FALSE(bundle.text_attribute("history"));
      CHECK_FALSE(bundle.number_attribute("scale"));
      CHECK(bundle.attribute_names().empty());
      const Error error = thrown_error([&] { bundle.dataset("x"); });
      CHECK(error.failure() == Failure::input);
      CHECK(contains(error.what(), "no dataset x (there are: mask, n, none, q)"));
    }
    fs::remove(path);
  }
}

TEST_CASE("dots and slashes in names of arrays separate groups, where HDF5 could have these") {
  using Paths = std::map<std::string, std::string>;
  CHECK(array_paths({}).empty());
  CHECK(array_paths({"blocks.0.attn.q", "a/b.c", "z"}) ==
        Paths{{"blocks/0/attn/q", "blocks.0.attn.q"}, {"a/b/c", "a/b.c"}, {"z", "z"}});
  // An array is no group, and has a path of its own.
  CHECK(array_paths({"q.weight", "q", "q.weight.scale"}) ==
        Paths{{"q", "q"}, {"q.weight", "q.weight"}, {"q.weight.scale", "q.weight.scale"}});
  CHECK(array_paths({"h.0", "h.0.q", "h"}) ==
        Paths{{"h", "h"}, {"h.0", "h.0"}, {"h.0.q", "h.0.q"}});
  CHECK(array_paths({"h.0", "h.0.q", "h.0.q.x"}) ==
        Paths{{"h.0", "h.0"}, {"h.0.q", "h.0.q"}, {"h/0/q/x", "h.0.q.x"}});
  CHECK(array_paths({"a.b", "a/b"}) == Paths{{"a/b", "a/b"}, {"a.b", "a.b"}});
  CHECK(array_paths({"a.b", "a/b/c"}) == Paths{{"a/b/c", "a/b/c"}, {"a.b", "a.b"}});
  CHECK(array_paths({"q", "q/weight"}) == Paths{{"q", "q"}});
  CHECK(array_paths({"a..b", ".a", "a.", ".."}) ==
        Paths{{"a..b", "a..b"}, {".a", ".a"}, {"a.", "a."}, {"..", ".."}});
  CHECK(array_paths({"", ".", "/", "/a", "a/", "a//b", "a/./b", "./a"}).empty());
}

TEST_CASE("uncommitted arrays leave nothing behind") {
  const TemporaryFolder folder;
  for (const Named& named : array_formats) {
    {
      ArrayOutput output(to(folder / named.file, folder), named.format, {plans[0]});
      const std::vector<float> values = counting_floats(15);
      output.write(values.data(), 9);
      CHECK_THROWS_AS(output.commit(), std::logic_error);
      CHECK_THROWS_AS(output.write(values.data(), 7), std::invalid_argument);
    }
    CHECK(folder.entries().empty());
  }
}

TEST_CASE("arrays that a format cannot hold are refused before anything is written") {
  const TemporaryFolder folder;
  const auto refused = [&](ArrayFormat format, const std::vector<ArrayPlan>& arrays) {
    const Error error =
        thrown_error([&] { ArrayOutput output(to(folder / "out", folder), format, arrays); });
    CHECK(error.failure() == Failure::input);
    CHECK(folder.entries().empty());
    return std::string(error.what());
  };
  const ArrayPlan a{"a", DType::f32, {1}};
  CHECK(contains(refused(ArrayFormat::npy, {}), "one array"));
  CHECK(contains(refused(ArrayFormat::npy, {a, {"b", DType::f32, {1}}}), "one array"));
  for (const ArrayFormat format : {ArrayFormat::npz, ArrayFormat::safetensors}) {
    CHECK(contains(refused(format, {a, a}), "two arrays are called a"));
    for (const char* name : {"", "a\nb", "\x7f"}) {
      CHECK(contains(refused(format, {{name, DType::f32, {1}}}), "cannot be called"));
    }
    CHECK(contains(refused(format, {{"a", DType::other, {1}}}), "which"));
  }
  CHECK(contains(refused(ArrayFormat::safetensors, {{"a", DType::string, {1}, 3}}), "string"));
  CHECK(contains(refused(ArrayFormat::npz, {{"a", DType::bf16, {1}}}), "bfloat16"));
  CHECK(contains(refused(ArrayFormat::npz, {{std::string(65532, 'a'), DType::f32, {1}}}), "aaaa"));
  CHECK(contains(refused(ArrayFormat::safetensors, {{"__metadata__", DType::f32, {1}}}),
                 "__metadata__"));
}

TEST_CASE("a bundle written as arrays is read back with groups, attributes and strings") {
  const TemporaryFolder folder;
  const std::vector<std::string> words = {"the", "", "na\u00efve", "\U0001d11ex"};
  for (const Named& named : {array_formats[1], array_formats[2]}) {
    OutputBundle::Options options = to(folder / named.file, folder);
    options.arrays = named.format;
    {
      OutputBundle output(options);
      OutputDataset x = output.create("deep/er/x", DType::f32, {3, 5}, {"row", "column"});
      const std::vector<float> values = counting_floats(15);
      // Written in any order, as HDF5 allows.
      x.write({2, 0}, {1, 5}, values.data() + 10);
      x.write({0, 0}, {2, 5}, values.data());
      output.write_strings("words", words);
      output.attribute("scale", 0.1);
      output.attribute("count", std::int64_t{1} << 60);
      output.attribute("name", std::string("na\u00efve"));
      output.group("empty").attribute("inside", std::string("yes"));
      output.dataset_attribute("deep/er/x", result_mark, "here");
      CHECK(output.address_of("words") == (folder / named.file) + ":words");
      CHECK(output.finish().empty());
      output.commit();
    }
    CHECK(folder.entries() == std::vector<std::string>{named.file});
    const InputBundle input = open_input(folder / named.file);
    CHECK(input.names() == std::vector<std::string>{"words"});
    CHECK(input.dataset("words").read_strings() == words);
    CHECK(input.number_attribute("scale") == 0.1);
    CHECK(input.number_attribute("count") == static_cast<double>(std::int64_t{1} << 60));
    CHECK(input.text_attribute("name") == "na\u00efve");
    CHECK(input.group_names() == std::vector<std::string>{"deep", "empty"});
    CHECK(input.group("empty").text_attribute("inside") == "yes");
    CHECK(values_of<float>(input.group("deep/er").dataset("x")) == counting_floats(15));
    CHECK(result_mark_of(input, "deep/er/x") == "here");
    fs::remove(folder / named.file);
  }
}

TEST_CASE("bundles are copied from arrays, sliced or not, without datasets to be replaced") {
  const TemporaryFolder folder;
  for (const Named& named : {array_formats[1], array_formats[2]}) {
    const std::string path = folder / named.file;
    write_good(path, named.format, folder);
    const InputBundle input =
        open_input(path, {{"part", path + ":q[1:4:2,1]"}, {"mask", path + ":n"}});
    OutputBundle output = open_output(folder / "copy.h5", true);
    output.copy_from(input, {"n"});
    output.copy_attributes_from(input);
    output.commit();
    const InputBundle copy = open_input(folder / "copy.h5");
    CHECK(copy.names() == std::vector<std::string>{"mask", "none", "part", "q"});
    CHECK(copy.dataset("q").dtype() == DType::f32);
    CHECK(values_of<float>(copy.dataset("q")) == counting_floats(15));
    CHECK(values_of<float>(copy.dataset("part")) == std::vector<float>{1, 7});
    CHECK(values_of<std::int64_t>(copy.dataset("mask")) == std::vector<std::int64_t>{-7});
    CHECK(copy.dataset("none").shape() == Shape{0, 2});
  }
}

namespace {

/// Damages a file in one of several ways.
std::string damaged(std::string content, std::mt19937& random) {
  const int times = 1 + static_cast<int>(random() % 3);
  for (int i = 0; i < times && !content.empty(); ++i) {
    // Half of the damage hits the first bytes, where the headers are.
    const std::size_t reach =
        random() % 2 == 0 ? std::min<std::size_t>(content.size(), 160) : content.size();
    const std::size_t at = random() % reach;
    switch (random() % 6) {
      case 0:
        content[at] = static_cast<char>(content[at] ^ (1 << random() % 8));
        break;
      case 1:
        content[at] = static_cast<char>(random());
        break;
      case 2:
        content.resize(at);
        break;
      case 3:
        content.insert(at, 1 + random() % 9, static_cast<char>(random()));
        break;
      case 4:
        content.erase(at, 1 + random() % 9);
        break;
      default:  // an 8-byte number at one of several limits
        for (std::size_t k = 0; k < 8 && at + k < content.size(); ++k) {
          content[at + k] = static_cast<char>(random() % 2 == 0 ? 0xff : k == 7 ? 0x7f : 0);
        }
    }
  }
  return content;
}

void read_everything(const InputBundle& bundle) {
  contents(bundle);
  root_attributes(bundle);
  for (const std::string& group : bundle.group_names()) read_everything(bundle.group(group));
  for (const std::string& name : bundle.names()) {
    const ArraySource dataset = bundle.dataset(name);
    // A shape containing 0 may have lengths whose product overflows.
    if (dataset.dtype() == DType::string) {
      dataset.read_strings();
    } else if (dataset.dtype() != DType::other) {
      REQUIRE(element_count(dataset.shape()) < (1 << 20));
      values_of<double>(dataset);
    }
  }
}

}  // namespace

TEST_CASE("damaged files are refused or read, and never crash") {
  const TemporaryFolder folder;
  const char* const given = std::getenv("ATTN_FUZZ_ROUNDS");
  const int rounds = given != nullptr ? std::atoi(given) : 600;
  std::vector<std::pair<std::string, std::string>> good;
  for (const Named& named : array_formats) {
    write_good(folder / named.file, named.format, folder);
    good.emplace_back(named.file, content_of(folder / named.file));
  }
  // Deflated members, as written by numpy.savez_compressed, are made by libzip here.
  zip_t* const archive = zip_open((folder / "z.npz").c_str(), ZIP_CREATE, nullptr);
  REQUIRE(archive != nullptr);
  std::string member = npy_header(DType::f64, {30000});
  member.append(240000, 'x');
  for (const char* name : {"q.npy", "k.npy"}) {
    zip_source_t* const source = zip_source_buffer(archive, member.data(), member.size(), 0);
    REQUIRE(zip_file_add(archive, name, source, 0) >= 0);
  }
  REQUIRE(zip_close(archive) == 0);
  good.emplace_back("z.npz", content_of(folder / "z.npz"));
  std::string words = npy_header(DType::f32, {5});
  words.replace(words.find("<f4"), 3, "<U3");
  words.append(60, '\0');
  good.emplace_back("w.npy", words);

  for (const Named& named : {array_formats[1], array_formats[2]}) {
    const std::string file = std::string("m") + named.file;
    OutputBundle::Options options = to(folder / file, folder);
    options.arrays = named.format;
    OutputBundle output(options);
    const double value = 2;
    output.create("deep/x", DType::f64, {}).write({}, {}, &value);
    output.write_strings("words", {"a", "b"});
    output.attribute("scale", 0.5);
    output.commit();
    good.emplace_back(file, content_of(folder / file));
  }

  std::mt19937 random(given != nullptr ? static_cast<unsigned>(rounds) : 5);
  for (const auto& [name, content] : good) {
    int refused = 0;
    for (int round = 0; round < rounds; ++round) {
      const std::string path = folder / name;
      write_file(path, damaged(content, random));
      InputBundle::Options options;
      if (name.substr(name.size() - 4) == ".npy") {
        options.named = {{"x", path}};
      } else {
        options.input = path;
      }
      options.tmpdir = folder.path();
      try {
        read_everything(InputBundle(options));
      } catch (const Error& error) {
        ++refused;
        CHECK(error.failure() == Failure::input);
        CHECK(contains(error.what(), name));
      }
    }
    CHECK(refused > rounds / 4);
    fs::remove(folder / name);
  }
  CHECK(folder.entries().empty());  // no temporary of unpacked members
}
