// multi-view: each row of a primary view gathers rows of other views of the same things.

#include <fmt/format.h>

#include "common/mechanisms/mechanism_tool.hpp"
#include "common/options/dataset_words.hpp"
#include "common/options/scheme_settings.hpp"
#include "common/process/numeric_libraries.hpp"
#include "common/process/tool_main.hpp"
#include "mechanisms/multi_view.hpp"

namespace attn::tools {
namespace {

void declare_scheme(cli::Declaration& d) {
  std::vector<std::string> names;
  std::string help = "Normalisation of the scores.";
  for (const SchemeDescription* scheme : schemes()) {
    if (scheme->has_preference()) continue;
    names.emplace_back(scheme->name());
    help += fmt::format(" {}: {}", scheme->name(), scheme->help());
  }
  d.choice("scheme", names, help, "unas").synonym("softmax", "unas");
  d.number("scale", "X", "Factor of the scores.", cli::Declaration::Range::any(), 1.0);
  d.number("hybrid", "U", "Share u of dnas in hnas.", {0, 1, false, false})
      .default_words("the dataset hybrid, a scalar");
  d.integer("iterations", "T",
            "Runs exactly T iterations of sinkhorn; with --tolerance, at most T.", 1,
            Index{1} << 40)
      .default_words("at most 1000");
  declare_tolerance(d);
}

// All datasets that any scheme reads.
mechanisms::MechanismForm help_form() {
  mechanisms::MechanismForm form = mechanisms::multi_view_form(mechanisms::HybridForm::input);
  form.inputs.back().optional = true;  // hybrid
  return form;
}

cli::Declaration declare() {
  cli::Declaration d("multi-view", "Gathers other views of the same things into a primary view",
                     cli::Role::transform);
  d.about(
      "Each row of the primary view x has weights over the rows of every other view, such as the "
      "detections of another detector in the same picture. The result is the layer norm of x plus "
      "the weighted means of all these views, whose rows are the values, without a projection. The "
      "other views are view1 and, as far as they are there, view2 to view8; each one's keys are "
      "made with its own wk1 to wk8 or, if that is absent, with wk. All statements about view1 "
      "hold for all of them. hnas needs --hybrid or the dataset hybrid.");
  d.section("Attention");
  declare_scheme(d);
  d.section("Results");
  declare_mechanism(d, help_form());
  declare_sections(d, "sequences");
  declare_restart(d);
  d.formula("out = layer norm by rows of z = x + sum_v weights_v view_v")
      .formula("weights_v = exp((scores_v - col_potential_v) - row_potential_v)")
      .formula("hnas: u times these and (1 - u) exp(scores_v - unas_row_potential_v)")
      .formula("scores_v = scale (x wq) (view_v wk_v)' / sqrt(A)")
      .formula("layer norm of z = gain (z - mean) / sqrt(variance + 1e-5) + shift")
      .report_member("sequences, axes", "how many, and the lengths of the axes");
  d.reference(explain_away_reference);
  d.example("multi-view scenes.h5 -o gathered.h5", "All views gathered by softmax.");
  d.example("multi-view --scheme dnas --emit out,col_sum1 scenes.h5 -o gathered.h5",
            "No row of a view is explained away; the column sums show it.");
  d.exit_status(1, "");
  return d;
}

Scheme scheme_of(const cli::Arguments& arguments) {
  return scheme_called(arguments.text("scheme"))->scheme();
}

mechanisms::MultiView::Options options_of(const cli::Arguments& arguments) {
  const Scheme scheme = scheme_of(arguments);
  require_effect_on(arguments, "hybrid", &SchemeDescription::is_mixture, {scheme});
  require_effect_on(arguments, "iterations", &SchemeDescription::is_iterated, {scheme});
  require_effect_on(arguments, "tolerance", &SchemeDescription::is_iterated, {scheme});
  mechanisms::MultiView::Options options;
  options.scheme = scheme;
  options.scale = arguments.number("scale").value_or(1);
  options.hybrid = arguments.number("hybrid");
  options.stopping = {arguments.integer("iterations"), arguments.number("tolerance")};
  return options;
}

struct Tool {
  static const mechanisms::MechanismForm& form(const cli::Arguments& arguments) {
    return mechanisms::MultiView::form(options_of(arguments));
  }
  static Settings settings(const cli::Arguments& arguments) {
    const mechanisms::MultiView::Options options = options_of(arguments);
    Settings settings = {{"scheme", arguments.text("scheme")}, {"scale", options.scale}};
    if (options.hybrid) settings["hybrid"] = *options.hybrid;
    if (options.stopping.iterations) settings["iterations"] = *options.stopping.iterations;
    if (options.stopping.tolerance) settings["tolerance"] = *options.stopping.tolerance;
    return settings;
  }
  template <class T>
  static std::unique_ptr<mechanisms::Mechanism<T>> make(const cli::Arguments& arguments) {
    return mechanisms::MultiView::make<T>(options_of(arguments));
  }
};

}  // namespace
}  // namespace attn::tools

int main(int argc, char** argv) {
  using namespace attn::tools;
  return tool_main(argc, argv, declare(), MechanismTool<Tool>::run, numeric_libraries);
}
