// The module attnkit._core: the tools on arrays of Python, and plans of attention. The package
// attnkit, in Python, makes its functions from it.

#include <pybind11/functional.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <array>
#include <map>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "attnkit/error.hpp"
#include "attnkit/version.hpp"
#include "cli/description.hpp"
#include "cli/failed.hpp"
#include "cli/hosted_run.hpp"
#include "common/frame/tool.hpp"
#include "common/shards/shard.hpp"
#include "common/tables/table_options.hpp"
#include "python/file_object.hpp"
#include "python/plan_object.hpp"
#include "python/python_host.hpp"
#include "python/without_gil.hpp"

namespace attn::python {
namespace {

namespace py = pybind11;

struct DeclaredTool {
  const tools::ToolDefinition* tool;
  cli::Declaration declaration;
};

const DeclaredTool& tool_called(const std::string& name) {
  static std::map<std::string, DeclaredTool> declared;
  if (declared.empty()) {
    const std::array all = {&tools::attn_compute,       &tools::basis_paths,
                            &tools::explain_away_stats, &tools::lambda_solve,
                            &tools::mode_collapse_sim,  &tools::sinkhorn_iter};
    const std::array names = {"attn-compute", "basis-paths",       "explain-away-stats",
                              "lambda-solve", "mode-collapse-sim", "sinkhorn-iter"};
    for (std::size_t n = 0; n < all.size(); ++n) {
      declared.emplace(names[n], DeclaredTool{all[n], all[n]->declare()});
    }
  }
  const auto found = declared.find(name);
  if (found == declared.end()) throw py::key_error(name);
  return found->second;
}

// Returns what the command would write and print: a dict.
py::dict run(const std::string& name, const std::vector<std::string>& command_line,
             const py::dict& arrays, const py::dict& places, const py::object& progress) {
  const DeclaredTool& tool = tool_called(name);
  const auto host = std::make_shared<PythonHost>(arrays, places, progress);
  cli::HostedRun found;
  const bool done = run_without_gil(host->stop(), [&] {
    found = cli::run_hosted(command_line, tool.declaration, host,
                            [&](const cli::Arguments& arguments, cli::Report& report) {
                              return tool.tool->run(
                                  tools::with_shard(tools::with_table_file(arguments)), report);
                            });
  });
  if (!done) {
    host->rethrow();
    if (PyErr_Occurred() == nullptr) PyErr_SetNone(PyExc_KeyboardInterrupt);
    throw py::error_already_set();
  }
  py::dict result;
  result["status"] = found.status;
  result["message"] = found.message;
  result["hint"] = found.hint;
  result["report"] = py::cpp_function(found.report);
  result["text"] = found.text;
  result["data"] = found.data;
  result["summary"] = found.summary;
  result["warnings"] = found.warnings;
  result["notes"] = found.notes;
  result["results"] = host->results();
  result["attributes"] = host->attributes();
  return result;
}

// Raises the exception of attnkit._errors for the exception being handled.
void raise_error() {
  const cli::Failed failed = cli::failure_in_flight();
  const py::object made = py::module_::import("attnkit._errors")
                              .attr("error_of")(failed.exit, failed.message, failed.hint);
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(made.ptr())), made.ptr());
}

// For calls that do not end in cli::run_hosted.
void translate(std::exception_ptr failure) {
  try {
    std::rethrow_exception(std::move(failure));
  } catch (const Error&) {
    raise_error();
  } catch (const std::bad_alloc&) {
    raise_error();
  }
}

}  // namespace
}  // namespace attn::python

PYBIND11_MODULE(_core, module) {
  namespace py = pybind11;
  using attn::python::PlanObject;
  module.attr("version") = ATTNKIT_VERSION;
  module.def("description", [](const std::string& tool) {
    return attn::cli::description_json(attn::python::tool_called(tool).declaration);
  });
  module.def("run", &attn::python::run);
  py::class_<PlanObject>(module, "Plan")
      .def(py::init(&attn::python::make_plan))
      .def("run", &PlanObject::run)
      .def("gradients", &PlanObject::gradients)
      .def("set_dropout", &PlanObject::set_dropout)
      .def_readonly("warnings", &PlanObject::warnings)
      .def_readonly("leaks", &PlanObject::leaks)
      .def_property_readonly("dtype", &PlanObject::dtype)
      .def_property_readonly("workspace_bytes", &PlanObject::workspace_bytes)
      .def_property_readonly("reuses_results", &PlanObject::reuses_results);
  // Where the numbers of an array lie, and whether they are used there: for tests.
  module.def("place_of", [](const py::object& array) {
    const attn::python::HeldArray held = attn::python::take_array("array", array);
    attn::Shape strides;
    return py::make_tuple(reinterpret_cast<std::uintptr_t>(held.numbers), held.as_view(strides));
  });
  attn::python::define_file(module);
  py::register_exception_translator(&attn::python::translate);
}
