#include "alignment_attention/measure.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "alignment_attention/link_file.hpp"
#include "alignment_attention/measured.hpp"
#include "alignment_attention/weight_pairs.hpp"
#include "attnkit/error.hpp"
#include "cli/progress.hpp"
#include "common/costs/block_plan.hpp"
#include "common/frame/bundles.hpp"
#include "common/frame/sections.hpp"
#include "common/tables/group_report.hpp"
#include "common/tables/table_options.hpp"

namespace attn::tools {
namespace {

constexpr TableHabits prints_only = {.writes_bundle = false, .writes_file = false};
constexpr Index most_places = 1000;

void refuse(const cli::Arguments& arguments, const std::vector<std::string>& options,
            const std::string& why) {
  for (const std::string& option : options) {
    if (!arguments.given(option)) continue;
    throw Error(Failure::usage, fmt::format("--{} has no effect {}", option, why));
  }
}

void check_options(const cli::Arguments& arguments) {
  if (!arguments.given("gold")) {
    refuse(arguments, {"gold-base", "links", "links-base", "threshold", "shift"}, "without --gold");
  }
  if (!arguments.given("links")) {
    refuse(arguments, {"links-base"}, "without --links");
    return;
  }
  if (!arguments.named_inputs.empty() || *arguments.input != "-") {
    throw Error(Failure::usage, "--links stands in place of an input");
  }
  refuse(arguments, {"threshold", "each", "map"}, "with --links");
  if (arguments.given("links-base")) return;
  throw Error(Failure::usage, "--links-base is missing: 0 or 1, the number of the first word");
}

std::optional<LinkFile> read_links(const cli::Arguments& arguments, const std::string& option) {
  if (!arguments.given(option)) return std::nullopt;
  const std::string base = option + "-base";
  return LinkFile(arguments.text(option), arguments.integer(base).value(), base, arguments.memory);
}

// No shift, then shifts by up to `most` places along each axis.
std::vector<WordShift> shifts_up_to(Index most) {
  std::vector<WordShift> shifts = {{}};
  for (Index places = -most; places <= most; ++places) {
    if (places != 0) shifts.push_back({places, 0});
  }
  for (Index places = -most; places <= most; ++places) {
    if (places != 0) shifts.push_back({0, places});
  }
  return shifts;
}

void require_lines(const LinkFile& gold, Index pairs, const std::string& what) {
  if (gold.pairs() == pairs) return;
  throw Error(Failure::input,
              fmt::format("{} has {} lines, but {}", gold.file(), gold.pairs(), what));
}

Measured measure_links(const LinkFile& links, const LinkFile& gold,
                       const std::vector<WordShift>& shifts) {
  require_lines(gold, links.pairs(), fmt::format("{} has {}", links.file(), links.pairs()));
  MeasuredHead head;
  for (const WordShift& shift : shifts) {
    AlignmentCounts& counts = head.counts.emplace_back();
    for (Index pair = 0; pair < links.pairs(); ++pair) {
      counts.add(compare_links(links.links(pair), gold.links(pair), shift));
    }
  }
  return {.what = links.file(), .pairs = links.pairs(), .shifts = shifts, .heads = {head}};
}

// Measures the weights of a section, some rows at a time.
class WeightMeasurement {
 public:
  WeightMeasurement(const cli::Arguments& arguments, const WeightPairs& weights,
                    const LinkFile* gold, const std::vector<WordShift>& shifts)
      : weights_(weights),
        gold_(gold),
        shifts_(shifts),
        rows_(rows_at_once(arguments)),
        comparisons_(static_cast<std::size_t>(weights.heads()),
                     WeightComparison(shifts, arguments.number("threshold"))),
        agreement_(comparisons_.size()) {
    const auto size = static_cast<std::size_t>(rows_ * weights_.source_axis());
    block_.resize(size);
    if (weights_.has_reverse()) reverse_.resize(size);
  }

