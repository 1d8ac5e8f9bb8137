#include "tensor_gen/listing.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "attnkit/error.hpp"
#include "cli/words.hpp"
#include "common/frame/bundles.hpp"
#include "common/frame/output_format.hpp"

namespace attn::tools {

Listing::Listing(const cli::Arguments& arguments, cli::Report& report)
    : arguments_(arguments),
      report_(report),
      target_(*arguments.output == "-" ? std::string("standard output") : *arguments.output) {}

void Listing::add(const std::string& name, DType type, const Shape& shape) {
  const Index count = element_count(shape);
  const Index size = count * static_cast<Index>(size_of(type));
  if (__builtin_add_overflow(bytes_, size, &bytes_)) {
    throw Error(Failure::usage, "the datasets have too many elements");
  }
  elements_ += count;
  const char* const separator = array_format_of(target_) ? ":" : ":/";
  report_.output(name, target_ + separator + name, shape, type);
  table_ += fmt::format("{}  {}  {}  {}\n", cli::one_line(name), times(shape), attn::name(type),
                        bytes_text(static_cast<double>(size)));
}

std::string Listing::bytes() const { return bytes_text(static_cast<double>(bytes_)); }

void Listing::finish() {
  report_.result()["kind"] = arguments_.verb;
  report_.result()["elements"] = elements_;
  report_.result()["bytes"] = bytes_;
  if (arguments_.dry_run) report_.print(table_ + "total  " + bytes() + "\n");
}

}  // namespace attn::tools
