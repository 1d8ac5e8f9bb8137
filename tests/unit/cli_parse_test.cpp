#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "attnkit/error.hpp"
#include "cli/parse.hpp"
#include "infinity.hpp"

using namespace attn;
using namespace attn::cli;
using attn::testing::infinity;

namespace {

using Words = std::vector<std::string>;

std::optional<std::string> nothing_set(const std::string&) { return std::nullopt; }

Declaration declared(Role role) {
  Declaration declaration("attn-try", "Tries", role);
  declaration.flag("bare", "A flag")
      .text("from", "WHAT", "A text")
      .text("map", "NAME=STORED,...", "A list")
      .choice("scheme", {"unas", "dnas"}, "A word", "unas")
      .choices("emit", {"out", "weights", "col_sum"}, "Words", "out")
      .number("scale", "X", "A number", {-infinity, infinity}, 1.0)
      .number("hybrid", "U", "A share", {0, 1})
      .numbers("epsilon", "LIST", "Numbers", {0, infinity, true}, {1e-8})
      .integer("top", "N", "A count", 0, 100, 5)
      .integers("counts", "LIST", "Counts", 1, 1000)
      .size("room", "SIZE", "Bytes", "16M")
      .points("centres", "POINTS", "Points")
      .optional_choice("causal", {"top-left", "bottom-right"}, "A mask")
      .seeded();
  return declaration;
}

Arguments parsed(const Words& words, Role role = Role::transform) {
  return parse(words, declared(role), nothing_set);
}

struct Refusal {
  std::string message;
  std::string hint;
};

Refusal refusal(const Words& words, const Declaration& declaration) {
  try {
    parse(words, declaration, nothing_set);
  } catch (const Error& error) {
    CHECK(error.failure() == Failure::usage);
    return {error.what(), error.hint()};
  }
  return {};
}

Refusal refusal(const Words& words, Role role = Role::transform) {
  return refusal(words, declared(role));
}

}  // namespace

TEST_CASE("defaults of options that are not given") {
  const Arguments a = parsed({});
  CHECK_FALSE(a.flag("bare"));
  CHECK(a.text("from") == "");
  CHECK(a.text("scheme") == "unas");
  CHECK_FALSE(a.given("scheme"));
  CHECK(a.words_of("emit") == Words{"out"});
  CHECK(a.number("scale") == 1.0);
  CHECK_FALSE(a.number("hybrid"));
  CHECK(a.numbers("epsilon") == std::vector<double>{1e-8});
  CHECK(a.integer("top") == 5);
  CHECK(a.integers("counts").empty());
  CHECK(a.integer("room") == 16 << 20);
  CHECK(a.points("centres").empty());
  CHECK_FALSE(a.given("causal"));
  CHECK(a.input == "-");
  CHECK(a.output == "-");
  CHECK(a.bundle_to_stdout());
  CHECK(a.memory == Index{1} << 30);
  CHECK(a.seed == 0);
  CHECK(a.threads == cpus_allowed());
  CHECK_FALSE(a.f64);
  CHECK(a.tmpdir == "/tmp");
  CHECK_FALSE(a.json);
  CHECK(a.progress == Arguments::Progress::automatic);
  CHECK(a.command_line == "attn-try");
  CHECK(a.tool == "attn-try");
}

TEST_CASE("options in all their forms") {
  for (const Words& words : {Words{"-o", "FILE"},
                             {"-oFILE"},
                             {"--output", "FILE"},
                             {"--output=FILE"},
                             {"-qoFILE"},
                             {"-qo", "FILE"}}) {
    CAPTURE(words.front());
    CHECK(parsed(words).output == "FILE");
  }
  const Arguments a = parsed({"--scheme", "dnas", "in.h5", "-qv", "--precision=f64", "--threads",
                              "3", "--memory=2M", "--seed", "7", "--progress=never", "--only",
                              "--force", "--dry-run", "--tmpdir", "/var/tmp"});
  CHECK(a.text("scheme") == "dnas");
  CHECK(a.given("scheme"));
  CHECK(a.input == "in.h5");
  CHECK(a.quiet);
  CHECK(a.verbose);
  CHECK(a.f64 == true);
  CHECK(a.threads == 3);
  CHECK(a.memory == 2 << 20);
  CHECK(a.seed == 7);
  CHECK(a.progress == Arguments::Progress::never);
  CHECK(a.only);
  CHECK(a.force);
  CHECK(a.dry_run);
  CHECK_FALSE(a.bundle_to_stdout());
  CHECK(a.tmpdir == "/var/tmp");
}

