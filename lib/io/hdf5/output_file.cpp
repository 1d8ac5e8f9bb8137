#include "io/hdf5/output_file.hpp"

#include <algorithm>
#include <atomic>
#include <stdexcept>
#include <utility>

#include "io/hdf5/h5_watch.hpp"

namespace attn::io {
namespace {

// Chunks that are compressed are smaller, and would waste room.
constexpr hsize_t least_aligned = hsize_t{1} << 20;
constexpr hsize_t page = 4096;

// Global to the process, since it decides how the process exits.
std::atomic<bool> any_abandoned{false};

h5::Handle temporary_access() {
  h5::Handle access = h5::properties(H5P_FILE_ACCESS);
  // Closing the file closes everything open in it, so that nothing stays unwritten.
  h5::require(H5Pset_fclose_degree(access.get(), H5F_CLOSE_STRONG), "properties");
  // The temporary's own lock keeps other processes out, HDF5's would fail beside it.
  h5::require(H5Pset_file_locking(access.get(), false, true), "properties");
  return access;
}

}  // namespace

bool output_failed() noexcept { return any_abandoned.load(); }

OutputFile::OutputFile(std::unique_ptr<Target> target, std::size_t least_part)
    : target_(std::move(target)) {
  const h5::Handle access = temporary_access();
  h5::require(H5Pset_sieve_buf_size(access.get(), least_part), "properties");
  // Parts of a dataset then cover whole pages of the file, which the system need not clear first.
  h5::require(H5Pset_alignment(access.get(), least_aligned, page), "properties");
  target_->with_path([&](const std::string& path) {
    file_ = own(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access.get()), H5Fclose,
                description());
  });
}

void OutputFile::require_open() const {
  if (failure_) throw Error(*failure_);
  if (done_) throw std::logic_error(description() + " is written to after its end");
}

void OutputFile::check(herr_t status, const std::string& what, const std::string& source) {
  h5::beat();
  if (status >= 0) return;
  const h5::Reason why = h5::last_reason();
  if (!source.empty() && !why.writing && why.error_number == 0) {
    abandon(Error(Failure::input, source + " cannot be copied: " + why.text));
  }
  abandon(Error(Failure::output, what + " cannot be written: " + why.text));
}

h5::Handle OutputFile::own(hid_t id, h5::Handle::Close closer, const std::string& what,
                           const std::string& source) {
  check(id < 0 ? -1 : 0, what, source);
  return h5::Handle(id, closer, &abandoned_);
}

void OutputFile::close(h5::Handle& handle, const std::string& what) {
  const h5::Unwatched writing;
  check(handle.reset() ? 0 : -1, what);
}

const h5::Handle& OutputFile::keep(h5::Handle dataset) {
  datasets_.push_back(std::move(dataset));
  return datasets_.back();
}

void OutputFile::release(const h5::Handle* dataset, const std::string& name) noexcept {
  const h5::Lock lock;
  const h5::Unwatched writing;
  if (done_) return;
  const auto found = std::find_if(datasets_.begin(), datasets_.end(),
                                  [&](const h5::Handle& kept) { return &kept == dataset; });
  if (found == datasets_.end()) return;
  try {
    // Flushed first, since closing with unwritten data can go wrong on a full disk.
    check(H5Dflush(found->get()), address_of(name));
    close(*found, address_of(name));
    datasets_.erase(found);
  } catch (...) {
    // Kept by abandon() for the next call.
  }
}

void OutputFile::abandon(const Error& failure) {
  mark_abandoned();
  failure_ = std::make_unique<Error>(failure);
  throw Error(failure);
}

void OutputFile::mark_abandoned() noexcept {
  abandoned_ = true;
  done_ = true;
  any_abandoned.store(true);
  target_->discard();
}

void OutputFile::close_all() {
  const h5::Unwatched writing;
  // H5Fclose may return success although writing the remaining data failed, so nothing may remain.
  check(H5Fflush(file_.get(), H5F_SCOPE_LOCAL), description());
  for (h5::Handle& dataset : datasets_) close(dataset, description());
  datasets_.clear();
  close(file_, description());
}

h5::Handle OutputFile::reopened() const {
  const h5::Handle access = temporary_access();
  h5::Handle again(H5Fopen(target_->lasting_path().c_str(), H5F_ACC_RDONLY, access.get()),
                   H5Fclose);
  if (!again) {
    throw Error(Failure::output,
                description() + " was not written completely: " + h5::last_reason().text);
  }
  return again;
}

void OutputFile::finish() {
  require_open();
  close_all();
  done_ = true;
  try {
    if (!target_->lasting_path().empty()) reopened();
  } catch (...) {
    target_->discard();
    throw;
  }
}

void OutputFile::discard() noexcept {
  if (done_) return;
  const h5::Lock lock;
  const h5::Unwatched writing;
  done_ = true;
  // Flushed first, since closing with unwritten data can go wrong on a full disk.
  if (H5Fflush(file_.get(), H5F_SCOPE_LOCAL) < 0) {
    mark_abandoned();
    return;
  }
  datasets_.clear();
  file_.reset();
  target_->discard();
}

}  // namespace attn::io
