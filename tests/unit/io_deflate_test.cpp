// --compress as stored in files: chunks, filters, bits, and how often a chunk is deflated.

#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <thread>

#include "io/hdf5/dataset_creation.hpp"
#include "io_fixture.hpp"
#include "thrown_error.hpp"

using namespace attn;
using namespace attn::io;
using namespace attn::testing;

namespace {

OutputBundle open_deflating(const std::string& target, int level = 4) {
  OutputBundle::Options options;
  options.target = target;
  options.deflate = level;
  return OutputBundle(options);
}

/// Smooth numbers, so that shuffling their bytes helps.
std::vector<float> smooth(Index count) {
  std::vector<float> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(std::sin(static_cast<double>(i) * 1e-3));
  }
  return values;
}

/// Chunk and filters of a dataset; no chunk if it is contiguous.
struct Layout {
  Shape chunk;
  std::vector<H5Z_filter_t> filters;
};

Layout layout_of(const std::string& path, const std::string& name) {
  const h5::Lock lock;
  const h5::Handle file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), H5Fclose);
  const h5::Handle dataset(H5Dopen2(file.get(), name.c_str(), H5P_DEFAULT), H5Dclose);
  const h5::Handle creation(H5Dget_create_plist(dataset.get()), H5Pclose);
  Layout layout;
  if (H5Pget_layout(creation.get()) == H5D_CHUNKED) {
    std::vector<hsize_t> chunk(32);
    chunk.resize(static_cast<std::size_t>(H5Pget_chunk(creation.get(), 32, chunk.data())));
    layout.chunk = Shape(chunk.begin(), chunk.end());
  }
  for (int n = 0; n < H5Pget_nfilters(creation.get()); ++n) {
    layout.filters.push_back(H5Pget_filter2(creation.get(), static_cast<unsigned>(n), nullptr,
                                            nullptr, nullptr, 0, nullptr, nullptr));
  }
  return layout;
}

}  // namespace

TEST_CASE("Chunks to be deflated are runs of consecutive elements of at most half a MiB") {
  CHECK(deflate_chunk({8, 2048, 64}, 4) == Shape{1, 2048, 64});
  CHECK(deflate_chunk({12, 512, 64}, 4) == Shape{4, 512, 64});
  // Even parts: 10 heads, of which 4 would fit, are cut into 4, 4, 2.
  CHECK(deflate_chunk({10, 512, 64}, 4) == Shape{4, 512, 64});
  CHECK(deflate_chunk({9, 256, 64}, 4) == Shape{5, 256, 64});
  CHECK(deflate_chunk({2, 4097, 64}, 4) == Shape{1, 1366, 64});
  CHECK(deflate_chunk({3, 100000}, 8) == Shape{1, 50000});
  CHECK(deflate_chunk({100001}, 4) == Shape{100001});
  CHECK(deflate_chunk({5, 3, 1000000}, 1) == Shape{1, 1, 500000});
  for (const Shape& shape : {Shape{7, 11, 13, 17, 19}, Shape{1, 99991, 3}, Shape{1000003}}) {
    const Shape chunk = deflate_chunk(shape, 8);
    CHECK(element_count(chunk) * 8 <= 512 << 10);
  }
}

TEST_CASE("Deflated datasets are read back bit for bit, and small ones stay contiguous") {
  const TemporaryFolder folder;
  const Shape shape = {5, 257, 67};
  const std::vector<float> values = smooth(element_count(shape));
  for (const int level : {0, 1, 9}) {
    CAPTURE(level);
    const std::string path = folder / ("out" + std::to_string(level) + ".h5");
    OutputBundle output = open_deflating(path, level);
    output.create("heads", DType::f32, shape).write({0, 0, 0}, shape, values.data());
    output.create("rounded", DType::f16, shape).write({0, 0, 0}, shape, values.data());
    output.create("tiles", DType::f64, {257, 335}, {}, {64, 100})
        .write({0, 0}, {257, 335}, values.data());
    output.create("worth", DType::f32, {16384}).write({0}, {16384}, values.data());
    output.create("small", DType::f32, {16383}).write({0}, {16383}, values.data());
    output.create("tiles_small", DType::f32, {16, 16}, {}, {4, 4})
        .write({0, 0}, {16, 16}, values.data());
    output.create("scalar", DType::f64, {}).write({}, {}, values.data());
    output.create("empty", DType::f32, {0, 100000});
    output.write_strings("tokens", std::vector<std::string>(10000, "a token"));
    output.commit();

    const InputBundle read = open_input(path);
    CHECK(values_of<float>(read.dataset("heads")) == values);
    CHECK(values_of<float>(read.dataset("tiles")) ==
          std::vector<float>(values.begin(), values.begin() + 257 * 335));
    CHECK(read.dataset("tokens").read_strings().size() == 10000);
    const std::vector<H5Z_filter_t> filters =
        level > 0 ? std::vector<H5Z_filter_t>{H5Z_FILTER_SHUFFLE, H5Z_FILTER_DEFLATE}
                  : std::vector<H5Z_filter_t>{};
    for (const char* name : {"heads", "rounded", "tiles", "worth"}) {
      CAPTURE(name);
      CHECK(layout_of(path, name).filters == filters);
    }
    CHECK(layout_of(path, "tiles").chunk == Shape{64, 100});
    CHECK(layout_of(path, "tiles_small").chunk == Shape{4, 4});
    for (const char* name : {"small", "tiles_small", "scalar", "empty", "tokens"}) {
      CAPTURE(name);
      CHECK(layout_of(path, name).filters.empty());
    }
    CHECK(layout_of(path, "small").chunk.empty());
  }
  CHECK(std::filesystem::file_size(folder / "out9.h5") <
        std::filesystem::file_size(folder / "out0.h5") * 3 / 4);
}

