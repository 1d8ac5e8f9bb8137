#include <doctest/doctest.h>

#include <stdexcept>

#include "io_fixture.hpp"
#include "thrown_error.hpp"

using namespace attn;
using namespace attn::io;
using namespace attn::testing;

namespace {

using Names = std::vector<std::string>;

/// Writes text/{a,b}/layer{0,2,10} with Q = {n} and x = {-n}, and groups that the patterns must not
/// match.
void write_dump(const std::string& path) {
  RawFile file(path);
  double n = 0;
  for (const char* text : {"a", "b"}) {
    for (const char* layer : {"layer0", "layer2", "layer10"}) {
      const std::string group = std::string("text/") + text + "/" + layer;
      file.put(group + "/Q", {1}, {++n});
      file.put(group + "/x", {1}, {-n});
      file.attribute(group, "n", H5T_NATIVE_DOUBLE, &n);
    }
  }
  file.put("text/layer0/Q", {1}, {100});
  file.put("layer", {1}, {0});
}

InputBundle open_renamed(const std::string& path, const std::string& name,
                         const std::string& stored,
                         const std::vector<std::pair<std::string, std::string>>& named = {}) {
  InputBundle::Options options;
  options.input = path;
  options.named = named;
  options.renamed = {{name, stored}};
  return InputBundle(options);
}

double first_of(const ArraySource& dataset) { return values_of<double>(dataset).front(); }

}  // namespace

TEST_CASE("Groups are found by one pattern per level, in numerical order") {
  const TemporaryFolder folder;
  const std::string path = folder / "dump.h5";
  write_dump(path);
  const InputBundle dump = open_input(path);
  const Names all = {"text/a/layer0", "text/a/layer2", "text/a/layer10",
                     "text/b/layer0", "text/b/layer2", "text/b/layer10"};
  CHECK(dump.groups_like("/text/*/layer*") == all);
  CHECK(dump.groups_like("text/*/layer*/") == all);
  CHECK(dump.groups_like("text/?/layer[02]") ==
        Names{"text/a/layer0", "text/a/layer2", "text/b/layer0", "text/b/layer2"});
  CHECK(dump.groups_like("*") == Names{"text"});
  CHECK(dump.groups_like("text/layer*") == Names{"text/layer0"});
  // Relative to what INPUT addresses.
  CHECK(open_input(path + ":/text/a").groups_like("layer1*") == Names{"layer10"});

  for (const char* nowhere : {"text/*/layer3", "x/*", "*/*/*/*", "layer"}) {
    const Error error = thrown_error([&] { dump.groups_like(nowhere); });
    CHECK(error.failure() == Failure::input);
    CHECK(
        contains(error.what(), path + ": no group like " + nowhere + " (there are: text, text/a"));
  }
  for (const char* empty : {"", "/", "//"}) {
    CHECK(thrown_error([&] { dump.groups_like(empty); }).failure() == Failure::usage);
  }
  CHECK(thrown_error([&] {
          open_input("", {{"q", path + ":/layer"}}).groups_like("*");
        }).failure() == Failure::usage);
}

TEST_CASE("A group with several links is found once, and cycles of groups end") {
  const TemporaryFolder folder;
  const std::string path = folder / "links.h5";
  {
    RawFile file(path);
    file.put("layer1/Q", {1}, {1});
    file.put("layer2/Q", {1}, {2});
    H5Lcreate_hard(file.root(), "layer2", file.root(), "also2", H5P_DEFAULT, H5P_DEFAULT);
    H5Lcreate_soft("/layer1", file.root(), "zero", H5P_DEFAULT, H5P_DEFAULT);
    H5Lcreate_soft("/nowhere", file.root(), "lost", H5P_DEFAULT, H5P_DEFAULT);
    H5Lcreate_hard(file.root(), "/", file.root(), "layer1/up", H5P_DEFAULT, H5P_DEFAULT);
  }
  const InputBundle bundle = open_input(path);
  CHECK(bundle.groups_like("[a-k]*") == Names{"also2"});
  // The text might name a group.
  CHECK(contains(thrown_error([&] { bundle.groups_like("*"); }).what(),
                 "links.h5:/lost is a link that leads nowhere"));
  CHECK(bundle.groups_like("layer*") == Names{"layer1", "layer2"});
  CHECK(bundle.groups_like("layer1/up/layer2") == Names{"layer1/up/layer2"});
  CHECK(contains(thrown_error([&] { bundle.groups_like("none"); }).what(),
                 "(there are: also2, layer1)"));
}

