#include "cli/other_options.hpp"

#include <algorithm>

namespace attn::cli {
namespace {

struct OtherName {
  std::string_view name;
  std::string_view option;  ///< that the tool must have; empty: any tool
  std::string_view hint;
};

constexpr std::string_view of_recipe =
    "--set NAME=VALUE changes a setting of the recipe; --help=recipe lists them";

constexpr std::string_view of_heads =
    "explain-away-stats has --heads; -i 'q=FILE:/q[:,0:2]' is a slice for q, k and v of as many "
    "heads";

// What other programs call options, and what is not an option here.
constexpr OtherName other_names[] = {
    {"batch-size", "set", of_recipe},
    {"bias", "input", "a bias is a dataset of INPUT, or -i bias=FILE:/name"},
    {"config", "set", "the recipe is an argument without an option before it"},
    {"cores", "threads", "the number of threads is --threads"},
    {"cpus", "threads", "the number of threads is --threads"},
    {"dtype", "precision", "the type of the computation is --precision"},
    {"epochs", "set", of_recipe},
    {"group", "each", "a group is FILE:/group, and --each takes several"},
    {"head", "heads", "heads are counted from 0"},
    {"head", "query-offset", of_heads},
    {"heads", "query-offset", of_heads},
    {"jobs", "threads", "the number of threads is --threads"},
    {"layer", "each", "a layer is FILE:/group, and --each takes several"},
    {"layers", "each", "a layer is FILE:/group, and --each takes several"},
    {"learning-rate", "set", of_recipe},
    {"lr", "set", of_recipe},
    {"mask", "input", "a mask is a dataset of INPUT, or -i mask=FILE:/name"},
    {"overwrite", "force", "an existing output is replaced with --force"},
    {"recipe", "set", "the recipe is an argument without an option before it"},
    {"reg", "unbalanced", "the regularisation of a cost is --epsilon"},
    {"seed", "set", "--set seed=N sets the seed of the recipe"},
    {"steps", "set", of_recipe},
    {"sweep", "", "explain-away-stats takes lists such as --hybrid 0,0.5,1, which make a sweep"},
    {"temperature", "scale", "a temperature T is --scale 1/T, written as a number"},
    {"workers", "threads", "the number of threads is --threads"},
};

struct OfTools {
  std::string_view name;
  std::string_view tools;
};

// All options that are not of all tools. test_help.py checks them, and writes the lines anew.
constexpr OfTools of_tools[] = {
#include "cli/options_of_tools.inc"
};

}  // namespace

std::string hint_on_other_name(std::string_view name, const std::vector<std::string>& names) {
  for (const OtherName& other : other_names) {
    if (other.name != name) continue;
    const bool has_it =
        other.option.empty() || std::find(names.begin(), names.end(), other.option) != names.end();
    if (has_it) return std::string(other.hint);
  }
  return "";
}

std::string hint_on_other_tools(std::string_view name) {
  for (const OfTools& option : of_tools) {
    if (option.name == name) {
      return "--" + std::string(name) + " is an option of " + std::string(option.tools);
    }
  }
  return "";
}

}  // namespace attn::cli
