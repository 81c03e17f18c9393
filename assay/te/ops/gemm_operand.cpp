#include "assay/te/ops/gemm_operand.h"

#include <string>

#include "assay/te/check.h"
#include "assay/te/quantize/check_quantized.h"
#include "assay/te/quantize/layout.h"

namespace assay::te {
namespace {

constexpr std::string_view kOp = "gemm";

void set_matrix(GemmView& view, const Tensor& data, std::int64_t rows,
                std::int64_t columns, bool k_last) {
  view.dtype = data.dtype();
  view.data = data.view.data;
  view.outer = k_last ? rows : columns;
  view.k = k_last ? columns : rows;
  view.k_contiguous = k_last;
  view.stride = columns;
}

GemmSide plain_side(std::string_view name, const Tensor& tensor, bool k_last) {
  require_high_precision(kOp, name, tensor);
  GemmSide side;
  side.dtype = tensor.dtype();
  side.owners.push_back(contiguous(tensor));
  const auto [rows, columns] = matrix_shape(tensor.shape());
  set_matrix(side.view, side.owners.back(), rows, columns, k_last);
  return side;
}

void require_codes(std::string_view name, const QuantizedData& q) {
  const bool fp4 = q.mode == ScalingMode::kNVFP4;
  const bool known =
      fp4 ? q.format == DType::kE2M1
          : q.format == DType::kE4M3FN || q.format == DType::kE5M2;
  if (!known) {
    fail(kOp, name,
         std::string(scaling_mode_name(q.mode)) + " codes of " +
             std::string(traits(q.format).name),
         fp4 ? "float4_e2m1fn" : "float8_e4m3fn or float8_e5m2");
  }
}

float scalar(std::string_view name, std::string_view what,
             const Tensor& tensor) {
  require_present(kOp, std::string(name) + ": " + std::string(what), tensor);
  if (tensor.numel() < 1 || tensor.dtype() != DType::kF32) {
    fail(kOp, name,
         std::string(what) + " of shape " + to_string(tensor.shape()),
         "one float32");
  }
  return contiguous(tensor).data<float>()[0];
}

// [outer][blocks] scales, or [ceil(outer/128)][blocks] for 128 x 128 tiles, as
// [blocks][outer].
std::vector<float> block_scales(const QuantizedData& q, std::int64_t outer,
                                std::int64_t k) {
  const std::int64_t blocks = (k + kGemmScaleBlock - 1) / kGemmScaleBlock;
  const std::int64_t tile =
      q.mode == ScalingMode::kBlock2D ? kGemmScaleBlock : 1;
  const Tensor scales = contiguous(q.scale_inv);
  const float* in = scales.data<float>();
  std::vector<float> out(static_cast<std::size_t>(blocks * outer));
  for (std::int64_t b = 0; b < blocks; ++b)
    for (std::int64_t o = 0; o < outer; ++o)
      out[static_cast<std::size_t>(b * outer + o)] = in[o / tile * blocks + b];
  return out;
}

// Only whole blocks have scales.
void set_fold(std::string_view name, GemmSide& side, const QuantizedData& q,
              GemmFold fold) {
  const std::int64_t block = gemm_fold_block(fold);
  require_multiple(kOp,
                   std::string(name) + ": " +
                       std::string(scaling_mode_name(q.mode)) +
                       " inner dimension",
                   side.view.k, block);
  side.owners.push_back(contiguous(q.scale_inv));
  GemmView& view = side.view;
  view.fold = fold;
  view.scales = side.owners.back().data<std::uint8_t>();
  if (view.k_contiguous) {
    view.scale_outer = view.k / gemm_fold_block(fold);
    view.scale_k = 1;
  } else {
    view.scale_outer = 1;
    view.scale_k = view.outer;
  }
}

void set_nvfp4_amax(std::string_view name, GemmSide& side,
                    const QuantizedData& q) {
  side.nvfp4_scale_max = q.nvfp4_scale_max;
  if (q.amax.numel() == 1) {
    side.alpha = double{scalar(name, "amax", q.amax)};
    return;
  }
  if (q.columnwise || q.amax.numel() != side.view.outer ||
      q.amax.dtype() != DType::kF32) {
    fail(kOp, name, "amax of shape " + to_string(q.amax.shape()),
         "[1], or one per row of rowwise data");
  }
  const Tensor amax = contiguous(q.amax);
  side.row_alpha.assign(amax.data<float>(), amax.data<float>() + amax.numel());
}

// MXFP8 and what is not quantised keep columnwise data as M x K.
bool is_transposed(const QuantizedData& q) {
  return q.columnwise && q.mode != ScalingMode::kMXFP8 &&
         q.mode != ScalingMode::kIdentity;
}

// Rows and columns of the matrix that q's direction is stored as.
MatrixShape stored_shape(const QuantizedData& q, const Shape& shape) {
  const MatrixShape m = matrix_shape(shape);
  return is_transposed(q) ? MatrixShape{m.columns, m.rows} : m;
}

void require_data(std::string_view name, const QuantizedData& q,
                  MatrixShape stored) {
  require_present(kOp, std::string(name) + ": data", q.data);
  const bool codes = q.mode != ScalingMode::kIdentity;
  if (codes && q.data.dtype() != q.format) {
    fail(kOp, name, std::string(traits(q.data.dtype()).name) + " data",
         std::string(traits(q.format).name) + ", the format of the codes");
  }
  if (q.data.numel() != stored.rows * stored.columns) {
    fail(kOp, name, std::to_string(q.data.numel()) + " codes",
         std::to_string(stored.rows) + " x " + std::to_string(stored.columns));
  }
}

GemmSide quantized_side(std::string_view name, const QuantizedTensor& tensor,
                        const QuantizedData& given, bool k_last) {
  require_codes(name, given);
  QuantizedData q = with_layout(given, tensor.shape, ScaleLayout::kCompact);
  GemmSide side;
  side.mode = q.mode;
  side.dtype = tensor.dtype;
  side.owners.push_back(contiguous(q.data));
  const MatrixShape stored = stored_shape(q, tensor.shape);
  require_data(name, q, stored);
  q = check_quantized(std::string(kOp) + ": " + std::string(name), q,
                      tensor.shape);
  set_matrix(side.view, side.owners.back(), stored.rows, stored.columns,
             k_last != is_transposed(q));
  side.view.dtype = q.format;
  switch (q.mode) {
    case ScalingMode::kTensor:
      side.alpha = double{scalar(name, "scale_inv", q.scale_inv)};
      break;
    case ScalingMode::kBlock1D:
    case ScalingMode::kBlock2D:
      side.block = block_scales(q, side.view.outer, side.view.k);
      break;
    case ScalingMode::kMXFP8:
      set_fold(name, side, q, GemmFold::kE8M0);
      break;
    case ScalingMode::kNVFP4:
      set_fold(name, side, q, GemmFold::kE4M3);
      set_nvfp4_amax(name, side, q);
      break;
    case ScalingMode::kIdentity:
      break;
  }
  return side;
}

std::string described(const GemmSide& side) {
  std::string text(scaling_mode_name(side.mode));
  if (side.mode == ScalingMode::kIdentity)
    return text + " " + std::string(traits(side.dtype).name);
  return text + " " + std::string(traits(side.view.dtype).short_name);
}

bool is_block(ScalingMode mode) {
  return mode == ScalingMode::kBlock1D || mode == ScalingMode::kBlock2D;
}

// `of` divides both dimensions of a side.
void require_multiples(std::string_view name, const GemmSide& side,
                       std::int64_t of) {
  const std::string mode(scaling_mode_name(side.mode));
  require_multiple(kOp, std::string(name) + ": " + mode + " outer dimension",
                   side.view.outer, of);
  require_multiple(kOp, std::string(name) + ": " + mode + " inner dimension",
                   side.view.k, of);
}

void check_block_dimensions(const GemmSide& a, const GemmSide& b) {
  constexpr std::int64_t kInner = 16, kOuter = 8;
  if (a.view.k == 0)
    fail(kOp, "k", "0", "a positive inner dimension for block scaling");
  require_multiple(kOp, "k of block scaled operands", a.view.k, kInner);
  require_multiple(kOp, "a: block scaled outer dimension", a.view.outer,
                   kOuter);
  if (b.mode == ScalingMode::kBlock1D) {
    require_multiple(kOp, "b: block 1x128 outer dimension", b.view.outer,
                     kOuter);
  }
}

}  // namespace

const QuantizedData* gemm_direction(const QuantizedTensor& q, bool k_last) {
  const auto& wanted = k_last ? q.rowwise : q.columnwise;
  const auto& other = k_last ? q.columnwise : q.rowwise;
  if (wanted) return &*wanted;
  const bool either = other && (other->mode == ScalingMode::kTensor ||
                                other->mode == ScalingMode::kIdentity);
  return either ? &*other : nullptr;
}

namespace {

const QuantizedData& required_direction(std::string_view name,
                                        const QuantizedTensor& q, bool k_last) {
  if (const QuantizedData* data = gemm_direction(q, k_last)) return *data;
  const std::string wanted = k_last ? "rowwise" : "columnwise";
  fail(kOp, name, "no " + wanted + " data",
       wanted + " data, which this layout reads");
}

const Tensor* high_precision_tensor(const GemmOperand& operand, bool k_last) {
  if (operand.tensor()) return operand.tensor();
  const QuantizedData* q = gemm_direction(*operand.quantized(), k_last);
  return q && q->mode == ScalingMode::kIdentity ? &q->data : nullptr;
}

}  // namespace

bool is_high_precision(const GemmOperand& operand, bool k_last) {
  return high_precision_tensor(operand, k_last) != nullptr;
}

DType nominal_dtype(const GemmOperand& operand, bool k_last) {
  const Tensor* tensor = high_precision_tensor(operand, k_last);
  return tensor ? tensor->dtype() : operand.quantized()->dtype;
}

GemmSide gemm_side(std::string_view name, const GemmOperand& operand,
                   bool k_last) {
  if (operand.tensor()) return plain_side(name, *operand.tensor(), k_last);
  const QuantizedTensor& q = *operand.quantized();
  const QuantizedData& data = required_direction(name, q, k_last);
  if (data.mode == ScalingMode::kIdentity) {
    require_high_precision(kOp, name, data.data);
    GemmSide side;
    side.dtype = data.data.dtype();
    side.owners.push_back(contiguous(data.data));
    const auto [rows, columns] = matrix_shape(q.shape);
    require_data(name, data, {rows, columns});
    set_matrix(side.view, side.owners.back(), rows, columns, k_last);
    return side;
  }
  return quantized_side(name, q, data, k_last);
}

void check_gemm_pair(const GemmSide& a, const GemmSide& b) {
  const std::string pair = described(a) + " and " + described(b);
  if (a.mode != b.mode && !(is_block(a.mode) && is_block(b.mode)))
    fail(kOp, "a and b", pair, "two operands of the same scaling mode");
  if (a.mode == ScalingMode::kBlock2D && b.mode == ScalingMode::kBlock2D)
    fail(kOp, "a and b", pair, "at most one operand with 128x128 blocks");
  if (a.mode == ScalingMode::kIdentity && a.dtype != b.dtype)
    fail(kOp, "a and b", pair, "two operands of the same dtype");
  if (a.view.dtype == DType::kE5M2 && b.view.dtype == DType::kE5M2)
    fail(kOp, "a and b", pair, "at least one operand in float8_e4m3fn");
  if (is_block(a.mode)) check_block_dimensions(a, b);
  if (a.mode == ScalingMode::kMXFP8 || a.mode == ScalingMode::kNVFP4) {
    const std::int64_t of = a.mode == ScalingMode::kMXFP8 ? 32 : 16;
    require_multiples("a", a, of);
    require_multiples("b", b, of);
  }
  if (a.mode != ScalingMode::kNVFP4) return;
  if (!a.row_alpha.empty())
    fail(kOp, "a", "row-scaled nvfp4", "one amax: only b may be row-scaled");
  if (a.nvfp4_scale_max != b.nvfp4_scale_max) {
    fail(kOp, "a and b",
         "nvfp4 scales made for " + std::to_string(a.nvfp4_scale_max) +
             " and " + std::to_string(b.nvfp4_scale_max),
         "the same for both");
  }
}

}  // namespace assay::te
