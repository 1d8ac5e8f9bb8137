// The verb check of basis-paths --network relu.

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "attnkit/error.hpp"
#include "basis_paths/basis_found.hpp"
#include "basis_paths/network_verbs.hpp"
#include "cli/words.hpp"
#include "common/costs/block_plan.hpp"
#include "common/frame/bundles.hpp"
#include "parallel/stop_flag.hpp"
#include "paths/relu_structure.hpp"

namespace attn::tools {
namespace {

using Json = nlohmann::ordered_json;

// Paths between two looks at the memory.
constexpr Index paths_at_once = 1024;

// Adds paths to an elimination that stays within --memory.
class BoundedRank {
 public:
  BoundedRank(const cli::Arguments& arguments, const ReluLayers& layers)
      : memory_(arguments.memory), layers_(layers) {
    require_memory("the rank of paths of " + cli::counted(layers.weights(), "weight"),
                   ReluPathRank::bytes(layers), memory_);
    rank_.emplace(layers);
  }

  void add(const Index* nodes) {
    rank_->add(nodes);
    if (++added_ % paths_at_once != 0) return;
    stop_if_asked();
    if (rank_->bytes() <= memory_) return;
    // The total memory is unknown in advance.
    throw Error(Failure::memory,
                fmt::format("the rank of paths of {} needs more than the {} of working memory that "
                            "--memory allows",
                            cli::counted(layers_.weights(), "weight"),
                            bytes_text(static_cast<double>(memory_))),
                "a larger --memory");
  }

  void add_basis(const ReluSkeleton& skeleton) {
    const ReluBasis basis(layers_, skeleton);
    std::vector<Index> nodes(layers_.sizes().size());
    for (Index n = 0; n < layers_.rank(); ++n) {
      basis.path(n, nodes.data());
      add(nodes.data());
    }
  }

  Index rank() const { return rank_->rank(); }

 private:
  std::int64_t memory_;
  const ReluLayers& layers_;
  std::optional<ReluPathRank> rank_;
  Index added_ = 0;
};

// The list whose paths are judged; null for the paths of the skeleton.
const Operand* judged_network_list(const NetworkTask& task) {
  const Operand* const asked = task.operand("path");
  return asked != nullptr ? asked : task.operand("basis_path");
}

void add_listed(const NetworkReader& reader, const Operand& list, Index problem,
                BoundedRank& rank) {
  const ReluLayers& layers = reader.task.layers();
  const Index nodes = layers.count() + 1;
  const Shape position = unravel(list.block(problem), list.leading);
  const Shape one(position.size(), 1);
  std::vector<Index> block(static_cast<std::size_t>(std::min(paths_at_once, list.rows) * nodes));
  for (Index first = 0; first < list.rows; first += paths_at_once) {
    const Index count = std::min(paths_at_once, list.rows - first);
    const Shape start = join(position, {first, 0});
    const Shape size = join(one, {count, nodes});
    list.dataset.read(start, size, block.data());
    for (Index n = 0; n < count * nodes; ++n) {
      const Index node = block[static_cast<std::size_t>(n)];
      const Index end = layers.size(n % nodes);
      if (node < 0 || node >= end) {
        refuse_index(list.dataset, {start, size}, n, node, "a node", end);
      }
    }
    for (Index n = 0; n < count; ++n) rank.add(&block[static_cast<std::size_t>(n * nodes)]);
  }
}

}  // namespace

bool report_structure(const cli::Arguments& arguments, const ReluLayers& layers,
                      Checkpoint* checkpoint, cli::Report& report) {
  // All paths: at most weights less hidden nodes are independent, since rescalings of nodes change
  // no path.
  const auto rank = find_or_take<Index>(checkpoint, [&] {
    BoundedRank all(arguments, layers);
    all.add_basis(cyclic_skeleton(layers));
    return all.rank();
  });
  const std::optional<Index> paths = layers.path_count();
  Json& result = report.result();
  result["weights"] = layers.weights();
  result["hidden"] = layers.hidden();
  result["rank"] = rank;
  result["expected_rank"] = layers.rank();
  result["paths"] = json_or_null(paths);
  report.print(fmt::format("layers              {}\n", times(layers.sizes())) +
               fmt::format("weights             {}\n", layers.weights()) +
               fmt::format("paths               {}\n", count_text(paths)) +
               fmt::format("rank                weights - hidden nodes  {} {} {}\n", layers.rank(),
                           layers.rank() == rank ? "=" : "!=", rank));
  return rank == layers.rank();
}

bool check_paths(const cli::Arguments& arguments, const NetworkTask& task, Checkpoint* checkpoint,
                 cli::Report& report) {
  plan_network(arguments, task);
  const NetworkReader reader(arguments, task);
  const ReluLayers& layers = task.layers();
  const Operand* const list = judged_network_list(task);
  const Index paths = list != nullptr ? list->rows : layers.rank();
  report_network_shape(task, report);
  const bool holds = report_structure(arguments, layers, checkpoint, report);
  BasisFound all;
  Json networks = Json::array();
  for (Index problem = 0; problem < task.input.problems; ++problem) {
    const auto found = find_or_take<BasisFound>(checkpoint, [&] {
      BoundedRank rank(arguments, layers);
      if (list != nullptr) {
        add_listed(reader, *list, problem, rank);
      } else {
        rank.add_basis(reader.read_skeleton(problem));
      }
      return BasisFound{paths, rank.rank(), layers.rank()};
    });
    Json network = {{"index", unravel(problem, task.input.leading)}};
    network.update(found.json());
    networks.push_back(std::move(network));
    all.add(found);
  }
  Json& result = report.result();
  result["judged"] = list == nullptr ? "skeleton" : list->dataset.name();
  result["basis"] = all.json();
  result["networks"] = std::move(networks);
  report.print_line(fmt::format("{} of {}: {}", list == nullptr ? "basis" : list->dataset.name(),
                                cli::counted(task.input.problems, "network"), all.text()));
  return holds && all.independent() && all.complete();
}

}  // namespace attn::tools
