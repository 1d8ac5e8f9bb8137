#include "attn_view/view_tool.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "attn_view/half_weights.hpp"
#include "attn_view/head_figures.hpp"
#include "attn_view/page.hpp"
#include "attn_view/view_data.hpp"
#include "attn_view/view_task.hpp"
#include "cli/progress.hpp"
#include "cli/words.hpp"
#include "common/frame/bundles.hpp"
#include "common/frame/sections.hpp"
#include "common/frame/text_output.hpp"
#include "common/heads/input_warnings.hpp"

namespace attn::tools {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

struct ViewHead {
  Index problem = 0;
  Json data;
  double share_ignored = 0;
  double least_per_query = 0;
  Index weight_bytes = 0;
  bool has_weights = false;

  bool is_more_conspicuous_than(const ViewHead& other) const {
    if (share_ignored != other.share_ignored) return share_ignored > other.share_ignored;
    return least_per_query < other.least_per_query;
  }
};

struct ViewGroup {
  std::string name;
  std::vector<ViewHead> heads;
};

double unless_nan(double value, double other) { return std::isnan(value) ? other : value; }

// A NaN has no order: a head without counted keys is the least conspicuous.
ViewHead view_head(Index problem, Json data, const SchemeFigures& unas, Index weight_bytes) {
  return {problem, std::move(data), unless_nan(unas.share_ignored, 0),
          unless_nan(unas.least_per_query, infinity), weight_bytes};
}

// "dump.h5:/layer3" of "runs/dump.h5:/layer3": a page need not tell where its input lay.
std::string without_folder(const std::string& description) {
  const std::size_t slash = description.rfind('/', description.find(":/"));
  return slash == std::string::npos ? description : description.substr(slash + 1);
}

class ViewTool {
 public:
  ViewTool(const cli::Arguments& arguments, cli::Report& report)
      : arguments_(arguments),
        report_(report),
        sections_(
            arguments, report,
            [&](const io::InputBundle& bundle) { return ViewTask::suffices(arguments, bundle); }),
        page_(open_text_output(arguments, arguments.text("output"))) {}

  cli::Outcome run() {
    Index heads = 0;
    for (std::size_t n = 0; n < sections_.size(); ++n) {
      const ViewTask task = open(n);
      for (const ArraySource& dataset : task.input.datasets()) report_input(report_, dataset);
      heads += task.input.own_problems();
    }
    sections_.warn_of_root(arguments_, report_);
    warn_of_unused(arguments_, sections_.whole(), report_);
    {
      cli::Progress progress(arguments_, "statistics", static_cast<double>(heads), "heads");
      for (std::size_t n = 0; n < sections_.size(); ++n) groups_.push_back(group(n, progress));
    }
    choose_weights();
    write();
    cli::Outcome outcome;
    outcome.summary = fmt::format("{}: {}{}", page_->description(), cli::counted(heads, "head"),
                                  left_out_.empty() ? "" : ", without the " + left_out_);
    report_.result() = {
        {"heads", heads}, {"heads_with_weights", with_weights_}, {"weight_bytes", weight_bytes_}};
    outcome.commit = [page = page_] { page->finish(); };
    return outcome;
  }

 private:
  ViewTask open(std::size_t section) const { return ViewTask(arguments_, sections_.open(section)); }

  ViewGroup group(std::size_t section, cli::Progress& progress) {
    const ViewTask task = open(section);
    warn_of_input({view_schemes.begin(), view_schemes.end()}, task.bundle, task.input, report_);
    const FigureOptions options = {arguments_.number("epsilon").value(),
                                   arguments_.integer("min-queries")};
    ViewGroup made{sections_.name(section).label, {}};
    HeadJson json(task, tokens_, report_);
    const auto keep = [&](Index problem, const HeadFigures& figures) {
      made.heads.push_back(view_head(problem, json.head(std::ssize(made.heads), figures),
                                     figures.schemes.front(), half_weights_bytes(task.input)));
    };
    find_figures(arguments_, task, options, keep, progress, report_);
    return made;
  }

  // Takes the most conspicuous heads that --size has room for.
  void choose_weights() {
    std::vector<ViewHead*> order;
    for (ViewGroup& group : groups_) {
      for (ViewHead& head : group.heads) order.push_back(&head);
    }
    std::stable_sort(order.begin(), order.end(), [](const ViewHead* a, const ViewHead* b) {
      return a->is_more_conspicuous_than(*b);
    });
    const Index most = arguments_.integer("size").value();
    for (ViewHead* const head : order) {
      if (head->weight_bytes > most - weight_bytes_) continue;
      head->has_weights = true;
      weight_bytes_ += head->weight_bytes;
      ++with_weights_;
    }
    const Index all = std::ssize(order);
    if (with_weights_ < all) {
      left_out_ = fmt::format("weights of {} of {} (--size)", all - with_weights_,
                              cli::counted(all, "head"));
    }
  }

  void write() {
    const auto [before, behind] = page_around_data();
    Json head = {{"format", "attn-view/1"},
                 {"title", without_folder(sections_.description())},
                 {"epsilon", arguments_.number("epsilon").value()},
                 {"left_out", left_out_.empty() ? Json() : Json(left_out_)},
                 {"about", attributes_json(sections_.whole())},
                 {"tokens", tokens_.json()}};
    std::string text = text_in_page(head);
    text.pop_back();  // the object goes on
    page_->append(before + text + ",\"groups\":[");
    cli::Progress progress(arguments_, "weights", static_cast<double>(with_weights_), "heads");
    for (std::size_t n = 0; n < groups_.size(); ++n) {
      page_->append(n > 0 ? "," : "");
      write_group(n, progress);
    }
    page_->append("]}" + behind);
  }

  void write_group(std::size_t section, cli::Progress& progress) {
    ViewGroup& group = groups_[section];
    page_->append(fmt::format("{{\"name\":{},\"heads\":[", text_in_page(group.name)));
    const char* separator = "";
    const auto write_head = [&](ViewHead& head) {
      page_->append(std::exchange(separator, ",") + text_in_page(head.data));
      head.data = {};
    };
    auto next = group.heads.begin();
    std::vector<Index> chosen;
    for (const ViewHead& head : group.heads) {
      if (head.has_weights) chosen.push_back(head.problem);
    }
    if (!chosen.empty()) {
      ViewTask task = open(section);
      task.input.chosen = std::move(chosen);
      const auto keep = [&](Index, const HalfWeights& weights) {
        while (!next->has_weights) write_head(*next++);
        add_weights(weights, task.input, next->data);
        write_head(*next++);
      };
      find_weights(arguments_, task, keep, progress, report_);
    }
    while (next != group.heads.end()) write_head(*next++);
    page_->append("]}");
  }

  const cli::Arguments& arguments_;
  cli::Report& report_;
  Sections sections_;
  std::shared_ptr<io::TargetWriter> page_;
  TokenLists tokens_;
  std::vector<ViewGroup> groups_;
  Index with_weights_ = 0;  // heads
  Index weight_bytes_ = 0;
  std::string left_out_;
};

}  // namespace

cli::Outcome run_view(const cli::Arguments& arguments, cli::Report& report) {
  return ViewTool(arguments, report).run();
}

}  // namespace attn::tools
