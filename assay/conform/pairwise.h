// Covers every allowed pair of parameter values with few cases.
#pragma once

#include <cstdint>
#include <vector>

#include "assay/conform/case_space.h"

namespace assay::conform {

// `given` and then as many complete choices that every pair of listed values
// of two parameters that some allowed choice has occurs in one of them (with
// one parameter: every value that is allowed; without any: one empty choice).
//
// Greedy, in the manner of Cohen et al., "The AETG system", IEEE Trans.
// Software Eng. 23 (1997): the best of several randomised candidates is taken,
// again and again; what others came to cover is dropped at the end. A function
// of its arguments alone.
std::vector<Choice> cover_pairs(const CaseSpace& space,
                                std::vector<Choice> given, std::uint64_t seed);

}  // namespace assay::conform
