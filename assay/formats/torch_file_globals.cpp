#include "assay/formats/torch_file_globals.h"

#include <array>

namespace assay {
namespace {

using Role = TorchRole;

struct Row {
  std::string_view module;
  TorchGlobal global;
};

constexpr Row kRows[] = {
    // clang-format off
  {"torch._utils", {Role::kRebuildTensorV2, "_rebuild_tensor_v2", {}}},
  {"collections", {Role::kOrderedDict, "OrderedDict", {}}},
  {"torch", {Role::kStorage, "FloatStorage", DType::kF32}},
  {"torch", {Role::kStorage, "BFloat16Storage", DType::kBF16}},
  {"torch", {Role::kStorage, "HalfStorage", DType::kF16}},
  {"torch", {Role::kStorage, "DoubleStorage", DType::kF64}},
  {"torch", {Role::kStorage, "LongStorage", DType::kI64}},
  {"torch", {Role::kStorage, "IntStorage", DType::kI32}},
  {"torch", {Role::kStorage, "ShortStorage", DType::kI16}},
  {"torch", {Role::kStorage, "CharStorage", DType::kI8}},
  {"torch", {Role::kStorage, "ByteStorage", DType::kU8}},
  {"torch", {Role::kStorage, "BoolStorage", DType::kBool}},
  {"torch", {Role::kStorage, "ComplexFloatStorage", DType::kC64}},
  {"torch", {Role::kStorage, "ComplexDoubleStorage", DType::kC128}},
  {"torch", {Role::kStorage, "QInt8Storage", {}}},
  {"torch", {Role::kStorage, "QUInt8Storage", {}}},
  {"torch", {Role::kStorage, "QInt32Storage", {}}},
  {"torch", {Role::kStorage, "QUInt4x2Storage", {}}},
  {"torch", {Role::kStorage, "QUInt2x4Storage", {}}},
  {"torch.storage", {Role::kUntypedStorage, "UntypedStorage", {}}},
  {"torch", {Role::kUntypedStorage, "UntypedStorage", {}}},
  {"torch._utils", {Role::kRebuildTensor, "_rebuild_tensor", {}}},
  {"torch._utils", {Role::kRebuildTensorV3, "_rebuild_tensor_v3", {}}},
  {"torch._utils", {Role::kRebuildParameter, "_rebuild_parameter", {}}},
  {"torch._utils",
   {Role::kRebuildParameter, "_rebuild_parameter_with_state", {}}},
  {"torch._tensor", {Role::kRebuildFromType, "_rebuild_from_type_v2", {}}},
  {"torch._utils", {Role::kOtherTensor, "_rebuild_qtensor", {}}},
  {"torch._utils", {Role::kOtherTensor, "_rebuild_sparse_tensor", {}}},
  {"torch._utils", {Role::kOtherTensor, "_rebuild_sparse_csr_tensor", {}}},
  {"torch._utils", {Role::kOtherTensor, "_rebuild_nested_tensor", {}}},
  {"torch._utils",
   {Role::kOtherTensor, "_rebuild_meta_tensor_no_storage", {}}},
  {"torch", {Role::kSize, "Size", {}}},
  {"__builtin__", {Role::kComplex, "complex", {}}},
  {"builtins", {Role::kComplex, "complex", {}}},
  {"torch", {Role::kInert, "device", {}}},
  {"torch", {Role::kInert, "Tensor", {}}},
  {"torch.nn.parameter", {Role::kInert, "Parameter", {}}},
  {"torch.serialization", {Role::kInert, "_get_layout", {}}},
  {"torch", {Role::kInert, "per_tensor_affine", {}}},
  {"torch", {Role::kInert, "per_channel_affine", {}}},
  {"torch", {Role::kInert, "per_channel_affine_float_qparams", {}}},
  {"torch", {Role::kDtype, "float64", DType::kF64}},
  {"torch", {Role::kDtype, "float32", DType::kF32}},
  {"torch", {Role::kDtype, "float16", DType::kF16}},
  {"torch", {Role::kDtype, "bfloat16", DType::kBF16}},
  {"torch", {Role::kDtype, "float8_e4m3fn", DType::kE4M3FN}},
  {"torch", {Role::kDtype, "float8_e5m2", DType::kE5M2}},
  {"torch", {Role::kDtype, "float8_e4m3fnuz", DType::kE4M3FNUZ}},
  {"torch", {Role::kDtype, "float8_e5m2fnuz", DType::kE5M2FNUZ}},
  {"torch", {Role::kDtype, "float8_e8m0fnu", DType::kE8M0}},
  {"torch", {Role::kDtype, "float4_e2m1fn_x2", DType::kE2M1}},
  {"torch", {Role::kDtype, "int8", DType::kI8}},
  {"torch", {Role::kDtype, "int16", DType::kI16}},
  {"torch", {Role::kDtype, "int32", DType::kI32}},
  {"torch", {Role::kDtype, "int64", DType::kI64}},
  {"torch", {Role::kDtype, "uint8", DType::kU8}},
  {"torch", {Role::kDtype, "uint16", DType::kU16}},
  {"torch", {Role::kDtype, "uint32", DType::kU32}},
  {"torch", {Role::kDtype, "uint64", DType::kU64}},
  {"torch", {Role::kDtype, "bool", DType::kBool}},
  {"torch", {Role::kDtype, "complex64", DType::kC64}},
  {"torch", {Role::kDtype, "complex128", DType::kC128}},
  {"torch", {Role::kDtype, "complex32", {}}},
  {"torch", {Role::kDtype, "qint8", {}}},
  {"torch", {Role::kDtype, "quint8", {}}},
  {"torch", {Role::kDtype, "qint32", {}}},
  {"torch", {Role::kDtype, "quint4x2", {}}},
  {"torch", {Role::kDtype, "quint2x4", {}}},
  {"torch", {Role::kDtype, "int1", {}}},
  {"torch", {Role::kDtype, "int2", {}}},
  {"torch", {Role::kDtype, "int4", {}}},
  {"torch", {Role::kDtype, "uint1", {}}},
  {"torch", {Role::kDtype, "uint2", {}}},
  {"torch", {Role::kDtype, "uint4", {}}},
    // clang-format on
};
constexpr std::size_t kCount = std::size(kRows);

// Classes and constants of kInert that are never applied to arguments.
constexpr bool is_callable(const TorchGlobal& global) {
  if (global.role == Role::kInert) {
    return global.name == "device" || global.name == "_get_layout";
  }
  return global.role < Role::kStorage;
}

constexpr auto kAllowed = [] {
  std::array<PickleGlobal, kCount> table{};
  for (std::size_t i = 0; i < kCount; ++i) {
    table[i] = {kRows[i].module, kRows[i].global.name, static_cast<int>(i),
                is_callable(kRows[i].global)};
  }
  return table;
}();

}  // namespace

std::span<const PickleGlobal> torch_allowed_globals() { return kAllowed; }

const TorchGlobal& torch_global(const PickleValue& value) {
  return kRows[value.at].global;
}

}  // namespace assay
