#include <cstring>
#include <stdexcept>
#include <utility>

#include "io/output_impl.hpp"

namespace attn::io {
namespace {

/// A result in the memory of the program.
class MemoryDataset final : public OutputDataset::Impl {
 public:
  MemoryDataset(std::string name, DType dtype, HostArrays::Place place)
      : name_(std::move(name)), dtype_(dtype), place_(place) {}

  void write(const Shape& start, const Shape& count, const float* data, Index stride) override {
    write_rows(start, count, data, stride);
  }
  void write(const Shape& start, const Shape& count, const double* data, Index stride) override {
    write_rows(start, count, data, stride);
  }
  void write(const Shape& start, const Shape& count, const std::uint8_t* data,
             Index stride) override {
    write_rows(start, count, data, stride);
  }
  void write(const Shape& start, const Shape& count, const std::int64_t* data,
             Index stride) override {
    write_rows(start, count, data, stride);
  }

  void write_stored(const Shape& start, const Shape& count, const void* data) override {
    by_type([&]<class Number>(Number) {
      write_as<Number>(start, count, static_cast<const Number*>(data), 0);
    });
  }

 private:
  template <class From>
  void write_rows(const Shape& start, const Shape& count, const From* data, Index row_stride) {
    by_type([&]<class To>(To) { write_as<To>(start, count, data, row_stride); });
  }

  // Calls `body` with a number of the type of the result.
  template <class Body>
  void by_type(const Body& body) const {
    switch (dtype_) {
      case DType::f32:  // NOLINT(bugprone-branch-clone): each branch is for another type
        return body(float());
      case DType::f64:
        return body(double());
      case DType::i8:
        return body(std::int8_t());
      case DType::i16:
        return body(std::int16_t());
      case DType::i32:
        return body(std::int32_t());
      case DType::i64:
        return body(std::int64_t());
      case DType::u16:
        return body(std::uint16_t());
      case DType::u32:
        return body(std::uint32_t());
      case DType::u64:
        return body(std::uint64_t());
      case DType::u8:
      case DType::boolean:
        return body(std::uint8_t());
      default:
        throw std::logic_error(name_ + " is of a type that no result has");
    }
  }

  template <class To, class From>
  void write_as(const Shape& start, const Shape& count, const From* data, Index row_stride) {
    const Index row = count.empty() ? 1 : count.back();
    const Index rows = row == 0 ? 0 : element_count(count) / row;
    const Index from_step = row_stride == 0 ? row : row_stride;
    const Index to_step = count.empty() ? 1 : place_.strides.back();
    const Shape outer = leading_axes(count, count.empty() ? 0 : 1);
    for (Index n = 0; n < rows; ++n) {
      const Shape at = unravel(n, outer);
      Index first = count.empty() ? 0 : start.back() * to_step;
      for (std::size_t axis = 0; axis < at.size(); ++axis) {
        first += (start[axis] + at[axis]) * place_.strides[axis];
      }
      To* const to = static_cast<To*>(place_.numbers) + first;
      const From* const from = data + n * from_step;
      if constexpr (std::is_same_v<To, From>) {
        if (to_step == 1) {
          std::memcpy(to, from, static_cast<std::size_t>(row) * sizeof(To));
          continue;
        }
      }
      for (Index at_row = 0; at_row < row; ++at_row) {
        to[at_row * to_step] = static_cast<To>(from[at_row]);
      }
    }
  }

  std::string name_;
  DType dtype_;
  HostArrays::Place place_;
};

/// Results only: nothing is copied from an input, and there is no history.
class MemoryOutput final : public OutputBundle::Impl {
 public:
  explicit MemoryOutput(std::shared_ptr<HostArrays> host, std::string path = {})
      : host_(std::move(host)), path_(std::move(path)) {}

  std::unique_ptr<Impl> group(const std::string& path) override {
    return std::make_unique<MemoryOutput>(host_, path.empty() ? path_ : address_of(path));
  }

  void copy_from(const InputBundle& /*input*/,
                 const std::vector<std::string>& /*without*/) override {
    throw std::logic_error("inputs are copied to memory");
  }
  void copy_attributes_from(const InputBundle& /*input*/) override {}
  void copy_named_from(const InputBundle& /*input*/,
                       const std::vector<std::string>& /*without*/) override {}
  void link(const std::string& /*name*/, const std::string& /*path*/) override {}

  OutputDataset create(const std::string& name, DType type, const Shape& shape,
                       const std::vector<std::string>& /*labels*/,
                       const Shape& /*chunk*/) override {
    const std::string path = address_of(name);
    return OutputDataset(
        std::make_shared<MemoryDataset>(path, type, host_->result(path, type, shape)));
  }

  void create_virtual(const std::string& name, DType /*type*/, const Shape& /*shape*/,
                      const std::vector<std::string>& /*labels*/,
                      const std::vector<VirtualBlock>& /*blocks*/) override {
    throw std::logic_error(name + " lies in files");
  }

  void copy_dataset_attributes(const std::string& /*name*/, const InputBundle& /*input*/,
                               const std::string& /*path*/, bool /*axes*/) override {}

  void write_strings(const std::string& name, const std::vector<std::string>& values,
                     const std::vector<std::string>& /*labels*/) override {
    host_->strings(address_of(name), values);
  }

  void attribute(const std::string& name, const HostArrays::Attribute& value) override {
    host_->attribute(path_, name, value);
  }
  void remove_attribute(const std::string& /*name*/) override {}
  void dataset_attribute(const std::string& /*path*/, const std::string& /*name*/,
                         const std::string& /*value*/) override {}
  void add_history(const std::string& /*line*/, const std::string& /*version*/) override {}
  std::vector<std::string> finish() override { return {}; }
  void commit() override {}
  std::string description() const override { return path_.empty() ? "the results" : path_; }
  std::string address_of(const std::string& name) const override {
    return path_.empty() ? name : path_ + "/" + name;
  }

 private:
  std::shared_ptr<HostArrays> host_;
  std::string path_;  // of the group; empty: the root
};

}  // namespace

std::unique_ptr<OutputBundle::Impl> make_memory_output(std::shared_ptr<HostArrays> host) {
  return std::make_unique<MemoryOutput>(std::move(host));
}

}  // namespace attn::io
