#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "attnkit/error.hpp"
#include "cli/words.hpp"
#include "common/frame/bundles.hpp"
#include "common/process/tool_main.hpp"
#include "tensor_convert/conversion.hpp"

namespace {

using namespace attn;

cli::Declaration declare() {
  cli::Declaration tool("tensor-convert",
                        "Converts between bundles, .npy, .npz and .safetensors; reads .csv",
                        cli::Role::generator);
  tool.about(
          "Each argument is NAME=ADDRESS, which takes one dataset under that NAME "
          "(FILE[:name][slices]; the dataset of an .npy or a table has no name), or a FILE, which "
          "takes all of its datasets. The index of a checkpoint in several "
          "files, model.safetensors.index.json, or its folder is a FILE, too. Without arguments, a "
          "bundle is read "
          "from standard input. "
          "File "
          "formats are detected from their first bytes.")
      .about(
          "A table of numbers is a float64 matrix of its lines and columns. Its name ends in .tsv "
          "(cells separated by tabs) or .csv (by commas, or by the semicolons or tabs of its first "
          "line). A header line of names is left out, and a note says so; nan and inf are numbers.")
      .about(
          "Elements are kept bit for bit unless --dtype converts them. bfloat16 becomes float32, "
          "without loss, in formats that lack it (all but .safetensors). Dots in the names of an "
          ".npz "
          "or .safetensors separate groups of a bundle. A dataset in a group is "
          "an "
          "array called layer0/q in an .npz or a .safetensors, and attributes are its metadata; an "
          ".npy has neither.")
      .words("[FILE | NAME=ADDRESS]...", "Files or datasets to convert.", 0, -1)
      .section("Conversion")
      .choice("to", {"h5", "npy", "npz", "safetensors"}, "Format to write")
      .default_words("by the ending of the output's name, else h5")
      .choice("dtype", {"f16", "bf16", "f32", "f64"}, "Rounds floating-point datasets to this type")
      .default_words("their own type")
      .allow_external()
      .section("Weights of a model with Hugging Face's names")
      .choice(
          "model", {"bert", "gpt2", "t5", "llama"},
          "Writes the attention weights of one layer per head: wq, wk, wv (heads, in, channels), "
          "so that a head's queries are x wq; bq, bk, bv (heads, channels) if there are biases; "
          "for t5 rel_bias (buckets, heads). gpt2 and llama split fused projections as config.json "
          "says, and add norms of queries and keys, rotary positions, scale, soft cap and window. "
          "The arguments are the FILEs of the checkpoint")
      .integer("layer", "N", "Index of the layer, from 0", 0, 1 << 20)
      .choice("part", {"encoder", "decoder", "cross"}, "Attention of t5", "encoder")
      .integer("heads", "N",
               "Number of heads. Without --model, splits datasets called q, k, v, q_proj, k_proj "
               "or v_proj, also after the last . or / of a longer name: (..., length, heads * "
               "depth) becomes (..., heads, length, depth)",
               1, 1 << 20)
      .default_words("from config.json beside the first FILE")
      .integer("kv-heads", "N", "Number of heads of keys and values (llama, gpt2, no --model)", 1,
               1 << 20)
      .default_words("from config.json; without --model those of --heads")
      .flag("ignore-config",
            "Does not read config.json, which may be broken or of a model_type that is not known: "
            "norms, rotary positions, scale, soft cap and window are left out. Then --heads is "
            "needed.")
      .result("wq, wk, wv", "(heads, in, channels)", "with --model: the projections by head")
      .result("bq, bk, bv", "(heads, channels)", "with --model: their biases, if it has some")
      .result("q_norm, k_norm, q_layer_norm, k_layer_norm, q_layer_norm_bias, k_layer_norm_bias",
              "(channels), (heads, channels) or (heads * channels)",
              "with --model: weights and biases of norms of queries and keys, if it has some")
      .result("norm_epsilon", "scalar", "with --model: what these norms add to the variance")
      .result("rotary, rotary_interleaved", "(n) or (2, n)",
              "with --model: the angle per position of each pair of channels, and its factor if "
              "this is not 1")
      .result("rel_bias", "(buckets, heads)", "with --model t5: the table of relative biases")
      .report_member("format", "the format written")
      .report_member("datasets, elements", "the numbers of datasets and of their elements")
      .example("tensor-convert q=q.npy k=k.npy v=v.npy -o layer.h5",
               "Make a bundle of three arrays.")
      .example("tensor-convert cost=cost.csv a=sums.tsv[:,0] -o problem.h5",
               "Make a bundle of tables of numbers.")
      .example("tensor-convert out=passage.h5:/q -o out.npy", "Write one array for NumPy.")
      .example("tensor-convert model.safetensors --model bert --layer 3 -o weights.h5",
               "Extract the projections of a checkpoint's layer.");
  return tool;
}

std::string table(const tools::Conversion& conversion) {
  std::string text;
  double total = 0;
  for (const tools::Produced& dataset : conversion.datasets()) {
    const double bytes = static_cast<double>(element_count(dataset.shape)) *
                         static_cast<double>(size_of(dataset.type));
    total += bytes;
    text += fmt::format("{}  {}  {}  {}\n", cli::one_line(dataset.name),
                        tools::times(dataset.shape), name(dataset.type), tools::bytes_text(bytes));
  }
  for (const ArraySource& dataset : conversion.copied()) {
    text += fmt::format("{}  {}  {}\n", cli::one_line(dataset.name()),
                        tools::times(dataset.shape()), dataset.type());
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
  const Index groups = conversion.groups();
  outcome.summary = fmt::format("{}{} -> {} ({})", cli::counted(count, "dataset"),
                                groups > 0 ? " and " + cli::counted(groups, "group") : "", target,
                                conversion.format());
  return outcome;
}

}  // namespace

int main(int argc, char** argv) { return attn::tools::tool_main(argc, argv, declare(), run); }
