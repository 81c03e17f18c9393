// Extensions of x86 that the vector library does not test for.
#pragma once

namespace assay {

// AVX512_BF16 with the AVX-512 of every machine that has it (F, BW, VL, DQ).
// False on other architectures. The compiler's run-time check also asks the
// system for its vector state. Thread-safe, both.
bool has_avx512_bf16();
// AMX tiles of bf16, and the operating system's leave to use them, for which
// the first call asks (Linux: arch_prctl, once per process).
bool has_amx_bf16();

}  // namespace assay
