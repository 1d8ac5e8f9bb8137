#include "attn_train/checked_datasets.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <boost/crc.hpp>

#include "attnkit/error.hpp"

namespace attn::tools {
namespace {

constexpr std::size_t digits = 8;
constexpr Index block_bytes = Index{1} << 20;

const std::string list_name = state_group + "/checksums";

std::string text_of(const boost::crc_32_type& sum) { return fmt::format("{:08x}", sum.checksum()); }

std::string checksum_of(const std::vector<std::string>& lines) {
  boost::crc_32_type sum;
  for (const std::string& line : lines) {
    sum.process_bytes(line.data(), line.size());
    sum.process_byte('\n');
  }
  return text_of(sum);
}

std::string checksum_of(const ArraySource& dataset) {
  boost::crc_32_type sum;
  const Shape& shape = dataset.shape();
  const Index rows = shape.empty() ? 1 : shape.front();
  const Index size = element_count(shape) * static_cast<Index>(size_of(dataset.dtype()));
  if (size == 0) return text_of(sum);
  const Index row_bytes = size / rows;
  const Index most = std::clamp<Index>(block_bytes / row_bytes, 1, rows);
  std::vector<char> block(static_cast<std::size_t>(most * row_bytes));
  for (Index row = 0; row < rows; row += most) {
    Shape start(shape.size(), 0);
    Shape count = shape;
    const Index now = std::min(most, rows - row);
    if (!shape.empty()) {
      start.front() = row;
      count.front() = now;
    }
    dataset.read_stored(start, count, block.data());
    sum.process_bytes(block.data(), static_cast<std::size_t>(now * row_bytes));
  }
  return text_of(sum);
}

}  // namespace

template <class T>
void CheckedOutput::write(const std::string& name, const Shape& shape, const T* numbers,
                          const std::vector<std::string>& labels) {
  bundle_.create(name, dtype_of<T>(), shape, labels).write(Shape(shape.size(), 0), shape, numbers);
  boost::crc_32_type sum;
  sum.process_bytes(numbers, static_cast<std::size_t>(element_count(shape)) * sizeof(T));
  lines_.push_back(text_of(sum) + " " + name);
}

void CheckedOutput::finish() {
  bundle_.write_strings(list_name, lines_, {"dataset"});
  bundle_.attribute("train_checksum", checksum_of(lines_));
}

std::vector<std::string> checked_datasets(const io::InputBundle& bundle, const std::string& file,
                                          const std::string& hint) {
  const auto refuse = [&](const std::string& what) { throw Error(Failure::input, what, hint); };
  if (!bundle.is_dataset(list_name)) {
    refuse(file + " has no " + list_name + ": it is damaged, or of an earlier version");
  }
  const ArraySource list = bundle.dataset(list_name);
  const std::vector<std::string> lines =
      list.dtype() == DType::string ? list.read_strings() : std::vector<std::string>();
  if (lines.empty() || bundle.text_attribute("train_checksum") != checksum_of(lines)) {
    refuse(list.address() + " is damaged: train_checksum is another one");
  }
  std::vector<std::string> names;
  for (const std::string& line : lines) {
    const std::string name = line.substr(std::min(line.size(), digits + 1));
    const ArraySource dataset = bundle.dataset(name);
    if (!is_floating(dataset.dtype()) || checksum_of(dataset) != line.substr(0, digits)) {
      refuse(dataset.address() + " is damaged: its numbers are not those that were written");
    }
    names.push_back(name);
  }
  return names;
}

template void CheckedOutput::write(const std::string&, const Shape&, const float*,
                                   const std::vector<std::string>&);
template void CheckedOutput::write(const std::string&, const Shape&, const double*,
                                   const std::vector<std::string>&);

}  // namespace attn::tools
