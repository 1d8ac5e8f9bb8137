#include "python/plan_object.hpp"

#include <algorithm>
#include <chrono>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <stdexcept>
#include <utility>

#include "attn_compute/compute_task.hpp"
#include "attnkit/attention.hpp"
#include "cli/parse.hpp"
#include "common/frame/bundles.hpp"
#include "common/frame/tool.hpp"
#include "common/heads/input_warnings.hpp"
#include "parallel/stop_flag.hpp"
#include "python/declared_tools.hpp"
#include "python/python_host.hpp"
#include "python/without_gil.hpp"
#include "scheme/scheme_description.hpp"

namespace attn::python {
namespace {

namespace py = pybind11;

// The operands of plans by name, as datasets of the tools are called.
template <template <class> class Array, class T>
std::map<std::string, Array<T>*> numbers_of(AttentionOperands<Array, T>& in) {
  return {{"q", &in.q},
          {"k", &in.k},
          {"v", &in.v},
          {"x", &in.x},
          {"y", &in.y},
          {"scores", &in.scores},
          {"wq", &in.wq},
          {"wk", &in.wk},
          {"wv", &in.wv},
          {"bq", &in.bq},
          {"bk", &in.bk},
          {"bv", &in.bv},
          {"bias", &in.bias},
          {"gate", &in.gate},
          {"preference", &in.preference},
          {"cost", &in.cost},
          {"rel_bias", &in.rel_bias}};
}

template <template <class> class Array, class T>
std::map<std::string, Array<Index>*> positions_of(AttentionOperands<Array, T>& in) {
  return {{"query_length", &in.query_length}, {"key_length", &in.key_length},
          {"query_start", &in.query_start},   {"key_start", &in.key_start},
          {"query_offset", &in.query_offset}, {"cu_seqlens_q", &in.cu_seqlens_q},
          {"cu_seqlens_k", &in.cu_seqlens_k}};
}

const std::set<std::string> plan_results = {
    "out",     "row_potential", "col_potential", "unas_row_potential",
    "col_sum", "row_entropy",   "weights"};

const std::set<std::string> energy_operands = {"w", "w1", "w2", "b1"};

// Numbers of the type T in memory: the caller's, or a copy of them. `narrows`: float64 numbers may
// be rounded to float32.
template <class T>
class Numbers {
 public:
  Numbers(const std::string& name, HeldArray array, bool narrows) {
    const bool same = array.dtype == dtype_of<T>() ||
                      (dtype_of<T>() == DType::u8 && array.dtype == DType::boolean);
    Shape strides;
    if (same && array.as_view(strides)) {
      view_ = {static_cast<const T*>(array.numbers), array.shape, strides};
      owner_ = std::move(array.owner);
      return;
    }
    if (dtype_of<T>() == DType::f32 && array.dtype == DType::f64 && !narrows) {
      throw Error(Failure::input, name + " is float64, but the plan computes in float32",
                  name + " in float32, or a plan that is made with float64 arrays");
    }
    const Shape shape = array.shape;
    const ArraySource source(as_source(name, std::move(array)));
    auto copy = std::make_shared<std::vector<T>>(
        static_cast<std::size_t>(std::max<Index>(1, element_count(shape))));
    source.read(Shape(shape.size(), 0), shape, copy->data());
    view_ = {copy->data(), shape, {}};
    owner_ = copy;
  }

  const TensorView<const T>& view() const { return view_; }

