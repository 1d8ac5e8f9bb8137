#include <doctest/doctest.h>

#include <chrono>
#include <cmath>
#include <future>
#include <limits>
#include <memory>
#include <numeric>
#include <random>
#include <thread>

#include "io_fixture.hpp"
#include "thrown_error.hpp"

using namespace attn;
using namespace attn::io;
using namespace attn::testing;

namespace {

struct Stored {
  const char* name;
  hid_t type;
  DType dtype;
};

std::vector<Stored> number_types() {
  const h5::Lock lock;
  return {{"f4", H5T_IEEE_F32LE, DType::f32}, {"F4", H5T_IEEE_F32BE, DType::f32},
          {"f8", H5T_IEEE_F64LE, DType::f64}, {"F8", H5T_IEEE_F64BE, DType::f64},
          {"i1", H5T_STD_I8LE, DType::i8},    {"i2", H5T_STD_I16LE, DType::i16},
          {"I2", H5T_STD_I16BE, DType::i16},  {"i4", H5T_STD_I32LE, DType::i32},
          {"I4", H5T_STD_I32BE, DType::i32},  {"i8", H5T_STD_I64LE, DType::i64},
          {"I8", H5T_STD_I64BE, DType::i64},  {"u1", H5T_STD_U8LE, DType::u8},
          {"u2", H5T_STD_U16LE, DType::u16},  {"u4", H5T_STD_U32LE, DType::u32},
          {"U4", H5T_STD_U32BE, DType::u32},  {"u8", H5T_STD_U64LE, DType::u64}};
}

/// A selection's text, and the items it consists of.
std::string random_selection(std::mt19937& random, const Shape& shape) {
  std::string text = "[";
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    if (axis > 0) text += ",";
    const auto length = static_cast<unsigned>(shape[axis]);
    const int low = static_cast<int>(random() % length);
    if (random() % 4 == 0) {
      text += std::to_string(random() % 2 == 0 ? low : low - static_cast<int>(length));
    } else {
      if (random() % 3 != 0) text += std::to_string(low);
      text += ":";
      if (random() % 3 != 0)
        text += std::to_string(low + static_cast<int>(random() % (length + 2)));
      if (random() % 2 != 0) text += ":" + std::to_string(1 + random() % 4);
    }
  }
  return text + "]";
}

/// The row-major position in the source of element `flat` of a selection's block.
Index source_position(const Hyperslab& slab, const Shape& source, const Shape& index) {
  Shape at = slab.start;
  for (std::size_t axis = 0; axis < index.size(); ++axis) {
    const std::size_t from = slab.source_axis[axis];
    at[from] += index[axis] * slab.step[from];
  }
  return ravel(at, source);
}

}  // namespace

TEST_CASE("All numbers are read in both byte orders") {
  const TemporaryFolder folder;
  const std::vector<double> values = {0, 1, 2, 100, 127};
  {
    RawFile file(folder / "n.h5");
    for (const Stored& stored : number_types()) {
      file.put(stored.name, stored.type, H5T_NATIVE_DOUBLE, {5}, values.data());
    }
  }
  const InputBundle bundle = open_input(folder / "n.h5");
  for (const Stored& stored : number_types()) {
    CAPTURE(stored.name);
    const ArraySource dataset = bundle.dataset(stored.name);
    CHECK(dataset.dtype() == stored.dtype);
    CHECK(values_of<double>(dataset) == values);
    CHECK(values_of<float>(dataset) == std::vector<float>(values.begin(), values.end()));
    if (is_floating(stored.dtype)) {
      const Error error = thrown_error([&] { values_of<std::uint8_t>(dataset); });
      CHECK(error.failure() == Failure::input);
      CHECK(contains(error.what(), "n.h5:/" + std::string(stored.name) + " is float"));
      CHECK(contains(error.what(), "expected integers or bool"));
    } else {
      CHECK(values_of<std::uint8_t>(dataset) == std::vector<std::uint8_t>{0, 1, 1, 1, 1});
      CHECK(values_of<std::int64_t>(dataset) == std::vector<std::int64_t>{0, 1, 2, 100, 127});
    }
  }
}

