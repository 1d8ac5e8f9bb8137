#include "claim_check/claim_values.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <system_error>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "attnkit/error.hpp"
#include "claim_check/claim_json.hpp"
#include "cli/words.hpp"
#include "io/address.hpp"
#include "io/input.hpp"

namespace attn::tools {
namespace {

namespace fs = std::filesystem;

// The maximum count of numbers in one value.
constexpr Index most_values = Index{1} << 24;

double number_of(const nlohmann::json& json, const std::string& place) {
  if (json.is_boolean()) return json.get<bool>() ? 1 : 0;
  if (json.is_number()) return json.get<double>();
  throw Error(Failure::input,
              place + " is " + json.type_name() + ", expected a number" +
                  (json.is_null() ? " (null stands for one that is not finite)" : ""));
}

// Appends arrays in arrays, row-major, nested at most as deep as datasets.
void add_numbers(const nlohmann::json& json, const std::string& place, int depth,
                 std::vector<double>& numbers) {
  if (!json.is_array()) {
    numbers.push_back(number_of(json, place));
    return;
  }
  if (depth == 0) throw Error(Failure::input, place + ": arrays are nested too deeply");
  for (const auto& item : json) add_numbers(item, place, depth - 1, numbers);
}

// What a pointer leads to. A key that is missing is named with those that are there.
const nlohmann::json& value_at(const nlohmann::json& json, const std::string& text,
                               const std::string& place) {
  const nlohmann::json::json_pointer pointer(text);
  nlohmann::json::json_pointer upto = pointer;
  std::string missing;
  while (!upto.empty() && !json.contains(upto)) {
    missing = upto.back();
    upto.pop_back();
  }
  const nlohmann::json& parent = json.at(upto);
  if (missing.empty() || !parent.is_object() || parent.empty()) return json.at(pointer);
  constexpr std::size_t most = 20;
  std::vector<std::string> keys;
  for (const auto& [key, value] : parent.items()) {
    if (keys.size() < most) keys.push_back(key);
  }
  throw Error(Failure::input, cli::one_line(fmt::format("{}: key '{}' not found (there are: {}{})",
                                                        place, missing, fmt::join(keys, ", "),
                                                        parent.size() > most ? ", ..." : "")));
}

// The values that a pointer leads to, where "*" stands for each element of an array or object.
void add_elements(const nlohmann::json& json, const std::string& pointer, const std::string& place,
                  std::vector<double>& numbers) {
  const std::size_t star = (pointer + "/").find("/*/");
  const nlohmann::json& found =
      value_at(json, pointer.substr(0, std::min(star, pointer.size())), place);
  if (star == std::string::npos) {
    add_numbers(found, place, 32, numbers);
    return;
  }
  if (!found.is_structured()) {
    throw Error(Failure::input, place + ": * stands for the elements of an array or object");
  }
  for (const auto& item : found) add_elements(item, pointer.substr(star + 2), place, numbers);
}

Values of_json(const std::string& file, const std::string& pointer, const std::string& place) {
  require_regular(file, place);
  std::ifstream stream(file);
  try {
    const auto json = nlohmann::json::parse(stream);
    Values values;
    add_elements(json, pointer, place, values.numbers);
    return values;
  } catch (const nlohmann::json::exception& error) {
    throw Error(Failure::input, place + ": " + cli::one_line(json_reason(error)));
  }
}

template <class Item>
void add(const std::vector<Item>& items, std::vector<Item>& all) {
  all.insert(all.end(), items.begin(), items.end());
}

Values of_dataset(const std::string& address, const std::string& place) {
  require_regular(io::parse_address(address).file, place);
  try {
    Values found;
    io::InputBundle::Options options;
    options.named = {{"value", address}};
    options.on_source = [&](const io::FollowedSource& source) { add(source.files, found.sources); };
    const io::InputBundle bundle(options);
    const ArraySource dataset = bundle.dataset("value");
    const Index count = element_count(dataset.shape());
    if (count > most_values) {
      throw Error(Failure::input,
                  fmt::format("{} numbers, expected {} at most", count, most_values));
    }
    found.numbers.resize(static_cast<std::size_t>(count));
    dataset.read(Shape(dataset.shape().size(), 0), dataset.shape(), found.numbers.data());
    found.shape = dataset.shape();
    return found;
  } catch (const Error& error) {
    throw Error(Failure::input, place + ": " + error.what());
  }
}

// The dataset of each group that the pattern in the address matches.
Values of_groups(const io::Address& address, const std::string& place) {
  require_regular(address.file, place);
  const std::size_t slash = address.path.rfind('/');
  const std::string groups = address.path.substr(0, slash);
  const std::string name = address.path.substr(slash + 1);
  if (name.find_first_of("*?") != std::string::npos || groups.empty()) {
    throw Error(Failure::input, place + ": patterns stand for groups, not for datasets");
  }
  const std::size_t bracket = address.text.find('[', address.file.size());
  const std::string selection = bracket == std::string::npos ? "" : address.text.substr(bracket);
  Values all;
  std::vector<std::string> found;
  try {
    io::InputBundle::Options options;
    options.input = address.file;
    options.on_source = [&](const io::FollowedSource& source) { add(source.files, all.sources); };
    found = io::InputBundle(options).groups_like(groups);
  } catch (const Error& error) {
    throw Error(Failure::input, place + ": " + error.what());
  }
  for (const std::string& group : found) {
    const Values one = of_dataset(address.file + ":/" + group + "/" + name + selection, place);
    add(one.numbers, all.numbers);
    add(one.sources, all.sources);
  }
  return all;
}

Values read_values(const std::string& place, const std::string& folder, int status) {
  if (place == "status") return {{static_cast<double>(status)}, {}};
  constexpr std::string_view mark = ".json:/";
  const std::size_t at = place.find(mark);
  if (at == std::string::npos) {
    const std::string text = folder + "/" + place;
    const io::Address address = io::parse_address(text);
    const bool has_pattern = address.path.find_first_of("*?") != std::string::npos;
    return has_pattern ? of_groups(address, place) : of_dataset(text, place);
  }
  const std::size_t end = at + mark.size() - 2;  // the colon
  return of_json(folder + "/" + place.substr(0, end), place.substr(end + 1), place);
}

}  // namespace

void require_regular(const std::string& file, const std::string& place) {
  std::error_code failed;
  if (!fs::exists(file, failed)) throw Error(Failure::input, place + ": no such file");
  if (!fs::is_regular_file(file, failed)) {
    throw Error(Failure::input, place + ": not a regular file");
  }
}

Values values_at(const std::string& place, const std::string& folder, int status) {
  Values values = read_values(place, folder, status);
  const auto& numbers = values.numbers;
  const auto found =
      std::find_if(numbers.begin(), numbers.end(), [](double x) { return std::isnan(x); });
  if (found == numbers.end()) return values;
  throw Error(Failure::input, fmt::format("{}: number {} of {} is nan", place,
                                          found - numbers.begin(), numbers.size()));
}

}  // namespace attn::tools
