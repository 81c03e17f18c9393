// The names are those of msprobe 26.2.0: api_precision_standard.yaml and the
// level lists of standard_config.py.
#include "assay/precheck/ratio/api.h"

#include <algorithm>
#include <array>
#include <span>

#include "assay/core/dtype.h"

namespace assay::precheck {
namespace {

using Names = std::span<const std::string_view>;

constexpr std::string_view kAbsolute[] = {
    "__add__",  "__div__",    "__iadd__",    "__idiv__", "__imul__",
    "__isub__", "__mul__",    "__radd__",    "__rmul__", "__sub__",
    "add",      "add_",       "div",         "div_",     "divide",
    "divide_",  "leaky_relu", "leaky_relu_", "mul",      "mul_",
    "prelu",    "reciprocal", "reciprocal_", "rsqrt",    "rsqrt_",
    "rsub",     "square",     "square_",     "sub",      "sub_"};

constexpr std::string_view kBinary[] = {
    "abs",          "abs_",        "absolute",      "absolute_",
    "argmin",       "bitwise_and", "bitwise_and_",  "broadcast_to",
    "ceil",         "ceil_",       "equal",         "fill_",
    "flatten",      "floor",       "floor_",        "gather",
    "greater",      "greater_",    "greater_equal", "greater_equal_",
    "histc",        "isfinite",    "isnan",         "less",
    "less_",        "less_equal",  "less_equal_",   "logical_and",
    "logical_and_", "logical_not", "logical_not_",  "logical_or",
    "logical_or_",  "masked_fill", "masked_fill_",  "max_pool3d",
    "maximum",      "minimum",     "neg",           "neg_",
    "nonzero",      "not_equal",   "not_equal_",    "one_hot",
    "pad",          "relu",        "reshape",       "round",
    "round_",       "select",      "sign",          "sign_",
    "sort",         "tile",        "topk",          "transpose",
    "transpose_",   "tril",        "tril_",         "triu",
    "triu_",        "type_as"};

constexpr std::string_view kUlp[] = {
    "__matmul__", "addbmm",   "addbmm_", "addmm",        "addmm_",  "baddbmm",
    "baddbmm_",   "bilinear", "bmm",     "chain_matmul", "hspmm",   "linear",
    "matmul",     "mm",       "mv",      "smm",          "sspaddmm"};

constexpr std::string_view kThousandth[] = {"conv1d", "conv2d"};
constexpr std::string_view kAccumulative[] = {"test_api"};

constexpr std::string_view kLevel1[] = {"embedding", "npu_fusion_attention",
                                        "npu_fusion_attention_grad", "scatter_",
                                        "scatter_add_"};
constexpr std::string_view kLevel2[] = {"GELU",
                                        "addmm",
                                        "index",
                                        "layer_norm",
                                        "matmul",
                                        "mm",
                                        "nonzero",
                                        "npu_cross_entropy_loss",
                                        "npu_cross_entropy_loss_backward",
                                        "npu_rms_norm",
                                        "npu_rms_norm_backward",
                                        "one_hot",
                                        "sum"};

static_assert(std::ranges::is_sorted(kAbsolute) && std::size(kAbsolute) == 30);
static_assert(std::ranges::is_sorted(kBinary) && std::size(kBinary) == 62);
static_assert(std::ranges::is_sorted(kUlp) && std::size(kUlp) == 17);
static_assert(std::ranges::is_sorted(kLevel1));
static_assert(std::ranges::is_sorted(kLevel2));

bool holds(Names names, std::string_view api) {
  return std::ranges::binary_search(names, api);
}

bool is_hifloat8(std::string_view dtype) {
  return dtype == "torch_npu.HiFloat8Tensor" ||
         dtype == "<class 'torch_npu.utils.hif8_tensor.HiFloat8Tensor'>";
}

RatioRule listed_rule(std::string_view api) {
  if (holds(kAbsolute, api)) return RatioRule::kAbsolute;
  if (holds(kBinary, api)) return RatioRule::kBinary;
  if (holds(kUlp, api)) return RatioRule::kUlp;
  if (holds(kThousandth, api)) return RatioRule::kThousandth;
  if (holds(kAccumulative, api)) return RatioRule::kAccumulative;
  return RatioRule::kBenchmark;
}

}  // namespace

std::string_view rule_name(RatioRule rule) {
  constexpr std::string_view kNames[] = {
      "benchmark", "ulp", "absolute", "binary", "thousandth", "accumulative"};
  return kNames[static_cast<std::size_t>(rule)];
}

std::string_view msprobe_name(RatioRule rule) {
  constexpr std::string_view kNames[] = {"标杆比对法", "ULP误差比对法",
                                         "绝对阈值法", "二进制一致法",
                                         "双千指标法", "累积误差比对法"};
  return kNames[static_cast<std::size_t>(rule)];
}

RatioRule ratio_rule(std::string_view api, std::string_view device_dtype,
                     bool float8_input, const RatioProfile& profile) {
  const std::optional<DType> dtype = parse_dtype(device_dtype);
  const bool is_number = dtype && is_float(*dtype);
  if (is_hifloat8(device_dtype) || (is_number && traits(*dtype).bits <= 8))
    return RatioRule::kUlp;
  if (!profile.by_api && float8_input) return RatioRule::kAbsolute;
  if (!is_number) return RatioRule::kBinary;
  return profile.by_api ? listed_rule(api) : RatioRule::kBenchmark;
}

RatioLevel ratio_level(std::string_view api) {
  if (holds(kLevel2, api)) return RatioLevel::kL2;
  return holds(kLevel1, api) ? RatioLevel::kL1 : RatioLevel::kL0;
}

bool has_ratio_rule(std::string_view device_dtype) {
  const std::optional<DType> dtype = parse_dtype(device_dtype);
  return !dtype || (*dtype != DType::kF64 && !is_complex(*dtype));
}

}  // namespace assay::precheck
