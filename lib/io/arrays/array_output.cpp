#include "io/arrays/array_output.hpp"

#include <algorithm>
#include <set>
#include <stdexcept>
#include <utility>

#include "attnkit/error.hpp"
#include "io/arrays/npy_header.hpp"
#include "io/arrays/safetensors_plan.hpp"
#include "io/arrays/stored_array.hpp"
#include "io/arrays/zip_writer.hpp"
#include "io/target/target_writer.hpp"

namespace attn::io {
namespace {

std::string name_of(ArrayFormat format) {
  switch (format) {
    case ArrayFormat::npy:
      return ".npy";
    case ArrayFormat::npz:
      return ".npz";
    default:
      return ".safetensors";
  }
}

void check_name(const std::string& name, ArrayFormat format, const std::string& target) {
  constexpr std::size_t most = 65535 - 4;
  const bool control = std::any_of(name.begin(), name.end(), [](char c) {
    return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
  });
  const bool reserved = format == ArrayFormat::safetensors && name == "__metadata__";
  if (name.empty() || control || reserved || (format == ArrayFormat::npz && name.size() > most)) {
    throw Error(Failure::input, target + ": an array of " + name_of(format) +
                                    " cannot be called '" + name.substr(0, 80) + "'");
  }
}

void check(const std::vector<ArrayPlan>& arrays, ArrayFormat format, const std::string& target) {
  if (format == ArrayFormat::npy && arrays.size() != 1) {
    throw Error(Failure::input,
                target + ": an .npy holds one array, got " + std::to_string(arrays.size()),
                "write .npz or .safetensors, or name one of the datasets");
  }
  std::set<std::string> names;
  for (const ArrayPlan& array : arrays) {
    if (format != ArrayFormat::npy) check_name(array.name, format, target);
    if (!names.insert(array.name).second) {
      throw Error(Failure::input, target + ": two arrays are called " + array.name);
    }
    if (!holds(format, array.dtype)) {
      throw Error(Failure::input, target + ": " + array.name + " is " +
                                      std::string(name(array.dtype)) + ", which " +
                                      name_of(format) + " does not have");
    }
  }
}

}  // namespace

bool holds(ArrayFormat format, DType dtype) {
  if (dtype == DType::string || dtype == DType::other) return false;
  return dtype != DType::bf16 || format == ArrayFormat::safetensors;
}

struct ArrayOutput::Impl {
  Impl(std::unique_ptr<Target> target, ArrayFormat as, std::vector<ArrayPlan> all)
      : format(as), arrays(std::move(all)), out(std::move(target)), zip(out) {}

  ArrayFormat format;
  std::vector<ArrayPlan> arrays;
  TargetWriter out;
  ZipWriter zip;
  std::size_t turn = 0;  ///< index of the current array
  bool begun = false;    ///< whether its header is written
  Index left = 0;        ///< elements not yet written

  void append(const void* data, Index count) {
    if (format == ArrayFormat::npz) {
      zip.append(data, count);
    } else {
      out.append(data, count);
    }
  }

  void begin() {
    const ArrayPlan& array = arrays[turn];
    if (format == ArrayFormat::npz) zip.begin(array.name + ".npy");
    if (format != ArrayFormat::safetensors) {
      const std::string header = npy_header(array.dtype, array.shape);
      append(header.data(), static_cast<Index>(header.size()));
    }
    left = element_count(array.shape);
    begun = true;
  }

  /// Goes on to the next array that has elements.
  void advance() {
    while (turn < arrays.size()) {
      if (!begun) begin();
      if (left > 0) return;
      if (format == ArrayFormat::npz) zip.end();
      ++turn;
      begun = false;
    }
  }
};

ArrayOutput::ArrayOutput(const OutputBundle::Options& options, ArrayFormat format,
                         std::vector<ArrayPlan> arrays) {
  check(arrays, format, options.target == "-" ? "standard output" : options.target);
  std::string header;
  if (format == ArrayFormat::safetensors) {
    std::vector<SafetensorsPlan> plans;
    for (const ArrayPlan& array : arrays) plans.push_back({array.name, array.dtype, array.shape});
    std::sort(plans.begin(), plans.end(), safetensors_before);
    header = safetensors_header(plans);
    arrays.clear();
    for (const SafetensorsPlan& plan : plans) arrays.push_back({plan.name, plan.dtype, plan.shape});
  }
  impl_ = std::make_unique<Impl>(make_target(options), format, std::move(arrays));
  impl_->out.append(header);
  impl_->advance();
}

ArrayOutput::~ArrayOutput() = default;
ArrayOutput::ArrayOutput(ArrayOutput&&) noexcept = default;
ArrayOutput& ArrayOutput::operator=(ArrayOutput&&) noexcept = default;

const std::vector<ArrayPlan>& ArrayOutput::order() const { return impl_->arrays; }

void ArrayOutput::write(const void* elements, Index count) {
  if (count == 0) return;
  if (count < 0 || impl_->turn == impl_->arrays.size() || count > impl_->left) {
    throw std::invalid_argument(description() + ": more elements than the array has");
  }
  impl_->append(elements, count * static_cast<Index>(size_of(impl_->arrays[impl_->turn].dtype)));
  impl_->left -= count;
  impl_->advance();
}

void ArrayOutput::commit() {
  if (impl_->turn < impl_->arrays.size()) {
    throw std::logic_error(description() + ": " + impl_->arrays[impl_->turn].name +
                           " is not complete");
  }
  if (impl_->format == ArrayFormat::npz) impl_->zip.finish();
  impl_->out.finish();
}

std::string ArrayOutput::description() const { return impl_->out.description(); }

}  // namespace attn::io
