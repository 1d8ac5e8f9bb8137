#pragma once

#include <string>

#include "io/target/target.hpp"
#include "system/descriptor.hpp"
#include "system/temporary.hpp"

namespace attn::io {

/// A temporary that is never moved anywhere: its content is read again before it is removed, at the
/// latest when this object ends.
class ScratchTarget : public Target {
 public:
  /// `description` is the description of the output made from it, and `name` the name of the
  /// output's file in `folder`, or empty for a stream. Throws Error(output).
  ScratchTarget(std::string description, const std::string& folder, const std::string& name);

  void with_path(const std::function<void(const std::string&)>& open) override;
  std::string lasting_path() const override { return name_.path(); }
  void finish() override;
  void discard() noexcept override;

 private:
  TemporaryName name_;
  Descriptor descriptor_;
};

}  // namespace attn::io