 private:
  TensorView<const T> view_;
  std::shared_ptr<void> owner_;
};

// The arrays of one run.
template <class T>
class Bound {
 public:
  Bound(const py::dict& arrays, std::optional<Index> offset, bool narrows)
      : offset_(offset), narrows_(narrows) {
    auto numbers = numbers_of(inputs_);
    auto positions = positions_of(inputs_);
    for (const auto& [key, object] : arrays) {
      const std::string name = py::str(key);
      held_[name] = take_array(name, object);
      const HeldArray& array = held_[name];
      if (const auto found = numbers.find(name); found != numbers.end()) {
        *found->second = keep<T>(name, array);
      } else if (energy_operands.count(name) > 0) {
        inputs_.energy[name] = keep<T>(name, array);
      } else if (const auto place = positions.find(name); place != positions.end()) {
        *place->second = keep<Index>(name, array);
      } else if (name == "mask") {
        inputs_.mask = keep<std::uint8_t>(name, array);
      } else if (name == "hybrid") {
        inputs_.hybrid = keep<double>(name, array);
      } else if (name == "sink") {
        inputs_.sink = keep<double>(name, array);
      } else {
        throw Error(Failure::usage, "a plan does not take " + name);
      }
    }
    if (offset_) inputs_.query_offset = {&*offset_, {}};
  }
  Bound(const Bound&) = delete;
  Bound& operator=(const Bound&) = delete;

  const AttentionInputs<T>& inputs() const { return inputs_; }
  const std::map<std::string, HeldArray>& held() const { return held_; }
  const Shape& shape_of(const std::string& name) const { return held_.at(name).shape; }
  bool has(const std::string& name) const { return held_.count(name) > 0; }

  template <class Number>
  TensorView<const Number> keep(const std::string& name, const HeldArray& array) {
    auto numbers = std::make_shared<Numbers<Number>>(name, array, narrows_);
    kept_.push_back(numbers);
    return numbers->view();
  }

 private:
  std::optional<Index> offset_;
  bool narrows_;
  AttentionInputs<T> inputs_;
  std::map<std::string, HeldArray> held_;
  std::vector<std::shared_ptr<void>> kept_;
};

template <class T>
class TypedPlan final : public PlanObject {
 public:
  TypedPlan(const py::dict& arrays, const AttentionOptions& options, std::optional<Index> offset,
            const std::set<std::string>& emitted, bool narrows, int threads)
      : scheme_(options.scheme),
        offset_(offset),
        narrows_(narrows),
        emitted_(emitted.begin(), emitted.end()),
        plan_(shapes_of(Bound<T>(arrays, offset, narrows).inputs()), options, Context(threads)) {
    has_gate_ = arrays.contains("gate");
    repeats_ = options.repetition.has_value();
  }

  py::tuple run(const py::dict& arrays, const py::dict& places) override {
    const Bound<T> bound(arrays, offset_, narrows_);
    const std::map<std::string, HeldArray> own = taken(places, bound);
    py::dict results;
    AttentionOutputs<T> outputs;
    for (const std::string& name : emitted_) {
      place(name, own, places, results, outputs);
    }
    AttentionSummary summary;
    compute([&] { summary = plan_.run(bound.inputs(), outputs); });
    return py::make_tuple(results, summary.status() != SolveStatus::not_converged);
  }

  py::dict gradients(const py::dict& arrays, const py::object& grad_out,
                     const std::vector<std::string>& wanted, const py::object& results) override {
    Bound<T> bound(arrays, offset_, narrows_);
    const TensorView<const T> upstream =
        bound.template keep<T>("grad_out", take_array("grad_out", grad_out));
    py::dict found;
    AttentionGradients<T> gradients;
    for (const std::string& name : wanted) {
      if (!bound.has(name)) {
        throw Error(Failure::usage, "a gradient by " + name + " requires the array " + name);
      }
      const Shape shape = bound.shape_of(name);
      py::array made = new_array(dtype_of<T>(), shape);
      TensorView<T> view{static_cast<T*>(made.mutable_data()), shape, {}};
      place_of_gradient(name, gradients) = view;
      found[py::str(name)] = std::move(made);
    }
    if (results.is_none() || !reuses_results()) {
      compute([&] { plan_.gradients(bound.inputs(), upstream, gradients, {}); });
      return found;
    }
    AttentionResults<T> known;
    const auto dict = results.cast<py::dict>();
    const auto take = [&](const char* name) { return take_array(name, dict[name]); };
    if (dict.contains("out")) known.out = bound.template keep<T>("out", take("out"));
    const auto potential = [&](const char* name) {
      return dict.contains(name) ? bound.template keep<double>(name, take(name))
                                 : TensorView<const double>();
    };
    known.row_potential = potential("row_potential");
    known.col_potential = potential("col_potential");
    known.unas_row_potential = potential("unas_row_potential");
    compute([&] { plan_.gradients_from(bound.inputs(), known, upstream, gradients); });
    return found;
  }

