#include "sinkhorn_iter/gradients.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "attnkit/error.hpp"
#include "common/heads/own_rows.hpp"
#include "common/outputs/pair_writer.hpp"
#include "gradient/dense_gradient.hpp"
#include "gradient/plan_gradient.hpp"
#include "head/matrix_operand.hpp"
#include "head/number_check.hpp"
#include "sinkhorn/barycentre_gradient.hpp"
#include "sinkhorn/implicit_gradient.hpp"
#include "tensor/buffer.hpp"
#include "transport/empty_tiles.hpp"
#include "transport/points.hpp"
#include "transport/transport_problem.hpp"

namespace attn::tools {
namespace {

constexpr const char* through_cost = "grad_cost";
constexpr const char* through_scores = "grad_scores";

// The tiles in which derivatives by pairs come.
Shape gradient_chunk(const AttentionInput& input) {
  return pairs_chunk(input.queries, input.keys, 256, 128);
}

bool emits_points(const TransportTask& task, const std::string& prefix) {
  return task.emits(prefix + "q") || task.emits(prefix + "k");
}

// Writes derivatives by pairs, times a factor.
template <class T>
class PairGradientWriter final : public GradientSink<T> {
 public:
  PairGradientWriter(const char* name, PairWriter<T> pairs, const Scores<T>& scores, double factor)
      : name_(name), pairs_(std::move(pairs)), factor_(static_cast<T>(factor)) {
    for_empty_tiles(scores, [this](const TileRange& tile) {
      const std::vector<T> zeros(static_cast<std::size_t>(tile.rows * tile.cols));
      pairs_.write(tile.row0, tile.col0, {zeros.data(), tile.rows, tile.cols});
    });
  }

  void start(Index /*lanes*/) override {}
  void merge(Index /*lane*/, SumPart /*part*/) override {}

  void add(const TileRange& range, MatrixView<const T> gradient, Index /*lane*/) override {
    Buffer<T> storage(range.rows * range.cols);
    const MatrixView<T> made(storage.data(), range.rows, range.cols);
    for (Index i = 0; i < range.rows; ++i) {
      std::transform(gradient.row(i), gradient.row(i) + range.cols, made.row(i),
                     [this](T value) { return value * factor_; });
    }
    if (!all_finite(made.data, range.rows * range.cols)) {
      throw_beyond_range<T>(std::string(name_) + " is beyond the range of");
    }
    pairs_.write(range.row0, range.col0, made);
  }

