#include <doctest/doctest.h>

#include <sys/file.h>

#include "io/hdf5/h5_type.hpp"
#include "layered_input.hpp"
#include "system/descriptor.hpp"

using namespace attn;
using namespace attn::io;
using namespace attn::testing;

TEST_CASE("INPUT is a file or a group of it, and named datasets win") {
  const TemporaryFolder folder;
  write_example(folder / "in.h5");
  write_counting(folder / "other.h5", "k", {3});
  const InputBundle whole = open_input(folder / "in.h5");
  CHECK(whole.names() == std::vector<std::string>{"k", "tokens", "v"});
  CHECK(whole.description() == folder / "in.h5");
  CHECK(whole.has("k"));
  CHECK_FALSE(whole.has("q"));
  CHECK_FALSE(whole.has("layer3/none"));
  CHECK_FALSE(whole.has("k/below/a/dataset"));
  CHECK(thrown_error([&] { whole.has("layer3"); }).what() ==
        folder / "in.h5" + ":/layer3 is a group, expected a dataset");
  CHECK_FALSE(whole.is_dataset("layer3"));
  CHECK(whole.is_dataset("layer3/Q"));
  CHECK(whole.dataset("layer3/Q").shape() == Shape{2, 2});

  const InputBundle group = open_input(folder / "in.h5:/layer3");
  CHECK(group.names() == std::vector<std::string>{"Q"});
  CHECK(group.description() == folder / "in.h5:/layer3");
  CHECK(group.dataset("Q").address() == folder / "in.h5:/layer3/Q");
  CHECK(group.dataset("Q").name() == "Q");

  const InputBundle mixed = open_input(
      folder / "in.h5", {{"k", folder / "other.h5"}, {"q", folder / "in.h5:/layer3/Q[1]"}});
  CHECK(mixed.names() == std::vector<std::string>{"k", "q", "tokens", "v"});
  CHECK(values_of<float>(mixed.dataset("k")) == std::vector<float>{0, 1, 2});
  CHECK(values_of<float>(mixed.dataset("q")) == std::vector<float>{9, 10});
  CHECK(mixed.dataset("q").address() == folder / "in.h5:/layer3/Q[1]");
  CHECK(mixed.dataset("q").name() == "q");

  const InputBundle alone = open_input("", {{"Q", folder / "in.h5:/layer3"}});
  CHECK(alone.description() == "the named datasets");
  CHECK(alone.names() == std::vector<std::string>{"Q"});
  CHECK(contains(thrown_error([&] { alone.dataset("k"); }).what(),
                 "the named datasets: no dataset k (there are: Q)"));
}

TEST_CASE("A missing object is named, with a list of existing ones") {
  const TemporaryFolder folder;
  write_example(folder / "in.h5");
  const std::string in = folder / "in.h5";
  const InputBundle bundle = open_input(in);
  CHECK(thrown_error([&] { bundle.dataset("q"); }).what() ==
        in + ": no dataset q (there are: k, tokens, v)");
  CHECK(thrown_error([&] { bundle.dataset("layer3"); }).what() ==
        in + ":/layer3 is a group, expected a dataset");
  CHECK(refusal("", {{"q", in + ":/layer3/K"}}).what() ==
        in + ":/layer3: no dataset K (there are: Q)");
  CHECK(refusal("", {{"q", in + ":/layer3/inner"}}).what() ==
        in + ":/layer3/inner: no dataset q (there are: x)");
  CHECK(refusal("", {{"q", in + ":/layer4/K"}}).what() ==
        in + ": no group layer4 (there are: layer3)");
  CHECK(refusal("", {{"q", in + ":/k/x"}}).what() == in + ":/k is a dataset, expected a group");
  CHECK(refusal(in + ":/layer3/inner/y").what() ==
        in + ":/layer3/inner: no group y (there are none)");
  const Error dataset = refusal(in + ":/k");
  CHECK(dataset.what() == in + ":/k is a dataset, expected a file or a group");
  CHECK(dataset.hint() == "take a single dataset with -i NAME=" + in + ":/k");
  const Error selected = refusal(in + ":/layer3[0]");
  CHECK(selected.failure() == Failure::usage);
  CHECK(contains(selected.what(), "cannot be sliced"));
}

