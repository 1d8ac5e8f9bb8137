#include "io/hdf5/never_written.hpp"

#include <algorithm>

namespace attn::io {

bool NeverWritten::allows(const std::string& address, double bytes, double written) {
  constexpr double always = 0x1p32;
  constexpr double most_declared = 100;  // times what was written
  if (bytes <= written) return true;
  most_written_ = std::max(most_written_, written);
  double& counted = bytes_[address];
  total_ += bytes - written - counted;
  counted = bytes - written;
  return total_ <= always + most_declared * most_written_;
}

}  // namespace attn::io
