// assay._core: who made the first NaN or infinity of a trace.
#include <nanobind/stl/string.h>

#include "assay/compare/overflow/overflow.h"
#include "assay/report/overflow_json.h"
#include "bindings.h"

namespace assay::python {

void bind_overflow(nanobind::module_& m) {
  namespace nb = nanobind;
  m.def(
      "find_overflow",
      [](const std::string& path) {
        return overflow_json(find_overflow(path, {}));
      },
      nb::arg("path"), nb::call_guard<nb::gil_scoped_release>(),
      "The JSON that `assay overflow` makes of a trace, which may still be "
      "written.");
}

}  // namespace assay::python
