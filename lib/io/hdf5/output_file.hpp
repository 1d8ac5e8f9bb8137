#pragma once

#include <list>
#include <memory>
#include <string>

#include "attnkit/error.hpp"
#include "io/hdf5/h5.hpp"
#include "io/target/target.hpp"

namespace attn::io {

/// The HDF5 file of a bundle that is being written. Every status counts, and once one was bad the
/// file is never touched again: after a failed write (a full disk) closing it may crash, hang, or
/// claim success. It is abandoned instead: its identifiers are left open, its temporary is
/// removed, and everything asked of it later throws the same Error again.
///
/// All members are called under h5::Lock, except deliver() and release().
class OutputFile {
 public:
  /// `least_part` as OutputBundle::Options has it.
  OutputFile(std::unique_ptr<Target> target, std::size_t least_part);
  ~OutputFile() { discard(); }
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  /// To be called before a sequence of HDF5 calls. Throws what made the file fail, and
  /// std::logic_error once it is finished or discarded.
  void require_open() const;

  hid_t root() const noexcept { return file_.get(); }
  const std::string& description() const noexcept { return target_->description(); }

  /// "out.h5:/q"
  std::string address_of(const std::string& name) const { return description() + ":/" + name; }

  /// Abandons the file where `status` is negative, throwing Error(output): "`what` cannot be
  /// written: no space left on device". If `source`, from which something is copied, is given and
  /// the system had nothing to do with it, Error(input): "`source` cannot be copied: ...".
  void check(herr_t status, const std::string& what, const std::string& source = {});

  /// The same for an identifier in the file, whose owner leaves it open when the file is abandoned.
  h5::Handle own(hid_t id, h5::Handle::Close closer, const std::string& what,
                 const std::string& source = {});

  /// Closes what own() gave, which may write what is left of it.
  void close(h5::Handle& handle, const std::string& what);

  /// Keeps a dataset open until it is released, at the latest until the end. The reference stays
  /// valid until then.
  const h5::Handle& keep(h5::Handle dataset);

  /// Closes a dataset kept before, `name` in the file, which writes what is left of it; takes the
  /// lock itself. A failure is told by whatever is asked of the file next. Nothing after the end.
  void release(const h5::Handle* dataset, const std::string& name) noexcept;

  /// Flushes, closes, and looks whether it opens again.
  void finish();

  /// After finish(): brings the file to its target. Without the lock, as a stream may wait for
  /// long.
  void deliver() { target_->finish(); }

  /// Closes it without use. Nothing is left behind.
  void discard() noexcept;

 private:
  [[noreturn]] void abandon(const Error& failure);
  void mark_abandoned() noexcept;
  void close_all();
  void verify() const;

  std::unique_ptr<Target> target_;
  bool abandoned_ = false;
  bool done_ = false;
  std::unique_ptr<Error> failure_;
  // Closed before the file, since they are declared after it.
  h5::Handle file_;
  std::list<h5::Handle> datasets_;
};

}  // namespace attn::io
