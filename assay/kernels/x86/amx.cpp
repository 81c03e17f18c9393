#include "assay/kernels/x86/amx.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace assay {

#if defined(__x86_64__)

namespace {

struct Leaf {
  unsigned a = 0, b = 0, c = 0, d = 0;
};

Leaf leaf(unsigned number, unsigned part) {
  Leaf l;
  if (__get_cpuid_count(number, part, &l.a, &l.b, &l.c, &l.d) == 0) return {};
  return l;
}

bool ask_for_tiles() {
  constexpr unsigned kTile = 1u << 24, kBf16 = 1u << 22;  // leaf 7, edx
  const unsigned features = leaf(7, 0).d;
  if ((features & kTile) == 0 || (features & kBf16) == 0) return false;
#if defined(__linux__)
  constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long kTileData = 18;               // XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}

}  // namespace

bool amx_bf16_ready() {
  static const bool ready = avx512_bf16_ready() && ask_for_tiles();
  return ready;
}

bool avx512_bf16_ready() {
  // The compiler's run-time check also asks the system for its zmm state.
  return __builtin_cpu_supports("avx512f") &&
         __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vl") && (leaf(7, 1).a >> 5 & 1) != 0;
}

#else

bool amx_bf16_ready() { return false; }
bool avx512_bf16_ready() { return false; }

#endif

}  // namespace assay
