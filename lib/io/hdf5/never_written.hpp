#pragma once

#include <map>
#include <string>

namespace attn::io {

/// The elements that the datasets of one file declare but do not hold: a few bytes can declare any
/// number of chunks, which would take hours to read. Used under h5::Lock.
class NeverWritten {
 public:
  /// Whether a dataset of `bytes`, at most `written` of which were ever written, may be read. The
  /// unwritten bytes of all datasets asked about may add up to 4 GiB plus 100 times the largest
  /// `written`. A dataset counts once, by its address.
  bool allows(const std::string& address, double bytes, double written);

 private:
  std::map<std::string, double> bytes_;  // by address
  double total_ = 0;
  double most_written_ = 0;
};

}  // namespace attn::io
