#include <algorithm>
#include <string>

#include "cli/memory_hint.hpp"
#include "cli/option.hpp"

namespace attn::cli {
namespace {

using Kind = Option::Kind;

bool writes(Role role) { return role != Role::compare && role != Role::inspect; }
bool continues(Role role) { return role == Role::continued; }
bool writes_anew(Role role) { return writes(role) && !continues(role); }
bool reads(Role role) { return has_input(role); }
bool computes(Role role) { return has_input(role) && writes(role); }
bool any(Role) { return true; }

struct Common {
  Option option;
  bool (*has)(Role);
};

std::vector<Common> file_options() {
  return {
      {{.name = "output",
        .letter = 'o',
        .kind = Kind::text,
        .placeholder = "FILE",
        .help = "Writes the bundle to FILE; \"-\" is standard output. The ending .npz or "
                ".safetensors selects that format."},
       writes_anew},
      {{.name = "output",
        .letter = 'o',
        .kind = Kind::text,
        .placeholder = "FILE",
        .help = "Writes the bundle to FILE, or continues from FILE if the same command wrote it."},
       continues},
      {{.name = "input",
        .letter = 'i',
        .kind = Kind::assignment,
        .placeholder = "NAME=ADDRESS",
        .help =
            "Reads dataset NAME from ADDRESS, FILE[:/path][slices], such as dump.h5:/layer3/Q[0], "
            "instead of INPUT. May be repeated."},
       reads},
      {external_links_option(), reads},
      {{.name = "only",
        .kind = Kind::flag,
        .help = "Writes only the results, without the other contents of INPUT."},
       computes},
      {{.name = "force", .kind = Kind::flag, .help = "Replaces an existing output file."},
       writes_anew},
      {{.name = "force",
        .kind = Kind::flag,
        .help = "Begins anew and replaces existing outputs, whatever made them."},
       continues},
      {{.name = "compress",
        .kind = Kind::compression,
        .placeholder = "gzip[:N]",
        .help = "Deflates results of 64 KiB and more at level N, from 1 (fast) to 9 (small), by "
                "default 4. Datasets copied from an input keep their compression."},
       writes},
  };
}

std::vector<Common> resource_options() {
  return {
      {{.name = "precision",
        .kind = Kind::choice,
        .placeholder = "WORD",
        .help = "Type of the computation.",
        .values = {"f32", "f64"},
        .default_words = "f64 if one of its inputs is float64, else f32"},
       computes},
      {{.name = "threads",
        .kind = Kind::integer,
        .placeholder = "N",
        .help = "Number of threads.",
        .low = 1,
        .high = 65536,
        .default_words = "the first of ATTN_NUM_THREADS, OMP_NUM_THREADS and SLURM_CPUS_PER_TASK "
                         "that is set, else the number of CPUs allowed"},
       any},
      {{.name = "memory",
        .kind = Kind::size,
        .placeholder = "SIZE",
        .help = std::string("Limit on working memory: bytes, or a number with K, M, G or T (powers "
                            "of 1024). Results do not depend on it. The program itself takes ") +
                memory_of_program + " more.",
        .fallback = "1G"},
       any},
      {{.name = "tmpdir",
        .kind = Kind::text,
        .placeholder = "DIR",
        .help = "Folder for temporary copies of streams.",
        .default_words = "TMPDIR, else /tmp"},
       any},
  };
}

std::vector<Common> report_options() {
  return {
      {{.name = "dry-run",
        .kind = Kind::flag,
        .help = "Prints the shapes, bytes and floating-point operations of the run, and computes "
                "nothing."},
       writes},
      {{.name = "json",
        .kind = Kind::optional_text,
        .placeholder = "FILE",
        .help =
            "Writes the report as JSON to FILE, replacing an existing one. Without FILE, prints "
            "it on standard output in place of the text."},
       any},
      {{.name = "progress",
        .kind = Kind::choice,
        .placeholder = "WORD",
        .help = "Shows progress on standard error; auto: if that is a terminal.",
        .values = {"auto", "always", "never"},
        .fallback = "auto"},
       any},
      {{.name = "quiet",
        .letter = 'q',
        .kind = Kind::flag,
        .help = "Prints errors only: no text, summary, warnings or progress."},
       any},
      {{.name = "verbose",
        .letter = 'v',
        .kind = Kind::flag,
        .help = "Prints more, including the error messages of HDF5."},
       any},
  };
}

std::vector<Common> information_options() {
  return {
      {{.name = "help", .letter = 'h', .kind = Kind::flag, .help = "Prints this text and exits."},
       any},
      {{.name = "man",
        .kind = Kind::flag,
        .help = "Prints the manual page (roff) and exits; show it with man -l."},
       any},
      {{.name = "completion",
        .kind = Kind::choice,
        .placeholder = "SHELL",
        .help = "Prints the completion script for a shell and exits.",
        .values = {"bash", "zsh", "fish"}},
       any},
      {{.name = "version",
        .kind = Kind::flag,
        .help = "Prints the versions of the tool and its libraries and exits."},
       any},
  };
}

std::vector<Common> common_options() {
  std::vector<Common> all;
  for (const std::vector<Common>& topic :
       {file_options(), resource_options(), report_options(), information_options()}) {
    all.insert(all.end(), topic.begin(), topic.end());
  }
  return all;
}

void offer_bf16(Option& option) {
  option.values.push_back("bf16");
  option.help +=
      " bf16 is f32 with faster scores of q and k, on CPUs with AVX512-BF16, if their numbers are "
      "bfloat16; the energy is scaled-dot or dot. Each score's error is at most d 2^-24 times the "
      "sum of |q_c k_c|, as in f32, and numbers below 2^-60 count as 0.";
}

// Adds the common options that some role of the tool has, each restricted to the verbs with it.
void add_common_options(const Declaration::Impl& declaration, std::vector<Option>& options) {
  for (Common& common : common_options()) {
    Option& option = common.option;
    option.section = common_heading;
    if (option.name == "precision" && declaration.bf16) offer_bf16(option);
    if (declaration.verbs.empty()) {
      if (common.has(declaration.role)) options.push_back(std::move(option));
      continue;
    }
    std::vector<std::string> verbs;
    for (const Declaration::Verb& verb : declaration.verbs) {
      if (common.has(declaration.role_of(verb.name))) verbs.push_back(verb.name);
    }
    if (verbs.empty()) continue;
    if (verbs.size() < declaration.verbs.size()) option.verbs = std::move(verbs);
    options.push_back(std::move(option));
  }
}

// Brings options of the same heading together.
void group_by_heading(std::vector<Option>& options) {
  std::vector<std::string> headings;
  for (const Option& option : options) {
    if (option.section == common_heading) continue;
    if (std::find(headings.begin(), headings.end(), option.section) == headings.end()) {
      headings.push_back(option.section);
    }
  }
  // The common heading is not in the list, and so comes last.
  const auto rank = [&](const Option& option) {
    return std::find(headings.begin(), headings.end(), option.section) - headings.begin();
  };
  std::stable_sort(options.begin(), options.end(),
                   [&](const Option& a, const Option& b) { return rank(a) < rank(b); });
}

}  // namespace

Option external_links_option() {
  return {
      .name = "allow-external",
      .kind = Kind::flag,
      .help =
          "Lets HDF5 files refer to files outside their own folder by virtual datasets, external "
          "links and external raw storage. References to files inside it are always followed."};
}

bool has_input(Role role) {
  return role == Role::transform || role == Role::optional_input || role == Role::report ||
         role == Role::inspect;
}

bool has_output(Role role) { return writes(role); }

std::vector<Option> all_options(const Declaration::Impl& declaration) {
  std::vector<Option> options = declaration.options;
  add_common_options(declaration, options);
  group_by_heading(options);
  return options;
}

}  // namespace attn::cli
