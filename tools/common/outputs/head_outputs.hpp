#pragma once

#include <map>
#include <string>
#include <vector>

#include "cli/report.hpp"
#include "common/outputs/block_output.hpp"
#include "io/output.hpp"
#include "tensor/shape.hpp"

namespace attn::tools {

/// Results written head by head: datasets whose leading axes are those of the problems.
class HeadOutputs {
 public:
  /// `bundle`, `report` and `share`, which is null unless the run is divided, must outlive the
  /// object. The last leading axis is labelled `problem`.
  HeadOutputs(io::OutputBundle& bundle, const Shape& leading, cli::Report& report,
              ProblemShare* share = nullptr, std::string problem = "head");

  /// Creates a dataset of shape leading + own and lists it in the report. `own_labels` names its
  /// own axes. An empty `own_chunk` means contiguous. `heads_inside`: the last leading axis comes
  /// after the first own axis, (…, Lq, H, dv). `padded` as in BlockLayout.
  void create(const std::string& name, DType type, const Shape& own,
              const std::vector<std::string>& own_labels, const Shape& own_chunk = {},
              bool heads_inside = false, bool padded = false);

  /// Writes all of dataset `name` for `problem`; does nothing if it was not created.
  template <class T>
  void write(const std::string& name, Index problem, const T* values) {
    const auto found = datasets_.find(name);
    if (found != datasets_.end()) found->second.write(problem, values);
  }

  /// The same for lines [first, first + count) along the dataset's first own axis.
  template <class T>
  void write_lines(const std::string& name, Index problem, Index first, Index count,
                   const T* values) {
    const auto found = datasets_.find(name);
    if (found != datasets_.end()) found->second.write_lines(problem, first, count, values);
  }

  /// An existing dataset, and the position of a problem along its leading axes.
  io::OutputDataset dataset(const std::string& name) const { return datasets_.at(name).dataset(); }
  Shape position(Index problem) const;

 private:
  io::OutputBundle& bundle_;
  Shape leading_;
  cli::Report& report_;
  ProblemShare* share_;
  std::string problem_;
  std::map<std::string, BlockOutput> datasets_;
};

}  // namespace attn::tools
