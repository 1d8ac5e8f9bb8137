#include "hard_attention/sampling_options.hpp"

#include <charconv>
#include <cmath>
#include <string>

#include <fmt/format.h>

#include "attnkit/error.hpp"

namespace attn::tools {
namespace {

void take_baseline(const std::string& text, SamplingOptions& options) {
  using Baseline = SamplingOptions::Baseline;
  if (text == "running") {
    options.baseline = Baseline::running;
  } else if (text == "mean") {
    options.baseline = Baseline::mean;
  } else if (text == "best") {
    options.baseline = Baseline::best;
  } else {
    options.baseline = Baseline::number;
    const char* const end = text.data() + text.size();
    const auto [stopped, error] = std::from_chars(text.data(), end, options.number);
    if (error == std::errc{} && stopped == end && std::isfinite(options.number)) return;
    throw Error(Failure::usage,
                fmt::format("--baseline is {}, expected running, mean, best or a number", text));
  }
}

}  // namespace

void declare_sampling(cli::Declaration& d) {
  d.section("Estimates from samples");
  d.integer("samples", "N",
            "Estimates the gradients of log_p from N annotations that are drawn for each sequence, "
            "and prints variance and bias.",
            1, Index{1} << 40)
      .default_words("exact gradients");
  d.text("baseline", "B",
         "The baseline b, which is subtracted from log-likelihoods: a number, 0 for none; mean, "
         "log_p of the sequence; best, the b of least variance for the sequence, b*; running, a "
         "running mean over the sequences in their order, as over training steps: each sequence "
         "uses b, 0 at first, and then replaces it by 0.9 b + 0.1 log p, where log p is the mean "
         "of its samples, or log_p_soft if that takes their place.",
         "running");
  d.number("reward", "W", "The factor lambda_r of the term with the log-likelihoods.",
           cli::Declaration::Range::any(), 1);
  d.number("entropy", "W", "The factor lambda_e of the gradient of the entropy.",
           cli::Declaration::Range::any(), 0);
  d.number("soft-share", "P",
           "The probability that a sequence takes the gradient of log_p_soft in place of the "
           "estimate from samples; 0.5 is usual.",
           {0, 1}, 0);
  d.flag("enumerate",
         "With --samples, also prints the variance and bias by enumeration; gradients stay "
         "estimates. Without --samples they are exact anyway.");
  d.seeded();
}

std::optional<SamplingOptions> sampling_options(const cli::Arguments& arguments) {
  const auto samples = arguments.integer("samples");
  if (!samples) {
    for (const char* option : {"baseline", "reward", "entropy", "soft-share", "seed"}) {
      if (!arguments.given(option)) continue;
      throw Error(Failure::usage, fmt::format("--{} has no effect without --samples", option));
    }
    return std::nullopt;
  }
  SamplingOptions options;
  options.sampling = {.samples = *samples,
                      .reward = arguments.number("reward").value(),
                      .entropy = arguments.number("entropy").value(),
                      .soft_share = arguments.number("soft-share").value(),
                      .seed = arguments.seed};
  take_baseline(arguments.text("baseline"), options);
  options.enumerate = arguments.flag("enumerate");
  return options;
}

Settings sampling_settings(const cli::Arguments& arguments) {
  const auto options = sampling_options(arguments);
  if (!options) return {};
  const mechanisms::HardSampling& sampling = options->sampling;
  return {{"samples", static_cast<std::int64_t>(sampling.samples)},
          {"seed", std::to_string(sampling.seed)},
          {"baseline", arguments.text("baseline")},
          {"reward", sampling.reward},
          {"entropy", sampling.entropy},
          {"soft_share", sampling.soft_share}};
}

}  // namespace attn::tools