TEST_CASE("Copied datasets stay as they are") {
  const TemporaryFolder folder;
  write_counting(folder / "in.h5", "big", {300, 300});
  OutputBundle output = open_deflating(folder / "out.h5");
  output.copy_from(open_input(folder / "in.h5", {{"part", folder / "in.h5:/big[:200]"}}), {});
  output.commit();
  CHECK(layout_of(folder / "out.h5", "big").filters.empty());
  CHECK(layout_of(folder / "out.h5", "part").filters.empty());
}

// A chunk that is deflated twice leaves unused space behind, or moves: the file would be larger
// than one written at once.
TEST_CASE("Written by heads or by pieces, a chunk is deflated once") {
  const TemporaryFolder folder;
  const Shape shape = {12, 500, 64};
  const std::vector<float> values = smooth(element_count(shape));
  const auto size_by = [&](const std::string& name, Index heads, Index rows) {
    OutputBundle output = open_deflating(folder / name);
    OutputDataset out = output.create("out", DType::f32, shape);
    OutputDataset sums = output.create("sums", DType::f64, {12, 20000});
    for (Index head = 0; head < 12; head += heads) {
      for (Index row = 0; row < 500; row += rows) {
        out.write({head, row, 0}, {heads, rows, 64}, values.data() + (head * 500 + row) * 64);
      }
      sums.write({head, 0}, {heads, 20000}, values.data() + head * 20000);
    }
    output.commit();
    return std::filesystem::file_size(folder / name);
  };
  const auto whole = size_by("whole.h5", 12, 500);
  CHECK(size_by("heads.h5", 1, 500) == whole);
  CHECK(size_by("rows.h5", 1, 125) == whole);
  CHECK(content_of(folder / "heads.h5") == content_of(folder / "rows.h5"));
}

TEST_CASE("Tiles of several threads are deflated once, in any order") {
  const TemporaryFolder folder;
  const Shape shape = {4, 500, 1300};
  const std::vector<float> values = smooth(element_count(shape));
  const auto size_by = [&](const std::string& name, int threads) {
    OutputBundle output = open_deflating(folder / name);
    OutputDataset weights = output.create("weights", DType::f32, shape, {}, {1, 64, 512});
    std::vector<std::thread> team;
    for (int n = 0; n < threads; ++n) {
      team.emplace_back([&, n] {
        for (Index head = n; head < 4; head += threads) {
          for (Index row = 0; row < 500; row += 128) {
            for (Index col = 0; col < 1300; col += 512) {
              weights.write({head, row, col},
                            {1, std::min<Index>(128, 500 - row), std::min<Index>(512, 1300 - col)},
                            values.data() + (head * 500 + row) * 1300 + col, 1300);
            }
          }
        }
      });
    }
    for (std::thread& thread : team) thread.join();
    output.commit();
    CHECK(values_of<float>(open_input(folder / name).dataset("weights")) == values);
    return std::filesystem::file_size(folder / name);
  };
  const auto one = static_cast<double>(size_by("one.h5", 1));
  // The nodes of the chunk index are filled in the order of writing; one more chunk would take some
  // 50 KiB.
  constexpr double index = 16384;
  CHECK(std::abs(static_cast<double>(size_by("four.h5", 4)) - one) < index);
}
