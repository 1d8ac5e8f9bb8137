#include <doctest/doctest.h>

#include <hdf5_hl.h>

#include <cstring>
#include <numeric>

#include "io/hdf5/h5_attribute.hpp"
#include "io/hdf5/h5_type.hpp"
#include "io_fixture.hpp"
#include "thrown_error.hpp"

using namespace attn;
using namespace attn::io;
using namespace attn::testing;

namespace {

/// The output of copying `input`, opened for a closer look.
class Copy {
 public:
  Copy(const TemporaryFolder& folder, const InputBundle& input,
       const std::vector<std::string>& without = {})
      : path_(folder / "copy.h5") {
    OutputBundle output = open_output(path_, true);
    output.copy_from(input, without);
    output.commit();
    file_ = h5::Handle(H5Fopen(path_.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), H5Fclose);
  }

  InputBundle bundle() const { return open_input(path_); }
  hid_t root() const { return file_.get(); }
  h5::Handle dataset(const std::string& name) const { return open(name, H5Dclose); }
  h5::Handle open(const std::string& name, h5::Handle::Close close = H5Oclose) const {
    return h5::Handle(H5Oopen(root(), name.c_str(), H5P_DEFAULT), close);
  }

 private:
  std::string path_;
  h5::Handle file_;
};

/// Writes a file with objects that the toolkit itself does not write.
void write_odd(const std::string& path) {
  RawFile file(path);
  const std::vector<double> values = {1, 2, 3, 4, 5, 6};
  file.put("plain", {2, 3}, values);
  file.put("big", H5T_STD_I16BE, H5T_NATIVE_DOUBLE, {6}, values.data());
  file.put("packed", H5T_IEEE_F32LE, H5T_NATIVE_DOUBLE, {6}, values.data(), {4}, true);
  file.put("empty", {0, 3}, {});
  file.put("group/inner/x", {6}, values);
  const h5::Handle half = half_type(true);
  const std::uint16_t one_swapped = 0x003c;
  file.put("half", half.get(), half.get(), {}, &one_swapped);
  const h5::Handle pair(H5Tcreate(H5T_COMPOUND, 16), H5Tclose);
  const h5::Handle text = h5::text_type();
  H5Tinsert(pair.get(), "number", 0, H5T_NATIVE_DOUBLE);
  H5Tinsert(pair.get(), "word", 8, text.get());
  struct Pair {
    double number;
    const char* word;
  };
  const std::vector<Pair> pairs = {{0.5, "half"}, {2, ""}};
  file.put("record", pair.get(), pair.get(), {2}, pairs.data());
  const h5::Handle null(H5Screate(H5S_NULL), H5Sclose);
  const h5::Handle nothing(H5Dcreate2(file.root(), "null", H5T_IEEE_F32LE, null.get(), H5P_DEFAULT,
                                      H5P_DEFAULT, H5P_DEFAULT),
                           H5Dclose);
  const h5::Handle type(H5Tcopy(H5T_IEEE_F32BE), H5Tclose);
  H5Tcommit2(file.root(), "type", type.get(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  H5Lcreate_hard(file.root(), "plain", file.root(), "again", H5P_DEFAULT, H5P_DEFAULT);
  H5Lcreate_hard(file.root(), "/", file.root(), "group/loop", H5P_DEFAULT, H5P_DEFAULT);
  H5Lcreate_soft("/plain", file.root(), "soft", H5P_DEFAULT, H5P_DEFAULT);
  file.attribute("/", "numbers", H5T_NATIVE_DOUBLE, values.data(), {6});
  file.attribute("/", "record", pair.get(), pairs.data(), {2});
  file.attribute("/", "type", type.get(), values.data(), {2});
  file.attribute("group/inner", "note", H5T_NATIVE_DOUBLE, values.data());
  file.attribute("plain", "note", H5T_NATIVE_DOUBLE, values.data());
}

std::string link_value(hid_t location, const char* name) {
  std::string value(64, '\0');
  H5Lget_val(location, name, value.data(), value.size(), H5P_DEFAULT);
  return value.c_str();
}

}  // namespace

TEST_CASE("Everything in INPUT is copied unchanged") {
  const TemporaryFolder folder;
  write_odd(folder / "in.h5");
  const Copy copy(folder, open_input(folder / "in.h5"));
  const InputBundle bundle = copy.bundle();
  CHECK(bundle.names() == std::vector<std::string>{"again", "big", "empty", "half", "null",
                                                   "packed", "plain", "record", "soft"});
  const std::vector<double> values = {1, 2, 3, 4, 5, 6};
  for (const char* name : {"plain", "big", "packed", "group/inner/x", "again", "soft"}) {
    CAPTURE(name);
    CHECK(values_of<double>(bundle.dataset(name)) == values);
  }
  CHECK(bundle.dataset("empty").shape() == Shape{0, 3});
  CHECK(bundle.dataset("half").dtype() == DType::f16);
  CHECK(values_of<float>(bundle.dataset("half")) == std::vector<float>{1});
  CHECK(contains(thrown_error([&] { bundle.dataset("null"); }).what(), "no values"));

  const h5::Lock lock;
  const h5::Handle big = copy.dataset("big");
  CHECK(H5Tequal(h5::Handle(H5Dget_type(big.get()), H5Tclose).get(), H5T_STD_I16BE) > 0);
  const h5::Handle packed = copy.dataset("packed");
  const h5::Handle creation(H5Dget_create_plist(packed.get()), H5Pclose);
  hsize_t chunk = 0;
  CHECK(H5Pget_chunk(creation.get(), 1, &chunk) == 1);
  CHECK(chunk == 4);
  CHECK(H5Pget_nfilters(creation.get()) == 1);
  CHECK(h5::identity(copy.open("again").get()) == h5::identity(copy.open("plain").get()));
  CHECK(h5::identity(copy.open("group/loop").get()) == h5::identity(copy.open("/").get()));
  CHECK(link_value(copy.root(), "soft") == "/plain");
  CHECK(H5Iget_type(copy.open("type").get()) == H5I_DATATYPE);
  CHECK(h5::attribute_names(copy.open("/").get(), "") ==
        std::vector<std::string>{"numbers", "record", "type"});
  CHECK(h5::number_attribute(copy.open("group/inner").get(), "note", "") == 1.0);
  CHECK(h5::number_attribute(copy.open("plain").get(), "note", "") == 1.0);
}

TEST_CASE("A link without a target is refused, not left out") {
  const TemporaryFolder folder;
  const auto refusal = [&](const std::string& name, const auto& link) {
    {
      RawFile file(folder / name);
      file.put("x", {1}, {1});
      link(file.root());
    }
    const InputBundle input = open_input(folder / name);
    const Error error = thrown_error([&] { open_output(folder / "out.h5").copy_from(input, {}); });
    CHECK(error.failure() == Failure::input);
    CHECK(contains(error.hint(), "--only"));
    return std::string(error.what());
  };
  const std::string soft = refusal("soft.h5", [](hid_t root) {
    H5Lcreate_soft("/nowhere", root, "dangling", H5P_DEFAULT, H5P_DEFAULT);
  });
  CHECK(soft ==
        folder / "soft.h5" + ":/dangling is a link that leads nowhere: there is no /nowhere");
  const std::string external = refusal("external.h5", [](hid_t root) {
    H5Lcreate_external("no.h5", "/x", root, "lost", H5P_DEFAULT, H5P_DEFAULT);
  });
  CHECK(
      contains(external, "external.h5:/lost is an external link to no.h5: there is no such file"));
  CHECK_FALSE(fs::exists(folder / "out.h5"));
}

TEST_CASE("Records with strings are copied by value") {
  const TemporaryFolder folder;
  write_odd(folder / "in.h5");
  const InputBundle input =
      open_input(folder / "in.h5", {{"second", folder / "in.h5:/record[1:]"}});
  const Copy copy(folder, input);
  const h5::Lock lock;
  for (const auto& one :
       std::vector<std::pair<std::string, std::size_t>>{{"record", 2}, {"second", 1}}) {
    const auto& name = one.first;
    const auto& count = one.second;
    struct Pair {
      double number;
      char* word;
    };
    std::vector<Pair> pairs(count);
    const h5::Handle dataset = copy.dataset(name);
    const h5::Handle type(H5Dget_type(dataset.get()), H5Tclose);
    const h5::Handle space(H5Dget_space(dataset.get()), H5Sclose);
    REQUIRE(H5Dread(dataset.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, pairs.data()) >= 0);
    CHECK(pairs.back().number == 2);
    CHECK(std::string(pairs.back().word).empty());
    CHECK(std::string(pairs.front().word) == (count == 2 ? "half" : ""));
    H5Dvlen_reclaim(type.get(), space.get(), H5P_DEFAULT, pairs.data());
  }
}

TEST_CASE(
    "Named datasets take precedence; datasets to be written are skipped; datasets already written "
    "stay") {
  const TemporaryFolder folder;
  {
    RawFile file(folder / "in.h5");
    for (const char* name : {"q", "k", "out", "early"}) file.put(name, {1}, {1});
    const double one = 1;
    file.attribute("/", "attn_scale", H5T_NATIVE_DOUBLE, &one);
    file.attribute("/", "other", H5T_NATIVE_DOUBLE, &one);
  }
  write_counting(folder / "other.h5", "x", {2, 3});
  const InputBundle input = open_input(
      folder / "in.h5", {{"k", folder / "other.h5:/x"}, {"s", folder / "other.h5:/x[:, 1]"}});
  OutputBundle output = open_output(folder / "out.h5");
  const float two = 2;
  output.create("early", DType::f32, {}).write({}, {}, &two);
  output.attribute("attn_scale", 2.0);
  output.copy_from(input, {"out"});
  CHECK_FALSE(output_failed());
  output.create("q", DType::f32, {}).write({}, {}, &two);
  output.attribute("other", 3.0);
  output.commit();
  const InputBundle read = open_input(folder / "out.h5");
  CHECK(read.names() == std::vector<std::string>{"early", "k", "q", "s"});
  CHECK(values_of<float>(read.dataset("early")) == std::vector<float>{2});
  CHECK(values_of<float>(read.dataset("k")) == std::vector<float>{0, 1, 2, 3, 4, 5});
  CHECK(values_of<float>(read.dataset("q")) == std::vector<float>{2});
  CHECK(values_of<float>(read.dataset("s")) == std::vector<float>{1, 4});
  CHECK(read.number_attribute("attn_scale") == 2.0);
  CHECK(read.number_attribute("other") == 3.0);
}

TEST_CASE("What is there stays, and a group gets what it lacks") {
  const TemporaryFolder folder;
  const auto put = [&](const std::string& file, const std::vector<std::string>& names,
                       double value) {
    OutputBundle bundle = open_output(folder / file);
    for (const std::string& name : names) {
      bundle.create(name, DType::f64, {1}).write({0}, {1}, &value);
    }
    bundle.group("text").attribute(file, value);
    bundle.group("text").attribute("both", value);
    bundle.commit();
  };
  put("a.h5", {"text/layer0/q", "text/x", "kind"}, 1);
  put("b.h5", {"text/layer0/k", "text/layer1/q", "text/x", "kind/q", "other/q"}, 2);
  OutputBundle output = open_output(folder / "both.h5");
  output.copy_from(open_input(folder / "a.h5"), {});
  output.copy_from(open_input(folder / "b.h5"), {"other"});
  output.commit();
  const InputBundle both = open_input(folder / "both.h5");
  const auto value = [&](const char* name) { return values_of<double>(both.dataset(name)).at(0); };
  for (const char* name : {"text/layer0/q", "text/x", "kind"}) CHECK(value(name) == 1);
  for (const char* name : {"text/layer0/k", "text/layer1/q"}) CHECK(value(name) == 2);
  CHECK_FALSE(both.has("other"));
  CHECK(both.group("text").number_attribute("a.h5") == 1);
  CHECK(both.group("text").number_attribute("b.h5") == 2);
  CHECK(both.group("text").number_attribute("both") == 1);
}

TEST_CASE("Only attributes") {
  const TemporaryFolder folder;
  write_odd(folder / "in.h5");
  OutputBundle output = open_output(folder / "out.h5");
  output.copy_attributes_from(open_input(folder / "in.h5"));
  output.commit();
  CHECK(open_input(folder / "out.h5").names().empty());
  const h5::Lock lock;
  const h5::Handle file(H5Fopen((folder / "out.h5").c_str(), H5F_ACC_RDONLY, H5P_DEFAULT),
                        H5Fclose);
  CHECK(h5::attribute_names(file.get(), "").size() == 3);
}

TEST_CASE("Links that lead out of an addressed group are replaced by their targets") {
  const TemporaryFolder folder;
  write_counting(folder / "other.h5", "x", {3});
  {
    RawFile file(folder / "in.h5");
    file.put("q", {1}, {7});
    file.put("layer/K", {1}, {8});
    H5Lcreate_soft("/q", file.root(), "layer/Q", H5P_DEFAULT, H5P_DEFAULT);
    H5Lcreate_soft("K", file.root(), "layer/same", H5P_DEFAULT, H5P_DEFAULT);
    H5Lcreate_external("other.h5", "/x", file.root(), "layer/x", H5P_DEFAULT, H5P_DEFAULT);
    const double one = 1;
    file.attribute("layer", "index", H5T_NATIVE_DOUBLE, &one);
  }
  const Copy copy(folder, open_input(folder / "in.h5:/layer"));
  fs::remove(folder / "in.h5");
  fs::remove(folder / "other.h5");
  const InputBundle bundle = copy.bundle();
  CHECK(bundle.names() == std::vector<std::string>{"K", "Q", "same", "x"});
  CHECK(values_of<float>(bundle.dataset("Q")) == std::vector<float>{7});
  CHECK(values_of<float>(bundle.dataset("same")) == std::vector<float>{8});
  CHECK(values_of<float>(bundle.dataset("x")).size() == 3);
  CHECK(bundle.number_attribute("index") == 1.0);
}

TEST_CASE("A slice keeps its type, its attributes and the labels of the remaining axes") {
  const TemporaryFolder folder;
  {
    RawFile file(folder / "in.h5");
    std::vector<double> values(2 * 300 * 700);
    std::iota(values.begin(), values.end(), 0.0);
    file.put("x", H5T_IEEE_F64BE, H5T_NATIVE_DOUBLE, {2, 300, 700}, values.data(), {1, 100, 100});
    const h5::Handle dataset(H5Dopen2(file.root(), "x", H5P_DEFAULT), H5Dclose);
    H5DSset_label(dataset.get(), 0, "head");
    H5DSset_label(dataset.get(), 2, "key");
    file.attribute("x", "note", H5T_NATIVE_DOUBLE, values.data() + 5);
  }
  const Copy copy(folder, open_input("", {{"y", folder / "in.h5:/x[1, ::2, 1:]"}}));
  const std::vector<double> found = values_of<double>(copy.bundle().dataset("y"));
  REQUIRE(found.size() == 150 * 699);
  int wrong = 0;
  for (Index i = 0; i < 150 * 699; ++i) {
    const Index expected = 300 * 700 + i / 699 * 2 * 700 + i % 699 + 1;
    wrong += found[static_cast<std::size_t>(i)] == static_cast<double>(expected) ? 0 : 1;
  }
  CHECK(wrong == 0);
  const h5::Lock lock;
  const h5::Handle dataset = copy.dataset("y");
  CHECK(H5Tequal(h5::Handle(H5Dget_type(dataset.get()), H5Tclose).get(), H5T_IEEE_F64BE) > 0);
  CHECK(h5::number_attribute(dataset.get(), "note", "") == 5.0);
  std::string label(16, '\0');
  CHECK(H5DSget_label(dataset.get(), 0, label.data(), label.size()) == 0);
  CHECK(H5DSget_label(dataset.get(), 1, label.data(), label.size()) == 3);
  CHECK(std::strcmp(label.c_str(), "key") == 0);
}

TEST_CASE("Dimension scales are attached to the copies; other references become null") {
  const TemporaryFolder folder;
  {
    RawFile file(folder / "in.h5");
    file.put("time", {3}, {0, 1, 2});
    file.put("values", {2, 3}, {1, 2, 3, 4, 5, 6});
    const h5::Handle scale(H5Dopen2(file.root(), "time", H5P_DEFAULT), H5Dclose);
    const h5::Handle values(H5Dopen2(file.root(), "values", H5P_DEFAULT), H5Dclose);
    H5DSset_scale(scale.get(), "time");
    H5DSattach_scale(values.get(), scale.get(), 1);
    hobj_ref_t reference = 0;
    H5Rcreate(&reference, file.root(), "time", H5R_OBJECT, -1);
    file.put("reference", H5T_STD_REF_OBJ, H5T_STD_REF_OBJ, {}, &reference);
    file.attribute("/", "reference", H5T_STD_REF_OBJ, &reference);
  }
  const Copy copy(folder, open_input(folder / "in.h5"));
  const h5::Lock lock;
  const h5::Handle scale = copy.dataset("time");
  const h5::Handle values = copy.dataset("values");
  CHECK(H5DSis_attached(values.get(), scale.get(), 1) > 0);
  CHECK(H5DSis_attached(values.get(), scale.get(), 0) <= 0);
  hobj_ref_t reference = 1;
  const h5::Handle stored = copy.dataset("reference");
  CHECK(H5Dread(stored.get(), H5T_STD_REF_OBJ, H5S_ALL, H5S_ALL, H5P_DEFAULT, &reference) >= 0);
  CHECK(reference == 0);
  CHECK(h5::attribute_names(copy.open("/").get(), "").empty());
}

TEST_CASE("Unwritten chunks stay unwritten, and groups keep the order of their members") {
  const TemporaryFolder folder;
  {
    RawFile file(folder / "in.h5");
    const double zero = 0;
    file.put("sparse", H5T_IEEE_F32LE, H5T_NATIVE_FLOAT, {1000, 1000}, nullptr, {10, 10});
    const h5::Handle dataset(H5Dopen2(file.root(), "sparse", H5P_DEFAULT), H5Dclose);
    const h5::Handle space(H5Dget_space(dataset.get()), H5Sclose);
    h5::select(space.get(), {995, 3}, {1, 1}, {1, 1});
    const h5::Handle memory = h5::dataspace({1, 1});
    const float seven = 7;
    H5Dwrite(dataset.get(), H5T_NATIVE_FLOAT, memory.get(), space.get(), H5P_DEFAULT, &seven);
    const h5::Handle creation = h5::properties(H5P_GROUP_CREATE);
    H5Pset_link_creation_order(creation.get(), H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED);
    const h5::Handle group(
        H5Gcreate2(file.root(), "ordered", H5P_DEFAULT, creation.get(), H5P_DEFAULT), H5Gclose);
    for (const char* name : {"ordered/z", "ordered/a", "ordered/m"}) file.put(name, {}, {zero});
  }
  const Copy copy(folder, open_input(folder / "in.h5"));
  const std::vector<float> found = values_of<float>(copy.bundle().dataset("sparse"));
  CHECK(found[995 * 1000 + 3] == 7);
  CHECK(std::accumulate(found.begin(), found.end(), 0.0) == 7);
  const h5::Lock lock;
  CHECK(H5Dget_storage_size(copy.dataset("sparse").get()) == 400);
  std::string names;
  for (const h5::Link& link : h5::links(copy.open("ordered").get(), "", true)) names += link.name;
  CHECK(names == "zam");
}

TEST_CASE("A copy of the same input has the same bytes") {
  const TemporaryFolder folder;
  write_odd(folder / "in.h5");
  std::vector<std::string> copies;
  for (int i = 0; i < 2; ++i) {
    OutputBundle output = open_output(folder / "out.h5", true);
    output.copy_from(open_input(folder / "in.h5"), {});
    output.commit();
    copies.push_back(content_of(folder / "out.h5"));
  }
  CHECK(copies[0] == copies[1]);
}
