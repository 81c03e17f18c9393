#include "assay/kernels/x86/cpu_features.h"

#if defined(__x86_64__)
#include <cpuid.h>
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace assay {
namespace {

struct Leaf {
  unsigned a = 0, b = 0, c = 0, d = 0;
};

Leaf leaf(unsigned number, unsigned sub) {
  Leaf l;
  if (!__get_cpuid_count(number, sub, &l.a, &l.b, &l.c, &l.d)) return Leaf{};
  return l;
}

bool bit(unsigned word, int index) { return word >> index & 1; }

bool may_use_tiles() {
#if defined(__linux__)
  constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long kTileData = 18;               // XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}

}  // namespace

bool has_avx512_bf16() {
  return __builtin_cpu_supports("avx512f") &&
         __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512dq") && bit(leaf(7, 1).a, 5);
}

bool has_amx_bf16() {
  static const bool has = [] {
    const unsigned d = leaf(7, 0).d;
    return has_avx512_bf16() && bit(d, 22) && bit(d, 24) && may_use_tiles();
  }();
  return has;
}

}  // namespace assay

#else

namespace assay {

bool has_avx512_bf16() { return false; }
bool has_amx_bf16() { return false; }

}  // namespace assay

#endif
