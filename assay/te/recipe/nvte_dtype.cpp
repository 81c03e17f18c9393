#include "assay/te/recipe/nvte_dtype.h"

namespace assay::te {
namespace {

// Source: NVTE transformer_engine.h, enum NVTEDType; pytorch DType.
constexpr NvteDType kNvteDTypes[] = {
    {"kByte", 0, DType::kU8},          {"kInt16", 1, DType::kI16},
    {"kInt32", 2, DType::kI32},        {"kInt64", 3, DType::kI64},
    {"kFloat32", 4, DType::kF32},      {"kFloat16", 5, DType::kF16},
    {"kBFloat16", 6, DType::kBF16},    {"kFloat8E4M3", 7, DType::kE4M3FN},
    {"kFloat8E5M2", 8, DType::kE5M2},  {"kFloat8E8M0", 9, DType::kE8M0},
    {"kFloat4E2M1", 10, DType::kE2M1},
};

}  // namespace

std::span<const NvteDType> nvte_dtypes() { return kNvteDTypes; }

}  // namespace assay::te
