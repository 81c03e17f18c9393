// Whether this process may use the matrix tiles of x86 (AMX).
#pragma once

namespace assay {

// True where the processor has AMX with bf16 and the system granted the
// process its 8 KB of tile state, which Linux does only on request. Asks once.
// Thread-safe.
bool amx_bf16_ready();

// True where the processor has AVX-512 F, BW, DQ, VL and BF16.
bool avx512_bf16_ready();

}  // namespace assay
