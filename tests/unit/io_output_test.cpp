#include <doctest/doctest.h>

#include <numeric>
#include <stdexcept>
#include <thread>

#include <hdf5_hl.h>

#include "io_fixture.hpp"
#include "thrown_error.hpp"

using namespace attn;
using namespace attn::io;
using namespace attn::testing;

namespace {

std::vector<double> counting(Index count) {
  std::vector<double> values(static_cast<std::size_t>(count));
  std::iota(values.begin(), values.end(), 0.0);
  return values;
}

/// Sets an environment variable while it exists.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  ~Variable() { unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
};

}  // namespace

TEST_CASE("Written datasets are read back with labels and attributes") {
  const TemporaryFolder folder;
  OutputBundle bundle = open_output(folder / "out.h5");
  CHECK(bundle.description() == folder / "out.h5");
  const std::vector<float> floats = {1.5F, -2, 3, 4, 5, 6};
  const std::vector<double> doubles = {1e300};
  const std::vector<std::int64_t> integers = {-1, std::int64_t{1} << 62};
  const std::vector<std::uint8_t> flags = {1, 0, 1};
  bundle.create("floats", DType::f32, {2, 3}, {"query", ""}).write({0, 0}, {2, 3}, floats.data());
  bundle.create("doubles", DType::f64, {}).write({}, {}, doubles.data());
  bundle.create("integers", DType::i64, {2}, {"key"}).write({0}, {2}, integers.data());
  bundle.create("flags", DType::boolean, {3}).write({0}, {3}, flags.data());
  bundle.create("bytes", DType::u8, {3}).write({0}, {3}, flags.data());
  bundle.create("group/inner/x", DType::f32, {1}).write({0}, {1}, floats.data());
  bundle.create("empty", DType::f32, {0, 3}, {}, {4, 4}).write({0, 0}, {0, 3}, floats.data());
  bundle.write_strings("tokens", {"the", "", "h\u00e9"}, {"key"});
  bundle.write_strings("none", {});
  bundle.attribute("real", 0.5);
  bundle.attribute("whole", std::int64_t{7});
  bundle.attribute("text", "\u03bb");
  bundle.attribute("text", "replaced");
  bundle.attribute("gone", 1.0);
  bundle.remove_attribute("gone");
  bundle.remove_attribute("never there");
  bundle.commit();
  CHECK(folder.entries() == std::vector<std::string>{"out.h5"});

  const InputBundle read = open_input(folder / "out.h5");
  CHECK(values_of<float>(read.dataset("floats")) == floats);
  CHECK(values_of<double>(read.dataset("doubles")) == doubles);
  CHECK(values_of<std::int64_t>(read.dataset("integers")) == integers);
  CHECK(read.dataset("flags").dtype() == DType::boolean);
  CHECK(values_of<std::uint8_t>(read.dataset("flags")) == flags);
  CHECK(read.dataset("bytes").dtype() == DType::u8);
  CHECK(values_of<float>(read.dataset("group/inner/x")) == std::vector<float>{1.5F});
  CHECK(read.dataset("empty").shape() == Shape{0, 3});
  CHECK(read.dataset("tokens").read_strings() == std::vector<std::string>{"the", "", "h\u00e9"});
  CHECK(read.dataset("none").shape() == Shape{0});
  CHECK(read.number_attribute("real") == 0.5);
  CHECK(read.number_attribute("whole") == 7.0);
  CHECK(read.text_attribute("text") == "replaced");
  CHECK_FALSE(read.number_attribute("gone"));
}

TEST_CASE("Axes are labelled") {
  const TemporaryFolder folder;
  OutputBundle bundle = open_output(folder / "out.h5");
  const std::vector<float> values(6);
  bundle.create("x", DType::f32, {2, 3}, {"query", "key"}).write({0, 0}, {2, 3}, values.data());
  bundle.commit();
  const h5::Lock lock;
  const h5::Handle file(H5Fopen((folder / "out.h5").c_str(), H5F_ACC_RDONLY, H5P_DEFAULT),
                        H5Fclose);
  const h5::Handle dataset(H5Dopen2(file.get(), "x", H5P_DEFAULT), H5Dclose);
  std::string label(16, '\0');
  REQUIRE(H5DSget_label(dataset.get(), 1, label.data(), label.size()) == 3);
  CHECK(label.substr(0, 3) == "key");
}

