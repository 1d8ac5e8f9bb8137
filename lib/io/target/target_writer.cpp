#include "io/target/target_writer.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "attnkit/error.hpp"
#include "system/system_reason.hpp"

namespace attn::io {

TargetWriter::TargetWriter(std::unique_ptr<Target> target) : target_(std::move(target)) {
  int error_number = 0;
  target_->with_path([&](const std::string& path) {
    descriptor_ = open_descriptor(path, O_WRONLY);
    error_number = errno;
  });
  if (!descriptor_) {
    target_->discard();
    throw Error(Failure::output,
                description() + " cannot be written: " + system_reason(error_number));
  }
}

TargetWriter::~TargetWriter() {
  if (!done_) target_->discard();
}

void TargetWriter::write_at(Index offset, const char* data, Index count) {
  constexpr Index most_per_call = Index{1} << 30;
  for (Index put = 0; put < count;) {
    const auto size = static_cast<std::size_t>(std::min(count - put, most_per_call));
    const ssize_t now = pwrite(descriptor_.get(), data + put, size, offset + put);
    if (now < 0 && errno == EINTR) continue;
    if (now < 0) {
      throw Error(Failure::output, description() + " cannot be written: " + system_reason(errno));
    }
    put += now;
  }
}

void TargetWriter::append(const void* data, Index count) {
  write_at(size_, static_cast<const char*>(data), count);
  size_ += count;
}

void TargetWriter::replace(Index offset, const std::string& data) {
  write_at(offset, data.data(), static_cast<Index>(data.size()));
}

void TargetWriter::finish() {
  done_ = true;
  descriptor_.reset();
  try {
    target_->finish();
  } catch (...) {
    target_->discard();
    throw;
  }
}

}  // namespace attn::io