TEST_CASE("Files that are not bundles have different messages") {
  const TemporaryFolder folder;
  write_example(folder / "in.h5");
  const std::string whole = content_of(folder / "in.h5");
  write_file(folder / "empty.h5", "");
  write_file(folder / "text.h5", "not a bundle");
  write_file(folder / "short.h5", whole.substr(0, whole.size() - 1000));
  std::string damaged = whole;
  damaged.replace(96, 100, std::string(100, 'x'));
  write_file(folder / "damaged.h5", damaged);
  for (const auto& one : std::vector<std::pair<std::string, std::string>>{
           {"empty.h5", "empty.h5 is empty"},
           {"text.h5", "text.h5 is not an HDF5 file"},
           {"short.h5", "short.h5 is truncated"},
           {"damaged.h5", "damaged.h5 is a damaged HDF5 file"}}) {
    const auto& name = one.first;
    const auto& says = one.second;
    CAPTURE(name);
    const Error error = refusal(folder / name);
    CHECK(error.failure() == Failure::input);
    CHECK(contains(error.what(), says));
    CHECK(std::string(error.what()).find('\n') == std::string::npos);
  }
  CHECK(refusal(folder / "no.h5").what() == "no such file: " + (folder / "no.h5"));
  CHECK(refusal("", {{"q", folder / "no.h5:/q"}}).what() == "no such file: " + (folder / "no.h5"));
  CHECK(refusal(folder.path()).what() == folder.path() + " is a folder, expected a file");
  CHECK(refusal(folder.path()).hint().empty());
}

TEST_CASE("A folder, and a path into a file, hint at the file") {
  const TemporaryFolder folder;
  write_example(folder / "one.h5");
  write_file(folder / "notes.txt", "");
  CHECK(refusal(folder.path()).hint() == "it has one: " + (folder / "one.h5"));
  CHECK(refusal(folder / "one.h5/g/x").hint() ==
        "a place in a file stands after a colon: " + (folder / "one.h5:/g/x"));
  write_file(folder / "two.npy", "");
  CHECK(refusal(folder.path()).hint().empty());
}

TEST_CASE("A file with a user block is a bundle") {
  const TemporaryFolder folder;
  {
    const h5::Lock lock;
    const h5::Handle creation = h5::properties(H5P_FILE_CREATE);
    H5Pset_userblock(creation.get(), 1024);
    const h5::Handle file(
        H5Fcreate((folder / "u.h5").c_str(), H5F_ACC_TRUNC, creation.get(), H5P_DEFAULT), H5Fclose);
  }
  CHECK(open_input(folder / "u.h5").names().empty());
}

TEST_CASE("A refused lock names the file and the variable") {
  const TemporaryFolder folder;
  write_example(folder / "in.h5");
  const Descriptor writer = open_descriptor(folder / "in.h5", O_RDWR);
  REQUIRE(flock(writer.get(), LOCK_EX) == 0);
  const Error error = refusal(folder / "in.h5");
  CHECK(error.failure() == Failure::input);
  CHECK(contains(error.what(), "in.h5 is locked"));
  CHECK(contains(error.hint(), "HDF5_USE_FILE_LOCKING"));
}

TEST_CASE("Links with a target are followed") {
  const TemporaryFolder folder;
  write_counting(folder / "other.h5", "x", {4});
  {
    RawFile file(folder / "in.h5");
    file.put("q", {1}, {1});
    H5Lcreate_soft("/q", file.root(), "soft", H5P_DEFAULT, H5P_DEFAULT);
    H5Lcreate_soft("/nothing", file.root(), "dangling", H5P_DEFAULT, H5P_DEFAULT);
    H5Lcreate_external("other.h5", "/x", file.root(), "external", H5P_DEFAULT, H5P_DEFAULT);
    H5Lcreate_external("nothing.h5", "/x", file.root(), "lost", H5P_DEFAULT, H5P_DEFAULT);
  }
  const InputBundle bundle = open_input(folder / "in.h5");
  CHECK(values_of<float>(bundle.dataset("soft")) == std::vector<float>{1});
  CHECK(values_of<float>(bundle.dataset("external")).size() == 4);
  for (const auto& [link, why] : {std::pair{"dangling", "is a link that leads nowhere"},
                                  std::pair{"lost", "is an external link to nothing.h5"}}) {
    const std::string name = link;
    CAPTURE(name);
    const std::string expected = folder / "in.h5" + ":/" + name + " " + why;
    CHECK(contains(thrown_error([&] { bundle.dataset(name); }).what(), expected));
    CHECK(contains(thrown_error([&] { bundle.has(name); }).what(), expected));
    CHECK(thrown_error([&] { bundle.is_dataset(name); }).failure() == Failure::input);
    CHECK(thrown_error([&] { bundle.names(); }).failure() == Failure::input);
  }
}