  void add(Index pair, Index head) {
    const Index targets = weights_.target_words(pair, head);
    const Index sources = weights_.source_words(pair, head);
    const auto n = static_cast<std::size_t>(head);
    if (gold_ != nullptr) {
      gold_->require_within(pair, sources, targets, weights_.place(pair, head));
      comparisons_[n].begin(gold_->links(pair));
    }
    if (head == 0) words_ += targets;
    for (Index row = 0; row < targets; row += rows_) {
      const Index rows = std::min(rows_, targets - row);
      weights_.read(pair, head, row, rows, block_.data());
      if (weights_.has_reverse()) weights_.read_reverse(pair, head, row, rows, reverse_.data());
      const auto start = std::chrono::steady_clock::now();
      for (Index j = 0; j < rows; ++j) {
        const double* const own = block_.data() + j * sources;
        if (gold_ != nullptr) comparisons_[n].add_row({own, static_cast<std::size_t>(sources)});
        if (weights_.has_reverse()) agreement_[n] += agreement_of(own, sources, j, rows);
      }
      seconds_ += std::chrono::steady_clock::now() - start;
    }
  }

  double seconds() const { return seconds_.count(); }

  Measured measured() const {
    Measured measured{
        .what = weights_.address(), .pairs = weights_.pairs(), .words = words_, .shifts = shifts_};
    for (Index head = 0; head < weights_.heads(); ++head) {
      const auto n = static_cast<std::size_t>(head);
      MeasuredHead found{.index = unravel(head, weights_.head_axes())};
      if (gold_ != nullptr) found.counts = comparisons_[n].counts();
      if (weights_.has_reverse()) found.agreement = agreement_[n];
      for (const AlignmentCounts& counts : found.counts) require_finite(counts.weight);
      require_finite(agreement_[n]);
      measured.heads.push_back(std::move(found));
    }
    return measured;
  }

 private:
  Index rows_at_once(const cli::Arguments& arguments) const {
    for (const ArraySource& dataset : weights_.datasets()) {
      require_readable(dataset, arguments.memory);
    }
    const std::int64_t row = weights_.source_axis() * static_cast<Index>(sizeof(double));
    return plan_blocks("the weights of one word", gold_ == nullptr ? 0 : gold_->bytes(),
                       std::max<std::int64_t>(1, weights_.has_reverse() ? 2 * row : row),
                       weights_.target_axis(), arguments.memory)
        .rows;
  }

  // The part of target word j of a block of `rows` words.
  double agreement_of(const double* own, Index sources, Index j, Index rows) const {
    double sum = 0;
    for (Index i = 0; i < sources; ++i) {
      sum -= own[i] * reverse_[static_cast<std::size_t>(i * rows + j)];
    }
    return sum;
  }

  void require_finite(double sum) const {
    if (std::isfinite(sum)) return;
    throw Error(Failure::numerical, weights_.address() + " has sums beyond the range of float64");
  }

