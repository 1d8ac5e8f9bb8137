// tools/common/shards/shard: which part of a run a job computes, and what its bundle says of
// itself.

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "common/shards/shard.hpp"
#include "common/shards/shard_marks.hpp"
#include "io_fixture.hpp"
#include "long_run.hpp"
#include "thrown_error.hpp"

using namespace attn;
using namespace attn::testing;
using namespace attn::tools;

namespace {

using Variables = std::map<std::string, std::string>;

Shard parsed(const std::string& words, const Variables& variables) {
  return parse_shard(words, [&](const std::string& name) {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  });
}

using Json = nlohmann::ordered_json;

ShardMarks common_marks() {
  ShardMarks marks;
  marks.shard = {2, 3};
  marks.run = "{}";
  marks.warnings.own = {{"w"}, {"of a problem", Index{1}}, {"largest", std::nullopt, "kind", 0.5}};
  marks.warnings.unused = {"-i x"};
  marks.warnings.outdated = {{"tool", "out"}};
  return marks;
}

ShardMarks marks_of_groups() {
  ShardMarks marks = common_marks();
  marks.groups = {"a", "b/c", "d"};
  marks.own = {"b/c", "d"};
  marks.left_out = {"b/c/out"};
  marks.removed = {"d/attn_scale"};
  marks.report = {{.group = "b/c", .figures = "{}", .params = "{}", .warnings = 1},
                  {.group = "d", .figures = "{}", .params = "{}", .warnings = 3}};
  return marks;
}

ShardMarks marks_of_problems() {
  ShardMarks marks = common_marks();
  ProblemShare share(6, {1, 2, 4});
  share.add({{"out", {2, 3, 5}, {0, 1}, {"", "head", "x"}, {1, 1, 5}, true}, {1, 2, 4}});
  share.add({{"step", {}}, {0}});
  share.rank({{"attn_status"}, {1, 0.5}});
  marks.divided = ShardMarks::Divided{"", share};
  marks.report = {{.group = "",
                   .figures = R"({"common":{}})",
                   .params = "{}",
                   .numbers = {{"list", {1, 2}}},
                   .names = {"key"}}};
  return marks;
}

// The bundle of a shard, some of whose marks are replaced.
class StoredMarks {
 public:
  explicit StoredMarks(const ShardMarks& marks) : path_(folder_ / "shard.h5") {
    io::OutputBundle bundle = open_output(path_);
    write_shard_marks(marks, bundle);
    bundle.commit();
  }

  ShardMarks read(std::int64_t allowed = std::int64_t{1} << 30) const {
    ListMemory memory{allowed};
    return read_shard_marks(testing::open_input(path_), memory);
  }

  std::vector<std::string> texts(const std::string& name) const {
    return testing::open_input(path_).group("attn_shard").dataset(name).read_strings();
  }

  // The marks with other texts in dataset `name`.
  void replace(const std::string& name, const std::vector<std::string>& texts) {
    change([&](io::OutputBundle& group) { group.write_strings(name, texts); });
  }

  // The marks with that change of their group.
  void change(const std::function<void(io::OutputBundle&)>& by,
              const std::vector<std::string>& without = {}) {
    const std::string changed = folder_ / "changed.h5";
    io::OutputBundle bundle = open_output(changed, true);
    {
      io::OutputBundle group = bundle.group("attn_shard");
      by(group);
    }
    bundle.copy_from(testing::open_input(path_), without);
    bundle.commit();
    path_ = changed;
  }

