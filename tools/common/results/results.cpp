#include "common/results/results.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "common/results/result_marks.hpp"
#include "common/results/result_table.hpp"
#include "io/result_mark.hpp"

namespace attn::tools {
namespace {

using NameSet = std::set<std::string>;
using Renamed = std::map<std::string, std::string>;  // from the tool's names to the stored names

// "unas" for "unas/centre"; empty for a name outside groups.
std::string group_of(const std::string& name) {
  const std::size_t slash = name.rfind('/');
  return slash == std::string::npos ? "" : name.substr(0, slash);
}

/// Finds the results in a section and decides their fate.
class Planner {
 public:
  Planner(const io::InputBundle& section, const RunEffect& effect, Renamed renamed)
      : section_(section),
        effect_(effect),
        renamed_(std::move(renamed)),
        named_(effect.named),
        own_(result_family(effect.tool)) {
    attributes_ = effect.attributes;
    for (const auto& [name, from] : effect.results) {
      written_.insert(name);
      inputs_.merge(stored(from));
    }
    written_.insert(effect.replaced.begin(), effect.replaced.end());
    find_marked();
    find_unmarked();
  }

  ResultPlan plan(bool only) {
    ResultPlan plan;
    take_over_attention(plan);
    if (!only) leave_out(plan);
    plan.without.assign(written_.begin(), written_.end());
    for (const auto& [tool, name] : plan.left_out) plan.without.push_back(name);
    leave_out_groups(plan);
    for (const auto& [name, from] : effect_.results) {
      plan.marks[name] = mark_text({own_, true, stored(from), effect_.settings}, name);
    }
    return plan;
  }

 private:
  Renamed stored(const NameSet& names) const {
    Renamed all;
    for (const std::string& name : names) {
      const auto found = renamed_.find(name);
      all.emplace(name, found == renamed_.end() ? name : found->second);
    }
    return all;
  }

  void find_marked() {
    for (const ResultFamily& family : result_table()) {
      for (const std::string& name : family.names) {
        if (named_.count(name) > 0 || held_.count(name) > 0) continue;
        const auto text = io::result_mark_of(section_, name);
        const auto found = text ? read_mark(*text, name) : std::nullopt;
        if (found) held_[name] = *found;
      }
    }
  }

  // Whether the section may hold unmarked results of the family: an attribute shows that the tool
  // was run, and no mark shows that the version that ran writes marks.
  bool has_unmarked(const ResultFamily& family) const {
    if (family.left_by_run.empty()) return &family == own_;
    const auto marked = std::any_of(held_.begin(), held_.end(), [&](const auto& held) {
      const ResultFamily& other = *held.second.family;
      return &other == &family || (other.describes_attention && family.describes_attention);
    });
    if (marked) return false;
    const Setting left = root_setting(section_, family.left_by_run);
    if (std::holds_alternative<std::monostate>(left)) return false;
    return family.value_left.empty() || same(left, family.value_left);
  }

  void find_unmarked() {
    std::map<std::string, Held> found;
    for (const ResultFamily& family : result_table()) {
      if (!has_unmarked(family)) continue;
      Held held;
      held.family = &family;
      for (const std::string& name : family.attributes) {
        held.with[name] = root_setting(section_, name);
      }
      for (const std::string& name : family.names) {
        if (named_.count(name) > 0 || held_.count(name) > 0) continue;
        if (!family.may_lack_mark(name) || !io::may_be_result(section_, name)) continue;
        const auto own = family.inputs_of.find(name);
        const auto& inputs = own == family.inputs_of.end() ? family.inputs : own->second;
        for (const std::string& input : inputs) held.from[input] = input;
        found.emplace(name, held);
      }
    }
    held_.merge(found);
  }

  bool says_what_attention_is() const {
    return own_ != nullptr && (own_->describes_attention || effect_.results.count("out") > 0);
  }

  bool holds_dual_out() const {
    const auto out = held_.find("out");
    return out != held_.end() && out->second.family->tool == "lambda-solve";
  }

  // out, weights and potentials of a bundle come from one run: no tool recomputes weights that do
  // not belong to out.
  void take_over_attention(ResultPlan& plan) {
    if (!says_what_attention_is()) return;
    const bool dual = holds_dual_out();
    for (const auto& [name, held] : held_) {
      const bool is_dual = held.family->tool == "lambda-solve";
      if (held.family != own_ && (held.family->describes_attention || (is_dual && dual))) {
        displaced_.insert(name);
      }
    }
    const auto remove = [&](const std::vector<std::string>& attributes) {
      for (const std::string& name : attributes) {
        attributes_.emplace(name, Setting{});
        plan.removed_attributes.push_back(name);
      }
    };
    const bool ran = !std::holds_alternative<std::monostate>(root_setting(section_, "attn_scheme"));
    if (!own_->describes_attention && ran) remove(attention_attributes());
    if (own_->describes_attention && dual) remove(dual_attributes());
  }

