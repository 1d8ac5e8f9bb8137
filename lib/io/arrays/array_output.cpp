#include "io/arrays/array_output.hpp"

#include <algorithm>
#include <set>
#include <stdexcept>
#include <utility>

#include "attnkit/error.hpp"
#include "io/arrays/npy_header.hpp"
#include "io/arrays/safetensors_plan.hpp"
#include "io/arrays/stored_array.hpp"
#include "io/arrays/text_array.hpp"
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

void check_name(const std::string& name, ArrayFormat format, bool metadata,
                const std::string& target) {
  constexpr std::size_t most = 65535 - 4;
  const bool control = std::any_of(name.begin(), name.end(), [](char c) {
    return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
  });
  const bool reserved = name == metadata_name && (format == ArrayFormat::safetensors || metadata);
  if (name.empty() || control || reserved || (format == ArrayFormat::npz && name.size() > most)) {
    throw Error(Failure::input, target + ": an array of " + name_of(format) +
                                    " cannot be called '" + name.substr(0, 80) + "'");
  }
}

void check(const std::vector<ArrayPlan>& arrays, ArrayFormat format, const std::string& metadata,
           const std::string& target) {
  if (metadata.size() > metadata_limit) {
    throw Error(Failure::input,
                target + ": the attributes take " + std::to_string(metadata.size()) +
                    " bytes as JSON, more than " + std::to_string(metadata_limit),
                "write a bundle (.h5)");
  }
  if (format == ArrayFormat::npy && arrays.size() != 1) {
    throw Error(Failure::input,
                target + ": an .npy holds one array, got " + std::to_string(arrays.size()),
                "write .npz or .safetensors, or name one of the datasets");
  }
  std::set<std::string> names;
  for (const ArrayPlan& array : arrays) {
    if (format != ArrayFormat::npy) check_name(array.name, format, !metadata.empty(), target);
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
  if (dtype == DType::other) return false;
  const bool safetensors = format == ArrayFormat::safetensors;
  if (dtype == DType::string) return !safetensors;
  return dtype != DType::bf16 || safetensors;
}

std::size_t element_bytes(const ArrayPlan& array) {
  if (array.dtype != DType::string) return size_of(array.dtype);
  return static_cast<std::size_t>(array.width) * sizeof(std::uint32_t);
}

struct ArrayOutput::Impl {
  Impl(std::unique_ptr<Target> target, ArrayFormat as, std::vector<ArrayPlan> all, std::string text)
      : format(as),
        arrays(std::move(all)),
        metadata(std::move(text)),
        out(std::move(target)),
        zip(out) {}

  ArrayFormat format;
  std::vector<ArrayPlan> arrays;
  std::string metadata;
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
      const std::string header = npy_header(array.dtype, array.shape, array.width);
      append(header.data(), static_cast<Index>(header.size()));
    }
    left = element_count(array.shape);
    begun = true;
  }

  void append_metadata() {
    if (metadata.empty()) return;
    const std::size_t width = std::max<std::size_t>(characters(metadata), 1);
    const std::string header = npy_header(DType::string, {}, static_cast<Index>(width));
    const std::u32string text = padded_ucs4(metadata, width);
    zip.begin(std::string(metadata_name) + ".npy");
    append(header.data(), static_cast<Index>(header.size()));
    append(text.data(), static_cast<Index>(text.size() * sizeof(char32_t)));
    zip.end();
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
                         std::vector<ArrayPlan> arrays, std::string metadata)
    : ArrayOutput(
          [&] {
            // Checked first: a refused file needs no temporary.
            check(arrays, format, metadata,
                  options.target == "-" ? "standard output" : options.target);
            return make_target(options);
          }(),
          format, arrays, metadata) {}

ArrayOutput::ArrayOutput(std::unique_ptr<Target> target, ArrayFormat format,
                         std::vector<ArrayPlan> arrays, std::string metadata) {
  check(arrays, format, metadata, target->description());
  std::string header;
  if (format == ArrayFormat::safetensors) {
    std::vector<SafetensorsPlan> plans;
    for (const ArrayPlan& array : arrays) plans.push_back({array.name, array.dtype, array.shape});
    std::sort(plans.begin(), plans.end(), safetensors_before);
    header = safetensors_header(plans, metadata);
    arrays.clear();
    for (const SafetensorsPlan& plan : plans) arrays.push_back({plan.name, plan.dtype, plan.shape});
  }
  impl_ = std::make_unique<Impl>(std::move(target), format, std::move(arrays), std::move(metadata));
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
  impl_->append(elements, count * static_cast<Index>(element_bytes(impl_->arrays[impl_->turn])));
  impl_->left -= count;
  impl_->advance();
}

void ArrayOutput::write_strings(const std::vector<std::string>& values) {
  if (values.empty()) return;
  const auto width = static_cast<std::size_t>(impl_->arrays.at(impl_->turn).width);
  for (const std::string& value : values) write(padded_ucs4(value, width).data(), 1);
}

void ArrayOutput::commit() {
  if (impl_->turn < impl_->arrays.size()) {
    throw std::logic_error(description() + ": " + impl_->arrays[impl_->turn].name +
                           " is not complete");
  }
  if (impl_->format == ArrayFormat::npz) {
    impl_->append_metadata();
    impl_->zip.finish();
  }
  impl_->out.finish();
}

std::string ArrayOutput::description() const { return impl_->out.description(); }

}  // namespace attn::io