 private:
  TemporaryFolder folder_;
  std::string path_;
};

// What every reader of marks relies on.
void require_invariants(const ShardMarks& marks) {
  CHECK(marks.shard.number >= 1);
  CHECK(marks.shard.number <= marks.shard.count);
  const auto is_in = [](const std::vector<std::string>& all, const std::string& one) {
    return std::count(all.begin(), all.end(), one) == 1;
  };
  for (const std::string& group : marks.own) CHECK(is_in(marks.groups, group));
  for (const ReportNotes& notes : marks.report) {
    CHECK((marks.divided ? notes.group == marks.divided->group : is_in(marks.own, notes.group)));
    CHECK(notes.warnings <= marks.warnings.own.size());
  }
  if (!marks.divided) return;
  const ProblemShare& share = marks.divided->problems;
  for (const Index problem : share.own()) CHECK((problem >= 0 && problem < share.problems()));
  for (const ProblemShare::Piece& piece : share.pieces()) {
    const BlockLayout& layout = piece.layout;
    CHECK(element_count(layout.shape) >= 0);
    for (const std::size_t axis : layout.axes) REQUIRE(axis < layout.shape.size());
    CHECK(layout.own_axes().size() + layout.axes.size() == layout.shape.size());
    CHECK(layout.labels.size() <= layout.shape.size());
    CHECK((layout.chunk.empty() || layout.chunk.size() == layout.shape.size()));
    CHECK(static_cast<Index>(piece.blocks.size()) <= share.problems());
    for (const Index block : piece.blocks) CHECK(block < element_count(layout.positions()));
  }
}

// Whether the marks are refused, with the file's name, or else are sound.
bool refused(const StoredMarks& stored) {
  try {
    require_invariants(stored.read());
    return false;
  } catch (const Error& error) {
    CHECK(error.failure() == Failure::input);
    CHECK(contains(error.what(), ".h5"));
    return true;
  }
}

// All of them, or in short runs the one of this place.
template <class T>
std::vector<T> some_of(const std::vector<T>& all, std::size_t place) {
  return long_run() ? all : std::vector<T>{all[place % all.size()]};
}

// Other values in the place of one.
std::vector<Json> instead_of(const Json& value) {
  std::vector<Json> others = {nullptr,
                              true,
                              -1,
                              2.5,
                              1'000'000'000'000'000'000,
                              1e300,
                              "",
                              "0:1000000000000000000",
                              Json::array(),
                              Json::object(),
                              {1, 2, 3},
                              {{"a", 1}},
                              {"x"}};
  Json deep = 1;
  for (int n = 0; n < 100; ++n) deep = Json::array({deep});
  others.push_back(deep);
  if (value.is_array() && !value.empty()) {
    Json more = value;
    more.push_back(value.front());
    others.push_back(more);
    Json less = value;
    less.erase(less.size() - 1);
    others.push_back(less);
  }
  return others;
}

// All texts of JSON in which one value of `json` is another one, or missing.
std::vector<std::string> changed_texts(const Json& json) {
  std::vector<std::string> texts;
  std::vector<Json::json_pointer> places;
  const std::function<void(const Json&, const Json::json_pointer&)> visit =
      [&](const Json& at, const Json::json_pointer& place) {
        places.push_back(place);
        for (const auto& item : at.items()) {
          if (at.is_object()) visit(item.value(), place / item.key());
          if (at.is_array()) visit(item.value(), place / std::stoul(item.key()));
        }
      };
  visit(json, Json::json_pointer());
  const std::size_t step = long_run() ? 1 : 13;
  for (std::size_t n = 0; n < places.size(); n += step) {
    const Json::json_pointer& place = places[n];
    for (const Json& other : instead_of(json.at(place))) {
      Json changed = json;
      changed[place] = other;
      texts.push_back(changed.dump());
    }
    if (place.empty()) continue;
    Json changed = json;
    Json& above = changed[place.parent_pointer()];
    above.is_object() ? void(above.erase(place.back())) : above.erase(std::stoul(place.back()));
    texts.push_back(changed.dump());
  }
  for (const char* const wrong : {"", "{", "NaN", "[1", "1e999", "\xff"}) texts.emplace_back(wrong);
  return texts;
}

}  // namespace

