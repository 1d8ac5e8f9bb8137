#pragma once

#include <string>

namespace attn::tools {

/// The part of the INPUTs that a section is.
struct SectionName {
  std::string file;   ///< INPUT as given; "" if all datasets come from -i
  std::string group;  ///< "text/wiki/layer0"; "" for INPUT itself
  std::string
      label;  ///< for people, on one line: the group, with the file if there are several INPUTs
};

}  // namespace attn::tools
