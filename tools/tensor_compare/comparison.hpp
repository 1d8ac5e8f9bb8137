#pragma once

#include <string>
#include <vector>

#include "cli/command.hpp"
#include "tensor/difference.hpp"
#include "tensor/shape.hpp"

namespace attn::tools {

/// Two datasets, or two attributes, compared.
struct Compared {
  std::string name;  ///< "layer0/out"; of an attribute "layer0/out@units", the root's "@units"
  Shape shape;       ///< of the one in A
  bool comparable = false;  ///< shapes and kinds agree
  bool is_text = false;     ///< strings: there are no errors to tell, only which one differs first
  Difference difference;    ///< where comparable; of strings the counts and absolute_at alone
  std::string reason;  ///< why they differ where they cannot be compared: "shape (3) against (4)"
  std::string note;    ///< "float32 against float64"

  bool same() const { return comparable && difference.differing == 0; }
};

/// What tensor-compare was asked to compare, compared.
class Comparison {
 public:
  /// Opens both sides, takes the datasets by their paths and reads them block by block, in
  /// arguments.memory. Throws Error(input) for what cannot be read or is in neither, Error(usage)
  /// for attributes of what is no bundle.
  Comparison(const cli::Arguments& arguments, cli::Report& report);

  const std::vector<Compared>& compared() const { return compared_; }
  const std::vector<Compared>& attributes() const { return attributes_; }
  const std::vector<std::string>& only_in_a() const { return only_in_a_; }
  const std::vector<std::string>& only_in_b() const { return only_in_b_; }

 private:
  std::vector<Compared> compared_;
  std::vector<Compared> attributes_;
  std::vector<std::string> only_in_a_;
  std::vector<std::string> only_in_b_;
};

}  // namespace attn::tools