TEST_CASE("marks that were written are read as they were") {
  for (const ShardMarks& marks : {marks_of_groups(), marks_of_problems()}) {
    const ShardMarks found = StoredMarks(marks).read();
    CHECK(found.shard.number == 2);
    CHECK(found.run == marks.run);
    CHECK(found.groups == marks.groups);
    CHECK(found.own == marks.own);
    CHECK(found.left_out == marks.left_out);
    CHECK(found.removed == marks.removed);
    CHECK(found.warnings.own == marks.warnings.own);
    CHECK(found.warnings.unused == marks.warnings.unused);
    CHECK(found.warnings.outdated == marks.warnings.outdated);
    REQUIRE(found.report.size() == marks.report.size());
    for (std::size_t n = 0; n < found.report.size(); ++n) {
      CHECK(found.report[n].figures == marks.report[n].figures);
      CHECK(found.report[n].numbers == marks.report[n].numbers);
      CHECK(found.report[n].names == marks.report[n].names);
      CHECK(found.report[n].warnings == marks.report[n].warnings);
    }
    REQUIRE(found.divided.has_value() == marks.divided.has_value());
    if (!found.divided) continue;
    CHECK(found.divided->problems.own() == marks.divided->problems.own());
    for (std::size_t n = 0; n < 2; ++n) {
      CHECK(found.divided->problems.pieces()[n].layout ==
            marks.divided->problems.pieces()[n].layout);
      CHECK(found.divided->problems.pieces()[n].blocks ==
            marks.divided->problems.pieces()[n].blocks);
    }
    CHECK(found.divided->problems.ranked()[0].key == std::vector<double>{1, 0.5});
  }
}

TEST_CASE("marks whose JSON was changed are refused or sound") {
  for (const ShardMarks& marks : {marks_of_groups(), marks_of_problems()}) {
    for (const std::string name : {"warnings", "divided"}) {
      if (name == "divided" && !marks.divided) continue;
      StoredMarks stored(marks);
      const Json json = Json::parse(stored.texts(name).front());
      std::size_t count = 0;
      for (const std::string& text : changed_texts(json)) {
        CAPTURE(text);
        stored.replace(name, {text});
        count += refused(stored) ? 1 : 0;
      }
      CHECK(count > 20);
    }
  }
}

TEST_CASE("marks whose lists or attributes were changed are refused or sound") {
  for (const ShardMarks& marks : {marks_of_groups(), marks_of_problems()}) {
    std::vector<std::string> names = {"groups",         "own",
                                      "left_out",       "removed",
                                      "warnings",       "report/0/figures",
                                      "report/0/group", "report/0/params",
                                      "report/0/names"};
    if (marks.divided) names.insert(names.end(), {"divided", "report/0/list"});
    std::size_t place = 0;
    for (const std::string& name : names) {
      CAPTURE(name);
      const std::vector<std::vector<std::string>> lists = {
          {}, {"a", "a"}, {"zz"}, {""}, {"attn_shard"}, {"b/c", "b/c"}, {"1", "2"}};
      for (const std::vector<std::string>& list : some_of(lists, ++place)) {
        StoredMarks stored(marks);
        stored.replace(name, list);
        static_cast<void>(refused(stored));
      }
      StoredMarks without(marks);
      without.change([](io::OutputBundle&) {}, {"attn_shard/" + name});
      CHECK(refused(without) == (name != "report/0/list"));
      const std::vector<Shape> shapes = {Shape{}, Shape{0}, Shape{3}, Shape{1, 2}};
      for (const Shape& shape : some_of(shapes, place)) {
        StoredMarks numbers(marks);
        numbers.change([&](io::OutputBundle& group) {
          const std::vector<double> values(static_cast<std::size_t>(element_count(shape)), 7);
          group.create(name, DType::f64, shape).write(Shape(shape.size(), 0), shape, values.data());
        });
        CHECK((refused(numbers) || name == "report/0/list"));
      }
    }
    for (const std::string name : {"number", "count", "problems", "format"}) {
      const std::vector<double> values = {-3.0, 0.0,   2.5,
                                          1e18, 1e300, std::numeric_limits<double>::quiet_NaN()};
      for (const double value : some_of(values, ++place)) {
        CAPTURE(name);
        CAPTURE(value);
        StoredMarks stored(marks);
        stored.change([&](io::OutputBundle& group) { group.attribute(name, value); });
        CHECK(refused(stored));
      }
      StoredMarks text(marks);
      text.change([&](io::OutputBundle& group) { group.attribute(name, std::string("x")); });
      CHECK(refused(text));
    }
  }
}

