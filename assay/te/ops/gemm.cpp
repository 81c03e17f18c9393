#include "assay/te/ops/gemm.h"

#include <cmath>
#include <memory>
#include <string>

#include "assay/kernels/decode.h"
#include "assay/numerics/element.h"
#include "assay/numerics/rounding.h"
#include "assay/te/check.h"
#include "assay/te/ops/gemm_bias_grad.h"
#include "assay/te/ops/gemm_operand.h"
#include "assay/te/precision.h"

namespace assay::te {
namespace {

constexpr std::string_view kOp = "gemm";

bool a_k_last(GemmLayout layout) {
  return layout == GemmLayout::kTN || layout == GemmLayout::kTT;
}
bool b_k_last(GemmLayout layout) {
  return layout == GemmLayout::kTN || layout == GemmLayout::kNN;
}

Shape output_shape(const GemmOperand& b, GemmLayout layout, std::int64_t m,
                   std::int64_t n) {
  if (!b_k_last(layout) || b.shape().empty()) return {m, n};
  Shape shape = b.shape();
  shape.back() = n;
  return shape;
}

// Both sides; a quantised one beside a high-precision one is decoded.
struct Sides {
  GemmSide a, b;
};

GemmSide decoded_side(std::string_view name, const GemmOperand& operand,
                      bool k_last, DType dtype) {
  const QuantizedTensor& q = *operand.quantized();
  const QuantizedData* data = gemm_direction(q, k_last);
  Tensor values =
      data ? dequantize(*data, q.shape, dtype) : dequantize(q, dtype);
  GemmSide side = gemm_side(name, values, k_last);
  return side;
}

Sides sides_of(const GemmOperand& a, const GemmOperand& b, GemmLayout layout) {
  const bool a_last = a_k_last(layout), b_last = b_k_last(layout);
  const bool a_plain = is_high_precision(a, a_last);
  const bool b_plain = is_high_precision(b, b_last);
  if (a_plain && !b_plain) {
    return {gemm_side("a", a, a_last),
            decoded_side("b", b, b_last, nominal_dtype(a, a_last))};
  }
  if (b_plain && !a_plain) {
    return {decoded_side("a", a, a_last, nominal_dtype(b, b_last)),
            gemm_side("b", b, b_last)};
  }
  return {gemm_side("a", a, a_last), gemm_side("b", b, b_last)};
}

void check_inner(const GemmOperand& a, const GemmOperand& b, const Sides& s) {
  if (s.a.view.k == s.b.view.k) return;
  fail(kOp, "a and b",
       "shapes " + to_string(a.shape()) + " and " + to_string(b.shape()) +
           " with inner dimensions " + std::to_string(s.a.view.k) + " and " +
           std::to_string(s.b.view.k),
       "the same inner dimension");
}

void check_numel(std::string_view name, const Tensor& tensor, std::int64_t m,
                 std::int64_t n) {
  const auto [rows, columns] = matrix_shape(tensor.shape());
  if (rows != m || columns != n) {
    fail(kOp, name, "shape " + to_string(tensor.shape()),
         std::to_string(m) + " x " + std::to_string(n));
  }
}

void check_output(const GemmOptions& o, const Sides& s, DType out) {
  const ScalingMode mode = s.a.mode;
  if (out != DType::kF32 && out != DType::kBF16 && out != DType::kF16)
    fail(kOp, "out_dtype", std::string(traits(out).name),
         "float32, bfloat16 or float16");
  const DType pre_gelu = o.pre_gelu_dtype.value_or(DType::kF32);
  if (pre_gelu != DType::kF32 && pre_gelu != DType::kBF16 &&
      pre_gelu != DType::kF16)
    fail(kOp, "pre_gelu_dtype", std::string(traits(pre_gelu).name),
         "float32, bfloat16 or float16");
  if (mode == ScalingMode::kNVFP4 && out == DType::kF16)
    fail(kOp, "out_dtype", "float16 of nvfp4 operands", "float32 or bfloat16");
  if (!o.fp8_output) return;
  const DType format = o.fp8_output->format;
  if (format != DType::kE4M3FN && format != DType::kE5M2)
    fail(kOp, "fp8_output", std::string(traits(format).name),
         "float8_e4m3fn or float8_e5m2");
  if (mode != ScalingMode::kTensor)
    fail(kOp, "fp8_output",
         "of " + std::string(scaling_mode_name(mode)) + " operands",
         "per-tensor scaled operands");
  const float scale = o.fp8_output->scale;
  require_value(scale > 0 && std::isfinite(scale), kOp, "fp8_output: scale",
                static_cast<double>(scale), "finite and above 0");
  if (o.beta != 0)
    fail(kOp, "beta", std::to_string(o.beta), "0: an FP8 output takes no sum");
}

void check_epilogue(const GemmOptions& o, GemmLayout layout, const Sides& s) {
  const std::int64_t m = s.b.view.outer, n = s.a.view.outer;
  if (o.c) {
    require_high_precision(kOp, "c", *o.c);
    check_numel("c", *o.c, m, n);
  } else {
    require(o.beta == 0, kOp, "beta", std::to_string(o.beta) + " without c",
            "0");
  }
  if (o.bias) {
    require_high_precision(kOp, "bias", *o.bias);
    require_shape(kOp, "bias", *o.bias, {n});
  }
  require(!(o.gelu && o.dgelu_input), kOp, "gelu", "together with dgelu_input",
          "one of them");
  if (o.dgelu_input) {
    require_high_precision(kOp, "dgelu_input", *o.dgelu_input);
    check_numel("dgelu_input", *o.dgelu_input, m, n);
  }
  if (o.bias_grad && !o.dgelu_input) {
    require(layout == GemmLayout::kNT, kOp, "bias_grad",
            "without dgelu_input in another layout than NT", "NT");
    require(s.b.mode == ScalingMode::kIdentity, kOp, "bias_grad",
            "of a quantised b", "a high-precision b: sum before quantising");
  }
}

std::vector<float> widened_bias(const GemmOptions& o) {
  if (!o.bias) return {};
  const Tensor bias = contiguous(*o.bias);
  std::vector<float> out(static_cast<std::size_t>(bias.numel()));
  decode_f32(bias.dtype(), bias.view.data, bias.numel(), out.data());
  if (o.round_bias_to_bf16)
    for (float& x : out)
      x = static_cast<float>(round_to(DType::kBF16, double{x}));
  return out;
}

// Everything that a problem points to, while the kernel runs.
struct Call {
  Sides sides;
  GemmProblem problem;
  std::vector<float> bias;
  Tensor c, dgelu_input;
  std::vector<double> column_sums;
  float amax = 0;
};

void set_scales(Call& call, const GemmOptions& o) {
  const GemmSide &a = call.sides.a, &b = call.sides.b;
  GemmProblem& p = call.problem;
  p.row = b.view;
  p.column = a.view;
  p.epilogue.alpha = double{o.alpha} * a.alpha * b.alpha;
  if (a.mode == ScalingMode::kNVFP4) {
    const float max = a.nvfp4_scale_max;
    p.epilogue.alpha *= double{1.0f / (36.0f * max * max)};
  }
  if (!b.row_alpha.empty()) p.epilogue.row_alpha = b.row_alpha.data();
  if (!a.block.empty() || !b.block.empty()) {
    p.block = {b.block.data(), a.block.data(), b.mode == ScalingMode::kBlock2D};
  }
}

void set_epilogue(Call& call, const GemmOptions& o, GemmResult& result) {
  GemmEpilogue& e = call.problem.epilogue;
  const std::int64_t n = call.sides.a.view.outer;
  call.bias = widened_bias(o);
  if (o.bias) e.bias = call.bias.data();
  if (o.c && o.beta != 0) {
    call.c = contiguous(*o.c);
    e.c = call.c.view.data;
    e.c_dtype = call.c.dtype();
    e.beta = o.beta;
  }
  if (o.gelu) {
    e.activation = GemmActivation::kGelu;
    e.aux = result.pre_gelu.mutable_data();
    e.aux_dtype = result.pre_gelu.dtype();
  } else if (o.dgelu_input) {
    call.dgelu_input = contiguous(*o.dgelu_input);
    e.activation = GemmActivation::kDGelu;
    // kDGelu only reads it.
    e.aux = const_cast<std::byte*>(call.dgelu_input.view.data);
    e.aux_dtype = call.dgelu_input.dtype();
    if (o.bias_grad) {
      call.column_sums.resize(static_cast<std::size_t>(n));
      e.column_sums = call.column_sums.data();
    }
  }
}

Tensor prepare_fp8(GemmResult& result, Call& call, const Fp8Output& fp8,
                   const Shape& shape, DType nominal, Device device) {
  QuantizedData q;
  q.format = fp8.format;
  q.data = Tensor::empty(fp8.format, shape, device);
  q.scale_inv = Tensor::empty(DType::kF32, {1}, device);
  q.scale_inv.mutable_data<float>()[0] = 1.0f / fp8.scale;
  q.amax = Tensor::empty(DType::kF32, {1}, device);
  call.problem.epilogue.amax = q.amax.mutable_data<float>();
  call.problem.epilogue.d_scale = fp8.scale;
  Tensor d = q.data;
  result.fp8 = QuantizedTensor{shape, nominal, device, q, std::nullopt};
  return d;
}

void run(Call& call, const GemmOptions& o, Device device, Tensor& d) {
  call.problem.epilogue.d = d.mutable_data();
  call.problem.epilogue.d_dtype = d.dtype();
  const InternalPrecision precision = effective_precision(kOp, o.precision);
  if (precision == InternalPrecision::kF32)
    gemm_kernels(device).gemm(call.problem);
  else
    gemm_plain(call.problem, precision, call.sides.a.dtype);
}

Tensor narrowed(const std::vector<double>& sums, DType dtype, Device device) {
  Tensor out =
      Tensor::empty(dtype, {static_cast<std::int64_t>(sums.size())}, device);
  for (std::size_t i = 0; i < sums.size(); ++i)
    store_from_double(dtype, sums[i], out.mutable_data(),
                      static_cast<std::int64_t>(i));
  return out;
}

// A quantised operand has no one tensor that common_device() could take.
void check_devices(const GemmOperand& a, const GemmOperand& b,
                   std::initializer_list<const Tensor*> others) {
  Tensor first, second;
  first.device = a.device();
  second.device = b.device();
  common_device(kOp, {&first, &second});
  for (const Tensor* other : others) common_device(kOp, {&first, other});
}

// `into`: the tensor to write, or null for a fresh one.
GemmResult run_gemm(const GemmOperand& a, const GemmOperand& b,
                    GemmLayout layout, const GemmOptions& o, Tensor* into) {
  const Device device = a.device();
  check_devices(a, b, {into, o.bias, o.c, o.dgelu_input});
  Call call;
  call.sides = sides_of(a, b, layout);
  check_inner(a, b, call.sides);
  check_gemm_pair(call.sides.a, call.sides.b);
  const DType out =
      into ? into->dtype() : o.out_dtype.value_or(call.sides.b.dtype);
  check_output(o, call.sides, out);
  check_epilogue(o, layout, call.sides);

  const Shape shape =
      output_shape(b, layout, call.sides.b.view.outer, call.sides.a.view.outer);
  GemmResult result;
  if (o.gelu) {
    result.pre_gelu = Tensor::empty(
        o.pre_gelu_dtype.value_or(o.fp8_output ? DType::kBF16 : out), shape,
        device);
  }
  set_scales(call, o);
  set_epilogue(call, o, result);
  Tensor d;
  if (o.fp8_output)
    d = prepare_fp8(result, call, *o.fp8_output, shape, out, device);
  else
    d = into ? *into : Tensor::empty(out, shape, device);
  run(call, o, device, d);
  if (!into && !o.fp8_output) result.d = d;
  if (o.bias_grad) {
    result.bias_grad =
        o.dgelu_input ? narrowed(call.column_sums, out, device)
                      : narrowed(gemm_bias_sums(call.sides.b.view, o.precision),
                                 call.sides.b.dtype, device);
  }
  return result;
}

}  // namespace

GemmResult gemm(const GemmOperand& a, const GemmOperand& b, GemmLayout layout,
                const GemmOptions& options) {
  return run_gemm(a, b, layout, options, nullptr);
}

GemmResult gemm_fprop(const GemmOperand& x, const GemmOperand& w,
                      const GemmOptions& options) {
  return gemm(w, x, GemmLayout::kTN, options);
}

GemmResult gemm_dgrad(const GemmOperand& dy, const GemmOperand& w,
                      const GemmOptions& options) {
  return gemm(w, dy, GemmLayout::kNN, options);
}

GemmResult gemm_wgrad(const GemmOperand& dy, const GemmOperand& x,
                      const GemmOptions& options) {
  return gemm(x, dy, GemmLayout::kNT, options);
}

GemmResult gemm_into(Tensor& d, const GemmOperand& a, const GemmOperand& b,
                     GemmLayout layout, const GemmOptions& options) {
  require_high_precision(kOp, "d", d);
  require_contiguous(kOp, "d", d);
  require_writable(kOp, "d", d);
  require(!options.c && !options.out_dtype && !options.fp8_output, kOp,
          "options", "c, out_dtype or fp8_output together with d", "none");
  GemmOptions o = options;
  o.c = &d;
  const bool a_last = a_k_last(layout), b_last = b_k_last(layout);
  const MatrixShape as = matrix_shape(a.shape()), bs = matrix_shape(b.shape());
  check_numel("d", d, b_last ? bs.rows : bs.columns,
              a_last ? as.rows : as.columns);
  return run_gemm(a, b, layout, o, &d);
}

}  // namespace assay::te
