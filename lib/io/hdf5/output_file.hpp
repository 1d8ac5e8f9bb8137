#pragma once

#include <list>
#include <memory>
#include <string>

#include "attnkit/error.hpp"
#include "io/hdf5/h5.hpp"
#include "io/target/target.hpp"

namespace attn::io {

/// The HDF5 file of a bundle being written. Every status is checked, and after the first failure
/// the file is never touched again: after a failed write (a full disk), closing it may crash, hang
/// or falsely report success. The file is abandoned instead: its identifiers are left open, its
/// temporary is removed, and every later call throws the same Error again.
///
/// All members are called under h5::Lock, except deliver() and release().
class OutputFile {
 public:
  /// `least_part` as in OutputBundle::Options.
  OutputFile(std::unique_ptr<Target> target, std::size_t least_part);
  ~OutputFile() { discard(); }
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  /// To be called before a sequence of HDF5 calls. Rethrows the error that made the file fail;
  /// throws std::logic_error once it is finished or discarded.
  void require_open() const;

  hid_t root() const noexcept { return file_.get(); }
  const std::string& description() const noexcept { return target_->description(); }

  /// "out.h5:/q"
  std::string address_of(const std::string& name) const { return description() + ":/" + name; }

  /// If `status` is negative, abandons the file and throws Error(output): "`what` cannot be
  /// written: no space left on device". If `source`, the origin of a copy, is given and no system
  /// call failed, throws Error(input) instead: "`source` cannot be copied: ...".
  void check(herr_t status, const std::string& what, const std::string& source = {});

  /// The same for an identifier in the file. Its owner leaves it open if the file is abandoned.
  h5::Handle own(hid_t id, h5::Handle::Close closer, const std::string& what,
                 const std::string& source = {});

  /// Closes a handle made by own(), which may write its remaining data.
  void close(h5::Handle& handle, const std::string& what);

  /// Keeps a dataset open until it is released, or else until the end. The reference stays valid
  /// until then.
  const h5::Handle& keep(h5::Handle dataset);

  /// Closes a kept dataset, `name` in the file, which writes its remaining data. Takes the lock
  /// itself. A failure is reported by the next call on the file. Does nothing after the end.
  void release(const h5::Handle* dataset, const std::string& name) noexcept;

  /// Flushes, closes, and checks that the file can be opened again.
  void finish();

  /// After finish(), for a target with a lasting_path(): the complete file, open for reading.
  h5::Handle reopened() const;

  /// After finish(): moves the file to its target. Called without the lock, as a stream may block
  /// for long.
  void deliver() { target_->finish(); }

  /// After finish(): removes the file, which is not needed any more.
  void drop() noexcept { target_->discard(); }

  /// Closes the file and removes it.
  void discard() noexcept;

 private:
  [[noreturn]] void abandon(const Error& failure);
  void mark_abandoned() noexcept;
  void close_all();

  std::unique_ptr<Target> target_;
  bool abandoned_ = false;
  bool done_ = false;
  std::unique_ptr<Error> failure_;
  // These close before the file, since they are declared after it.
  h5::Handle file_;
  std::list<h5::Handle> datasets_;
};

}  // namespace attn::io