TEST_CASE("Extreme numbers are rounded, kept or refused") {
  const TemporaryFolder folder;
  const double inf = std::numeric_limits<double>::infinity();
  const std::vector<double> reals = {1e300, -1e300, 1 + 1e-9, -inf, 1e-320, std::nan("")};
  const std::vector<std::int64_t> integers = {std::numeric_limits<std::int64_t>::min(), -256,
                                              (std::int64_t{1} << 53) + 1};
  const std::vector<std::uint64_t> naturals = {1, std::uint64_t{1} << 63};
  {
    RawFile file(folder / "e.h5");
    file.put("real", {6}, reals);
    file.put("integer", H5T_STD_I64LE, H5T_NATIVE_INT64, {3}, integers.data());
    file.put("natural", H5T_STD_U64LE, H5T_NATIVE_UINT64, {2}, naturals.data());
  }
  const InputBundle bundle = open_input(folder / "e.h5");
  const std::vector<float> rounded = values_of<float>(bundle.dataset("real"));
  CHECK(rounded[0] == HUGE_VALF);
  CHECK(rounded[1] == -HUGE_VALF);
  CHECK(rounded[2] == 1.0F);
  CHECK(rounded[3] == -HUGE_VALF);
  CHECK(rounded[4] == 0.0F);
  CHECK(std::isnan(rounded[5]));
  CHECK(values_of<std::int64_t>(bundle.dataset("integer")) == integers);
  CHECK(values_of<std::uint8_t>(bundle.dataset("integer")) == std::vector<std::uint8_t>(3, 1));
  CHECK(values_of<double>(bundle.dataset("natural"))[1] == 0x1p63);
  const Error error = thrown_error([&] { values_of<std::int64_t>(bundle.dataset("natural")); });
  CHECK(contains(error.what(), "e.h5:/natural has 9223372036854775808 at ["));
}

TEST_CASE("bool is h5py's enumeration or a one-byte bit field; others are not read") {
  const TemporaryFolder folder;
  {
    RawFile file(folder / "b.h5");
    const std::int8_t no = 0;
    const std::int8_t yes = 1;
    const h5::Handle boolean(H5Tenum_create(H5T_STD_I8LE), H5Tclose);
    H5Tenum_insert(boolean.get(), "FALSE", &no);
    H5Tenum_insert(boolean.get(), "TRUE", &yes);
    const h5::Handle colour(H5Tenum_create(H5T_STD_I8LE), H5Tclose);
    H5Tenum_insert(colour.get(), "RED", &no);
    H5Tenum_insert(colour.get(), "GREEN", &yes);
    const std::vector<std::int8_t> values = {1, 0, 1};
    file.put("mask", boolean.get(), boolean.get(), {3}, values.data());
    file.put("bits", H5T_STD_B8LE, H5T_NATIVE_B8, {3}, values.data());
    file.put("colour", colour.get(), colour.get(), {3}, values.data());
    const h5::Handle pair(H5Tcreate(H5T_COMPOUND, 16), H5Tclose);
    H5Tinsert(pair.get(), "r", 0, H5T_NATIVE_DOUBLE);
    H5Tinsert(pair.get(), "i", 8, H5T_NATIVE_DOUBLE);
    file.put("complex", pair.get(), pair.get(), {1}, nullptr);
    file.put("long", H5T_NATIVE_LDOUBLE, H5T_NATIVE_LDOUBLE, {1}, nullptr);
  }
  const InputBundle bundle = open_input(folder / "b.h5");
  for (const char* name : {"mask", "bits"}) {
    CAPTURE(name);
    CHECK(bundle.dataset(name).dtype() == DType::boolean);
    CHECK(values_of<std::uint8_t>(bundle.dataset(name)) == std::vector<std::uint8_t>{1, 0, 1});
    CHECK(values_of<float>(bundle.dataset(name)) == std::vector<float>{1, 0, 1});
  }
  for (const auto& one : std::vector<std::pair<std::string, std::string>>{
           {"colour", "b.h5:/colour holds an enumeration, expected numbers"},
           {"complex", "b.h5:/complex holds complex128, expected numbers"},
           {"long", "b.h5:/long holds a floating-point type of 128 bits"}}) {
    const auto& name = one.first;
    const auto& says = one.second;
    CAPTURE(name);
    const ArraySource dataset = bundle.dataset(name);
    CHECK(dataset.dtype() == DType::other);
    const Error error = thrown_error([&] { values_of<float>(dataset); });
    CHECK(error.failure() == Failure::input);
    CHECK(contains(error.what(), says));
    CHECK(contains(thrown_error([&] { dataset.read_strings(); }).what(), "expected strings"));
  }
}

