// The module attnkit._core: the tools on arrays of Python, and plans of attention. The package
// attnkit, in Python, makes its functions from it.

#include <pybind11/functional.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cstddef>
#include <cstdlib>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "attnkit/error.hpp"
#include "attnkit/version.hpp"
#include "cli/description.hpp"
#include "cli/failed.hpp"
#include "cli/hosted_run.hpp"
#include "common/shards/shard.hpp"
#include "common/tables/table_options.hpp"
#include "io/output.hpp"
#include "python/declared_tools.hpp"
#include "python/file_object.hpp"
#include "python/plan_object.hpp"
#include "python/python_host.hpp"
#include "python/without_gil.hpp"

namespace attn::python {
namespace {

namespace py = pybind11;

py::list texts_of(const std::vector<std::string>& lines) {
  py::list texts;
  for (const std::string& line : lines) texts.append(text_of(line));
  return texts;
}

// Returns what the command would write and print: a dict.
py::dict run(const std::string& name, const std::vector<std::string>& command_line,
             const py::dict& arrays, const py::dict& places, const py::object& progress) {
  const DeclaredTool& tool = declared(name);
  const auto host = std::make_shared<PythonHost>(arrays, places, progress);
  cli::HostedRun found;
  const bool done = run_without_gil(host->stop(), [&] {
    found = cli::run_hosted(command_line, tool.declaration, host,
                            [&](const cli::Arguments& arguments, cli::Report& report) {
                              return tool.tool->run(
                                  tools::with_shard(tools::with_table_file(arguments)), report);
                            });
  });
  host->rethrow();
  if (!done) throw std::logic_error("a run stopped without a reason");
  host->finish_progress();
  host->rethrow();
  py::dict result;
  result["status"] = found.status;
  result["message"] = text_of(found.message);
  result["hint"] = text_of(found.hint);
  result["report"] = py::cpp_function(found.report);
  result["text"] = text_of(found.text);
  result["data"] = text_of(found.data);
  result["summary"] = text_of(found.summary);
  result["warnings"] = texts_of(found.warnings);
  result["notes"] = texts_of(found.notes);
  result["results"] = host->results();
  result["attributes"] = host->attributes();
  return result;
}

// Raises the exception of attnkit._errors for the exception being handled.
void raise_error() {
  const cli::Failed failed = cli::failure_in_flight();
  const py::object made =
      py::module_::import("attnkit._errors")
          .attr("error_of")(failed.exit, text_of(failed.message), text_of(failed.hint));
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

// Leaves the C library as a program leaves it that has freed an array of 32 MB: from then on, it
// keeps freed memory for later calls. Having the kernel clear new pages in each call would take
// longer than attention of a few heads.
void keep_freed_memory() {
  void* volatile block = std::malloc((std::size_t{32} << 20) - 8192);
  std::free(block);
}

}  // namespace
}  // namespace attn::python

PYBIND11_MODULE(_core, module) {
  namespace py = pybind11;
  using attn::python::PlanObject;
  module.attr("version") = ATTNKIT_VERSION;
  module.def("description", [](const std::string& tool) {
    return attn::cli::description_json(attn::python::declared(tool).declaration);
  });
  module.def("run", &attn::python::run, py::arg("tool"), py::arg("words"), py::arg("arrays"),
             py::arg("places"), py::arg("progress"));
  py::class_<PlanObject>(module, "Plan")
      .def(py::init(&attn::python::make_plan), py::arg("words"), py::arg("arrays"))
      .def("run", &PlanObject::run, py::arg("arrays"), py::arg("places"))
      .def("gradients", &PlanObject::gradients, py::arg("arrays"), py::arg("grad_out"),
           py::arg("wanted"), py::arg("results"))
      .def("set_dropout", &PlanObject::set_dropout, py::arg("rate"), py::arg("seed"),
           py::arg("stream"))
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
  py::register_local_exception_translator(&attn::python::translate);
  attn::python::keep_freed_memory();
  attn::python::watch_forks();
  attn::io::keep_hdf5_over_forks();
}
