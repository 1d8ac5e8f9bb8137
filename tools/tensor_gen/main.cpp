#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <type_traits>
#include <vector>

#include <fmt/format.h>

#include "attnkit/error.hpp"
#include "cli/progress.hpp"
#include "common/frame/bundles.hpp"
#include "common/options/cluster_options.hpp"
#include "common/process/tool_main.hpp"
#include "parallel/parallel_for.hpp"
#include "tensor/buffer.hpp"
#include "tensor/pieces.hpp"
#include "tensor_gen/listing.hpp"
#include "tensor_gen/recipe.hpp"
#include "tensor_gen/scenes.hpp"

namespace {

using namespace attn;
using Range = cli::Declaration::Range;

constexpr Index piece_limit = Index{1} << 22;  // elements per write
constexpr Index chunk = Index{1} << 13;        // elements that a thread makes at once

cli::Declaration declare() {
  cli::Declaration tool("tensor-gen", "Makes datasets of seeded random numbers",
                        cli::Role::generator);
  tool.about(
          "Each number depends only on the seed, the dataset's NAME and the row-major index "
          "(Philox4x32-10, keyed with the FNV-1a hash of the name). A dataset therefore does not "
          "depend on other datasets, threads or the machine. float32 values are the float64 "
          "values, rounded.")
      .about(
          "In clusters and mixture, the last axis of SHAPE holds coordinates and the axis before "
          "it points; leading axes hold independent sets of points. The cluster of each point is "
          "written to a dataset `label` (int64), or `NAME_label` if several datasets are made.")
      .about(
          "In scenes, objects of a kind, a colour, a size and a place are seen by three detectors. "
          "Each detector misses some, maps the others to noisy features and adds clutter. Every "
          "scene has a question about its objects.")
      .verbs("KIND",
             {{"normal", "Independent normally distributed numbers."},
              {"uniform", "Independent numbers, uniform in [--low, --high)."},
              {"clusters",
               "Normally distributed points around the centres, in order, --counts of each."},
              {"mixture",
               "Normally distributed points, each around a centre drawn with probability "
               "proportional to --weights."},
              {"scenes", "Scenes that three detectors see, with questions; no NAME=SHAPE."}})
      .words("NAME=SHAPE...", "Datasets to make, such as q=8x2048x64.", 0, -1)
      .section("Numbers")
      .choice("dtype", {"f32", "f64"}, "Type to store", "f32")
      .seeded()
      .number("mean", "X", "Mean", Range::any(), 0.0)
      .only_with({"normal"})
      .number("std", "X", "Standard deviation", Range::non_negative(), 1.0)
      .only_with({"normal"})
      .flag("fan-in",
            "Divides the standard deviation by the square root of the last axis, so that W x is "
            "about as large as x for weights W (outputs, inputs).")
      .only_with({"normal"})
      .number("low", "X", "Lower end of the values", Range::any(), 0.0)
      .only_with({"uniform"})
      .number("high", "X", "Upper end of the values; reached only by rounding to float32",
              Range::any(), 1.0)
      .only_with({"uniform"});
  tools::declare_clusters(tool, {"clusters", "mixture"}, {"clusters"});
  tool.numbers("weights", "LIST", "Weight of each centre, in any unit", Range::non_negative())
      .default_words("equal weights")
      .only_with({"mixture"})
      .result("NAME", "SHAPE", "the random numbers, float32 or float64 by --dtype")
      .result("label", "(..., points)",
              "clusters, mixture: the cluster of each point, int64; NAME_label if several datasets "
              "are made")
      .report_member("kind", "normal, uniform, clusters, mixture or scenes")
      .report_member("elements, bytes", "the size of all datasets")
      .example("tensor-gen normal q=8x2048x64 k=8x2048x64 v=8x2048x64 -o qkv.h5",
               "Make attention inputs with 8 heads.")
      .example("tensor-gen normal --fan-in w1=8x64 w2=3x8 -o weights.h5",
               "Make weights of two layers, from 64 inputs to 3 outputs.")
      .example(
          "tensor-gen clusters x=550x2 --counts 500,50 --centres \"1.8,0.7;-1,-1\" \\\n"
          "      --variance 0.1 -o points.h5",
          "Make an unbalanced pair of clusters with labels.");
  tools::declare_scenes(tool);
  return tool;
}

template <class T>
using Make = std::function<void(Index first, Index count, T* out)>;

// Rounds to the stored type, and refuses numbers that exceed it.
template <class T>
void store(const std::string& name, const double* values, Index count, T* out) {
  for (Index k = 0; k < count; ++k) {
    out[k] = static_cast<T>(values[k]);
    if (!std::isfinite(out[k])) {
      throw Error(Failure::numerical,
                  fmt::format("{} has a value beyond {}", name,
                              sizeof(T) == sizeof(float) ? "float32" : "float64"),
                  sizeof(T) == sizeof(float) ? "use --dtype f64" : "");
    }
  }
}

class Writer {
 public:
  Writer(const cli::Arguments& arguments, cli::Report& report, Index elements)
      : arguments_(arguments),
        report_(report),
        output_(tools::open_output(arguments)),
        progress_(arguments, "generating", static_cast<double>(elements), "elements") {
    output_.add_history(arguments.command_line, arguments.version);
  }