TEST_CASE("Strings of every kind are read without their padding") {
  const TemporaryFolder folder;
  {
    RawFile file(folder / "s.h5");
    const h5::Handle variable(H5Tcopy(H5T_C_S1), H5Tclose);
    H5Tset_size(variable.get(), H5T_VARIABLE);
    const std::vector<const char*> words = {"the", "", "h\u00e9"};
    file.put("variable", variable.get(), variable.get(), {3}, words.data());
    struct Padding {
      const char* name;
      H5T_str_t kind;
      const char* bytes;
    };
    for (const Padding& p : {Padding{"null", H5T_STR_NULLPAD, "abcda\0\0\0"},
                             Padding{"space", H5T_STR_SPACEPAD, "abcda   "},
                             Padding{"terminated", H5T_STR_NULLTERM, "abcda\0xy"}}) {
      const h5::Handle fixed(H5Tcopy(H5T_C_S1), H5Tclose);
      H5Tset_size(fixed.get(), 4);
      H5Tset_strpad(fixed.get(), p.kind);
      file.put(p.name, fixed.get(), fixed.get(), {2}, p.bytes);
    }
    file.put("none", variable.get(), variable.get(), {0}, nullptr);
  }
  const InputBundle bundle = open_input(folder / "s.h5");
  using Strings = std::vector<std::string>;
  CHECK(bundle.dataset("variable").read_strings() == Strings{"the", "", "h\u00e9"});
  CHECK(bundle.dataset("none").read_strings().empty());
  for (const char* name : {"null", "space", "terminated"}) {
    CAPTURE(name);
    CHECK(bundle.dataset(name).dtype() == DType::string);
    CHECK(bundle.dataset(name).read_strings() == Strings{"abcd", "a"});
  }
  const InputBundle part = open_input("", {{"w", folder / "s.h5:/variable[::2]"}});
  CHECK(part.dataset("w").read_strings() == Strings{"the", "h\u00e9"});
  CHECK(contains(thrown_error([&] { values_of<float>(bundle.dataset("null")); }).what(),
                 "s.h5:/null holds strings, expected numbers"));
}

TEST_CASE("Blocks of slices agree with an element-wise model") {
  const TemporaryFolder folder;
  std::mt19937 random(7);
  for (int trial = 0; trial < 60; ++trial) {
    Shape shape(1 + random() % 4, 0);
    for (Index& axis : shape) axis = static_cast<Index>(1 + random() % 7);
    Shape chunk;
    if (trial % 2 == 1) {
      for (const Index axis : shape) chunk.push_back(1 + static_cast<Index>(random()) % axis);
    }
    std::vector<double> values(static_cast<std::size_t>(element_count(shape)));
    std::iota(values.begin(), values.end(), 0.0);
    RawFile(folder / "r.h5")
        .put("x", H5T_IEEE_F32LE, H5T_NATIVE_DOUBLE, shape, values.data(), chunk, trial % 4 == 1);
    for (int selection = 0; selection < 12; ++selection) {
      const std::string text = folder / "r.h5:/x" + random_selection(random, shape);
      CAPTURE(text);
      const Hyperslab slab = resolve(parse_address(text).selection, shape, "x");
      const ArraySource dataset = open_input("", {{"x", text}}).dataset("x");
      REQUIRE(dataset.shape() == slab.shape);
      Shape start;
      Shape count;
      for (const Index axis : slab.shape) {
        start.push_back(static_cast<Index>(random() % static_cast<unsigned>(axis + 1)));
        count.push_back(
            static_cast<Index>(random() % static_cast<unsigned>(axis - start.back() + 1)));
      }
      std::vector<float> found(static_cast<std::size_t>(element_count(count)));
      dataset.read(start, count, found.data());
      for (std::size_t k = 0; k < found.size(); ++k) {
        Shape index = unravel(static_cast<Index>(k), count);
        for (std::size_t axis = 0; axis < index.size(); ++axis) index[axis] += start[axis];
        CHECK(found[k] == static_cast<float>(source_position(slab, shape, index)));
      }
    }
  }
}