TEST_CASE("Blocks with gaps between their rows, contiguous and in chunks") {
  const TemporaryFolder folder;
  const Shape shape = {3, 40, 50};
  for (const Shape& chunk : {Shape{}, Shape{1, 16, 16}, Shape{8, 64, 64}}) {
    CAPTURE(to_string(chunk));
    OutputBundle bundle = open_output(folder / "out.h5", true);
    OutputDataset dataset = bundle.create("x", DType::f32, shape, {}, chunk);
    for (Index head = 0; head < 3; ++head) {
      for (Index row = 0; row < 40; row += 16) {
        for (Index col = 0; col < 50; col += 16) {
          const Index rows = std::min<Index>(16, 40 - row);
          const Index cols = std::min<Index>(16, 50 - col);
          std::vector<double> tile(16 * 20, -1);
          for (Index i = 0; i < rows; ++i) {
            for (Index j = 0; j < cols; ++j) {
              tile[static_cast<std::size_t>(i * 20 + j)] =
                  static_cast<double>(ravel({head, row + i, col + j}, shape));
            }
          }
          dataset.write({head, row, col}, {1, rows, cols}, tile.data(), 20);
        }
      }
    }
    bundle.commit();
    CHECK(values_of<double>(open_input(folder / "out.h5").dataset("x")) == counting(3 * 40 * 50));
  }
}

TEST_CASE("Strided blocks above the size of the buffer, and a vector with a stride") {
  const TemporaryFolder folder;
  const Index rows = 700;
  const Index cols = 501;
  const Index stride = 510;
  std::vector<double> matrix(static_cast<std::size_t>(rows * stride), -1);
  for (Index i = 0; i < rows; ++i) {
    std::iota(matrix.begin() + i * stride, matrix.begin() + i * stride + cols,
              static_cast<double>(i * cols));
  }
  OutputBundle bundle = open_output(folder / "out.h5");
  bundle.create("x", DType::f64, {rows, cols}).write({0, 0}, {rows, cols}, matrix.data(), stride);
  bundle.create("wide", DType::f64, {2, 200000});
  const std::vector<double> wide(2 * 200001, 3.0);
  bundle.create("wide", DType::f64, {2, 200000}).write({0, 0}, {2, 200000}, wide.data(), 200001);
  bundle.commit();
  const InputBundle read = open_input(folder / "out.h5");
  CHECK(values_of<double>(read.dataset("x")) == counting(rows * cols));
  CHECK(values_of<double>(read.dataset("wide")) == std::vector<double>(400000, 3.0));
}

TEST_CASE("Parts of rows give the same bytes, written directly or through a buffer") {
  const TemporaryFolder folder;
  const Variable date("SOURCE_DATE_EPOCH", "0");
  const Index rows = 50;
  const Index columns = 2000;
  const std::vector<double> values = counting(rows * columns);
  std::vector<std::string> contents;
  for (const std::size_t least_part : {std::size_t{1}, std::size_t{4096}, std::size_t{65536}}) {
    const std::string path = folder / std::to_string(least_part);
    OutputBundle bundle({.target = path, .tmpdir = {}, .least_part = least_part});
    OutputDataset dataset = bundle.create("x", DType::f64, {rows, columns});
    // Parts of 4096 bytes, of one number less and one more, and the remainder.
    Index first = 0;
    for (const Index width : {512, 511, 513, 1, 463}) {
      dataset.write({0, first}, {rows, width}, values.data() + first, columns);
      first += width;
    }
    REQUIRE(first == columns);
    bundle.commit();
    CHECK(values_of<double>(open_input(path).dataset("x")) == values);
    contents.push_back(content_of(path));
  }
  CHECK(contents[1] == contents[0]);
  CHECK(contents[2] == contents[0]);
}

