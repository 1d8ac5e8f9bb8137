#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "attnkit/error.hpp"
#include "common/bundles.hpp"
#include "tensor_convert/conversion.hpp"

namespace {

using namespace attn;

cli::Declaration declare() {
  cli::Declaration tool("tensor-convert", "Converts between bundles, .npy, .npz and .safetensors",
                        cli::Role::generator);
  tool.about(
          "Each word is NAME=ADDRESS, a dataset to take under that NAME (FILE[:name][slices]; in "
          "an "
          ".npy there is one without a name), or a FILE, all of whose datasets are taken. Without "
          "words a bundle is read from standard input. What a file is, its first bytes tell.")
      .about(
          "Elements are kept bit for bit, unless --dtype asks for another type. bfloat16 becomes "
          "float32, exactly, where a format has none: in all but .safetensors. Formats other than "
          "bundles have neither attributes nor groups, and strings are not written to them: with "
          "a warning these are left out.")
      .words("[FILE | NAME=ADDRESS]...", "What to convert.", 0, -1)
      .section("Conversion")
      .choice("to", {"h5", "npy", "npz", "safetensors"},
              "Format to write; unless given, what the name of the output ends in, else h5")
      .choice("dtype", {"f16", "bf16", "f32", "f64"},
              "Type of floating-point datasets, to which their elements are rounded; unless given, "
              "their own")
      .allow_external()
      .section("Weights of a model, with Hugging Face's names")
      .choice("model", {"bert", "gpt2", "t5", "llama"},
              "Write the attention weights of one layer by head: wq, wk, wv of (heads, in, "
              "channels), so that a head's queries are x wq; bq, bk, bv of (heads, channels) where "
              "there are biases; for t5 rel_bias of (buckets, heads). The words are the FILEs of "
              "the checkpoint")
      .integer("layer", "N", "Which layer, from 0", 0, 1 << 20)
      .choice("part", {"encoder", "decoder", "cross"}, "Which attention of t5", "encoder")
      .integer("heads", "N", "Heads; unless given, what config.json beside the first FILE says", 1,
               1 << 20)
      .integer("kv-heads", "N", "Heads of keys and values (llama), likewise", 1, 1 << 20)
      .result("wq, wk, wv", "(heads, in, channels)", "with --model: the projections by head")
      .result("bq, bk, bv", "(heads, channels)", "with --model: their biases, if it has some")
      .result("rel_bias", "(buckets, heads)", "with --model t5: the table of relative biases")
      .report_member("format", "the format written")
      .report_member("datasets, elements", "the numbers of datasets and of their elements")
      .example("tensor-convert q=q.npy k=k.npy v=v.npy -o layer.h5", "A bundle of three arrays.")
      .example("attn-compute data/passage.h5 | tensor-convert -o out.npz", "Results for NumPy.")
      .example("tensor-convert model.safetensors --model bert --layer 3 -o weights.h5",
               "The projections of a checkpoint's layer.");
  return tool;
}

std::string table(const tools::Conversion& conversion) {
  std::string text;
  double total = 0;
  for (const tools::Produced& dataset : conversion.datasets()) {
    const double bytes = static_cast<double>(element_count(dataset.shape)) *
                         static_cast<double>(size_of(dataset.type));
    total += bytes;
    text += fmt::format("{}  {}  {}  {}\n", dataset.name, tools::times(dataset.shape),
                        name(dataset.type), tools::bytes_text(bytes));
  }
  for (const io::InputDataset& dataset : conversion.copied()) {
    text += fmt::format("{}  {}  {}\n", dataset.name(), tools::times(dataset.shape()),
                        name(dataset.dtype()));
  }
  return text + "total  " + tools::bytes_text(total) + "\n";
}

cli::Outcome run(const cli::Arguments& arguments, cli::Report& report) {
  tools::Conversion conversion(arguments, report);
  const std::string target =
      *arguments.output == "-" ? std::string("standard output") : *arguments.output;
  Index elements = 0;
  std::size_t count = 0;
  const auto list = [&](const std::string& name, const Shape& shape, DType type) {
    ++count;
    elements += element_count(shape);
    report.output(name, target + (conversion.format() == "h5" ? ":/" : ":") + name, shape, type);
  };
  for (const auto& dataset : conversion.datasets()) list(dataset.name, dataset.shape, dataset.type);
  for (const auto& dataset : conversion.copied()) {
    list(dataset.name(), dataset.shape(), dataset.dtype());
  }
  report.result()["format"] = conversion.format();
  report.result()["datasets"] = count;
  report.result()["elements"] = elements;
  if (arguments.dry_run) {
    report.print(table(conversion));
    return {};
  }
  cli::Outcome outcome;
  outcome.commit = conversion.write();
  const auto counted = [](auto number, const char* what) {
    return fmt::format("{} {}{}", number, what, number == 1 ? "" : "s");
  };
  const Index groups = conversion.groups();
  outcome.summary = fmt::format("{}{}, {} -> {}", counted(count, "dataset"),
                                groups > 0 ? " and " + counted(groups, "group") : "",
                                conversion.format(), target);
  return outcome;
}

}  // namespace

int main(int argc, char** argv) { return attn::tools::tool_main(argc, argv, declare(), run); }
