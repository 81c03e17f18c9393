#include "assay/compare/comparison.h"

namespace assay {

std::string_view to_string(Origin origin) {
  switch (origin) {
    case Origin::kNone:
      return "none";
    case Origin::kBorn:
      return "born";
    case Origin::kInherited:
      return "inherited";
    case Origin::kInputDiffers:
      return "input";
    case Origin::kParameterDiffers:
      return "parameter";
    case Origin::kUndetermined:
      return "undetermined";
  }
  return "none";
}

std::string_view to_string(Evidence evidence) {
  switch (evidence) {
    case Evidence::kTensor:
      return "tensor";
    case Evidence::kStatistics:
      return "statistics";
    case Evidence::kDigest:
      return "digest";
    case Evidence::kValue:
      return "value";
    case Evidence::kNone:
      return "none";
  }
  return "none";
}

const Reason* deciding_reason(const Row& row) {
  for (const Reason& reason : row.reasons) {
    if (!reason.note) return &reason;
  }
  return nullptr;
}

}  // namespace assay
