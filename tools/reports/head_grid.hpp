#pragma once

#include <map>
#include <string>
#include <vector>

#include "tensor/shape.hpp"

namespace attn::tools {

/// The common beginning "text/wiki/" of text/wiki/layer0 and text/wiki/layer1: whole levels only.
std::string common_beginning(const std::vector<std::string>& names);

/// The names of groups behind their common beginning. Long names lose their beginning, which says
/// less than their end, as long as all stay distinct.
std::vector<std::string> group_labels(const std::vector<std::string>& names);

/// A row of a table by group and head: a cell for each head by its place, and one for all.
struct GridRow {
  std::string label;
  std::map<Index, std::string> heads;
  std::string all;
};

/// A table of at most 100 columns with the title on a line above, with the heads that some row has;
/// further heads continue below.
std::string head_grid(const std::string& title, const std::vector<GridRow>& rows);

}  // namespace attn::tools
