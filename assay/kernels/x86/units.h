// Whether the kernels of this folder are compiled: x86-64 by GCC, whose target
// pragma makes a region of a file use other instructions than the rest of it.
// clang has no such region (the fuzzers are built with it): there and on other
// machines the Highway kernels do all the work.
#pragma once

#if defined(__x86_64__) && !defined(__clang__)
#define ASSAY_X86_UNITS 1
#else
#define ASSAY_X86_UNITS 0
#endif