  template <class T>
  void write(const tools::Planned& planned, const Make<T>& make) {
    io::OutputDataset dataset =
        output_.create(planned.name, planned.type, planned.shape, planned.labels);
    const Index room = arguments_.memory / 4 / static_cast<Index>(sizeof(T));
    const Index limit = std::clamp<Index>(room, 1, piece_limit);
    const Buffer<T> buffer(std::min(limit, element_count(planned.shape)));
    for_each_piece(planned.shape, limit, [&](const Piece& piece) {
      const Index chunks = (piece.size + chunk - 1) / chunk;
      report_.compute([&] {
        parallel_for(chunks, arguments_.threads, [&](Index item, int) {
          const Index from = item * chunk;
          const Index count = std::min(chunk, piece.size - from);
          make(piece.offset + from, count, buffer.data() + from);
        });
      });
      dataset.write(piece.start, piece.count, buffer.data());
      progress_.advance(static_cast<double>(piece.size));
    });
  }

  io::OutputBundle take() { return std::move(output_); }

 private:
  const cli::Arguments& arguments_;
  cli::Report& report_;
  io::OutputBundle output_;
  cli::Progress progress_;
};

template <class T>
void write_numbers(Writer& writer, const tools::Recipe& recipe, const tools::Planned& planned) {
  writer.write<T>(planned, [&](Index first, Index count, T* out) {
    if constexpr (std::is_same_v<T, double>) {
      recipe.values(planned, first, count, out);
      store(planned.name, out, count, out);
    } else {
      double values[chunk];
      recipe.values(planned, first, count, values);
      store(planned.name, values, count, out);
    }
  });
}

cli::Outcome run(const cli::Arguments& arguments, cli::Report& report) {
  if (arguments.verb == "scenes") return tools::run_scenes(arguments, report);
  const tools::Recipe recipe(arguments);
  const std::vector<tools::Planned> plan = recipe.plan();
  tools::Listing listing(arguments, report);
  std::vector<std::string> made;
  for (const tools::Planned& planned : plan) {
    listing.add(planned.name, planned.type, planned.shape);
    made.push_back(planned.name + " " + tools::times(planned.shape));
  }
  listing.finish();
  if (arguments.dry_run) return {};

  Writer writer(arguments, report, listing.elements());
  for (const tools::Planned& planned : plan) {
    if (planned.is_label) {
      writer.write<std::int64_t>(planned, [&](Index first, Index count, std::int64_t* out) {
        recipe.labels(planned, first, count, out);
      });
    } else if (planned.type == DType::f64) {
      write_numbers<double>(writer, recipe, planned);
    } else {
      write_numbers<float>(writer, recipe, planned);
    }
  }
  return {0,
          fmt::format("{}, {}, {}, seed {} -> {}", arguments.verb, fmt::join(made, ", "),
                      listing.bytes(), arguments.seed, listing.target()),
          tools::commit_of(writer.take(), report)};
}

}  // namespace

int main(int argc, char** argv) { return attn::tools::tool_main(argc, argv, declare(), run); }