  const WeightPairs& weights_;
  const LinkFile* gold_;
  std::vector<WordShift> shifts_;
  Index rows_;
  std::vector<WeightComparison> comparisons_;  // of each head
  std::vector<double> agreement_;
  std::vector<double> block_, reverse_;
  Index words_ = 0;
  std::chrono::duration<double> seconds_{0};
};

Measured measure_weights(const cli::Arguments& arguments, const io::InputBundle& bundle,
                         const LinkFile* gold, const std::vector<WordShift>& shifts,
                         cli::Report& report) {
  const WeightPairs weights(bundle);
  if (gold == nullptr && !weights.has_reverse()) {
    throw Error(Failure::usage, "--gold is missing",
                "without it, the dataset reverse_weights gives the agreement of two directions");
  }
  for (const ArraySource& dataset : weights.datasets()) report_input(report, dataset);
  if (gold != nullptr) {
    require_lines(*gold, weights.pairs(),
                  fmt::format("{} has {} sentence pairs", weights.address(), weights.pairs()));
  }
  WeightMeasurement measurement(arguments, weights, gold, shifts);
  cli::Progress progress(arguments, measure_verb, static_cast<double>(weights.pairs()), "pairs");
  for (Index pair = 0; pair < weights.pairs(); ++pair) {
    for (Index head = 0; head < weights.heads(); ++head) measurement.add(pair, head);
    progress.advance(1);
  }
  report.add_compute_seconds(measurement.seconds());
  return measurement.measured();
}

}  // namespace

void declare_measure(cli::Declaration& d) {
  d.section("Measures");
  d.text("gold", "FILE",
         "Links set by hand, a line for each sentence pair: 3-4 links source word 3 and target "
         "word 4 for sure, 3p4 possibly. Weights have the sentence pairs along their first axis, "
         "then perhaps heads.")
      .integer("gold-base", "N", "The number of the first word of a sentence in --gold.", 0, 1, 1)
      .text("links", "FILE", "Measures these links, in the format of --gold, in place of weights.")
      .integer("links-base", "N", "The number of the first word in --links, which must be stated.",
               0, 1)
      .number("threshold", "T",
              "Links are all pairs of words whose weight is above T. Without it, each target word "
              "links to its heaviest source word, the first of equal ones.",
              cli::Declaration::Range::non_negative())
      .integer("shift", "K",
               "Also measures with the words of the answer moved by up to K places in the source "
               "or in the target, which reveals an answer that is off by one.",
               0, most_places, 2);
  declare_table_options(d, "head and shift", prints_only);
  d.dataset("weights", "(N, ..., J, I)",
            "measure: weights of any tool, for each target word a row over the source words; (J, "
            "I) for one pair")
      .dataset("reverse_weights", "(N, ..., I, J)",
               "measure: the weights of the other direction, for the agreement")
      .dataset("query_length, key_length", "(N)",
               "measure: read where target_length and source_length are absent")
      .report_member("pairs, words", "measure: how many sentence pairs and target words")
      .report_member("heads",
                     "measure: an array of index, agreement and shifts {source, target, links, "
                     "sure, links_sure, links_possible, aer, precision, recall, match, mass}; null "
                     "where nothing was linked")
      .column("axis, shift", "which words of the answer are moved, and by how many places")
      .column("pairs, words, sure", "sentence pairs, target words, sure links")
      .column("links", "links of the answer, A")
      .column("aer", "alignment error rate")
      .column("precision, recall", "of the links")
      .column("match", "share of the target words whose heaviest source word is linked")
      .column("mass", "share of the weights on linked words")
      .column("agreement", "B, of two directions");
}

cli::Outcome measure(const cli::Arguments& arguments, cli::Report& report) {
  check_options(arguments);
  TableOutput table(arguments, measured_columns(), prints_only);
  const std::vector<WordShift> shifts = shifts_up_to(arguments.integer("shift").value());
  const std::optional<LinkFile> gold = read_links(arguments, "gold");
  std::string text;
  const auto take = [&](const Measured& measured, const SectionName& section) {
    report.result() = measured_json(measured);
    for (auto& row : measured_rows(measured, section)) table.add(std::move(row));
    text += (text.empty() ? "" : "\n") + measured_text(measured);
  };
  if (const std::optional<LinkFile> links = read_links(arguments, "links")) {
    take(measure_links(*links, *gold, shifts), {links->file(), "", ""});
  } else {
    const Sections sections(arguments, report, WeightPairs::suffices);
    GroupReport groups;
    for (std::size_t n = 0; n < sections.size(); ++n) {
      groups.add(sections.name(n), report, [&] {
        take(measure_weights(arguments, sections.open(n), gold ? &*gold : nullptr, shifts, report),
             sections.name(n));
      });
    }
    warn_of_unused(arguments, sections.whole(), report);
    groups.conclude(sections.several(), report);
  }
  table.print(report);
  if (!table.in_place_of_text()) report.print(text);
  return {0, "", table.commit()};
}

}  // namespace attn::tools
