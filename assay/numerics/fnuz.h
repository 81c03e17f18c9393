// Between the OCP (fn) and the AMD MI300 (fnuz) spelling of 8-bit floats.
//
// Their biases differ by one, so the same code means half the value in fnuz:
// a conversion keeps the code and moves the factor 2 into the tensor's scale.
// Bytes of one fed to the other without it are silently off by two. Source:
// the rule that vLLM and SGLang use for MI300, stated code by code.
#pragma once

#include <cstdint>
#include <optional>

#include "assay/core/dtype.h"
#include "assay/numerics/float_format.h"

namespace assay {

// e4m3fn -> e4m3fnuz, e5m2 -> e5m2fnuz; nullopt for any other dtype.
constexpr std::optional<DType> fnuz_counterpart(DType ocp) {
  if (ocp == DType::kE4M3FN) return DType::kE4M3FNUZ;
  if (ocp == DType::kE5M2) return DType::kE5M2FNUZ;
  return std::nullopt;
}

// The fnuz code whose value times 2 is that of `code` in `ocp` (one that has
// a counterpart): the same code, but -0 becomes 0 and what is not finite the
// only NaN, 0x80. Double the scale with it.
constexpr std::uint8_t fnuz_from_ocp(DType ocp, std::uint8_t code) {
  if (code == 0x80) return 0x00;
  const bool finite = (code & 0x7f) <= max_finite_code(ocp);
  return finite ? code : 0x80;
}

// The OCP code whose value is twice that of the fnuz `code`; 0x80 becomes
// NaN. Nullopt for the codes that are finite in fnuz only (e4m3: 0x7f and
// 0xff, +-240): the OCP format does not reach twice their value. Halve the
// scale with it.
constexpr std::optional<std::uint8_t> ocp_from_fnuz(DType ocp,
                                                    std::uint8_t code) {
  if (code == 0x80) return static_cast<std::uint8_t>(nan_code(ocp));
  if ((code & 0x7f) > max_finite_code(ocp)) return std::nullopt;
  return code;
}

}  // namespace assay
