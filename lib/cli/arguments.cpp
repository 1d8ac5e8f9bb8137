#include <algorithm>
#include <set>
#include <stdexcept>

#include <nlohmann/json.hpp>

#include "cli/option.hpp"
#include "cli/parse.hpp"

namespace attn::cli {
namespace {

const Value& value_of(const Arguments& arguments, std::string_view name) {
  const auto found = arguments.impl->values.find(name);
  if (found == arguments.impl->values.end()) {
    throw std::logic_error("option --" + std::string(name) + " is not declared");
  }
  return found->second;
}

// Absent if the option is not given and has no fallback.
template <class T>
std::optional<T> get(const Arguments& arguments, std::string_view name) {
  const Value& value = value_of(arguments, name);
  if (std::holds_alternative<std::monostate>(value)) return std::nullopt;
  const T* const held = std::get_if<T>(&value);
  if (held == nullptr) {
    throw std::logic_error("option --" + std::string(name) + " is of another type");
  }
  return *held;
}

nlohmann::ordered_json to_json(const Option& option, const Value& value) {
  if (option.kind == Option::Kind::optional_choice) {
    if (std::holds_alternative<std::monostate>(value)) return false;
    if (std::get<std::string>(value).empty()) return true;
  }
  return std::visit(
      [](const auto& held) -> nlohmann::ordered_json {
        if constexpr (std::is_same_v<std::decay_t<decltype(held)>, std::monostate>) {
          return nullptr;
        } else {
          return held;
        }
      },
      value);
}

}  // namespace

bool Arguments::declared(std::string_view name) const {
  return std::find(impl->order.begin(), impl->order.end(), name) != impl->order.end();
}

bool Arguments::given(std::string_view name) const {
  value_of(*this, name);
  return std::find(impl->given.begin(), impl->given.end(), name) != impl->given.end();
}

bool Arguments::flag(std::string_view name) const { return get<bool>(*this, name).value_or(false); }

std::string Arguments::text(std::string_view name) const {
  return get<std::string>(*this, name).value_or("");
}

std::vector<std::string> Arguments::words_of(std::string_view name) const {
  return get<std::vector<std::string>>(*this, name).value_or(std::vector<std::string>());
}

std::optional<double> Arguments::number(std::string_view name) const {
  const auto* const list = std::get_if<std::vector<double>>(&value_of(*this, name));
  if (list == nullptr) return get<double>(*this, name);
  if (list->size() > 1) {
    throw std::logic_error("option --" + std::string(name) + " has several values");
  }
  return list->empty() ? std::nullopt : std::optional<double>(list->front());
}

std::vector<double> Arguments::numbers(std::string_view name) const {
  return get<std::vector<double>>(*this, name).value_or(std::vector<double>());
}

std::optional<Index> Arguments::integer(std::string_view name) const {
  return get<Index>(*this, name);
}

std::vector<Index> Arguments::integers(std::string_view name) const {
  return get<std::vector<Index>>(*this, name).value_or(std::vector<Index>());
}

std::vector<std::vector<double>> Arguments::points(std::string_view name) const {
  using Points = std::vector<std::vector<double>>;
  return get<Points>(*this, name).value_or(Points());
}

Arguments Arguments::with(std::string_view name, double value) const {
  value_of(*this, name);
  Arguments changed = *this;
  changed.impl = std::make_shared<Impl>(*impl);
  const bool is_list = impl->options.find(name)->second.kind == Option::Kind::numbers;
  changed.impl->values.find(name)->second =
      is_list ? Value(std::vector<double>{value}) : Value(value);
  if (!given(name)) changed.impl->given.emplace_back(name);
  return changed;
}

std::vector<std::string> Arguments::words() const { return impl->words; }

nlohmann::ordered_json params_of(const Arguments& arguments) {
  const std::set<std::string> informative = {"help", "man", "completion", "version"};
  nlohmann::ordered_json params = nlohmann::ordered_json::object();
  if (!arguments.verb.empty()) params["verb"] = arguments.verb;
  params["arguments"] = arguments.impl->positionals;
  for (const std::string& name : arguments.impl->order) {
    if (informative.count(name) > 0) continue;
    std::string key = name;
    std::replace(key.begin(), key.end(), '-', '_');
    params[key] = to_json(arguments.impl->options.at(name), arguments.impl->values.at(name));
  }
  return params;
}

}  // namespace attn::cli