TEST_CASE("A missing filter is named when the dataset is read") {
  const TemporaryFolder folder;
  write_counting(folder / "in.h5", "x", {4});
  {
    // Registered while the file is written.
    const h5::Lock lock;
    const H5Z_class2_t filter = {H5Z_CLASS_T_VERS,
                                 32123,
                                 1,
                                 1,
                                 "squeeze",
                                 nullptr,
                                 nullptr,
                                 [](unsigned, std::size_t, const unsigned*, std::size_t bytes,
                                    std::size_t*, void**) { return bytes; }};
    H5Zregister(&filter);
    const h5::Handle file(H5Fopen((folder / "in.h5").c_str(), H5F_ACC_RDWR, H5P_DEFAULT), H5Fclose);
    const h5::Handle creation = h5::properties(H5P_DATASET_CREATE);
    const hsize_t chunk = 4;
    H5Pset_chunk(creation.get(), 1, &chunk);
    H5Pset_filter(creation.get(), 32123, H5Z_FLAG_MANDATORY, 0, nullptr);
    const h5::Handle space = h5::dataspace({4});
    const h5::Handle dataset(H5Dcreate2(file.get(), "packed", H5T_IEEE_F32LE, space.get(),
                                        H5P_DEFAULT, creation.get(), H5P_DEFAULT),
                             H5Dclose);
    const std::vector<float> values = {1, 2, 3, 4};
    H5Dwrite(dataset.get(), H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data());
  }
  {
    const h5::Lock lock;
    REQUIRE(H5Zunregister(32123) >= 0);
  }
  const InputBundle bundle = open_input(folder / "in.h5");
  const Error error = thrown_error([&] { values_of<float>(bundle.dataset("packed")); });
  CHECK(error.failure() == Failure::input);
  CHECK(contains(error.what(), "in.h5:/packed is compressed with filter 32123 (squeeze)"));
  CHECK(contains(error.hint(), "HDF5_PLUGIN_PATH"));
  // It can still be copied, since its chunks are not decoded.
  OutputBundle copy = open_output(folder / "out.h5");
  copy.copy_from(bundle, {});
  copy.commit();
  CHECK(open_input(folder / "out.h5").dataset("packed").shape() == Shape{4});
}

TEST_CASE("Attributes of INPUT's root or group") {
  const TemporaryFolder folder;
  {
    RawFile file(folder / "a.h5");
    file.put("g/x", {}, {0});
    const double real = 0.5;
    const std::int16_t whole = -3;
    const h5::Handle half = half_type();
    const std::uint16_t quarter = 0x3400;
    const h5::Handle fixed(H5Tcopy(H5T_C_S1), H5Tclose);
    H5Tset_size(fixed.get(), 8);
    const h5::Handle text = h5::text_type();
    const char* words = "\u03bb, twice";
    file.attribute("/", "real", H5T_NATIVE_DOUBLE, &real);
    file.attribute("/", "one", H5T_NATIVE_DOUBLE, &real, {1});
    const std::vector<double> two = {1, 2};
    file.attribute("/", "two", H5T_NATIVE_DOUBLE, two.data(), {2});
    file.attribute("/", "whole", H5T_NATIVE_INT16, &whole);
    file.attribute("/", "half", half.get(), &quarter);
    file.attribute("/", "fixed", fixed.get(), "abc\0\0\0\0\0");
    file.attribute("/", "text", text.get(), &words);
    file.attribute("g", "real", H5T_NATIVE_INT16, &whole);
  }
  const InputBundle bundle = open_input(folder / "a.h5");
  CHECK(bundle.number_attribute("real") == 0.5);
  CHECK(bundle.number_attribute("one") == 0.5);
  CHECK(bundle.number_attribute("whole") == -3.0);
  CHECK(bundle.number_attribute("half") == 0.25);
  CHECK(bundle.text_attribute("fixed") == "abc");
  CHECK(bundle.text_attribute("text") == "\u03bb, twice");
  CHECK_FALSE(bundle.number_attribute("absent"));
  CHECK_FALSE(bundle.text_attribute("absent"));
  const std::string file = folder / "a.h5";
  CHECK(thrown_error([&] { bundle.number_attribute("two"); }).what() ==
        file + ": attribute two is not one number");
  CHECK(thrown_error([&] { bundle.number_attribute("text"); }).what() ==
        file + ": attribute text is not one number");
  CHECK(thrown_error([&] { bundle.text_attribute("real"); }).what() ==
        file + ": attribute real is not one text");
  CHECK(open_input(folder / "a.h5:/g").number_attribute("real") == -3.0);
  CHECK_FALSE(open_input("", {{"x", folder / "a.h5:/g/x"}}).number_attribute("real"));
}
