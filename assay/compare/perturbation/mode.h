// The perturbations of a call that need no reference, by name.
//
// A metamorphic test: nobody knows what the operator should have given, but
// how its output may change when the call changes is known. (msprobe's free
// benchmark has the same idea; none of its thresholds are taken.)
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace assay::perturbation {

enum class Mode : std::uint8_t {
  kRepeat,            // the same call again: every bit is the same
  kImprovePrecision,  // in a wider dtype: the same up to rounding
  kAddNoise,          // inputs times 1 + noise: moves as the wide call does
  kBitNoise,          // the last mantissa bit of the inputs flipped: likewise
  kSwap,              // first and last slice exchanged: the output's as well
  kToCpu,             // on the host: the same up to the rounding of both
};

std::string_view to_string(Mode mode);  // "improve_precision"

// Throws Error{kUsage} naming those there are.
Mode mode_named(std::string_view name);
std::vector<std::string> mode_names();

}  // namespace assay::perturbation