TEST_CASE("Blocks larger than the buffer are assembled correctly") {
  const TemporaryFolder folder;
  const Shape shape = {3, 1001, 401};
  std::vector<std::int32_t> values(static_cast<std::size_t>(element_count(shape)));
  std::iota(values.begin(), values.end(), 0);
  RawFile(folder / "l.h5").put("x", H5T_STD_I32BE, H5T_NATIVE_INT32, shape, values.data());
  const ArraySource dataset = open_input(folder / "l.h5").dataset("x");
  const std::vector<double> found = values_of<double>(dataset);
  CHECK(std::equal(found.begin(), found.end(), values.begin(), values.end()));
}

TEST_CASE("Scalars, empty axes and null dataspaces") {
  const TemporaryFolder folder;
  {
    RawFile file(folder / "z.h5");
    file.put("scalar", {}, {2.5});
    file.put("empty", {3, 0}, {});
    const h5::Handle null(H5Screate(H5S_NULL), H5Sclose);
    const h5::Handle dataset(H5Dcreate2(file.root(), "null", H5T_IEEE_F32LE, null.get(),
                                        H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT),
                             H5Dclose);
  }
  const InputBundle bundle = open_input(folder / "z.h5");
  CHECK(bundle.dataset("scalar").shape() == Shape{});
  CHECK(values_of<float>(bundle.dataset("scalar")) == std::vector<float>{2.5F});
  CHECK(bundle.dataset("empty").shape() == Shape{3, 0});
  CHECK(values_of<float>(bundle.dataset("empty")).empty());
  CHECK(bundle.has("null"));
  const Error error = thrown_error([&] { bundle.dataset("null"); });
  CHECK(error.failure() == Failure::input);
  CHECK(contains(error.what(), "z.h5:/null has no values"));
}

TEST_CASE("A dataset stays readable after its bundle is destroyed, and from several threads") {
  const TemporaryFolder folder;
  write_counting(folder / "t.h5", "x", {64, 1000});
  const ArraySource dataset = open_input(folder / "t.h5").dataset("x");
  std::vector<std::thread> threads;
  std::vector<int> wrong(4, 0);
  for (std::size_t t = 0; t < wrong.size(); ++t) {
    threads.emplace_back([&, t] {
      std::vector<double> row(1000);
      for (Index i = static_cast<Index>(t); i < 64; i += 4) {
        dataset.read({i, 0}, {1, 1000}, row.data());
        for (Index j = 0; j < 1000; ++j) {
          wrong[t] += row[static_cast<std::size_t>(j)] == static_cast<double>(i * 1000 + j) ? 0 : 1;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == std::vector<int>(4, 0));
}

TEST_CASE("What lies in a file in one piece is read while another thread is in HDF5") {
  const TemporaryFolder folder;
  RawFile(folder / "p.h5").put("x", {2, 3}, {0, 1, 2, 3, 4, 5});
  const ArraySource dataset = open_input(folder / "p.h5").dataset("x");
  auto busy = std::make_unique<h5::Lock>();
  auto reading = std::async(std::launch::async, [&] { return values_of<double>(dataset); });
  CHECK(reading.wait_for(std::chrono::seconds(60)) == std::future_status::ready);
  busy.reset();
  CHECK(reading.get() == std::vector<double>{0, 1, 2, 3, 4, 5});
}

TEST_CASE("Bytes of a user in front of HDF5's are skipped") {
  const TemporaryFolder folder;
  const std::vector<double> values = {0.5, 1.5, 2.5};
  {
    const h5::Lock lock;
    const h5::Handle creation = h5::properties(H5P_FILE_CREATE);
    H5Pset_userblock(creation.get(), 1024);
    const h5::Handle file(
        H5Fcreate((folder / "u.h5").c_str(), H5F_ACC_TRUNC, creation.get(), H5P_DEFAULT), H5Fclose);
    const h5::Handle space = h5::dataspace({3});
    const h5::Handle dataset(H5Dcreate2(file.get(), "x", H5T_IEEE_F64LE, space.get(), H5P_DEFAULT,
                                        H5P_DEFAULT, H5P_DEFAULT),
                             H5Dclose);
    H5Dwrite(dataset.get(), H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data());
  }
  CHECK(values_of<double>(open_input(folder / "u.h5").dataset("x")) == values);
}
