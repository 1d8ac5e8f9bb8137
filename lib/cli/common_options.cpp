#include <string>

#include "cli/memory_hint.hpp"
#include "cli/option.hpp"

namespace attn::cli {
namespace {

using Kind = Option::Kind;

bool writes(Role role) { return role != Role::compare && role != Role::inspect; }
bool reads(Role role) { return has_input(role); }
bool computes(Role role) { return has_input(role) && writes(role); }
bool any(Role) { return true; }

struct Common {
  Option option;
  bool (*has)(Role);
};

std::vector<Common> common_options() {
  return {
      {{.name = "output",
        .letter = 'o',
        .kind = Kind::text,
        .placeholder = "FILE",
        .help = "Write the bundle there; \"-\" is standard output."},
       writes},
      {{.name = "input",
        .letter = 'i',
        .kind = Kind::assignment,
        .placeholder = "NAME=ADDRESS",
        .help = "Take dataset NAME from ADDRESS (FILE[:/path][slices]) rather than from INPUT. "
                "May be repeated."},
       reads},
      {{.name = "allow-external", .kind = Kind::flag, .help = allow_external_help}, reads},
      {{.name = "only",
        .kind = Kind::flag,
        .help = "Write the results alone, without what else INPUT holds."},
       computes},
      {{.name = "force", .kind = Kind::flag, .help = "Replace an existing output file."}, writes},
      {{.name = "compress",
        .kind = Kind::compression,
        .placeholder = "gzip[:N]",
        .help = "Deflate results of 64 KiB and more, N from 1 (fast) to 9 (small), unless given "
                "4. What is copied from an input stays as it is."},
       writes},
      {{.name = "precision",
        .kind = Kind::choice,
        .placeholder = "WORD",
        .help = "Type to compute in; unless given, f64 where an input of the computation is "
                "float64, else f32.",
        .values = {"f32", "f64"}},
       computes},
      {{.name = "threads",
        .kind = Kind::integer,
        .placeholder = "N",
        .help = "Threads to use; unless given, ATTN_NUM_THREADS, OMP_NUM_THREADS, "
                "SLURM_CPUS_PER_TASK or the CPUs allowed.",
        .low = 1,
        .high = 65536},
       any},
      {{.name = "memory",
        .kind = Kind::size,
        .placeholder = "SIZE",
        .help = std::string("Working memory; K, M, G and T are powers of 1024. Never changes a "
                            "result. The program itself takes ") +
                memory_of_program + " more.",
        .fallback = "1G"},
       any},
      {{.name = "tmpdir",
        .kind = Kind::text,
        .placeholder = "DIR",
        .help = "Folder for temporaries of streams; unless given, TMPDIR or /tmp."},
       any},
      {{.name = "dry-run",
        .kind = Kind::flag,
        .help = "Say what would be done (shapes, bytes, flops), and do nothing."},
       writes},
      {{.name = "json",
        .kind = Kind::optional_text,
        .placeholder = "FILE",
        .help = "Write the report as JSON to FILE (replaced where it exists), or bare to standard "
                "output in place of the text."},
       any},
      {{.name = "progress",
        .kind = Kind::choice,
        .placeholder = "WORD",
        .help = "Show progress on standard error; auto: on a terminal.",
        .values = {"auto", "always", "never"},
        .fallback = "auto"},
       any},
      {{.name = "quiet",
        .letter = 'q',
        .kind = Kind::flag,
        .help = "Print errors only: no text, summary, warnings or progress."},
       any},
      {{.name = "verbose",
        .letter = 'v',
        .kind = Kind::flag,
        .help = "Say more, with the messages of HDF5 itself."},
       any},
      {{.name = "help", .letter = 'h', .kind = Kind::flag, .help = "Print this and exit."}, any},
      {{.name = "version",
        .kind = Kind::flag,
        .help = "Print the version and those of the libraries, and exit."},
       any},
  };
}

}  // namespace

bool has_input(Role role) {
  return role == Role::transform || role == Role::optional_input || role == Role::report ||
         role == Role::inspect;
}

bool has_output(Role role) { return writes(role); }

std::vector<Option> all_options(const Declaration::Impl& declaration) {
  std::vector<Option> options = declaration.options;
  for (Common& common : common_options()) {
    common.option.section = "Common options";
    if (declaration.verbs.empty()) {
      if (common.has(declaration.role)) options.push_back(std::move(common.option));
      continue;
    }
    std::vector<std::string> verbs;
    for (const Declaration::Verb& verb : declaration.verbs) {
      if (common.has(declaration.role_of(verb.name))) verbs.push_back(verb.name);
    }
    if (verbs.empty()) continue;
    if (verbs.size() < declaration.verbs.size()) common.option.verbs = std::move(verbs);
    options.push_back(std::move(common.option));
  }
  return options;
}

}  // namespace attn::cli
