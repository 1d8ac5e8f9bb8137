#include "common/frame/output_format.hpp"

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

enum class Kind { arrays, table, json, compressed, torch, matlab, pickle };

struct Ending {
  std::string_view text;
  Kind kind;
};

constexpr std::array<Ending, 14> endings = {{{".npz", Kind::arrays},
                                             {".npy", Kind::arrays},
                                             {".safetensors", Kind::arrays},
                                             {".csv", Kind::table},
                                             {".tsv", Kind::table},
                                             {".json", Kind::json},
                                             {".txt", Kind::table},
                                             {".pkl", Kind::pickle},
                                             {".pickle", Kind::pickle},
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
  std::string for_numpy = fmt::format("for NumPy: -o {}.npz", stem);
  switch (ending.kind) {
    case Kind::arrays:
      return fmt::format(
          "-o {}.npz holds all results; for one of them: {} ... -o - | tensor-convert "
          "NAME=-:/NAME -o {}",
          stem, arguments.tool, output);
    case Kind::table:
      return fmt::format(
          "{} --json=FILE writes the report; {}",
          arguments.declared("tsv") ? "--tsv prints the figures as a table," : "there is no table;",
          for_numpy);
    case Kind::json:
      return fmt::format("--json={} writes the report; {}", output, for_numpy);
    case Kind::torch:
      return fmt::format("PyTorch reads .safetensors: -o {}.safetensors", stem);
    case Kind::matlab:
      return fmt::format("MATLAB reads a bundle: -o {}.h5; {}", stem, for_numpy);
    case Kind::pickle:
      return for_numpy;
    case Kind::compressed:
      break;
  }
  return fmt::format(
      "--compress deflates the results; or compress the stream: {} ... -o - | {}; {}",
      arguments.tool,
      ending.text == ".zip" ? "zip " + output + " -"
                            : (ending.text == ".gz" ? "gzip > " : "zstd > ") + output,
      for_numpy);
}

// Throws Error(usage) if `output` is a link to a file whose ending belongs to another format.
void require_same_end(const std::string& output, const std::string& format,
                      const std::string& hint) {
  const std::string file = without_links(output);
  const std::optional<std::string> ending = foreign_ending(file);
  const bool other = ending && *ending != "." + format;
  const bool is_bundle = !ending && (ends_in(file, ".h5") || ends_in(file, ".hdf5"));
  if (file == output || !(other || (is_bundle && format != "h5"))) return;
  throw Error(Failure::usage,
              fmt::format("--output is {}, but {} is to be written there", with_link(output, file),
                          format == "h5" ? "a bundle (HDF5)" : format),
              hint);
}

}  // namespace

std::optional<std::string> foreign_ending(const std::string& output) {
  const Ending* found = find(output);
  if (found == nullptr) return std::nullopt;
  return std::string(found->text);
}

std::optional<io::ArrayFormat> array_format_of(const std::string& output) {
  if (ends_in(output, ".npz")) return io::ArrayFormat::npz;
  if (ends_in(output, ".safetensors")) return io::ArrayFormat::safetensors;
  return std::nullopt;
}

void require_output_name(const cli::Arguments& arguments) {
  if (!arguments.output || arguments.declared("to")) return;
  const std::string& output = *arguments.output;
  const Ending* found = find(output);
  const bool arrays = array_format_of(output).has_value();
  if (found != nullptr && !arrays) {
    throw Error(
        Failure::usage,
        fmt::format("--output is {}, but {} writes bundles (HDF5), .npz and .safetensors, not {}",
                    output, arguments.tool, found->text),
        hint_for(arguments, output, *found));
  }
  const std::string format = arrays ? std::string(found->text.substr(1)) : "h5";
  require_same_end(output, format, "name the file itself, or a link with the same ending");
  if (arrays && arguments.compress > 0) {
    throw Error(Failure::usage,
                fmt::format("--compress applies only to bundles (HDF5), not to .{}", format));
  }
}

void require_same_ending(const std::string& output, const std::string& format) {
  require_same_end(output, format, to_hint);
}

void refuse_ending(const std::string& output, const std::string& ending) {
  throw Error(Failure::usage,
              fmt::format("--output is {}, but tensor-convert does not write {}", output, ending),
              to_hint);
}

}  // namespace attn::tools
