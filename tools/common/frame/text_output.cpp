#include "common/frame/text_output.hpp"

#include "attnkit/error.hpp"
#include "io/output.hpp"
#include "io/target/target.hpp"

namespace attn::tools {

std::shared_ptr<io::TargetWriter> open_text_output(const cli::Arguments& arguments,
                                                   const std::string& file) {
  if (arguments.json == file) {
    throw Error(Failure::usage, "--json and --output both name " + file);
  }
  if (file == "-" && arguments.json && arguments.json->empty()) {
    throw Error(Failure::usage, "--json and the output both go to standard output",
                "name a file: --json=FILE");
  }
  io::OutputBundle::Options options;
  options.target = file;
  options.force = arguments.force;
  options.tmpdir = arguments.tmpdir;
  return std::make_shared<io::TargetWriter>(io::make_target(options));
}

}  // namespace attn::tools