TEST_CASE("values may begin with a minus") {
  CHECK(parsed({"--scale", "-1"}).number("scale") == -1.0);
  CHECK(parsed({"--scale=-1"}).number("scale") == -1.0);
  CHECK(parsed({"--scale", "-0.5e-3", "x"}).number("scale") == -0.5e-3);
  CHECK(parsed({"--centres", "-1,-2;3,4"}).points("centres").front().front() == -1);
  CHECK(parsed({"--from", "-x"}).text("from") == "-x");
  CHECK(parsed({"--from", "--x"}).text("from") == "--x");
  CHECK(parsed({"--from=--bare"}).text("from") == "--bare");
  CHECK(parsed({"-o", "-"}).output == "-");
  CHECK(parsed({"--from", ""}).text("from") == "");
}

TEST_CASE("an optional value is taken only after '='") {
  Arguments a = parsed({"--causal", "x.h5", "--json", "-o", "f"});
  CHECK(a.given("causal"));
  CHECK(a.text("causal") == "");
  CHECK(a.input == "x.h5");
  CHECK(a.json == "");
  a = parsed({"--causal=top-left", "--json=report.json"});
  CHECK(a.text("causal") == "top-left");
  CHECK(a.json == "report.json");
  CHECK(parsed({"--json=a=b"}).json == "a=b");
  CHECK(parsed({"--json=-", "-o", "f"}).json == "");
  CHECK(parsed({"--json=/dev/stdout", "-o", "f"}).json == "");
  CHECK(refusal({"--causal=left"}).message ==
        "--causal is left, expected one of top-left, bottom-right");
  CHECK(refusal({"--json="}).message == "--json= needs a value");
}

TEST_CASE("positional words") {
  CHECK(parsed({"-"}).input == "-");
  CHECK(parsed({"--", "--bare"}).input == "--bare");
  CHECK(parsed({"—other"}).input == "—other");
  CHECK(parsed({"--map", "q=Q", "in.h5"}).input == "in.h5");
  CHECK(parsed({"--memory", "1", "go.h5"}).input == "go.h5");
  CHECK(parsed({"--", "-"}).input == "-");
  CHECK(parsed({"-:/layer3"}).input == "-:/layer3");
  CHECK(parsed({"-q", "-:/layer3", "-o", "f"}).input == "-:/layer3");
  CHECK(parsed({"-i", "-=-:/q"}).named_inputs.front().second == "-:/q");
  CHECK(parsed({"--bare", "--", "-q"}).input == "-q");
  CHECK(refusal({"a", "b"}).message == "unexpected argument b");
  CHECK(refusal({"a", "b"}).hint == "INPUT is already a; an output is -o b");
  CHECK(refusal({"a", "/dev/null"}).hint == "INPUT is already a");
  CHECK(refusal({"a", "b", "-o", "c"}).hint == "INPUT is already a");
  CHECK(refusal({"a", "b"}, Role::inspect).hint == "INPUT is already a");
  CHECK(refusal({""}).message == "INPUT is empty");
}

TEST_CASE("named inputs") {
  const Arguments a = parsed({"-i", "q=a.h5:/q[0]", "-ik=b=c.h5", "--input=v=-"});
  CHECK_FALSE(a.input);
  REQUIRE(a.named_inputs.size() == 3);
  CHECK(a.named_inputs[0] == std::pair<std::string, std::string>("q", "a.h5:/q[0]"));
  CHECK(a.named_inputs[1] == std::pair<std::string, std::string>("k", "b=c.h5"));
  CHECK(a.named_inputs[2] == std::pair<std::string, std::string>("v", "-"));
  CHECK(parsed({"-i", "q=a.h5", "-"}).input == "-");
  for (const char* const text : {"q", "=a", "q=", "="}) {
    CAPTURE(text);
    CHECK(refusal({"-i", text}).message ==
          "--input is " + std::string(text) + ", expected NAME=ADDRESS");
  }
  CHECK(refusal({"-i", "a.h5"}).hint ==
        "a file of all datasets is INPUT, which has no option before it");
  CHECK(refusal({"-i", "q="}).hint.empty());
  CHECK(refusal({"-i", "q=a", "-i", "q=b"}).message == "--input names q twice");
}

