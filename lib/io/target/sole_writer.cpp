#include "io/target/sole_writer.hpp"

#include "system/paths.hpp"

namespace attn::io {

// Never finished, so that nothing appears.
SoleWriter::SoleWriter(const std::string& file)
    : lock_(file, without_links(file) + ".lock", std::nullopt, false) {}

}  // namespace attn::io
