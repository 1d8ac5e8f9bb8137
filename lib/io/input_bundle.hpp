#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "io/input.hpp"
#include "io/input_dataset.hpp"
#include "io/input_file.hpp"

namespace attn::io {

struct InputBundle::Impl {
  /// The group that INPUT addresses.
  struct Root {
    std::shared_ptr<const InputFile> file;
    std::string path;  ///< "/" or "/layer3"
    h5::Handle group;

    std::string description() const;                        ///< "dump.h5" or "dump.h5:/layer3"
    std::string address_of(const std::string& name) const;  ///< "dump.h5:/layer3/q"
  };
  std::optional<Root> root;
  std::map<std::string, std::shared_ptr<const InputDataset::Impl>> named;
};

}  // namespace attn::io
