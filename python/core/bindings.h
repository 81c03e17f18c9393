// The parts of assay._core.
#pragma once

#include <nanobind/nanobind.h>

namespace assay::python {

void bind_errors(nanobind::module_& m);
void bind_stats(nanobind::module_& m);
void bind_perturbation(nanobind::module_& m);
void bind_pairs(nanobind::module_& m);
void bind_capture(nanobind::module_& m);
void bind_determinism(nanobind::module_& m);
void bind_env(nanobind::module_& m);
void bind_overflow(nanobind::module_& m);
void bind_random(nanobind::module_& m);

}  // namespace assay::python
