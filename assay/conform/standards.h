// From what a spec calls a standard to the standard.
#pragma once

#include <memory>
#include <string>

#include "assay/conform/spec.h"
#include "assay/metrics/standard.h"

namespace assay::conform {

// A name as specs spell it (assay, exact, allclose, mare, mixed_tolerance,
// te-tests, or one of `assay doctor`), or the YAML of a whole standard; `path`
// names the spec in errors. Throws Error{kUsage}. Thread-safe; every text is
// loaded once.
std::shared_ptr<const Standard> load_standard(const std::string& text,
                                              const std::string& path);

// The output's own standard, else that of the first rule that holds for the
// case; "assay" where none does.
std::string standard_of(const Spec& spec, const Parameters& parameters,
                        const Output& output);

// "gemm", "reduction", "elementwise", "movement", "" (unknown). Throws
// Error{kUsage} for any other.
OpClass op_class_of(const Spec& spec, const Output& output);

}  // namespace assay::conform