TEST_CASE("command lines that are refused") {
  struct Case {
    Words words;
    std::string message;
    std::string hint;
  };
  const std::vector<Case> cases = {
      {{"--foo"}, "unknown option --foo", ""},
      {{"--foo=bar"}, "unknown option --foo", ""},
      {{"--dtype", "f32"}, "unknown option --dtype", "the type of the computation is --precision"},
      {{"--bins=3"}, "unknown option --bins", "--bins is an option of explain-away-stats"},
      {{"--count=3"}, "unknown option --count", "did you mean --counts?"},
      {{"--forse"}, "unknown option --forse", "did you mean --force?"},
      {{"--epsi", "1"}, "unknown option --epsi", "did you mean --epsilon?"},
      {{"--eps", "1"},
       "unknown option --eps",
       "did you mean --epsilon? --eps is an option of sinkhorn-iter"},
      {{"--t", "1"}, "unknown option --t", ""},
      {{"-Z"}, "unknown option -Z", ""},
      {{"-qZ"}, "unknown option -qZ", ""},
      {{"-1"}, "unknown option -1", ""},
      {{"---"}, "unknown option ---", ""},
      {{"--=x"}, "unknown option --=x", ""},
      {{"—top=3"}, "unknown option —top", "its dash is not -: --top"},
      {{"-q", "–-top"}, "unknown option –-top", "its dash is not -: --top"},
      {{"-scheme", "dnas"}, "unknown option -scheme", "did you mean --scheme?"},
      {{"-output", "x"}, "unknown option -output", "did you mean --output?"},
      {{"-quiet"}, "unknown option -quiet", "did you mean --quiet?"},
      {{"--bare=yes"}, "--bare takes no value", "--bare alone switches it on"},
      {{"--bare=False"}, "--bare takes no value", "leave out --bare to switch it off"},
      {{"--bare=x"}, "--bare takes no value", ""},
      {{"--bare", "true", "in.h5"},
       "unexpected argument true after --bare",
       "--bare alone switches it on"},
      {{"--causal", "0", "in.h5"},
       "unexpected argument 0 after --causal",
       "leave out --causal to switch it off"},
      {{"--causal=true"},
       "--causal is true, expected one of top-left, bottom-right",
       "--causal alone switches it on"},
      {{"--scale"}, "--scale needs a value, expected a finite number", ""},
      {{"--scale="}, "--scale needs a value, expected a finite number", ""},
      {{"--scheme"}, "--scheme needs a value, expected one of unas, dnas", ""},
      {{"-o"}, "--output needs a value, expected FILE", ""},
      {{"-o", "-q"}, "--output needs a value, expected FILE", ""},
      {{"-o", "--bare"}, "-o needs a value, but an option follows: --bare", "expected FILE"},
      {{"--scale", "--scheme=unas"},
       "--scale needs a value, but an option follows: --scheme=unas",
       "expected a finite number"},
      {{"-o", ""}, "--output is empty", ""},
      {{"--bare", "--bare"}, "--bare is given twice", ""},
      {{"-qq"}, "--quiet is given twice", ""},
      {{"--scale", "1", "--scale", "1"}, "--scale is given twice", ""},
      {{"--epsilon", "1e-8", "1e-3"},
       "unexpected argument 1e-3 after --epsilon 1e-8",
       "a list has commas: --epsilon 1e-8,1e-3"},
      {{"--counts=1", "2", "3", "in.h5"},
       "unexpected argument 2 after --counts 1",
       "a list has commas: --counts 1,2,3"},
      {{"--emit", "out", "weights", "--bare"},
       "unexpected argument weights after --emit out",
       "a list has commas: --emit out,weights"},
      {{"--map", "q=Q", "k=K", "in.h5"},
       "unexpected argument k=K after --map q=Q",
       "a list has commas: --map q=Q,k=K"},
      {{"--map", "0,2", "3", "in.h5"},
       "unexpected argument 3 after --map 0,2",
       "a list has commas: --map 0,2,3"},
      {{"--counts", "1,", "2", "in.h5"},
       "--counts has an empty item, expected integers in [1, 1000] separated by commas",
       "a list has commas and no blanks"},
      {{"--memory", "1", "GB", "in.h5"},
       "--memory is 1 GB, expected a size such as 512M, 1.5G or 65536",
       "--memory 1G"},
      {{"--memory", "1.5", "g", "in.h5"},
       "--memory is 1.5 g, expected a size such as 512M, 1.5G or 65536",
       "--memory 1.5g"},
      {{"--causal", "top-left", "in.h5"},
       "unexpected argument top-left after --causal",
       "--causal=top-left"},
      {{"--json", "none.json", "in.h5"},
       "unexpected argument none.json after --json",
       "--json=none.json"},
      {{"q.npy", "k.npy"},
       "unexpected argument k.npy",
       "each array gets a name: -i NAME=q.npy -i NAME=k.npy"},
      {{"--json=a", "--json=b"}, "--json is given twice", ""},
      {{"--json", "--json=b"}, "--json is given twice", ""},
      {{"--hybrid", "1.5"}, "--hybrid is 1.5, expected a number in [0, 1]", ""},
      {{"--scheme", "foo"}, "--scheme is foo, expected one of unas, dnas", ""},
      {{"--scheme", "unsa"}, "--scheme is unsa, expected one of unas, dnas", "did you mean unas?"},
      {{"--scheme", ""}, "--scheme is empty, expected one of unas, dnas", ""},
      {{"--precision", "float32"},
       "--precision is float32, expected one of f32, f64",
       "float32 is called f32 here"},
      {{"--memory", "1GB"},
       "--memory is 1GB, expected a size such as 512M, 1.5G or 65536",
       "--memory 1G"},
      {{"--threads", "0"}, "--threads is 0, expected an integer in [1, 65536]", ""},
      {{"--json"},
       "--json and the bundle would both go to standard output",
       "use --json=FILE, or write the bundle with -o FILE"},
      {{"--json=x", "-o", "x"}, "--json and --output both name x", ""},
      {{"--json=x", "-o", "o", "x:/layer"}, "--json=x is an input, x:/layer", ""},
      {{"--json=x", "-o", "o", "-i", "q=x[0]"}, "--json=x is an input, x[0]", ""},
  };
  for (const Case& c : cases) {
    CAPTURE(c.message);
    const Refusal got = refusal(c.words);
    CHECK(got.message == c.message);
    CHECK(got.hint == c.hint);
  }
}

