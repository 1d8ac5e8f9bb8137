#include "tensor/dtype.hpp"

#include <array>

namespace attn {
namespace {

enum class Kind { floating, integral, neither };

struct Traits {
  std::string_view name;
  std::size_t size;
  Kind kind;
};

// In the order of the enumeration.
constexpr std::array<Traits, 15> traits = {{
    {"float16", 2, Kind::floating},
    {"bfloat16", 2, Kind::floating},
    {"float32", 4, Kind::floating},
    {"float64", 8, Kind::floating},
    {"int8", 1, Kind::integral},
    {"int16", 2, Kind::integral},
    {"int32", 4, Kind::integral},
    {"int64", 8, Kind::integral},
    {"uint8", 1, Kind::integral},
    {"uint16", 2, Kind::integral},
    {"uint32", 4, Kind::integral},
    {"uint64", 8, Kind::integral},
    {"bool", 1, Kind::integral},
    {"string", 0, Kind::neither},
    {"other", 0, Kind::neither},
}};
static_assert(static_cast<std::size_t>(DType::other) + 1 == traits.size());

const Traits& of(DType type) noexcept { return traits[static_cast<std::size_t>(type)]; }

}  // namespace

std::string_view name(DType type) noexcept { return of(type).name; }
std::size_t size_of(DType type) noexcept { return of(type).size; }
bool is_floating(DType type) noexcept { return of(type).kind == Kind::floating; }
bool is_integral(DType type) noexcept { return of(type).kind == Kind::integral; }

}  // namespace attn
