#include "io/arrays/strided_read.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "tensor/buffer.hpp"

namespace attn::io {
namespace {

constexpr Index stretch = Index{256} << 10;  // bytes read into the buffer at once: fits a cache
constexpr Index page = 4096;  // skipping less is no gain: the system reads whole pages

template <std::size_t size>
void copy_apart(const char* in, Index in_step, Index count, char* out, Index out_step) {
  for (Index i = 0; i < count; ++i) std::memcpy(out + i * out_step, in + i * in_step, size);
}

class StridedReader {
 public:
  StridedReader(const Bytes& bytes, const std::vector<StridedAxis>& axes, std::size_t element_size)
      : bytes_(bytes), element_(static_cast<Index>(element_size)) {
    for (const StridedAxis& axis : axes) {
      if (axis.count != 1) {
        axes_.push_back({axis.count, axis.file_step, axis.out_step * element_});
      }
    }
    merge();
    measure();
  }

  void read(std::size_t axis, Index offset, char* out) {
    if (axis == axes_.size()) return bytes_.read(offset, element_, out);
    const StridedAxis& here = axes_[axis];
    const bool run =
        axis + 1 == axes_.size() && here.file_step == element_ && here.out_step == element_;
    if (run && (axis == 0 || !dense_[axis - 1] || span_[axis] > stretch)) {
      return bytes_.read(offset, span_[axis], out);
    }
    if (!dense_[axis] || span_[axis + 1] > stretch) {
      for (Index i = 0; i < here.count; ++i) {
        read(axis + 1, offset + i * here.file_step, out + i * here.out_step);
      }
      return;
    }
    const Index at_once = (stretch - span_[axis + 1]) / here.file_step + 1;
    for (Index i = 0; i < here.count; i += at_once) {
      const Index count = std::min(at_once, here.count - i);
      const Index span = (count - 1) * here.file_step + span_[axis + 1];
      buffer_.reserve(std::min(span_[axis], stretch));
      bytes_.read(offset + i * here.file_step, span, buffer_.data());
      scatter(axis, count, buffer_.data(), out + i * here.out_step);
    }
  }

 private:
  /// Merges two axes if, in the file and in memory, the inner one ends where the next element of
  /// the outer one begins.
  void merge() {
    std::vector<StridedAxis> merged;
    for (const StridedAxis& axis : axes_) {
      if (!merged.empty() && merged.back().file_step == axis.count * axis.file_step &&
          merged.back().out_step == axis.count * axis.out_step) {
        merged.back() = {merged.back().count * axis.count, axis.file_step, axis.out_step};
      } else {
        merged.push_back(axis);
      }
    }
    axes_ = std::move(merged);
  }

  void measure() {
    span_.assign(axes_.size() + 1, element_);
    dense_.assign(axes_.size() + 1, true);
    for (std::size_t axis = axes_.size(); axis-- > 0;) {
      const StridedAxis& here = axes_[axis];
      span_[axis] = (here.count - 1) * here.file_step + span_[axis + 1];
      dense_[axis] = dense_[axis + 1] && here.file_step - span_[axis + 1] < page;
    }
  }

  void scatter(std::size_t axis, Index count, const char* in, char* out) const {
    const StridedAxis& here = axes_[axis];
    if (axis + 1 < axes_.size()) {
      for (Index i = 0; i < count; ++i) {
        scatter(axis + 1, axes_[axis + 1].count, in + i * here.file_step, out + i * here.out_step);
      }
      return;
    }
    if (here.file_step == element_ && here.out_step == element_) {
      std::memcpy(out, in, static_cast<std::size_t>(count * element_));
      return;
    }
    switch (element_) {
      case 1:
        return copy_apart<1>(in, here.file_step, count, out, here.out_step);
      case 2:
        return copy_apart<2>(in, here.file_step, count, out, here.out_step);
      case 4:
        return copy_apart<4>(in, here.file_step, count, out, here.out_step);
      case 8:
        return copy_apart<8>(in, here.file_step, count, out, here.out_step);
      default:
        for (Index i = 0; i < count; ++i) {
          std::memcpy(out + i * here.out_step, in + i * here.file_step,
                      static_cast<std::size_t>(element_));
        }
    }
  }

  const Bytes& bytes_;
  Index element_;
  std::vector<StridedAxis> axes_;  // out_step is in bytes here
  std::vector<Index> span_;        // per axis: bytes from its first to its last element
  std::vector<bool> dense_;        // per axis: the gaps in that span are too small to skip
  Buffer<char> buffer_;
};

}  // namespace

void read_strided(const Bytes& bytes, Index offset, const std::vector<StridedAxis>& axes,
                  std::size_t element_size, void* out) {
  StridedReader(bytes, axes, element_size).read(0, offset, static_cast<char*>(out));
}

}  // namespace attn::io