TEST_CASE("each role has its own common options") {
  CHECK_FALSE(parsed({"x"}, Role::report).output);
  CHECK(parsed({}, Role::report).input == "-");
  CHECK(parsed({"--json", "x"}, Role::report).json == "");
  CHECK(refusal({"--json", "-o", "-"}, Role::report).message ==
        "--json and the bundle would both go to standard output");
  CHECK_FALSE(parsed({}, Role::optional_input).input);
  CHECK(parsed({"x"}, Role::optional_input).input == "x");
  CHECK(parsed({}, Role::generator).output == "-");
  CHECK_FALSE(parsed({}, Role::generator).input);
  CHECK(refusal({"-i", "q=x"}, Role::generator).message == "unknown option -i");
  CHECK(refusal({"--only"}, Role::generator).message == "unknown option --only");
  CHECK(refusal({"x"}, Role::generator).message == "unexpected argument x");
  CHECK(parsed({"--dry-run", "--json"}).json == "");

  const Arguments pair = parsed({"a", "-"}, Role::compare);
  CHECK(pair.words() == Words{"a", "-"});
  CHECK_FALSE(pair.input);
  CHECK_FALSE(pair.output);
  CHECK(refusal({"a"}, Role::compare).message == "expected A B, got a");
  CHECK(refusal({}, Role::compare).message == "expected A B, got nothing");
  CHECK(refusal({"a", "b", "c"}, Role::compare).message == "unexpected argument c");
  CHECK(refusal({"-", "-:/group"}, Role::compare).message ==
        "A and B both are standard input, which can be read only once");
  for (const char* const word : {"-o", "--only", "--force", "--precision=f32", "--dry-run"}) {
    CAPTURE(word);
    CHECK(refusal({word, "a", "b"}, Role::compare).message.rfind("unknown option", 0) == 0);
  }
}

