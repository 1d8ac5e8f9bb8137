#include "common/report_notes.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace attn::tools {
namespace {

constexpr const char* figures_name = "figures";
constexpr const char* group_name = "group";
constexpr const char* params_name = "params";
constexpr const char* names_name = "names";

}  // namespace

void write_report_notes(const std::vector<ReportNotes>& notes, io::OutputBundle& group) {
  for (std::size_t n = 0; n < notes.size(); ++n) {
    const ReportNotes& of = notes[n];
    const std::string place = fmt::format("{}/", n);
    group.write_strings(place + group_name, {of.group});
    group.write_strings(place + figures_name, {of.figures});
    group.write_strings(place + params_name, {of.params});
    group.write_strings(place + names_name, of.names);
    for (const auto& [name, numbers] : of.numbers) {
      const auto count = static_cast<Index>(numbers.size());
      group.create(place + name, DType::f64, {count}).write({0}, {count}, numbers.data());
    }
  }
}

std::vector<ReportNotes> read_report_notes(const io::InputBundle& group) {
  std::vector<ReportNotes> notes;
  for (std::size_t n = 0; n < group.group_names().size(); ++n) {
    const io::InputBundle own = group.group(std::to_string(n));
    ReportNotes of;
    for (const std::string& text : own.dataset(group_name).read_strings()) of.group += text;
    for (const std::string& text : own.dataset(figures_name).read_strings()) of.figures += text;
    for (const std::string& text : own.dataset(params_name).read_strings()) of.params += text;
    of.names = own.dataset(names_name).read_strings();
    for (const std::string& name : own.names()) {
      const io::InputDataset dataset = own.dataset(name);
      if (dataset.dtype() != DType::f64) continue;
      std::vector<double> numbers(static_cast<std::size_t>(element_count(dataset.shape())));
      dataset.read({0}, dataset.shape(), numbers.data());
      of.numbers.emplace(name, std::move(numbers));
    }
    notes.push_back(std::move(of));
  }
  return notes;
}

}  // namespace attn::tools
