// assay._core: what Python reaches of the library. The names that people use
// are in python/assay/, which is a thin shell around this.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <string>

#include "assay/base/parallel.h"
#include "assay/kernels/kernels.h"
#include "bindings.h"

namespace nb = nanobind;

NB_MODULE(_core, m) {
  // A graph that a program keeps to its end holds the writer of the capture
  // that watched it: no leak, and nothing to write into its output.
  nb::set_leak_warnings(false);
  m.doc() = "The C++ library of Assay, for python/assay.";
  m.attr("__version__") = ASSAY_VERSION;
  assay::python::bind_errors(m);
  m.def("set_thread_count", &assay::set_thread_count, nb::arg("count"));
  m.def("isa", [] { return std::string(assay::kernels().isa); });
  assay::python::bind_stats(m);
  assay::python::bind_pairs(m);
  assay::python::bind_perturbation(m);
  assay::python::bind_capture(m);
  assay::python::bind_determinism(m);
  assay::python::bind_env(m);
  assay::python::bind_overflow(m);
  assay::python::bind_random(m);
}
