// What equal and unequal checksums of two dumps prove.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "assay/core/dtype.h"
#include "assay/metrics/verdict.h"

namespace assay {

// As the ecosystem spells them: CRC-32 is 8 hex digits (msprobe's "md5"
// field), the XOR of all 64-bit words "0x" and up to 16, a cryptographic or
// 128-bit hash 32 or more.
enum class DigestKind : std::uint8_t { kNone, kCrc32, kXor, kStrong, kOther };

DigestKind digest_kind(std::string_view digest);

// The verdict where checksums are all there is, dtype and shape being equal.
// A different checksum is a mismatch of unknown size; an equal CRC-32 or
// strong hash is a match with a note; an equal XOR proves nothing, because
// repeated values cancel (a tensor of ones and one of zeros both give 0).
Judgement judge_digest(std::string_view golden, std::string_view target,
                       std::optional<DType> dtype);

}  // namespace assay
