#include "io/hdf5/h5_type.hpp"

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <stdexcept>

namespace attn::io::h5 {
namespace {

/// The fields of a float of 16 bits.
struct Layout {
  std::size_t exponent_bits;
  std::size_t mantissa_bits;
  std::size_t bias;
};
constexpr Layout half_layout = {5, 10, 15};
constexpr Layout brain_layout = {8, 7, 127};  // H5T_FLOAT_BFLOAT16LE of HDF5 2.0

bool has_layout(hid_t type, const Layout& expected) {
  std::size_t sign = 0;
  std::size_t exponent = 0;
  std::size_t exponent_size = 0;
  std::size_t mantissa = 0;
  std::size_t mantissa_size = 0;
  return H5Tget_size(type) == 2 && H5Tget_precision(type) == 16 && H5Tget_offset(type) == 0 &&
         H5Tget_fields(type, &sign, &exponent, &exponent_size, &mantissa, &mantissa_size) >= 0 &&
         sign == 15 && exponent == expected.mantissa_bits &&
         exponent_size == expected.exponent_bits && mantissa == 0 &&
         mantissa_size == expected.mantissa_bits && H5Tget_ebias(type) == expected.bias &&
         H5Tget_norm(type) == H5T_NORM_IMPLIED &&
         (H5Tget_order(type) == H5T_ORDER_LE || H5Tget_order(type) == H5T_ORDER_BE);
}

bool equal_to_either(hid_t type, hid_t little, hid_t big) {
  return H5Tequal(type, little) > 0 || H5Tequal(type, big) > 0;
}

constexpr bool big_here = std::endian::native == std::endian::big;

StoredType of_float(hid_t type) {
  const bool big = H5Tget_order(type) == H5T_ORDER_BE;
  if (has_layout(type, half_layout)) {
    return {DType::f16, copied_type(type), big != big_here, "float16"};
  }
  if (has_layout(type, brain_layout)) {
    return {DType::bf16, copied_type(type), big != big_here, "bfloat16"};
  }
  if (equal_to_either(type, H5T_IEEE_F32LE, H5T_IEEE_F32BE)) {
    return {DType::f32, copied_type(H5T_NATIVE_FLOAT), false, "float32"};
  }
  if (equal_to_either(type, H5T_IEEE_F64LE, H5T_IEEE_F64BE)) {
    return {DType::f64, copied_type(H5T_NATIVE_DOUBLE), false, "float64"};
  }
  return {DType::other,
          {},
          false,
          "a floating-point type of " + std::to_string(8 * H5Tget_size(type)) + " bits"};
}

StoredType of_integer(hid_t type) {
  struct Known {
    DType type;
    hid_t native;
  };
  const std::array<Known, 8> all = {{{DType::i8, H5T_NATIVE_INT8},
                                     {DType::i16, H5T_NATIVE_INT16},
                                     {DType::i32, H5T_NATIVE_INT32},
                                     {DType::i64, H5T_NATIVE_INT64},
                                     {DType::u8, H5T_NATIVE_UINT8},
                                     {DType::u16, H5T_NATIVE_UINT16},
                                     {DType::u32, H5T_NATIVE_UINT32},
                                     {DType::u64, H5T_NATIVE_UINT64}}};
  for (const Known& known : all) {
    if (H5Tget_size(type) == H5Tget_size(known.native) &&
        H5Tget_sign(type) == H5Tget_sign(known.native)) {
      return {known.type, copied_type(known.native), false, std::string(name(known.type))};
    }
  }
  return {DType::other,
          {},
          false,
          "an integer type of " + std::to_string(8 * H5Tget_size(type)) + " bits"};
}

bool has_member(hid_t type, const char* member, std::int8_t expected) {
  const Quiet quiet;
  std::int8_t value = -1;
  return H5Tenum_valueof(type, member, &value) >= 0 && value == expected;
}

StoredType of_enumeration(hid_t type) {
  if (H5Tget_size(type) == 1 && H5Tget_nmembers(type) == 2 && has_member(type, "FALSE", 0) &&
      has_member(type, "TRUE", 1)) {
    return {DType::boolean, copied_type(type), false, "bool"};
  }
  return {DType::other, {}, false, "an enumeration"};
}

Handle boolean_type() {
  Handle type = made(H5Tenum_create(H5T_STD_I8LE), H5Tclose, "datatype");
  const std::int8_t no = 0;
  const std::int8_t yes = 1;
  require(H5Tenum_insert(type.get(), "FALSE", &no), "datatype");
  require(H5Tenum_insert(type.get(), "TRUE", &yes), "datatype");
  return type;
}

/// IEEE half precision, as h5py stores NumPy's float16.
Handle half_type(hid_t like) {
  Handle type = copied_type(like);
  require(H5Tset_fields(type.get(), 15, 10, 5, 0, 10), "datatype");
  require(H5Tset_size(type.get(), 2), "datatype");
  require(H5Tset_ebias(type.get(), 15), "datatype");
  return type;
}

// As h5py stores NumPy's complex numbers.
bool is_complex(hid_t type) {
  if (H5Tget_nmembers(type) != 2) return false;
  const char* const names[] = {"r", "i"};
  for (unsigned part = 0; part < 2; ++part) {
    char* const name = H5Tget_member_name(type, part);
    const bool is_part = name != nullptr && std::strcmp(name, names[part]) == 0;
    H5free_memory(name);
    if (!is_part || H5Tget_member_class(type, part) != H5T_FLOAT) return false;
  }
  return true;
}

/// The tag says what a writer meant, such as h5py's "NUMPY:datetime64[s]".
StoredType of_opaque(hid_t type) {
  char* const given = H5Tget_tag(type);
  const std::string tag = given == nullptr ? "" : std::string(given).substr(0, 80);
  H5free_memory(given);
  if (H5Tget_size(type) == 2 && tag.find("bfloat16") != std::string::npos) {
    return {DType::bf16, copied_type(type), big_here, "bfloat16"};
  }
  return {
      DType::other, {}, false, tag.empty() ? "an opaque type" : "the opaque type '" + tag + "'"};
}

}  // namespace

StoredType stored_type(hid_t type) {
  switch (H5Tget_class(type)) {
    case H5T_FLOAT:
      return of_float(type);
    case H5T_INTEGER:
      return of_integer(type);
    case H5T_ENUM:
      return of_enumeration(type);
    case H5T_STRING:
      return {DType::string, copied_type(type), false, "strings"};
    case H5T_BITFIELD:
      if (H5Tget_size(type) == 1) return {DType::boolean, copied_type(type), false, "bool"};
      return {DType::other, {}, false, "a bit field"};
    case H5T_COMPOUND:
      return {
          DType::other,
          {},
          false,
          is_complex(type) ? "complex" + std::to_string(8 * H5Tget_size(type)) : "a compound type"};
    case H5T_OPAQUE:
      return of_opaque(type);
    case H5T_REFERENCE:
      return {DType::other, {}, false, "references"};
    case H5T_ARRAY:
      return {DType::other, {}, false, "an array type"};
    case H5T_VLEN:
      return {DType::other, {}, false, "lists of variable length"};
    default:
      return {DType::other, {}, false, "an unknown type"};
  }
}

Handle file_type(DType type) {
  switch (type) {
    case DType::f16:
      return half_type(H5T_IEEE_F32LE);
    case DType::f32:
      return copied_type(H5T_IEEE_F32LE);
    case DType::f64:
      return copied_type(H5T_IEEE_F64LE);
    case DType::i8:
      return copied_type(H5T_STD_I8LE);
    case DType::i16:
      return copied_type(H5T_STD_I16LE);
    case DType::i32:
      return copied_type(H5T_STD_I32LE);
    case DType::i64:
      return copied_type(H5T_STD_I64LE);
    case DType::u8:
      return copied_type(H5T_STD_U8LE);
    case DType::u16:
      return copied_type(H5T_STD_U16LE);
    case DType::u32:
      return copied_type(H5T_STD_U32LE);
    case DType::u64:
      return copied_type(H5T_STD_U64LE);
    case DType::boolean:
      return boolean_type();
    case DType::string:
      return text_type();
    default:
      throw std::invalid_argument("no dataset of type " + std::string(name(type)));
  }
}

Handle memory_type(DType type) {
  if (type == DType::f16) return half_type(H5T_NATIVE_FLOAT);
  Handle stored = file_type(type);
  // One-byte enumerations and strings are the same in memory as in the file.
  if (type == DType::boolean || type == DType::string) return stored;
  return made(H5Tget_native_type(stored.get(), H5T_DIR_DEFAULT), H5Tclose, "datatype");
}

Handle text_type() {
  Handle type = copied_type(H5T_C_S1);
  require(H5Tset_size(type.get(), H5T_VARIABLE), "datatype");
  require(H5Tset_cset(type.get(), H5T_CSET_UTF8), "datatype");
  return type;
}

bool holds_pointers(hid_t type) {
  switch (H5Tget_class(type)) {
    case H5T_VLEN:
      return true;
    case H5T_STRING:
      return H5Tis_variable_str(type) > 0;
    case H5T_ARRAY:
      return holds_pointers(Handle(H5Tget_super(type), H5Tclose).get());
    case H5T_COMPOUND:
      for (int member = H5Tget_nmembers(type); member-- > 0;) {
        const Handle part(H5Tget_member_type(type, static_cast<unsigned>(member)), H5Tclose);
        if (holds_pointers(part.get())) return true;
      }
      return false;
    default:
      return false;
  }
}

std::string unpadded(const char* data, hid_t type) {
  const std::size_t size = H5Tget_size(type);
  switch (H5Tget_strpad(type)) {
    case H5T_STR_NULLTERM:
      return std::string(data, strnlen(data, size));
    case H5T_STR_SPACEPAD: {
      std::string text(data, size);
      return text.substr(0, text.find_last_not_of(' ') + 1);
    }
    default: {
      std::string text(data, size);
      return text.substr(0, text.find_last_not_of('\0') + 1);
    }
  }
}

void select(hid_t space, const std::vector<hsize_t>& start, const std::vector<hsize_t>& step,
            const std::vector<hsize_t>& count) {
  if (start.empty()) return;  // a scalar: its only element is selected already
  require(
      H5Sselect_hyperslab(space, H5S_SELECT_SET, start.data(), step.data(), count.data(), nullptr),
      "selection");
}

}  // namespace attn::io::h5
