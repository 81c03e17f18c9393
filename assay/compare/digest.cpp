#include "assay/compare/digest.h"

#include <fmt/format.h>

#include <algorithm>

#include "assay/base/text.h"

namespace assay {
namespace {

bool all_hex(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') ||
           (c >= 'A' && c <= 'F');
  });
}

Judgement judged(Verdict verdict, std::string text, bool note) {
  Judgement result{verdict, {}};
  Reason reason;
  reason.criterion = "digest";
  reason.text = std::move(text);
  reason.note = note;
  result.reasons.push_back(std::move(reason));
  return result;
}

Judgement judge_equal(std::string_view digest, DigestKind kind) {
  if (kind == DigestKind::kStrong) {
    return judged(Verdict::kMatch, fmt::format("equal hash {}", digest), true);
  }
  if (kind == DigestKind::kCrc32) {
    return judged(Verdict::kMatch,
                  fmt::format("equal CRC-32 {}: bitwise equal, unless the 32 "
                              "bits collide",
                              digest),
                  true);
  }
  return judged(
      Verdict::kIncomplete,
      kind == DigestKind::kXor
          ? fmt::format("equal XOR {} proves nothing: repeated values cancel",
                        digest)
          : fmt::format("equal checksum '{}' of an unknown kind",
                        printable(digest)),
      false);
}

}  // namespace

DigestKind digest_kind(std::string_view digest) {
  if (digest.empty()) return DigestKind::kNone;
  if (digest.size() > 2 && digest.size() <= 18 && digest[0] == '0' &&
      (digest[1] == 'x' || digest[1] == 'X') && all_hex(digest.substr(2))) {
    return DigestKind::kXor;
  }
  if (!all_hex(digest)) return DigestKind::kOther;
  if (digest.size() == 8) return DigestKind::kCrc32;
  return digest.size() >= 32 ? DigestKind::kStrong : DigestKind::kOther;
}

Judgement judge_digest(std::string_view golden, std::string_view target,
                       std::optional<DType> dtype) {
  const DigestKind kind = digest_kind(golden);
  if (kind != digest_kind(target)) {
    return judged(Verdict::kIncomplete,
                  fmt::format("checksums of different kinds: golden '{}', "
                              "target '{}'",
                              printable(golden), printable(target)),
                  false);
  }
  if (iequals(golden, target)) return judge_equal(golden, kind);
  std::string text = fmt::format(
      "checksum {} against {}: a bitwise difference of unknown size",
      printable(golden), printable(target));
  if (dtype == DType::kBF16 && kind == DigestKind::kCrc32) {
    text += " (dumps of different tool generations hash bfloat16 differently)";
  }
  return judged(Verdict::kMismatch, std::move(text), false);
}

}  // namespace assay
