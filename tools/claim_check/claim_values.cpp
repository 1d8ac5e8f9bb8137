#include "claim_check/claim_values.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <system_error>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "attnkit/error.hpp"
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

// A device or FIFO could be read forever.
void require_regular(const std::string& file, const std::string& place) {
  std::error_code failed;
  if (!fs::exists(file, failed)) throw Error(Failure::input, place + ": no such file");
  if (!fs::is_regular_file(file, failed)) {
    throw Error(Failure::input, place + ": not a regular file");
  }
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

Values of_json(const std::string& file, const std::string& pointer, const std::string& place) {
  require_regular(file, place);
  std::ifstream stream(file);
  try {
    const auto json = nlohmann::json::parse(stream);
    Values values;
    add_numbers(json.at(nlohmann::json::json_pointer(pointer)), place, 32, values.numbers);
    return values;
  } catch (const nlohmann::json::exception& error) {
    throw Error(Failure::input, place + ": " + cli::one_line(error.what()));
  }
}

Values of_dataset(const std::string& address, const std::string& place) {
  require_regular(io::parse_address(address).file, place);
  try {
    io::InputBundle::Options options;
    options.named = {{"value", address}};
    const io::InputBundle bundle(options);
    const io::InputDataset dataset = bundle.dataset("value");
    const Index count = element_count(dataset.shape());
    if (count > most_values) {
      throw Error(Failure::input,
                  fmt::format("{} numbers, expected {} at most", count, most_values));
    }
    std::vector<double> values(static_cast<std::size_t>(count));
    dataset.read(Shape(dataset.shape().size(), 0), dataset.shape(), values.data());
    return {std::move(values), dataset.shape()};
  } catch (const Error& error) {
    throw Error(Failure::input, place + ": " + error.what());
  }
}

Values read_values(const std::string& place, const std::string& folder, int status) {
  if (place == "status") return {{static_cast<double>(status)}, {}};
  constexpr std::string_view mark = ".json:/";
  const std::size_t at = place.find(mark);
  if (at == std::string::npos) return of_dataset(folder + "/" + place, place);
  const std::size_t end = at + mark.size() - 2;  // the colon
  return of_json(folder + "/" + place.substr(0, end), place.substr(end + 1), place);
}

}  // namespace

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
