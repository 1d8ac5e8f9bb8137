#include "common/output_format.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include <fmt/format.h>

#include "attnkit/error.hpp"
#include "system/paths.hpp"

namespace attn::tools {
namespace {

constexpr const char* to_hint =
    "--to sets the format for any file name: h5, npy, npz or safetensors";

enum class Kind { arrays, table, json, compressed, torch, matlab };

struct Ending {
  std::string_view text;
  Kind kind;
};

constexpr std::array<Ending, 11> endings = {{{".npz", Kind::arrays},
                                             {".npy", Kind::arrays},
                                             {".safetensors", Kind::arrays},
                                             {".csv", Kind::table},
                                             {".tsv", Kind::table},
                                             {".json", Kind::json},
                                             {".pt", Kind::torch},
                                             {".mat", Kind::matlab},
                                             {".gz", Kind::compressed},
                                             {".zst", Kind::compressed},
                                             {".zip", Kind::compressed}}};

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool ends_in(const std::string& output, std::string_view ending) {
  return output.size() >= ending.size() &&
         std::equal(ending.rbegin(), ending.rend(), output.rbegin(),
                    [](char wanted, char c) { return wanted == lower(c); });
}

const Ending* find(const std::string& output) {
  const auto found = std::find_if(endings.begin(), endings.end(), [&](const Ending& ending) {
    return ends_in(output, ending.text);
  });
  return found == endings.end() ? nullptr : found;
}

std::string with_link(const std::string& output, const std::string& file) {
  return file == output ? output : fmt::format("{}, a link to {}", output, file);
}

// A command that writes a file such as `output`, which has this ending.
std::string hint_for(const cli::Arguments& arguments, const std::string& output,
                     const Ending& ending) {
  const std::string stem = output.substr(0, output.size() - ending.text.size());
  const auto pipe = [&](const std::string& file) {
    return fmt::format("{} ... -o - | tensor-convert {}", arguments.tool, file);
  };
  const std::string for_numpy = pipe("-o " + stem + ".npz");
  switch (ending.kind) {
    case Kind::arrays:
      return "make one of the bundle: " +
             pipe(ending.text == ".npy" ? "NAME=-:/NAME -o " + output : "-o " + output);
    case Kind::table:
      return fmt::format(
          "{} --json=FILE writes the report; for NumPy: {}",
          arguments.declared("tsv") ? "--tsv prints the figures as a table," : "there is no table;",
          for_numpy);
    case Kind::json:
      return fmt::format("--json={} writes the report; for NumPy: {}", output, for_numpy);
    case Kind::torch:
      return "PyTorch reads .safetensors: " + pipe("-o " + stem + ".safetensors");
    case Kind::matlab:
      return fmt::format("MATLAB reads a bundle: -o {}.h5; for NumPy: {}", stem, for_numpy);
    case Kind::compressed:
      break;
  }
  return fmt::format(
      "--compress deflates the results; or compress the stream: {} ... -o - | {}; for NumPy: {}",
      arguments.tool,
      ending.text == ".zip" ? "zip " + output + " -"
                            : (ending.text == ".gz" ? "gzip > " : "zstd > ") + output,
      for_numpy);
}

}  // namespace

std::optional<std::string> foreign_ending(const std::string& output) {
  const Ending* found = find(output);
  if (found == nullptr) return std::nullopt;
  return std::string(found->text);
}

void require_bundle_name(const cli::Arguments& arguments) {
  if (!arguments.output || arguments.declared("to")) return;
  const std::string& output = *arguments.output;
  for (const std::string& file : {output, without_links(output)}) {
    const Ending* found = find(file);
    if (found == nullptr) continue;
    throw Error(Failure::usage,
                fmt::format("--output is {}, but {} writes bundles (HDF5), not {}",
                            with_link(output, file), arguments.tool, found->text),
                hint_for(arguments, file, *found));
  }
}

void require_same_ending(const std::string& output, const std::string& format) {
  const std::string file = without_links(output);
  const std::optional<std::string> ending = foreign_ending(file);
  const bool other = ending && *ending != "." + format;
  const bool is_bundle = !ending && (ends_in(file, ".h5") || ends_in(file, ".hdf5"));
  if (file == output || !(other || (is_bundle && format != "h5"))) return;
  throw Error(Failure::usage,
              fmt::format("--output is {}, but {} is to be written there", with_link(output, file),
                          format == "h5" ? "a bundle (HDF5)" : format),
              to_hint);
}

void refuse_ending(const std::string& output, const std::string& ending) {
  throw Error(Failure::usage,
              fmt::format("--output is {}, but tensor-convert does not write {}", output, ending),
              to_hint);
}

}  // namespace attn::tools
