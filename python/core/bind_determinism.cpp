// assay._core: runs of one program held against each other.
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "assay/compare/determinism/determinism.h"
#include "assay/report/determinism_json.h"
#include "assay/report/determinism_text.h"
#include "bindings.h"

namespace assay::python {
namespace {

namespace nb = nanobind;

std::pair<std::string, std::string> compare_runs(
    const std::vector<std::string>& paths, const std::string& program,
    const std::vector<std::string>& setups) {
  std::vector<RunTraces> runs;
  for (std::size_t i = 0; i < paths.size(); ++i)
    runs.push_back({paths[i], i < setups.size() ? setups[i] : ""});
  const DeterminismReport report = find_nondeterminism(runs);
  DeterminismTextOptions shown;
  shown.program = program;
  shown.seconds = report.seconds;
  return {determinism_json(report, program), render_determinism(report, shown)};
}

}  // namespace

void bind_determinism(nb::module_& m) {
  m.def("find_nondeterminism", &compare_runs, nb::arg("paths"),
        nb::arg("program"), nb::arg("setups") = std::vector<std::string>(),
        nb::call_guard<nb::gil_scoped_release>(),
        "The JSON and the text that `assay determinism` makes of the traces "
        "of two runs or more.");
}

}  // namespace assay::python
