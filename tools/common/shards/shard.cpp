#include "common/shards/shard.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>
#include <system_error>

#include <fmt/format.h>

#include "attnkit/error.hpp"
#include "cli/values.hpp"
#include "cli/words.hpp"
#include "common/frame/stream_input.hpp"
#include "common/runs/launched_rank.hpp"

namespace attn::tools {
namespace {

using cli::Environment;

[[noreturn]] void refuse(const std::string& why, const std::string& hint = "") {
  throw Error(Failure::usage, why, hint);
}

// The number in a variable that is set.
Index number_in(const Environment& environment, const std::string& name) {
  const std::string text = environment(name).value_or("");
  const std::optional<Index> number = cli::to_integer(text);
  if (!number) refuse(fmt::format("--shard auto: {} is '{}', expected a whole number", name, text));
  return *number;
}

// An element of an array, or a rank.
struct Place {
  std::string name;                 // of the variable
  Index id = 0;                     // as the variable has it
  Index first = 1;                  // the number of the first element
  Index step = 1;                   // from an element to the next
  std::optional<Index> count = {};  // where it is known
  std::string gaps = {};            // why elements of that range are missing, if they are
  bool is_rank = false;
};

std::optional<Place> slurm_array(const Environment& environment) {
  const std::string id = "SLURM_ARRAY_TASK_ID";
  if (!environment(id)) return std::nullopt;
  const auto number = [&](const char* name) {
    return number_in(environment, std::string("SLURM_ARRAY_TASK_") + name);
  };
  Place place{id, number_in(environment, id)};
  if (!environment("SLURM_ARRAY_TASK_COUNT")) return place;
  place.first = number("MIN");
  place.step = std::max<Index>(1, number("STEP"));
  place.count = number("COUNT");
  const Index range = (number("MAX") - place.first) / place.step + 1;
  if (range != *place.count) {
    place.gaps = fmt::format("the array has {} from {} to {}",
                             cli::counted(*place.count, "element"), place.first, number("MAX"));
  }
  if (place.id < place.first || place.id > number("MAX") ||
      (place.id - place.first) % place.step != 0) {
    place.gaps = fmt::format("{} is {}, which is none of {}, {}, ..., {}", id, place.id,
                             place.first, place.first + place.step, number("MAX"));
  }
  return place;
}

std::optional<Place> pbs_array(const Environment& environment) {
  for (const char* const name : {"PBS_ARRAY_INDEX", "PBS_ARRAYID"}) {
    if (environment(name)) return Place{name, number_in(environment, name)};
  }
  return std::nullopt;
}

std::optional<Place> lsf_array(const Environment& environment) {
  const std::string id = "LSB_JOBINDEX";
  // 0 outside of an array.
  if (environment(id).value_or("0") == "0") return std::nullopt;
  Place place{id, number_in(environment, id)};
  if (environment("LSB_JOBINDEX_STEP")) {
    place.step = std::max<Index>(1, number_in(environment, "LSB_JOBINDEX_STEP"));
  }
  if (environment("LSB_JOBINDEX_END")) {
    place.count = (number_in(environment, "LSB_JOBINDEX_END") - 1) / place.step + 1;
  }
  return place;
}

std::optional<Place> sge_array(const Environment& environment) {
  const std::string id = "SGE_TASK_ID";
  if (environment(id).value_or("undefined") == "undefined") return std::nullopt;
  Place place{id, number_in(environment, id)};
  if (!environment("SGE_TASK_LAST")) return place;
  place.first = number_in(environment, "SGE_TASK_FIRST");
  place.step = std::max<Index>(1, number_in(environment, "SGE_TASK_STEPSIZE"));
  place.count = (number_in(environment, "SGE_TASK_LAST") - place.first) / place.step + 1;
  return place;
}

std::optional<Place> rank(const Environment& environment) {
  const std::optional<LaunchedRank> launched = launched_rank(environment);
  if (!launched) return std::nullopt;
  return Place{.name = launched->variable,
               .id = launched->own,
               .first = 0,
               .count = launched->count,
               .is_rank = true};
}

Place place_in(const Environment& environment) {
  for (const auto& engine : {slurm_array, pbs_array, lsf_array, sge_array, rank}) {
    if (const std::optional<Place> place = engine(environment)) return *place;
  }
  refuse("--shard auto: no variable of a job array, or of ranks, is set", "--shard I/N");
}

Shard shard_at(const Place& place, std::optional<Index> wanted) {
  if (wanted) return {place.is_rank ? place.id + 1 : place.id, *wanted};
  if (!place.gaps.empty()) {
    refuse(fmt::format("--shard auto: {}, so its numbers do not determine the shard", place.gaps),
           "--array=1-N and --shard auto/N: element I is then shard I of N");
  }
  if (!place.count) {
    refuse(fmt::format("--shard auto: {} is set, but not how many there are", place.name),
           "--shard auto/N");
  }
  return {(place.id - place.first) / place.step + 1, *place.count};
}

}  // namespace

void declare_shard(cli::Declaration& declaration, const std::string& parts) {
  const std::string help = fmt::format(
      "Computes the I-th of N parts of {}, divided by their work, and writes only its "
      "results: -o out.h5 becomes out.0003-of-0064.h5, and the numbers replace %I and "
      "%N where the name has them. ",
      parts);
  declaration.text(
      "shard", "I/N",
      help +
          "tensor-join puts the parts together. auto takes I and N, and auto/N takes I, from the "
          "variables of a job array of Slurm, PBS, LSF or SGE, or from the rank under srun or "
          "mpirun.");
}

Shard parse_shard(const std::string& words, const Environment& environment) {
  const std::size_t slash = words.find('/');
  const std::string first = words.substr(0, slash);
  std::optional<Index> count;
  if (slash != std::string::npos) count = cli::to_integer(words.substr(slash + 1));
  const bool automatic = first == "auto";
  const std::optional<Index> number = automatic ? std::nullopt : cli::to_integer(first);
  if ((slash != std::string::npos && !count) || (!automatic && (!number || !count))) {
    refuse("--shard is '" + words + "', expected I/N, auto or auto/N");
  }
  const Shard shard = automatic ? shard_at(place_in(environment), count) : Shard{*number, *count};
  if (shard.count < 1 || shard.count > most_shards || shard.number < 1 ||
      shard.number > shard.count) {
    refuse(fmt::format("--shard {} is shard {} of {}, expected one from 1 to N, and N to {}", words,
                       shard.number, shard.count, most_shards));
  }
  return shard;
}

std::optional<Shard> shard_of(const cli::Arguments& arguments) {
  if (!arguments.declared("shard") || !arguments.given("shard")) return std::nullopt;
  return parse_shard(arguments.text("shard"), cli::process_environment);
}

std::string shard_output(const std::string& output, const Shard& shard) {
  std::error_code none;
  if (output == "-" || std::filesystem::is_character_file(output, none)) return output;
  const auto replaced = [](std::string text, const std::string& mark, Index number) {
    for (std::size_t at = text.find(mark); at != std::string::npos; at = text.find(mark, at)) {
      text.replace(at, mark.size(), std::to_string(number));
    }
    return text;
  };
  if (output.find("%I") != std::string::npos && output.find("%N") != std::string::npos) {
    return replaced(replaced(output, "%I", shard.number), "%N", shard.count);
  }
  const std::size_t name = output.rfind('/') + 1;  // 0 without a folder
  const std::size_t dot = output.rfind('.');
  // A name that begins with a dot has no ending.
  const std::size_t ending = dot == std::string::npos || dot <= name ? output.size() : dot;
  return fmt::format("{}.{:04}-of-{:04}{}", output.substr(0, ending), shard.number, shard.count,
                     output.substr(ending));
}

cli::Arguments with_shard(const cli::Arguments& arguments) {
  const std::optional<Shard> shard = shard_of(arguments);
  if (!shard) return arguments;
  if (arguments.table_file) return arguments;  // require_no_table_of_shard refuses it
  if (!arguments.output) {
    refuse("--shard needs --output, which names the bundles of the parts", "-o FILE.h5");
  }
  if (const auto stream = stream_input(arguments)) {
    refuse("--shard reads files, but " + *stream + ", which only one job could read");
  }
  cli::Arguments own = arguments;
  own.only = true;
  own.output = shard_output(*arguments.output, *shard);
  return own;
}

void require_no_table_of_shard(const cli::Arguments& arguments) {
  if (!arguments.table_file || !shard_of(arguments)) return;
  refuse("--shard writes the bundle of a part, but --output is the table " + *arguments.table_file,
         "-o FILE.h5; tensor-join --csv makes the table of all parts");
}

void require_no_table_of_heads(const cli::Arguments& arguments) {
  for (const char* const option : {"tsv", "csv", "sort"}) {
    if (!arguments.declared(option) || !arguments.given(option)) continue;
    refuse(
        fmt::format("--{} prints a table of all heads, but --shard computes some of them", option),
        fmt::format("tensor-join --{} makes the table of all parts", option));
  }
}

std::pair<std::size_t, std::size_t> share_of(std::vector<double> work, const Shard& shard) {
  if (std::accumulate(work.begin(), work.end(), 0.0) <= 0) std::fill(work.begin(), work.end(), 1);
  const double all = std::accumulate(work.begin(), work.end(), 0.0);
  const auto part_of = [&](double middle) {
    const double part = std::floor(static_cast<double>(shard.count) * (middle / all));
    return std::min(shard.count - 1, static_cast<Index>(part));
  };
  std::pair<std::size_t, std::size_t> share{0, 0};
  double before = 0;
  for (std::size_t n = 0; n < work.size(); ++n) {
    const Index part = part_of(before + work[n] / 2);
    if (part < shard.number - 1) ++share.first;
    if (part <= shard.number - 1) ++share.second;
    before += work[n];
  }
  return share;
}

}  // namespace attn::tools