 private:
  const char* name_;
  PairWriter<T> pairs_;
  T factor_;
};

// Of derivatives by a cost or by scores.
GradientKind pair_kind(const TransportTask& task) {
  GradientKind kind{pair_gradient(task), task.input.scores, {"query", "key"}};
  kind.chunk = gradient_chunk(task.input);
  return kind;
}

// Whether a derivative is of the dual, or by a default marginal or weight, which each problem has.
bool is_by_problem(const TransportTask& task, const std::string& prefix, const std::string& name) {
  if (prefix == of_dual) return true;
  if (name == "a") return !task.a && !task.histograms;
  if (name == "b") return !task.b;
  return name == "histogram_weights" && !task.histograms->weights;
}

void require_points(const TransportTask& task, const std::string& prefix, const std::string& hint) {
  if (!emits_points(task, prefix) || task.has_points()) return;
  throw Error(
      Failure::usage,
      fmt::format("--emit {}{} requires q and k", prefix, task.emits(prefix + "q") ? "q" : "k"),
      hint);
}

void require_solution_gradients(const TransportTask& task) {
  std::string first;
  for (const std::string& name : task.emitted) {
    if (first.empty() && name.starts_with(of_solution)) first = name;
  }
  if (first.empty()) return;
  const auto refuse = [](const std::string& name, const std::string& why, const std::string& hint) {
    throw Error(Failure::usage, fmt::format("--emit {}: {}", name, why), hint);
  };
  if (!task.upstream) {
    std::vector<const char*> names = {"grad_plan", "grad_row_potential", "grad_col_potential"};
    if (task.histograms) names.insert(names.begin(), "grad_barycentre");
    if (task.diverges) {
      names = {"grad_row_potential", "grad_col_potential", "grad_row_self_potential",
               "grad_col_self_potential"};
    }
    const std::string hint = fmt::format("-i {}=FILE:/path", names.front());
    const std::string last = names.back();
    names.pop_back();
    refuse(first,
           fmt::format("there is no dataset {} or {}, the gradient of a number with respect to a "
                       "result",
                       fmt::join(names, ", "), last),
           hint);
  }
  require_points(task, of_solution, "--emit grad_cost or grad_scores");
  using Source = ScoreOptions::Source;
  if (task.emits(through_cost) && task.scores.source != Source::cost) {
    refuse(through_cost, "the scores are not made of a cost", "");
  }
  if (task.emits(through_scores) && task.scores.source != Source::scores) {
    refuse(through_scores, "the scores are not ready-made", "");
  }
  const char* const by_pair = pair_gradient(task);
  if (by_pair != nullptr && task.scores.softcap) refuse(by_pair, "--softcap changes it", "");
}

// Bytes of the gradients whose names begin with `prefix`, without the written one.
std::int64_t result_bytes(const TransportTask& task, const std::string& prefix,
                          std::size_t element_size) {
  const AttentionInput& input = task.input;
  Index lines = 0;
  if (task.emits(prefix + "a"))
    lines += task.histograms ? task.lines() * input.keys : input.queries;
  if (task.emits(prefix + "b")) lines += input.keys;
  if (task.emits(prefix + "histogram_weights")) lines += task.lines();
  Index points = 0;
  if (task.emits(prefix + "q")) points += input.queries * input.q->cols;
  if (task.emits(prefix + "k")) points += input.keys * input.k->cols;
  return lines * static_cast<std::int64_t>(sizeof(double)) +
         points * static_cast<std::int64_t>(element_size);
}

// Bytes of the computation of derivatives by points through `plans` plans.
std::int64_t point_work_bytes(const TransportTask& task, const char* prefix, Index plans,
                              std::size_t element_size, int threads) {
  if (!emits_points(task, prefix)) return 0;
  const AttentionInput& input = task.input;
  const std::int64_t missing =
      task.exact ? missing_gradient_bytes(input.queries, input.keys, input.q->cols, element_size)
                 : 0;
  return differentiate_plans_bytes(input.queries, input.keys, plans, element_size, threads) +
         input.energy().gradient_bytes(input.sizes(), element_size,
                                       gradient_lanes(input.keys, threads)) +
         missing;
}

}  // namespace

template <class T>
InputGradients<T>::InputGradients(const TransportTask& task, const char* prefix,
                                  const Head<T>& head) {
  const TileRange& own = head.part.range;
  const auto room = [&](auto& values, const char* name, Index size) {
    if (task.emits(std::string(prefix) + name)) values.resize(static_cast<std::size_t>(size));
  };
  room(a, "a", task.histograms ? task.lines() * own.cols : own.rows);
  room(b, "b", own.cols);
  room(weights, "histogram_weights", task.lines());
  room(q, "q", head.q().rows * head.q().cols);
  room(k, "k", head.k().rows * head.k().cols);
  if (prefix == std::string(of_solution) && sums_pairs(task)) {
    pairs.resize(static_cast<std::size_t>(task.input.queries * task.input.keys));
  }
}

const char* pair_gradient(const TransportTask& task) {
  for (const char* name : {through_cost, through_scores}) {
    if (task.emits(name)) return name;
  }
  return nullptr;
}

bool sums_pairs(const TransportTask& task) {
  return pair_gradient(task) != nullptr && is_shared(pair_kind(task), task.input.problems);
}

SolutionKinds solution_kinds(const TransportTask& task) {
  SolutionKinds kinds;
  const auto add = [&](std::vector<GradientKind>& to, const char* name, const Operand& of,
                       const std::vector<std::string>& labels) {
    // Derivatives by masses of 0 may be infinite.
    if (task.emits(name)) to.push_back({name, of, labels, &to != &kinds.masses});
  };
  if (task.a) add(kinds.masses, "grad_a", *task.a, {"query"});
  if (task.b) add(kinds.masses, "grad_b", *task.b, {"key"});
  if (task.histograms) {
    add(kinds.masses, "grad_a", task.histograms->masses, {"histogram", "key"});
    if (const std::optional<Operand>& weights = task.histograms->weights) {
      add(kinds.masses, "grad_histogram_weights", *weights, {"histogram"});
    }
  }
  if (task.has_points()) {
    add(kinds.others, "grad_q", task.input.q->input, {"query", "feature"});
    add(kinds.others, "grad_k", task.input.k->input, {"key", "feature"});
  }
  if (pair_gradient(task) != nullptr) kinds.others.push_back(pair_kind(task));
  return kinds;
}

void require_gradients(const TransportTask& task) {
  require_points(task, of_dual, "the derivative with respect to a cost is the plan: --emit plan");
  if (task.exact && task.scores.softcap && emits_points(task, of_dual)) {
    throw Error(Failure::usage, fmt::format("--emit {}q or {}k: exact transport differentiates the "
                                            "cost of points without --softcap",
                                            of_dual, of_dual));
  }
  require_solution_gradients(task);
}

template <class T>
TransportPoints<T> points_of(const TransportTask& task, const Head<T>& head, bool of_cost,
                             InputGradients<T>& to, int threads) {
  if (!task.has_points()) return {};
  const ScoreRecipe recipe = task.input.recipe(Scheme::sinkhorn);
  const double scale = of_cost ? recipe.scale * task.unit() : recipe.scale;
  const auto by = [](MatrixView<const T> vectors, std::vector<T>& values) {
    return MatrixView<T>(values.empty() ? nullptr : values.data(), vectors.rows, vectors.cols);
  };
  return {recipe.energy,
          head.arrays().energy_arguments(scale, threads),
          {by(head.q(), to.q), by(head.k(), to.k), {}}};
}

template <class T>
GradientOutputs<T>::GradientOutputs(HeadOutputs& outputs, io::OutputBundle& bundle,
                                    const TransportTask& task, cli::Report& report)
    : outputs_(outputs),
      task_(task),
      kinds_(solution_kinds(task)),
      masses_(bundle, kinds_.masses, task.input, report),
      others_(bundle, kinds_.others, task.input, report) {
  const AttentionInput& input = task.input;
  const DType type = task.f64 ? DType::f64 : DType::f32;
  for (const std::string prefix : {of_dual, of_solution}) {
    const auto create = [&](const char* name, DType dtype, const Shape& own,
                            const std::vector<std::string>& labels) {
      const std::string whole = prefix + name;
      if (!task.emits(whole) || !is_by_problem(task, prefix, name)) return;
      outputs.create(whole, dtype, own, labels);
    };
    if (task.histograms) {
      create("a", DType::f64, {task.lines(), input.keys}, {"histogram", "key"});
    } else {
      create("a", DType::f64, {input.queries}, {"query"});
    }
    create("b", DType::f64, {input.keys}, {"key"});
    create("histogram_weights", DType::f64, {task.lines()}, {"histogram"});
    if (!task.has_points()) continue;
    create("q", type, {input.queries, input.q->cols}, {"query", "feature"});
    create("k", type, {input.keys, input.k->cols}, {"key", "feature"});
  }
}

template <class T>
std::unique_ptr<GradientSink<T>> GradientOutputs<T>::pair_sink(const Head<T>& head,
                                                               InputGradients<T>& through) const {
  if (pair_gradient(task_) == nullptr) return nullptr;
  const TileRange all = task_.input.all_pairs();
  const double factor = task_.of_cost ? -1 / task_.unit() : 1;
  if (!through.pairs.empty()) {
    const MatrixView<T> to(through.pairs.data(), all.rows, all.cols);
    return std::make_unique<DenseGradient<T>>(by_pair(to, head.part.range), factor);
  }
  const std::size_t kind = kinds_.others.size() - 1;
  PairWriter<T> pairs(others_.dataset(kind), others_.position(kind, head.problem), all,
                      head.part.range, T{0});
  return std::make_unique<PairGradientWriter<T>>(pair_gradient(task_), std::move(pairs),
                                                 head.scores(Scheme::sinkhorn), factor);
}

template <class T>
void GradientOutputs<T>::write_no_pairs(Index problem) const {
  if (pair_gradient(task_) == nullptr || sums_pairs(task_)) return;
  const std::size_t kind = kinds_.others.size() - 1;
  PairWriter<T>(others_.dataset(kind), others_.position(kind, problem), task_.input.all_pairs(), {},
                T{0});
}

template <class T>
void GradientOutputs<T>::write(Index problem, InputGradients<T>& dual, InputGradients<T>& through) {
  const AttentionInput& input = task_.input;
  const TileRange& own = input.part(problem).range;
  for (InputGradients<T>* const each : {&dual, &through}) {
    const std::string prefix = each == &dual ? of_dual : of_solution;
    const auto write = [&](const char* name, auto& values, Index first, Index total, Index width) {
      const std::string whole = prefix + name;
      if (!task_.emits(whole)) return;
      using Value = typename std::remove_reference_t<decltype(values)>::value_type;
      spread_rows(values, first, total, width, Value{0});
      if (is_by_problem(task_, prefix, name)) outputs_.write(whole, problem, values.data());
    };
    if (task_.histograms) {
      spread_lines(each->a, task_.lines(), own.col0, input.keys, 0.0);
      write("a", each->a, 0, task_.lines(), input.keys);
    } else {
      write("a", each->a, own.row0, input.queries, 1);
    }
    write("b", each->b, own.col0, input.keys, 1);
    write("histogram_weights", each->weights, 0, task_.lines(), 1);
    if (!task_.has_points()) continue;
    write("q", each->q, own.row0, input.queries, input.q->cols);
    write("k", each->k, own.col0, input.keys, input.k->cols);
  }
  add(problem, through);
}

template <class T>
void GradientOutputs<T>::add(Index problem, InputGradients<T>& through) {
  const auto values_of = [&](const std::string& name) -> const std::vector<double>& {
    if (name == "grad_histogram_weights") return through.weights;
    return name == "grad_a" ? through.a : through.b;
  };
  for (std::size_t n = 0; n < kinds_.masses.size(); ++n) {
    masses_.add(n, problem, values_of(kinds_.masses[n].name));
  }
  for (std::size_t n = 0; n < kinds_.others.size(); ++n) {
    const std::string& name = kinds_.others[n].name;
    if (name == "grad_q" || name == "grad_k") {
      others_.add(n, problem, name == "grad_q" ? through.q : through.k);
    } else if (sums_pairs(task_)) {
      through.pairs.resize(static_cast<std::size_t>(kinds_.others[n].size()));
      others_.add(n, problem, through.pairs);
    }
  }
}

std::int64_t gradient_result_bytes(const TransportTask& task, std::size_t element_size) {
  const AttentionInput& input = task.input;
  const Index pairs = sums_pairs(task) ? input.queries * input.keys : 0;
  return result_bytes(task, of_dual, element_size) + result_bytes(task, of_solution, element_size) +
         pairs * static_cast<std::int64_t>(element_size);
}

std::int64_t gradient_sum_bytes(const TransportTask& task) {
  const SolutionKinds kinds = solution_kinds(task);
  return gradient_sum_bytes(kinds.masses, task.input.problems) +
         gradient_sum_bytes(kinds.others, task.input.problems);
}

double gradient_file_bytes(const TransportTask& task, std::size_t element_size) {
  SolutionKinds kinds = solution_kinds(task);
  const AttentionInput& input = task.input;
  double elements = 0;
  if (pair_gradient(task) != nullptr) {
    // The file holds whole chunks.
    elements = pairs_elements(input.queries, input.keys, gradient_chunk(input)) *
               static_cast<double>(kinds.others.back().blocks());
    kinds.others.pop_back();
  }
  elements += gradient_elements(kinds.others);
  Index own = 0;
  const auto count = [&](const std::string& name, Index length) {
    if (task.emits(of_solution + name) && is_by_problem(task, of_solution, name)) own += length;
  };
  count("a", input.queries);
  count("b", input.keys);
  if (task.histograms) count("histogram_weights", task.lines());
  const std::int64_t by_problem =
      result_bytes(task, of_dual, element_size) + own * static_cast<std::int64_t>(sizeof(double));
  return static_cast<double>(by_problem) * static_cast<double>(input.problems) +
         elements * static_cast<double>(element_size) +
         gradient_elements(kinds.masses) * static_cast<double>(sizeof(double));
}

std::int64_t dual_gradient_work_bytes(const TransportTask& task, std::size_t element_size,
                                      int threads) {
  return point_work_bytes(task, of_dual, task.lines(), element_size, threads);
}

std::int64_t solution_gradient_work_bytes(const TransportTask& task, std::size_t element_size,
                                          int threads, std::int64_t dense_limit) {
  if (!task.upstream) return 0;
  const AttentionInput& input = task.input;
  const Index queries = input.queries;
  const Index keys = input.keys;
  const Index lines = task.lines();
  // Upstream, and u, v and ones in the type of the computation; of a divergence also u, v and
  // derivatives by marginals of three problems, and the parts through lines of mass 0; of
  // histograms U, V and R.
  Index numbers = 2 + lines;
  if (task.diverges) numbers += 44;
  if (task.histograms) numbers += lines + 1;
  std::int64_t bytes = numbers * (queries + keys) * static_cast<std::int64_t>(sizeof(double));
  if (task.upstream->plan) {
    bytes += matrix_source_bytes(*task.upstream->plan, element_size, dense_limit);
  }
  const std::int64_t equations =
      task.histograms
          ? barycentre_gradient_bytes(queries, keys, lines, element_size, threads)
          : through_solution_bytes(task.transport_options(0), queries, keys, element_size, threads);
  const Index plans = task.diverges ? 9 : lines;
  // The writer has a tile on each lane, too.
  const std::int64_t written =
      pair_gradient(task) == nullptr
          ? 0
          : 2 * differentiate_plans_bytes(queries, keys, plans, element_size, threads);
  return bytes + std::max({equations, written,
                           point_work_bytes(task, of_solution, plans, element_size, threads)});
}

#define ATTN_FOR_TYPE(T)                                                            \
  template struct InputGradients<T>;                                                \
  template TransportPoints<T> points_of(const TransportTask&, const Head<T>&, bool, \
                                        InputGradients<T>&, int);                   \
  template class GradientOutputs<T>;
ATTN_FOR_TYPE(float)
ATTN_FOR_TYPE(double)
#undef ATTN_FOR_TYPE

}  // namespace attn::tools
