#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cli/report.hpp"
#include "io/output.hpp"
#include "tensor/shape.hpp"

namespace attn::tools {

/// Results written head by head: datasets whose leading axes are those of the problems.
class HeadOutputs {
 public:
  /// `bundle` and `report` must outlive it. The last leading axis is labelled `problem`.
  HeadOutputs(io::OutputBundle& bundle, Shape leading, cli::Report& report,
              std::string problem = "head");

  /// Creates a dataset of shape leading + own and lists it in the report. `own_labels` names its
  /// own axes. An empty `own_chunk` means contiguous. `heads_inside`: the last leading axis comes
  /// after the first own axis, (…, Lq, H, dv).
  void create(const std::string& name, DType type, const Shape& own,
              const std::vector<std::string>& own_labels, const Shape& own_chunk = {},
              bool heads_inside = false);

  /// Writes all of dataset `name` for `problem`; does nothing if it was not created.
  template <class T>
  void write(const std::string& name, Index problem, const Shape& own, const T* values) {
    const auto found = datasets_.find(name);
    if (found == datasets_.end()) return;
    const Shape head = position(problem);
    Shape start = join(head, Shape(own.size(), 0));
    Shape count = join(Shape(head.size(), 1), own);
    if (heads_inside_.count(name) > 0) {
      std::swap(start[head.size() - 1], start[head.size()]);
      std::swap(count[head.size() - 1], count[head.size()]);
    }
    found->second.write(start, count, values);
  }

  /// An existing dataset, and the position of a problem in it.
  io::OutputDataset dataset(const std::string& name) const { return datasets_.at(name); }
  Shape position(Index problem) const { return unravel(problem, leading_); }

 private:
  io::OutputBundle& bundle_;
  Shape leading_;
  cli::Report& report_;
  std::string problem_;
  std::map<std::string, io::OutputDataset> datasets_;
  std::set<std::string> heads_inside_;
};

}  // namespace attn::tools