TEST_CASE("Chunks may be written by several threads, in any order, to the same bytes") {
  const TemporaryFolder folder;
  const Variable epoch("SOURCE_DATE_EPOCH", "1700000000");
  const auto write_with = [&](const std::string& path, Index threads) {
    OutputBundle bundle = open_output(path);
    OutputDataset x = bundle.create("x", DType::f32, {512, 512}, {"query", "key"}, {64, 64});
    OutputDataset y = bundle.create("y", DType::f64, {512});
    std::vector<std::thread> workers;
    for (Index t = 0; t < threads; ++t) {
      workers.emplace_back([&, t] {
        for (Index tile = 63 - t; tile >= 0; tile -= threads) {
          const std::vector<float> values(64 * 64, static_cast<float>(tile));
          x.write({tile / 8 * 64, tile % 8 * 64}, {64, 64}, values.data());
          const std::vector<double> sums(8, static_cast<double>(tile));
          y.write({tile * 8}, {8}, sums.data());
        }
      });
    }
    for (std::thread& worker : workers) worker.join();
    bundle.add_history("tool --all", "1");
    bundle.commit();
  };
  write_with(folder / "one.h5", 1);
  write_with(folder / "four.h5", 4);
  CHECK(content_of(folder / "one.h5") == content_of(folder / "four.h5"));
  const std::vector<float> found = values_of<float>(open_input(folder / "four.h5").dataset("x"));
  for (Index i = 0; i < 512 * 512; i += 37) {
    CHECK(found[static_cast<std::size_t>(i)] ==
          static_cast<float>(i / 512 / 64 * 8 + i % 512 / 64));
  }
}

TEST_CASE("The same writes produce the same bytes at another time") {
  const TemporaryFolder folder;
  const Variable epoch("SOURCE_DATE_EPOCH", "86400");
  for (const char* name : {"a.h5", "b.h5"}) {
    OutputBundle bundle = open_output(folder / name);
    bundle.write_strings("tokens", {"a", "b"}, {"key"});
    const std::vector<float> values(10, 1);
    bundle.create("g/x", DType::f32, {10}, {}, {3}).write({0}, {10}, values.data());
    bundle.attribute("attn_scale", 0.5);
    bundle.add_history("tool", "1");
    bundle.commit();
    // HDF5's time stamps count seconds.
    if (*name == 'a') std::this_thread::sleep_for(std::chrono::milliseconds(1100));
  }
  CHECK(content_of(folder / "a.h5") == content_of(folder / "b.h5"));
}

TEST_CASE("Each run adds one line at the beginning of history") {
  const TemporaryFolder folder;
  {
    const Variable epoch("SOURCE_DATE_EPOCH", "86400");
    OutputBundle first = open_output(folder / "a.h5");
    first.add_history("first 'two\nlines'", "0.1");
    first.commit();
    const InputBundle input = open_input(folder / "a.h5");
    OutputBundle second = open_output(folder / "b.h5");
    second.copy_from(input, {});
    second.add_history("second", "0.2");
    second.commit();
  }
  CHECK(open_input(folder / "b.h5").text_attribute("history") ==
        "1970-01-02T00:00:00Z: second (0.2)\n1970-01-02T00:00:00Z: first 'two lines' (0.1)");
  const Variable epoch("SOURCE_DATE_EPOCH", "yesterday");
  OutputBundle bundle = open_output(folder / "c.h5");
  const Error error = thrown_error([&] { bundle.add_history("x", "1"); });
  CHECK(error.failure() == Failure::usage);
  CHECK(contains(error.what(), "SOURCE_DATE_EPOCH is 'yesterday'"));
}

TEST_CASE("A bundle that holds no numbers takes no space") {
  const TemporaryFolder folder;
  OutputBundle::Options options;
  // Not /dev/null: it cannot be as long as the file would be, which would count as a failure.
  options.target = folder / "x.h5";
  options.holds_numbers = false;
  OutputBundle bundle(options);
  constexpr Index far = Index{1} << 36;  // half a TiB, which the file does not occupy
  const std::vector<double> values = counting(1000);
  bundle.group("layer").create("x", DType::f64, {far}).write({far - 1000}, {1000}, values.data());
  bundle.attribute("text", "kept");
  CHECK_THROWS_AS(bundle.commit(), std::logic_error);
}

TEST_CASE("An impossible name is a bug") {
  const TemporaryFolder folder;
  OutputBundle bundle = open_output(folder / "x.h5");
  for (const char* name : {"", "/", "/x", "x/", "."}) {
    CHECK_THROWS_AS(bundle.create(name, DType::f32, {1}), std::invalid_argument);
  }
  CHECK_THROWS_AS(bundle.create("x", DType::bf16, {1}), std::invalid_argument);
  CHECK_THROWS_AS(bundle.create("x", DType::f32, {1}, {}, {1, 1}), std::invalid_argument);
  CHECK_THROWS_AS(bundle.create("x", DType::f32, {1}, {"key", "beyond"}), std::invalid_argument);
}
