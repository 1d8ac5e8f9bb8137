#pragma once

#include <string>
#include <vector>

#include "cli/command.hpp"
#include "tensor/difference.hpp"
#include "tensor/shape.hpp"

namespace attn::tools {

/// The comparison of two datasets or attributes.
struct Compared {
  std::string name;  ///< "layer0/out"; for an attribute "layer0/out@units", for the root's "@units"
  Shape shape;       ///< of the dataset or attribute in A
  bool comparable = false;  ///< shapes and kinds agree
  bool is_text = false;     ///< strings: no errors, only the position of the first difference
  Difference difference;    ///< if comparable; for strings only the counts and absolute_at
  std::string reason;       ///< why they cannot be compared: "shape (3) against (4)"
  std::string note;         ///< "float32 against float64"

  bool same() const { return comparable && difference.differing == 0; }
};

/// The requested comparisons.
class Comparison {
 public:
  /// Opens both sides, pairs the datasets by their paths and reads them block by block within
  /// arguments.memory. Throws Error(input) for unreadable datasets and for names that neither side
  /// has, Error(usage) for attributes of single datasets.
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