TEST_CASE("words and verbs") {
  Declaration declaration("attn-gen", "Makes", Role::generator);
  declaration
      .verbs("KIND", {{"normal", "Bell"}, {"uniform", "Box"}, {"view", "Look", Role::report}})
      .words("NAME=SHAPE...", "What", 1, -1);
  declaration.number("mean", "X", "Mean", {-infinity, infinity}, 0.0)
      .only_with({"normal"})
      .number("low", "X", "Low", {-infinity, infinity}, 0.0)
      .only_with({"uniform"});

  const Arguments a = parse({"normal", "q=8x2", "--mean", "-1", "k=3"}, declaration, nothing_set);
  CHECK(a.verb == "normal");
  CHECK(a.words() == Words{"q=8x2", "k=3"});
  CHECK(a.number("mean") == -1.0);
  CHECK_FALSE(a.number("low"));
  CHECK(a.output == "-");
  CHECK_FALSE(params_of(a).contains("low"));

  CHECK(refusal({}, declaration).message ==
        "KIND is missing, expected one of normal, uniform, view");
  CHECK(refusal({"norml", "q=1"}, declaration).message ==
        "KIND is norml, expected one of normal, uniform, view");
  CHECK(refusal({"norml", "q=1"}, declaration).hint == "did you mean normal?");
  CHECK(refusal({"normal"}, declaration).message == "expected NAME=SHAPE..., got nothing");
  CHECK(refusal({"normal", "q=1", "--low", "2"}, declaration).message ==
        "--low is not an option of normal, only of uniform");
  CHECK(refusal({"normal", "q=1", "--only"}, declaration).message ==
        "--only is not an option of normal, only of view");
}

TEST_CASE("a verb may have a role of its own") {
  Declaration declaration("attn-try", "Tries", Role::transform);
  declaration.verbs(
      "VERB",
      {{"step", "Steps"}, {"check", "Checks", Role::report}, {"curve", "Draws", Role::generator}});
  CHECK(parse({"step"}, declaration, nothing_set).output == "-");
  CHECK(parse({"step"}, declaration, nothing_set).input == "-");
  CHECK_FALSE(parse({"check"}, declaration, nothing_set).output);
  CHECK(parse({"check", "x"}, declaration, nothing_set).input == "x");
  CHECK_FALSE(parse({"curve"}, declaration, nothing_set).input);
  CHECK(refusal({"curve", "x"}, declaration).message == "unexpected argument x");
  CHECK(refusal({"curve", "-i", "q=x"}, declaration).message ==
        "--input is not an option of curve, only of step, check");
}

TEST_CASE("a tool may do something without a verb") {
  Declaration declaration("attn-try", "Tries", Role::transform);
  declaration.verbs("VERB", {{"", "Makes"}, {"check", "Checks", Role::inspect}})
      .for_verbs({""})
      .flag("fast", "Fast")
      .for_verbs({"check"})
      .flag("strict", "Strict")
      .flag("csv", "A table")
      .for_verbs({})
      .flag("all", "All");
  const Arguments made = parse({"x", "--fast", "--all", "-o", "check"}, declaration, nothing_set);
  CHECK(made.verb.empty());
  CHECK(made.input == "x");
  CHECK(made.output == "check");
  CHECK(made.flag("fast"));
  CHECK(made.declared("fast"));
  CHECK_FALSE(made.declared("csv"));
  CHECK_FALSE(params_of(made).contains("verb"));
  CHECK(parse({}, declaration, nothing_set).input == "-");
  CHECK(parse({"./check"}, declaration, nothing_set).input == "./check");

  const Arguments checked = parse({"--strict", "check", "x", "--all"}, declaration, nothing_set);
  CHECK(checked.verb == "check");
  CHECK(checked.input == "x");
  CHECK_FALSE(checked.output);
  CHECK(checked.declared("csv"));
  CHECK_FALSE(checked.declared("fast"));
  CHECK_FALSE(checked.declared("output"));

  CHECK(refusal({"x", "--strict"}, declaration).message == "--strict is an option of check only");
  CHECK(refusal({"check", "--fast"}, declaration).message == "--fast is not an option of check");
  CHECK(refusal({"check", "-o", "y"}, declaration).message == "--output is not an option of check");
  CHECK(refusal({""}, declaration).message == "INPUT is empty");
  CHECK(refusal({"chek", "x"}, declaration).message == "unexpected argument x");
}