  void set_dropout(double rate, std::uint64_t seed, std::uint64_t stream) override {
    compute([&] { plan_.set_dropout(rate, seed, stream); });
  }

  std::string dtype() const override { return std::string(name(dtype_of<T>())); }
  std::int64_t workspace_bytes() const override { return plan_.workspace_bytes(); }
  bool reuses_results() const override {
    return scheme_ != Scheme::sinkhorn && !has_gate_ && !repeats_;
  }

 private:
  std::map<std::string, HeldArray> taken(const py::dict& places, const Bound<T>& bound) const {
    std::map<std::string, HeldArray> own;
    for (const auto& [key, object] : places) {
      const std::string name = py::str(key);
      if (std::find(emitted_.begin(), emitted_.end(), name) == emitted_.end()) {
        throw Error(Failure::usage,
                    "out has an array for " + name + ", which the plan does not compute");
      }
      own[name] = take_array(name, object, true);
    }
    require_apart(bound.held(), own);
    return own;
  }

  TensorView<T>& place_of_gradient(const std::string& name, AttentionGradients<T>& g) const {
    const std::map<std::string, TensorView<T>*> places = {{"q", &g.q},
                                                          {"k", &g.k},
                                                          {"v", &g.v},
                                                          {"x", &g.x},
                                                          {"y", &g.y},
                                                          {"wq", &g.wq},
                                                          {"wk", &g.wk},
                                                          {"wv", &g.wv},
                                                          {"bq", &g.bq},
                                                          {"bk", &g.bk},
                                                          {"bv", &g.bv},
                                                          {"bias", &g.bias},
                                                          {"gate", &g.gate},
                                                          {"sink", &g.sink},
                                                          {"hybrid", &g.hybrid},
                                                          {"rel_bias", &g.rel_bias},
                                                          {"preference", &g.preference},
                                                          {"cost", &g.cost}};
    const auto found = places.find(name);
    if (found != places.end()) return *found->second;
    if (energy_operands.count(name) > 0) return g.energy[name];
    throw Error(Failure::usage, "there is no gradient by " + name);
  }

  // Sets one output to an array of `own`, or to a new one.
  void place(const std::string& name, const std::map<std::string, HeldArray>& own,
             const py::dict& places, py::dict& results, AttentionOutputs<T>& outputs) {
    const auto set = [&]<class Number>(TensorView<Number>& view, const Shape& shape) {
      const auto given = own.find(name);
      if (given == own.end()) {
        py::array made = new_array(dtype_of<Number>(), shape);
        view = {static_cast<Number*>(made.mutable_data()), shape, {}};
        results[py::str(name)] = std::move(made);
        return;
      }
      require_place(name, given->second, dtype_of<Number>(), shape);
      Shape strides;
      if (!given->second.as_view(strides)) {
        throw Error(Failure::input, name + " has strides that a plan cannot write to");
      }
      view = {static_cast<Number*>(given->second.numbers), shape, strides};
      results[py::str(name)] = places[py::str(name)];
    };
    const Shape rows = plan_.query_shape();
    const Shape columns = plan_.key_shape();
    if (name == "out") return set(outputs.out, plan_.out_shape());
    if (name == "row_potential") return set(outputs.row_potential, rows);
    if (name == "col_potential") return set(outputs.col_potential, columns);
    if (name == "unas_row_potential") return set(outputs.unas_row_potential, rows);
    if (name == "col_sum") return set(outputs.col_sum, columns);
    if (name == "row_entropy") return set(outputs.row_entropy, rows);
    set(outputs.weights, join(rows, {columns.back()}));
  }

