#include "common/shards/report_notes.hpp"

#include <cstdint>
#include <utility>

#include <fmt/format.h>

#include "attnkit/error.hpp"

namespace attn::tools {
namespace {

constexpr const char* figures_name = "figures";
constexpr const char* group_name = "group";
constexpr const char* params_name = "params";
constexpr const char* names_name = "names";
constexpr const char* warnings_name = "warnings";

}  // namespace

void write_report_notes(const std::vector<ReportNotes>& notes, io::OutputBundle& group) {
  for (std::size_t n = 0; n < notes.size(); ++n) {
    const ReportNotes& of = notes[n];
    const std::string place = fmt::format("{}/", n);
    group.write_strings(place + group_name, {of.group});
    group.write_strings(place + figures_name, {of.figures});
    group.write_strings(place + params_name, {of.params});
    group.write_strings(place + names_name, of.names);
    io::OutputBundle own = group.group(std::to_string(n));
    own.attribute(warnings_name, static_cast<std::int64_t>(of.warnings));
    for (const auto& [name, numbers] : of.numbers) {
      const auto count = static_cast<Index>(numbers.size());
      group.create(place + name, DType::f64, {count}).write({0}, {count}, numbers.data());
    }
  }
}

std::vector<ReportNotes> read_report_notes(const CheckedGroup& group, std::size_t warnings) {
  std::vector<ReportNotes> notes;
  for (std::size_t n = 0; n < group.bundle().group_names().size(); ++n) {
    const CheckedGroup own = group.group(std::to_string(n));
    ReportNotes of;
    of.place = group.place(std::to_string(n));
    of.group = own.text(group_name);
    of.figures = own.text(figures_name);
    of.params = own.text(params_name);
    of.names = own.texts(names_name);
    of.warnings =
        static_cast<std::size_t>(own.whole_number(warnings_name, 0, static_cast<Index>(warnings)));
    for (const std::string& name : own.bundle().names()) {
      if (own.bundle().dataset(name).dtype() != DType::f64) continue;
      of.numbers.emplace(name, own.numbers(name));
    }
    notes.push_back(std::move(of));
  }
  return notes;
}

CheckedJson figures_of(const ReportNotes& notes) {
  return {notes.figures, notes.place + "/" + figures_name};
}

Index own_heads(const CheckedJson& leading, const std::optional<HeadShare>& share) {
  const Index all = element_count(leading.shape());
  if (!share) return all;
  if (all != share->all) throw leading.refused(fmt::format("axes of {} heads", share->all));
  return share->own;
}

const std::vector<double>& numbers_of(const ReportNotes& notes, const std::string& name,
                                      Index count) {
  const auto found = notes.numbers.find(name);
  const auto size = found == notes.numbers.end() ? 0 : found->second.size();
  if (found == notes.numbers.end() || static_cast<Index>(size) != count) {
    throw Error(Failure::input, fmt::format("{}/{} is damaged: it has {} numbers, expected {}",
                                            notes.place, name, size, count));
  }
  return found->second;
}

}  // namespace attn::tools
