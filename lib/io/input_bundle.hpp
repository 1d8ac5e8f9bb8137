#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "io/input.hpp"
#include "io/input_dataset.hpp"
#include "io/input_file.hpp"

namespace attn::io {

struct InputBundle::Impl {
  /// The group that INPUT addresses, or all of a file of arrays.
  struct Root {
    std::shared_ptr<const InputFile> file;
    std::string path;  ///< "/" or "/layer3"
    h5::Handle group;  ///< none in a file of arrays

    std::string description() const;                        ///< "dump.h5" or "dump.h5:/layer3"
    std::string address_of(const std::string& name) const;  ///< "dump.h5:/layer3/q"

    bool has(const std::string& name) const;
    std::vector<std::string> names() const;  ///< of its datasets, sorted
    /// Null where nothing has that name; Error(input) where it is no dataset.
    std::shared_ptr<const InputDataset::Impl> dataset(const std::string& name) const;
  };
  std::optional<Root> root;
  std::map<std::string, std::shared_ptr<const InputDataset::Impl>> named;
};

}  // namespace attn::io
