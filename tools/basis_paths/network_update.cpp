// The verbs reconstruct and rescale of basis-paths --network relu.

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "attnkit/error.hpp"
#include "basis_paths/network_verbs.hpp"

namespace attn::tools {
namespace {

// Refuses a zero by which weights are divided.
template <class T>
void require_network_divisors(const NetworkRun& run, Index problem, const ReluBasis& basis,
                              const Buffer<T>& values, const std::vector<T>& into) {
  const ReluLayers& layers = run.task.layers();
  const auto refuse = [&](const char* name, Index at, const char* what, Index layer, Index node) {
    const Shape position = join(unravel(problem, run.task.input.leading), {at});
    throw Error(Failure::numerical,
                fmt::format("{} has 0 at [{}], the skeleton's {} node {} of layer {}",
                            run.task.operand(name)->dataset.address(), fmt::join(position, ", "),
                            what, node, layer));
  };
  for (Index l = 1; l < layers.count(); ++l) {
    for (Index b = 0; b < layers.size(l); ++b) {
      const Index n = layers.hidden_node(l, b);
      const Index a = basis.in_of(l, b);
      if (into[static_cast<std::size_t>(n)] == 0) refuse("skeleton_weight", n, "weight into", l, b);
      if (basis.is_out(l, a, b)) continue;  // the same path as that of node a
      const Index path = basis.number(l, a, b);
      if (values[path] == 0) refuse("basis_value", path, "path through", l, b);
    }
  }
}

template <class T>
void reconstruct_network(NetworkRun& run, Index problem, PathPart& part) {
  const ReluLayers& layers = run.task.layers();
  const ReluSkeleton skeleton = run.skeleton<T>(problem, {});
  const ReluBasis basis(layers, skeleton);
  const Buffer<T> values = run.read<T>("basis_value", problem);
  const Buffer<T> kept = run.read<T>("skeleton_weight", problem);
  const std::vector<T> into(kept.begin(), kept.end());
  require_network_divisors(run, problem, basis, values, into);
  NetworkMatrices<T> weights(layers);
  run.report.compute(
      [&] { basis_weights(basis, values.data(), into, weights.matrices, run.arguments.threads); });
  for (Index l = 1; l <= layers.count(); ++l) {
    const Buffer<T>& w = weights.numbers[static_cast<std::size_t>(l - 1)];
    require_normal(NetworkTask::weights_name(l), run.place(NetworkTask::weights_name(l), problem),
                   w, [&](Index n) {
                     const Index a = n / layers.size(l);
                     const Index b = n % layers.size(l);
                     if (basis.is_in(l, a, b)) return true;
                     return !basis.is_out(l, a, b) &&
                            std::abs(values[basis.number(l, a, b)]) == std::abs(w[n]);
                   });
  }
  run.put_matrices(part, "w", problem, std::move(weights));
}

template <class T>
std::vector<T> read_node_factors(const NetworkRun& run, Index problem) {
  const Buffer<T> factors = run.read<T>("scale", problem);
  for (Index n = 0; n < factors.size(); ++n) {
    if (factors[n] > 0) continue;
    const Operand& scale = *run.task.operand("scale");
    const Shape at = join(unravel(scale.block(problem), scale.leading), {n});
    throw Error(Failure::input,
                fmt::format("{} has {} at [{}], expected factors above 0", scale.dataset.address(),
                            factors[n], fmt::join(at, ", ")));
  }
  return {factors.begin(), factors.end()};
}

template <class T>
void rescale_matrices(NetworkRun& run, Index problem, const std::string& prefix, PathPart& part) {
  const std::vector<T> factors = read_node_factors<T>(run, problem);
  NetworkMatrices<T> matrices(run, problem, prefix);
  const NetworkMatrices<T> before(run, problem, prefix);
  run.report.compute([&] {
    rescale_nodes(run.task.layers(), factors, prefix != "w", matrices.matrices,
                  run.arguments.threads);
  });
  for (std::size_t l = 0; l < matrices.numbers.size(); ++l) {
    const Buffer<T>& numbers = matrices.numbers[l];
    require_normal(NetworkTask::weights_name(static_cast<Index>(l) + 1, prefix),
                   run.place(NetworkTask::weights_name(static_cast<Index>(l) + 1, prefix), problem),
                   numbers,
                   [&](Index n) { return std::abs(numbers[n]) == std::abs(before.numbers[l][n]); });
  }
  run.put_matrices(part, prefix, problem, std::move(matrices));
}

// The moments of all weights: the first change like gradients, the second like their squares.
template <class T>
void rescale_moments(NetworkRun& run, Index problem, const std::string& name, int power,
                     PathPart& part) {
  const ReluLayers& layers = run.task.layers();
  const std::vector<T> factors = read_node_factors<T>(run, problem);
  Buffer<T> moments = run.read<T>(name, problem);
  const std::vector<T> before(moments.data(), moments.data() + moments.size());
  ReluMatrices<T> matrices;
  for (Index l = 1, first = 0; l <= layers.count(); ++l) {
    matrices.emplace_back(moments.data() + first, layers.size(l - 1), layers.size(l));
    first += layers.size(l - 1) * layers.size(l);
  }
  run.report.compute([&] {
    for (int n = 0; n < power; ++n) {
      rescale_nodes(layers, factors, true, matrices, run.arguments.threads);
    }
  });
  require_normal(name, run.place(name, problem), moments, [&](Index n) {
    return std::abs(moments[n]) == std::abs(before[static_cast<std::size_t>(n)]);
  });
  run.put(part, name, problem, std::move(moments));
}

}  // namespace

std::string reconstruct_from_paths(NetworkRun& run) {
  plan_network(run.arguments, run.task);
  run.create_matrices("w");
  run.for_each_problem([&](Index problem) {
    run.in_parts(1, 1, [&](Index, Index, PathPart& part) {
      run.task.f64 ? reconstruct_network<double>(run, problem, part)
                   : reconstruct_network<float>(run, problem, part);
    });
  });
  return "weights of networks from basis paths";
}

std::string rescale_weights(NetworkRun& run) {
  plan_network(run.arguments, run.task);
  std::vector<std::string> prefixes = {"w"};
  if (run.task.operand("grad_w1") != nullptr) prefixes.emplace_back("grad_w");
  for (const std::string& prefix : prefixes) run.create_matrices(prefix);
  std::vector<std::pair<std::string, int>> moments;  // with their powers of gradients
  for (const auto& [name, power] :
       {std::pair("sgd_m", 1), std::pair("adam_m", 1), std::pair("adam_v", 2)}) {
    if (run.task.operand(name) == nullptr) continue;
    run.create(name, run.type());
    moments.emplace_back(name, power);
  }
  run.for_each_problem([&](Index problem) {
    for (const auto& [name, power] : moments) {
      run.in_parts(1, 1, [&, &dataset = name, times = power](Index, Index, PathPart& part) {
        run.task.f64 ? rescale_moments<double>(run, problem, dataset, times, part)
                     : rescale_moments<float>(run, problem, dataset, times, part);
      });
    }
    for (const std::string& prefix : prefixes) {
      run.in_parts(1, 1, [&](Index, Index, PathPart& part) {
        run.task.f64 ? rescale_matrices<double>(run, problem, prefix, part)
                     : rescale_matrices<float>(run, problem, prefix, part);
      });
    }
  });
  return "hidden nodes rescaled";
}

}  // namespace attn::tools