  bool agrees(const std::string& name, const Held& held) const {
    if (held.family == own_) {
      // Attributes record the results of the run, not its options.
      if (!held.marked && !own_->attributes.empty()) return false;
      const Settings settings = settings_for(*own_, name, effect_.settings);
      const auto equal = [&](const Settings& all) {
        return std::all_of(all.begin(), all.end(), [&](const auto& setting) {
          return same(setting_of(held.with, setting.first), setting_of(settings, setting.first));
        });
      };
      return equal(settings) && equal(held.with) && has_same_inputs(held);
    }
    const Settings relevant = settings_for(*held.family, name, attributes_);
    const auto& known = held.family->attributes;
    return std::all_of(relevant.begin(), relevant.end(), [&](const auto& setting) {
      const bool depends = held.with.count(setting.first) > 0 ||
                           std::find(known.begin(), known.end(), setting.first) != known.end();
      return !depends ||
             same(setting_of(held.with, setting.first), setting_of(relevant, setting.first));
    });
  }

  // Results that belong together must have the same inputs, not q in one and Q in the other. A
  // dataset v that only one of them uses does not matter.
  bool has_same_inputs(const Held& held) const {
    if (own_->attributes.empty()) return true;
    return std::all_of(inputs_.begin(), inputs_.end(), [&](const auto& input) {
      const auto found = held.from.find(input.first);
      return found == held.from.end() || found->second == input.second;
    });
  }

  void leave_out(ResultPlan& plan) {
    NameSet given = named_;  // changes besides those that this run writes
    given.insert(effect_.changed.begin(), effect_.changed.end());
    NameSet changed = written_;
    for (const std::string& name : effect_.unchanged) {
      if (renamed_.count(name) > 0) continue;  // a result of this name has another origin
      changed.erase(name);
      given.erase(name);
    }
    given.insert(named_.begin(), named_.end());
    changed.insert(given.begin(), given.end());
    // A result that is left out may be the input of another.
    for (bool again = true; again;) {
      again = false;
      for (const auto& [name, held] : held_) {
        if (written_.count(name) > 0) continue;
        if (plan.left_out.count({held.family->tool, name}) > 0) continue;
        const NameSet& causes = effect_.still_true.count(name) > 0 ? given : changed;
        const bool made_anew =
            std::any_of(held.from.begin(), held.from.end(),
                        [&](const auto& input) { return causes.count(input.second) > 0; });
        const bool kept = !made_anew && displaced_.count(name) == 0 && agrees(name, held);
        if (kept && written_.count(group_of(name)) == 0) continue;
        plan.left_out.insert({held.family->tool, name});
        changed.insert(name);
        given.insert(name);
        again = true;
      }
    }
  }

  // Leaves out groups that became empty, since their attributes describe how they were made.
  void leave_out_groups(ResultPlan& plan) const {
    std::map<std::string, std::size_t> left_out;
    for (const auto& [tool, name] : plan.left_out) {
      if (name.find('/') != std::string::npos) ++left_out[group_of(name)];
    }
    for (const auto& [group, count] : left_out) {
      const io::InputBundle inside = section_.group(group).without_named();
      if (inside.names().size() == count && inside.group_names().empty()) {
        plan.without.push_back(group);
      }
    }
  }

  const io::InputBundle& section_;
  const RunEffect& effect_;
  const Renamed renamed_;
  const NameSet& named_;
  const ResultFamily* own_;  // null for a tool that writes no results
  NameSet written_;
  Renamed inputs_;  // inputs of all results that the run writes
  std::map<std::string, Held> held_;
  NameSet displaced_;
  Settings attributes_;  // root attributes as the run sets or removes them
};

}  // namespace

ResultPlan plan_results(const cli::Arguments& arguments, const io::InputBundle& section,
                        RunEffect effect,
                        const std::vector<std::pair<std::string, std::string>>& renamed) {
  for (const auto& pair : arguments.named_inputs) effect.named.insert(pair.first);
  return Planner(section, effect, Renamed(renamed.begin(), renamed.end())).plan(arguments.only);
}

void write_marks(const ResultPlan& plan, io::OutputBundle& output) {
  for (const auto& [name, text] : plan.marks) {
    output.dataset_attribute(name, io::result_mark, text);
  }
}

void warn_of_left_out(const std::vector<ResultPlan>& plans, cli::Report& report) {
  std::set<std::pair<std::string, std::string>> all;
  for (const ResultPlan& plan : plans) all.insert(plan.left_out.begin(), plan.left_out.end());
  warn_of_left_out(all, report);
}

void warn_of_left_out(const std::set<std::pair<std::string, std::string>>& results,
                      cli::Report& report) {
  std::map<std::string, NameSet> by_tool;
  for (const auto& [tool, name] : results) by_tool[tool].insert(name);
  if (by_tool.empty()) return;
  std::vector<std::string> parts;
  for (const auto& [tool, names] : by_tool) {
    parts.push_back(fmt::format("{} (of an earlier {})", fmt::join(names, ", "), tool));
  }
  report.warn(
      fmt::format("not copied, because this run makes them outdated: {}", fmt::join(parts, "; ")));
}

}  // namespace attn::tools