  // Each call has a flag of its own, so that Ctrl-C ends the call of the main thread alone.
  template <class Body>
  void compute(const Body& body) {
    std::atomic<bool> stop{false};
    const bool done = run_without_gil(stop, [&] {
      std::unique_lock lock(turn_, std::defer_lock);
      while (!lock.try_lock_for(std::chrono::milliseconds(50))) stop_if_asked();
      body();
    });
    if (!done) throw std::logic_error("a run stopped without a reason");
  }

  Scheme scheme_;
  std::optional<Index> offset_;
  bool narrows_;
  std::vector<std::string> emitted_;
  bool has_gate_ = false;
  bool repeats_ = false;
  std::timed_mutex turn_;
  AttentionPlan<T> plan_;
};

void refuse_options(const cli::Arguments& arguments, const tools::ComputeTask& task) {
  const auto refuse = [](const std::string& option, const std::string& hint) {
    throw Error(Failure::usage, "a plan has no option " + option, hint);
  };
  if (task.options.join) refuse("join", "attnkit.attention has it");
  for (const std::string& name : task.options.emitted) {
    if (plan_results.count(name) == 0) {
      throw Error(Failure::usage, "a plan does not compute " + name,
                  name.starts_with("grad_") ? "AttentionPlan.gradients" : "attnkit.attention does");
    }
  }
  if (arguments.given("queries")) refuse("queries", "attnkit.attention has it");
  if (task.options.scores.layout != HeadLayout::heads_first) {
    refuse("layout", "q.swapaxes(-3, -2) has the axes in order, without a copy");
  }
}

AttentionOptions options_of(const cli::Arguments& arguments, const tools::ComputeTask& task) {
  const tools::ScoreOptions& scores = task.options.scores;
  AttentionOptions options;
  options.scheme = task.options.scheme.scheme;
  options.energy =
      scores.source == tools::ScoreOptions::Source::scores ? "" : scores.energy_of(options.scheme);
  options.scale = scores.scale;
  options.softcap = scores.softcap;
  options.causal = task.input.causal;
  options.window = scores.window;
  options.relative = scores.relative;
  options.hybrid = arguments.number("hybrid").value_or(0.5);
  options.alpha = scores.alpha;
  options.gamma = scores.gamma;
  options.stopping = task.options.scheme.stopping;
  options.repetition = task.options.repetition;
  options.tuning.bf16 = scores.bf16;
  return options;
}

}  // namespace

std::unique_ptr<PlanObject> make_plan(const std::vector<std::string>& command_line,
                                      const py::dict& arrays) {
  const auto host = std::make_shared<PythonHost>(arrays, py::dict(), py::none());
  cli::Arguments arguments =
      cli::parse(command_line, declared("attn-compute").declaration, cli::process_environment);
  arguments.host = host;
  cli::Report report;
  report.make_quiet();
  const tools::ComputeTask task(arguments, tools::open_input(arguments, report));
  refuse_options(arguments, task);
  const AttentionOptions options = options_of(arguments, task);
  const std::optional<Index> offset = task.options.scores.query_offset;
  const auto make = [&]<class T>(T) -> std::unique_ptr<PlanObject> {
    return std::make_unique<TypedPlan<T>>(arrays, options, offset, task.options.emitted,
                                          arguments.f64 == false, arguments.threads);
  };
  std::unique_ptr<PlanObject> plan = task.f64 ? make(double()) : make(float());
  const std::vector<Scheme> schemes = {options.scheme};
  tools::warn_of_input(schemes, task.bundle, task.input, report);
  const std::size_t before = report.own_warnings().size();
  tools::warn_of_leak(schemes, task.input, report);
  plan->leaks = report.own_warnings().size() > before;
  for (const auto& warning : report.own_warnings()) plan->warnings.push_back(warning.line);
  return plan;
}

}  // namespace attn::python