TEST_CASE("One group is a bundle of its own, with named and renamed datasets") {
  const TemporaryFolder folder;
  const std::string path = folder / "dump.h5";
  write_dump(path);
  write_counting(folder / "k.h5", "k", {3});
  const InputBundle dump = open_renamed(path, "q", "Q", {{"k", folder / "k.h5"}});
  const InputBundle group = dump.group("text/a/layer10");
  CHECK(group.description() == path + ":/text/a/layer10");
  CHECK(group.has("q"));
  CHECK(first_of(group.dataset("q")) == 3);
  CHECK(group.dataset("q").name() == "q");
  CHECK(group.dataset("q").address() == path + ":/text/a/layer10/Q");
  CHECK(first_of(group.dataset("x")) == -3);
  CHECK(group.dataset("k").shape() == Shape{3});
  CHECK(*group.number_attribute("n") == 3);
  CHECK(group.group("").description() == group.description());
  CHECK_FALSE(dump.without_named().has("k"));
  CHECK(dump.without_named().group("text/b/layer0").has("q"));
  CHECK_FALSE(dump.has("q"));

  CHECK(contains(thrown_error([&] { dump.dataset("q"); }).what(), path + ": no dataset Q"));
  CHECK(contains(thrown_error([&] { group.dataset("v"); }).what(),
                 path + ":/text/a/layer10: no dataset v (there are: Q, k, x)"));
  CHECK(contains(thrown_error([&] { dump.group("text/c"); }).what(), "no group c"));
  // A renamed dataset may lie further down.
  CHECK(first_of(open_renamed(path, "q", "a/layer2/Q").group("text").dataset("q")) == 2);
}

TEST_CASE("Groups are written as bundles of their own in one file") {
  const TemporaryFolder folder;
  const std::string path = folder / "dump.h5";
  write_dump(path);
  write_counting(folder / "k.h5", "k", {3});
  const InputBundle dump = open_input(path, {{"k", folder / "k.h5"}});
  OutputBundle output = open_output(folder / "out.h5");
  output.copy_from(dump.without_named(), {"text/a/layer0/x", "text/b/layer2/Q"});
  const double value = 42;
  for (const char* name : {"text/a/layer0", "new/one"}) {
    OutputBundle group = output.group(name);
    CHECK(group.description() == folder / "out.h5" + ":/" + name);
    CHECK(group.address_of("x") == folder / "out.h5" + ":/" + name + "/x");
    group.create("x", DType::f64, {1}).write({0}, {1}, &value);
    group.attribute("made", "here");
    group.attribute("n", std::int64_t{0});
    if (std::string(name) == "new/one") {
      group.copy_attributes_from(dump.group("text/b/layer10"));
      group.link("k", "text/a/layer0/k");
    } else {
      group.copy_named_from(dump, {});
    }
    CHECK_THROWS_AS(group.commit(), std::logic_error);
    CHECK_THROWS_AS(group.copy_from(dump, {}), std::logic_error);
    CHECK_THROWS_AS(group.add_history("line", "1"), std::logic_error);
  }
  output.group("").attribute("root", 1.0);
  output.commit();

  const InputBundle read = open_input(folder / "out.h5");
  const InputBundle first = read.group("text/a/layer0");
  CHECK(first.names() == Names{"Q", "k", "x"});
  CHECK(first_of(first.dataset("x")) == 42);
  CHECK(*first.text_attribute("made") == "here");
  CHECK(*first.number_attribute("n") == 0);
  const InputBundle added = read.group("new/one");
  CHECK(added.names() == Names{"k", "x"});
  CHECK(values_of<double>(added.dataset("k")) == std::vector<double>{0, 1, 2});
  CHECK(*added.number_attribute("n") == 0);
  CHECK(read.group("text/b/layer2").names() == Names{"x"});
  CHECK(first_of(read.group("text/b/layer10").dataset("x")) == -6);
  CHECK(*read.number_attribute("root") == 1);
  CHECK_FALSE(read.has("k"));
}

TEST_CASE("An abandoned group leaves nothing behind, like a file") {
  const TemporaryFolder folder;
  {
    OutputBundle output = open_output(folder / "out.h5");
    const double value = 1;
    OutputBundle group = output.group("a");
    OutputDataset dataset = group.create("x", DType::f64, {1});
    dataset.write({0}, {1}, &value);
  }
  CHECK(folder.entries().empty());
}
