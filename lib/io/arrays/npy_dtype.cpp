#include "io/arrays/npy_dtype.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstdint>
#include <stdexcept>

#include "attnkit/error.hpp"

namespace attn::io {
namespace {

struct Known {
  std::string_view code;
  DType dtype;
};

constexpr std::array<Known, 12> known = {{{"f2", DType::f16},
                                          {"f4", DType::f32},
                                          {"f8", DType::f64},
                                          {"i1", DType::i8},
                                          {"i2", DType::i16},
                                          {"i4", DType::i32},
                                          {"i8", DType::i64},
                                          {"u1", DType::u8},
                                          {"u2", DType::u16},
                                          {"u4", DType::u32},
                                          {"u8", DType::u64},
                                          {"b1", DType::boolean}}};

// A descr comes from the file: messages show only a short piece of it.
std::string shown(std::string_view descr) {
  constexpr std::size_t most = 40;
  return "'" + std::string(descr.substr(0, most)) + (descr.size() > most ? "..." : "") + "'";
}

[[noreturn]] void refuse(std::string_view descr, const std::string& address) {
  const char kind = descr.size() > 1 ? descr[1] : '\0';
  if (kind == 'O') {
    throw Error(Failure::input, address + " holds pickled Python objects, expected numbers",
                "give the array a dtype before saving it: numpy.asarray(x, dtype=numpy.float32)");
  }
  std::string hint;
  if (kind == 'c') hint = "save the real and imaginary parts of complex numbers apart";
  if (kind == 'f') hint = "save it as float64: x.astype(numpy.float64)";
  std::uint32_t size = 0;
  std::from_chars(descr.data() + std::min<std::size_t>(2, descr.size()),
                  descr.data() + descr.size(), size);
  const bool complex = kind == 'c' && size > 0 && size <= 32;
  throw Error(Failure::input,
              address + " is of NumPy dtype " +
                  (complex ? "complex" + std::to_string(8 * size) + " (" + shown(descr) + ")"
                           : shown(descr)) +
                  ", expected float16, float32, float64, integers, bool or strings",
              hint);
}

bool is_swapped(char order) {
  return order == (std::endian::native == std::endian::little ? '>' : '<');
}

}  // namespace

void read_npy_dtype(std::string_view descr, const std::string& address, StoredArray& array) {
  // NumPy has no name for bfloat16: it writes what ml_dtypes and JAX give it as two bytes.
  for (const char* const brain : {"|V2", "<V2", "bfloat16", "<bfloat16"}) {
    if (descr != brain) continue;
    read_npy_dtype("<u2", address, array);
    array.dtype = DType::bf16;
    array.description = name(DType::bf16);
    return;
  }
  const std::string_view code = descr.substr(std::min<std::size_t>(1, descr.size()));
  const char order = descr.empty() ? '\0' : descr[0];
  if (code.size() < 2 || (order != '<' && order != '>' && order != '|' && order != '=')) {
    refuse(descr, address);
  }
  array.swap_bytes = is_swapped(order);
  for (const Known& one : known) {
    if (one.code != code) continue;
    array.dtype = one.dtype;
    array.element_size = size_of(one.dtype);
    array.description = std::string(name(one.dtype));
    return;
  }
  if (code[0] != 'U' && code[0] != 'S') refuse(descr, address);
  std::uint32_t length = 0;
  const char* const end = code.data() + code.size();
  const auto [stopped, failed] = std::from_chars(code.data() + 1, end, length);
  // Characters: far more than names of keys need, and enough for the metadata of any bundle.
  constexpr std::uint32_t most = 1u << 24;
  if (failed != std::errc{} || stopped != end || length == 0 || length > most) {
    refuse(descr, address);
  }
  array.dtype = DType::string;
  array.description = "strings (" + std::string(descr) + ")";
  array.text = code[0] == 'U' ? StoredArray::Text::ucs4 : StoredArray::Text::bytes;
  array.element_size = code[0] == 'U' ? std::size_t{4} * length : length;
}

std::string npy_dtype(DType dtype) {
  for (const Known& one : known) {
    if (one.dtype == dtype) return (size_of(dtype) == 1 ? "|" : "<") + std::string(one.code);
  }
  throw std::invalid_argument("no .npy of type " + std::string(name(dtype)));
}

}  // namespace attn::io