TEST_CASE("an array comes before ranks") {
  Variables variables = {{"SLURM_PROCID", "2"}, {"SLURM_STEP_NUM_TASKS", "5"}};
  CHECK(parsed("auto", variables).number == 3);
  CHECK(parsed("auto", variables).count == 5);
  variables["SLURM_ARRAY_TASK_ID"] = "7";
  CHECK(thrown_error([&] { parsed("auto", variables); }).failure() == Failure::usage);
  CHECK(parsed("auto/9", variables).number == 7);
  CHECK(parsed("2/3", variables).number == 2);
}

TEST_CASE("an element that its array does not have") {
  Variables variables = {{"SLURM_ARRAY_TASK_MIN", "3"},
                         {"SLURM_ARRAY_TASK_MAX", "9"},
                         {"SLURM_ARRAY_TASK_STEP", "3"},
                         {"SLURM_ARRAY_TASK_COUNT", "3"}};
  for (const char* const id : {"0", "4", "12"}) {
    variables["SLURM_ARRAY_TASK_ID"] = id;
    CHECK(thrown_error([&] { parsed("auto", variables); }).failure() == Failure::usage);
  }
  variables["SLURM_ARRAY_TASK_ID"] = "6";
  CHECK(parsed("auto", variables).number == 2);
}

TEST_CASE("every unit belongs to one shard, and shards differ by two units at most") {
  std::mt19937 random(1);
  for (int n = 0; n < 300; ++n) {
    std::vector<double> work(random() % 40);
    for (double& one : work) one = n % 3 == 0 ? 1 : static_cast<double>(random() % 1000);
    const double all = std::accumulate(work.begin(), work.end(), 0.0);
    const double largest = work.empty() ? 0 : *std::max_element(work.begin(), work.end());
    for (const Index count : {1, 2, 3, 7, 64}) {
      std::size_t next = 0;
      for (Index number = 1; number <= count; ++number) {
        const auto [first, last] = share_of(work, {number, count});
        CHECK(first <= last);
        // An empty share may lie anywhere.
        if (first == last) continue;
        CHECK(first == next);
        next = last;
        const double own = std::accumulate(work.begin() + static_cast<std::ptrdiff_t>(first),
                                           work.begin() + static_cast<std::ptrdiff_t>(last), 0.0);
        CHECK(own <= all / static_cast<double>(count) + largest);
      }
      CHECK(next == work.size());
    }
  }
}

TEST_CASE("units without work are divided by their number") {
  CHECK(share_of({0, 0, 0, 0}, {1, 2}) == std::pair<std::size_t, std::size_t>{0, 2});
  CHECK(share_of({0, 0, 0, 0}, {2, 2}) == std::pair<std::size_t, std::size_t>{2, 4});
  CHECK(share_of({}, {1, 2}) == std::pair<std::size_t, std::size_t>{0, 0});
}

TEST_CASE("names of the parts") {
  CHECK(shard_output("out.h5", {3, 64}) == "out.0003-of-0064.h5");
  CHECK(shard_output("a/.hidden", {1, 2}) == "a/.hidden.0001-of-0002");
  CHECK(shard_output("a.b/out", {1, 2}) == "a.b/out.0001-of-0002");
  CHECK(shard_output("out.h5", {12345, 123456}) == "out.12345-of-123456.h5");
  CHECK(shard_output("%N/%I.h5", {3, 64}) == "64/3.h5");
  CHECK(shard_output("-", {3, 64}) == "-");
}