TEST_CASE("the JSON report does not overwrite a file that an option names") {
  Declaration declaration("attn-try", "Tries", Role::inspect);
  declaration.text("gold", "FILE", "A file").text("name", "NAME", "No file");
  CHECK(refusal({"x", "--gold", "g.txt", "--json=g.txt"}, declaration).message ==
        "--json and --gold both name g.txt");
  CHECK(parse({"x", "--name", "g.txt", "--json=g.txt"}, declaration, nothing_set).json == "g.txt");
}

TEST_CASE("mistakes in a declaration are found") {
  Declaration declaration = declared(Role::transform);
  CHECK_THROWS_AS(declaration.flag("bare", ""), std::logic_error);
  CHECK_THROWS_AS(declaration.flag("force", ""), std::logic_error);
  CHECK_THROWS_AS(declaration.choice("word", {"a"}, "", "b"), std::logic_error);
  CHECK_THROWS_AS(declaration.number("n", "N", "", {0, 1}, 2.0), std::logic_error);
  CHECK_THROWS_AS(declaration.only_with({"nothing"}), std::logic_error);
  CHECK_THROWS_AS(declaration.for_verbs({"nothing"}), std::logic_error);
  const Arguments a = parsed({});
  CHECK_THROWS_AS(a.number("nowhere"), std::logic_error);
  CHECK_THROWS_AS(a.number("scheme"), std::logic_error);
  CHECK_THROWS_AS(a.given("nowhere"), std::logic_error);
}

TEST_CASE("params hold every option resolved") {
  const auto params = params_of(parsed({"in.h5", "-i", "q=x.h5", "--causal", "--epsilon", "1e-3,1",
                                        "--threads", "2", "--precision", "f32", "--json=f"}));
  CHECK(
      params.dump() ==
      R"({"arguments":["in.h5"],"bare":false,"from":null,"map":null,"scheme":"unas","emit":["out"],)"
      R"("scale":1.0,"hybrid":null,"epsilon":[0.001,1.0],"top":5,"counts":null,)"
      R"("room":16777216,"centres":null,)"
      R"("causal":true,"seed":0,"output":"-","input":["q=x.h5"],"allow_external":false,"only":false,)"
      R"("force":false,"compress":null,)"
      R"("precision":"f32","threads":2,"memory":1073741824,"tmpdir":"/tmp","dry_run":false,)"
      R"("json":"f","progress":"auto","quiet":false,"verbose":false})");
  CHECK(params_of(parsed({"--causal=top-left"}))["causal"] == "top-left");
  CHECK(params_of(parsed({}))["causal"] == false);
}

TEST_CASE("the command line is kept as typed") {
  CHECK(parsed({"--from", "a b", "-o", "out.h5"}).command_line ==
        "attn-try --from 'a b' -o out.h5");
}

TEST_CASE("the destination of the report of a refused command line") {
  const auto json = [](const Words& words, Role role) {
    return json_of_refused(words, declared(role));
  };
  CHECK_FALSE(json({"--bad"}, Role::transform));
  CHECK_FALSE(json({"--", "--json"}, Role::report));
  CHECK(json({"--json=f", "--bad"}, Role::transform) == "f");
  CHECK_FALSE(json({"--json", "--bad"}, Role::transform));
  CHECK_FALSE(json({"--json", "-o", "-", "--bad"}, Role::transform));
  CHECK(json({"--json", "-o", "f", "--bad"}, Role::transform) == "");
  CHECK(json({"--json", "--output=f", "--bad"}, Role::transform) == "");
  CHECK(json({"--json", "--dry-run", "--bad"}, Role::transform) == "");
  CHECK(json({"--json", "--bad"}, Role::report) == "");
  CHECK(json({"--json", "--bad"}, Role::compare) == "");
  CHECK_FALSE(json({"--json", "-o-", "--bad"}, Role::report));
}
