// Element formats: decode tables and encodings.
#include <string>

#include "assay/numerics/element.h"
#include "assay/numerics/float_format.h"
#include "tests/oracle/oracle.h"

namespace assay::oracle {
namespace {

template <typename Code>
Tensor map_codes(const Case& c, std::string_view input, DType out, Code code) {
  const Tensor x = c.array(input);
  Tensor codes = Tensor::empty(out, x.shape());
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    const double v = load_as_double(x.dtype(), x.view.data, i);
    store_code(out, code(v), codes.mutable_data(), i);
  }
  return codes;
}

Tensor decode_table(DType format) {
  const std::int64_t count = std::int64_t{1} << traits(format).bits;
  Tensor out = Tensor::empty(DType::kF32, {count});
  for (std::int64_t i = 0; i < count; ++i)
    out.mutable_data<float>()[i] =
        static_cast<float>(decode_float(format, static_cast<std::uint64_t>(i)));
  return out;
}

// 2^(127 - code): what an MXFP8 quantiser multiplies by.
Tensor reciprocals() {
  Tensor out = decode_table(DType::kE8M0);
  for (std::int64_t i = 0; i < 256; ++i) {
    float& v = out.mutable_data<float>()[i];
    v = 1.0f / v;
  }
  return out;
}

void run_decode(const Case& c, Answers& answers) {
  answers.give("e4m3_value", decode_table(DType::kE4M3FN));
  answers.give("e5m2_value", decode_table(DType::kE5M2));
  answers.give("e8m0_value", decode_table(DType::kE8M0));
  answers.give("e2m1_value", decode_table(DType::kE2M1));
  answers.give("e8m0_reciprocal", reciprocals());
  const Tensor packed = c.as("fp4_packed", DType::kE2M1);
  Tensor values = Tensor::empty(DType::kF32, packed.shape());
  for (std::int64_t i = 0; i < packed.numel(); ++i)
    values.mutable_data<float>()[i] =
        static_cast<float>(load_as_double(DType::kE2M1, packed.view.data, i));
  answers.give("fp4_unpacked_value", values);
}

void run_half(const Case& c, Answers& answers) {
  c.one_of("rounding", {"nearest even; overflow to inf"});
  for (const auto& [name, dtype] :
       {std::pair{"bf16", DType::kBF16}, std::pair{"fp16", DType::kF16}}) {
    const DType d = dtype;
    answers.give(name, map_codes(c, "x", d,
                                 [d](double v) { return encode_float(d, v); }));
  }
}

void run_e2m1(const Case& c, Answers& answers) {
  c.one_of("format", {"e2m1"});
  c.one_of("rounding", {"nearest even, saturating"});
  const auto code = [](double v) { return encode_float(DType::kE2M1, v); };
  answers.give("code", map_codes(c, "x", DType::kU8, code));
  answers.give("packed", map_codes(c, "x", DType::kE2M1, code));
}

void run_fp8(const Case& c, Answers& answers) {
  c.one_of("rounding", {"nearest even"});
  const DType format = c.fp8_format();
  const auto saturating = [format](double v) {
    return encode_float(format, v, Overflow::kSaturate);
  };
  answers.give("code_sat", map_codes(c, "x", format, saturating));
  answers.give("code_nosat", map_codes(c, "x", format, [format](double v) {
                 return encode_float(format, v, Overflow::kSpecial);
               }));
  answers.give("nan_code_vendor", map_codes(c, "nan_x", format, saturating));
  const Tensor x = c.as("x_bf16", DType::kBF16);
  Tensor codes = Tensor::empty(format, x.shape());
  for (std::int64_t i = 0; i < x.numel(); ++i)
    codes.mutable_data<std::uint8_t>()[i] = static_cast<std::uint8_t>(
        saturating(load_as_double(DType::kBF16, x.view.data, i)));
  answers.give("code_from_bf16", codes);
}

void run_e8m0(const Case& c, Answers& answers) {
  c.one_of("format", {"e8m0"});
  const auto with = [](ScaleRounding rounding) {
    return [rounding](double v) { return encode_e8m0(v, rounding); };
  };
  answers.give("code_up",
               map_codes(c, "x", DType::kE8M0, with(ScaleRounding::kUp)));
  answers.give("code_down_vendor",
               map_codes(c, "x", DType::kE8M0, with(ScaleRounding::kDown)));
  answers.give("nan_code",
               map_codes(c, "nan_x", DType::kE8M0, with(ScaleRounding::kUp)));
}

const Registration kDecode{"fmt_decode", run_decode};
const Registration kHalf{"fmt_encode_bf16", run_half};
const Registration kE2m1{"fmt_encode_e2m1", run_e2m1};
const Registration kE4m3{"fmt_encode_e4m3", run_fp8};
const Registration kE5m2{"fmt_encode_e5m2", run_fp8};
const Registration kE8m0{"fmt_encode_e8m0", run_e8m0};

}  // namespace
}  // namespace assay::oracle
