// assay._core.Error: assay::Error with what its code says as a word.
#include <exception>

#include "assay/base/error.h"
#include "bindings.h"

namespace nb = nanobind;

namespace assay::python {
namespace {

const char* word(Code code) {
  switch (code) {
    case Code::kUsage:
      return "usage";
    case Code::kUnreadable:
      return "unreadable";
    case Code::kRefused:
      return "refused";
    case Code::kUnsupported:
      return "unsupported";
    case Code::kInternal:
      break;
  }
  return "internal";
}

void translate(const std::exception_ptr& thrown, void* type) {
  try {
    std::rethrow_exception(thrown);
  } catch (const Error& error) {
    const nb::handle kind(static_cast<PyObject*>(type));
    nb::object raised = kind(error.what());
    raised.attr("code") = word(error.code());
    PyErr_SetObject(kind.ptr(), raised.ptr());
  }
}

}  // namespace

void bind_errors(nb::module_& m) {
  nb::object type = nb::steal(PyErr_NewExceptionWithDoc(
      "assay._core.Error",
      "What the library refuses, in one line. `code`: usage, unreadable, "
      "refused, unsupported or internal.",
      PyExc_RuntimeError, nullptr));
  type.attr("code") = "internal";
  m.attr("Error") = type;
  // The module keeps it alive, and is never unloaded.
  nb::register_exception_translator(&translate, type.release().ptr());
}

}  // namespace assay::python
