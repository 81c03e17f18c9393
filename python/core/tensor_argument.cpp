#include "tensor_argument.h"

#include <optional>

#include "assay/base/error.h"

namespace assay::python {
namespace {

// DLPack 1.1's codes; nanobind names only some of them.
enum DlCode : int {
  kDlInt = 0,
  kDlUInt = 1,
  kDlFloat = 2,
  kDlBfloat = 4,
  kDlComplex = 5,
  kDlBool = 6,
  kDlE4M3FN = 10,
  kDlE4M3FNUZ = 11,
  kDlE5M2 = 12,
  kDlE5M2FNUZ = 13,
  kDlE8M0 = 14,
};

struct DlName {
  int code, bits;
  DType dtype;
};

constexpr DlName kDlNames[] = {
    {kDlFloat, 64, DType::kF64},
    {kDlFloat, 32, DType::kF32},
    {kDlFloat, 16, DType::kF16},
    {kDlBfloat, 16, DType::kBF16},
    {kDlInt, 8, DType::kI8},
    {kDlInt, 16, DType::kI16},
    {kDlInt, 32, DType::kI32},
    {kDlInt, 64, DType::kI64},
    {kDlUInt, 8, DType::kU8},
    {kDlUInt, 16, DType::kU16},
    {kDlUInt, 32, DType::kU32},
    {kDlUInt, 64, DType::kU64},
    {kDlBool, 8, DType::kBool},
    {kDlComplex, 64, DType::kC64},
    {kDlComplex, 128, DType::kC128},
    {kDlE4M3FN, 8, DType::kE4M3FN},
    {kDlE4M3FNUZ, 8, DType::kE4M3FNUZ},
    {kDlE5M2, 8, DType::kE5M2},
    {kDlE5M2FNUZ, 8, DType::kE5M2FNUZ},
    {kDlE8M0, 8, DType::kE8M0},
};

DType dtype_of(const AnyArray& array) {
  const nb::dlpack::dtype found = array.dtype();
  if (found.lanes == 1)
    for (const DlName& name : kDlNames)
      if (name.code == found.code && name.bits == found.bits) return name.dtype;
  throw Error(Code::kUnsupported, "a DLPack dtype of code " +
                                      std::to_string(found.code) + ", " +
                                      std::to_string(found.bits) + " bits");
}

DType named(const AnyArray& array, const std::string& name) {
  const std::optional<DType> dtype = parse_dtype(name);
  if (!dtype) throw Error(Code::kUsage, "dtype '" + name + "' is unknown");
  if (*dtype == DType::kE2M1 && array.dtype().bits == 8) return *dtype;
  if (traits(*dtype).bits != array.dtype().bits)
    throw Error(Code::kUsage, "dtype " + name + " has " +
                                  std::to_string(traits(*dtype).bits) +
                                  " bits, the array's " +
                                  std::to_string(array.dtype().bits));
  return *dtype;
}

// A byte holds two elements: the last dimension counts pairs.
void unfold_pairs(TensorView& view) {
  if (view.shape.empty() || !view.is_contiguous())
    throw Error(Code::kUsage,
                "packed float4: expected contiguous bytes of one dimension "
                "or more");
  view.shape.back() *= 2;
  view.strides.clear();
}

}  // namespace

TensorView view_of(const AnyArray& array, const std::string& dtype) {
  if (array.device_type() != nb::device::cpu::value)
    throw Error(Code::kUsage,
                "a tensor of another device: .cpu() brings it here");
  TensorView view;
  view.dtype = dtype.empty() ? dtype_of(array) : named(array, dtype);
  view.data = static_cast<const std::byte*>(array.data());
  for (std::size_t d = 0; d < array.ndim(); ++d) {
    view.shape.push_back(static_cast<std::int64_t>(array.shape(d)));
    view.strides.push_back(array.stride(d));
    if (view.strides.back() < 0)
      throw Error(Code::kUsage, "negative strides: .copy() removes them");
  }
  // torch leaves a tensor's shape in place when its storage is freed.
  if (!view.data && view.numel() > 0)
    throw Error(Code::kUnreadable, "a tensor without memory");
  if (view.dtype == DType::kE2M1) unfold_pairs(view);
  return view;
}

}  // namespace assay::python
