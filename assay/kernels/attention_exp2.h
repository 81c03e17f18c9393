// The polynomial behind the exponentials of the attention kernels.
#pragma once

namespace assay {

// 2^r on [-1/2, 1/2] as 1 + r (c1 + r (c2 + ...)): weighted minimax fit of
// degree 5, relative error below 1e-7; evaluated with fused multiply-adds in
// fp32 below 1.6e-7. Exact at 0, so that the greatest logit weighs 1.
inline constexpr float kExp2C1 = 0x1.62e42ap-1f;
inline constexpr float kExp2C2 = 0x1.ebf9bcp-3f;
inline constexpr float kExp2C3 = 0x1.c6b752p-5f;
inline constexpr float kExp2C4 = 0x1.3cea88p-7f;
inline constexpr float kExp2C5 = 0x1.5bba14p-10f;
// Below it 2^x rounds to 0, subnormals included.
inline constexpr float kExp2Least = -160.0f;
inline constexpr float kExp2Greatest = 250.0f;

}  // namespace assay
