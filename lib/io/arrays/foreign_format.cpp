#include "io/arrays/foreign_format.hpp"

#include <string_view>

namespace attn::io {
namespace {

using namespace std::string_view_literals;

struct Beginning {
  std::string_view start;
  const char* kind;
  const char* hint;
};

constexpr const char* hint_on_pickle =
    "in Python, for a dict of arrays: numpy.savez('FILE.npz', **pickle.load(open('FILE', 'rb')))";

// The first that fits counts. Pickles begin with their protocol, since Python 3 one of 2 to 5, and
// those of torch.save before PyTorch 1.6 with its magic number.
constexpr Beginning beginnings[] = {
    {"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20"sv, "a pickled PyTorch file", hint_on_torch},
    {"\x80\x02"sv, "a Python pickle", hint_on_pickle},
    {"\x80\x03"sv, "a Python pickle", hint_on_pickle},
    {"\x80\x04"sv, "a Python pickle", hint_on_pickle},
    {"\x80\x05"sv, "a Python pickle", hint_on_pickle},
    {"MATLAB 5.0 MAT"sv, "a MATLAB file",
     "in Python: scipy.io.loadmat reads it, numpy.savez writes an .npz"},
    {"\x1f\x8b"sv, "compressed with gzip", "gunzip it first"},
    {"\x28\xb5\x2f\xfd"sv, "compressed with zstd", "unzstd it first"},
};

}  // namespace

ForeignFormat foreign_format(const unsigned char* start, std::size_t size) {
  const std::string_view found(reinterpret_cast<const char*>(start), size);
  for (const Beginning& format : beginnings) {
    if (found.starts_with(format.start)) return {format.kind, format.hint};
  }
  return {};
}

}  // namespace attn::io
