// Attention through its public functions against torch's float64 answers
// (tests/data/te/make_attention.py), in every layout; errors; properties.
#include "assay/te/ops/attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <string>

#include "assay/base/parallel.h"
#include "assay/formats/tensor_source.h"
#include "assay/kernels/dropout.h"
#include "assay/numerics/element.h"
#include "assay/te/precision.h"
#include "tests/te/ops/tensor_helpers.h"

namespace assay::te {
namespace {

using Arrays = std::map<std::string, Tensor>;

Arrays load_case(const std::string& name) {
  const auto source = open_tensors(std::string(ASSAY_TEST_DATA) +
                                   "/te/attention_" + name + ".npz");
  Arrays arrays;
  for (std::size_t i = 0; i < source->tensors().size(); ++i)
    arrays[source->tensors()[i].name] = contiguous(source->load(i));
  return arrays;
}

Tensor cast(const Tensor& t, DType dtype) {
  Tensor out = Tensor::empty(dtype, t.shape(), t.device);
  for (std::int64_t i = 0; i < t.numel(); ++i)
    store_from_double(dtype, at(t, i), out.mutable_data(), i);
  return out;
}

// Copies rows of [b, s, h, d] to [s, b, h, d], or back with the arguments
// exchanged.
Tensor swap_sequence(const Tensor& t) {
  const Shape& s = t.shape();
  Tensor out = Tensor::empty(t.dtype(), {s[1], s[0], s[2], s[3]}, t.device);
  const std::int64_t row = s[2] * s[3];
  for (std::int64_t b = 0; b < s[0]; ++b)
    for (std::int64_t i = 0; i < s[1]; ++i)
      for (std::int64_t d = 0; d < row; ++d)
        store_from_double(t.dtype(), at(t, (b * s[1] + i) * row + d),
                          out.mutable_data(), (i * s[0] + b) * row + d);
  return out;
}

std::vector<std::int64_t> lengths(const Tensor& t) {
  std::vector<std::int64_t> out;
  for (std::int64_t i = 0; i < t.numel(); ++i)
    out.push_back(static_cast<std::int64_t>(at(t, i)));
  return out;
}

Tensor offsets(const std::vector<std::int64_t>& lengths, std::int64_t gap = 0) {
  Tensor t = Tensor::empty(DType::kI32,
                           {static_cast<std::int64_t>(lengths.size()) + 1});
  auto* out = t.mutable_data<std::int32_t>();
  out[0] = 0;
  for (std::size_t i = 0; i < lengths.size(); ++i)
    out[i + 1] = out[i] + static_cast<std::int32_t>(lengths[i] + gap);
  return t;
}

// [b, s, h, d] packed to [tokens, h, d], `gap` NaN tokens after each sequence.
Tensor pack(const Tensor& t, const std::vector<std::int64_t>& lengths,
            std::int64_t gap) {
  const Shape& s = t.shape();
  const std::int64_t row = s[2] * s[3];
  std::int64_t tokens = 0;
  for (std::int64_t n : lengths) tokens += n + gap;
  Tensor out = Tensor::empty(t.dtype(), {tokens, s[2], s[3]}, t.device);
  for (std::int64_t i = 0; i < out.numel(); ++i)
    store_from_double(t.dtype(), NAN, out.mutable_data(), i);
  std::int64_t to = 0;
  for (std::size_t b = 0; b < lengths.size(); ++b) {
    for (std::int64_t i = 0; i < lengths[b] * row; ++i)
      store_from_double(t.dtype(),
                        at(t, static_cast<std::int64_t>(b) * s[1] * row + i),
                        out.mutable_data(), to * row + i);
    to += lengths[b] + gap;
  }
  return out;
}

Tensor unpack(const Tensor& t, const Shape& shape,
              const std::vector<std::int64_t>& lengths, std::int64_t gap) {
  Tensor out = Tensor::zeros(t.dtype(), shape, t.device);
  const std::int64_t row = shape[2] * shape[3];
  std::int64_t from = 0;
  for (std::size_t b = 0; b < lengths.size(); ++b) {
    for (std::int64_t i = 0; i < lengths[b] * row; ++i)
      store_from_double(t.dtype(), at(t, from * row + i), out.mutable_data(),
                        static_cast<std::int64_t>(b) * shape[1] * row + i);
    for (std::int64_t i = lengths[b] * row; i < (lengths[b] + gap) * row; ++i)
      EXPECT_EQ(at(t, from * row + i), 0) << "padding is zero";
    from += lengths[b] + gap;
  }
  return out;
}

void expect_near(const Tensor& got, const Tensor& expected, double error,
                 const std::string& what) {
  ASSERT_EQ(got.shape(), expected.shape()) << what;
  double scale = 0;
  for (std::int64_t i = 0; i < expected.numel(); ++i)
    if (std::isfinite(at(expected, i)))
      scale = std::max(scale, std::fabs(at(expected, i)));
  for (std::int64_t i = 0; i < expected.numel(); ++i) {
    if (std::isinf(at(expected, i))) {
      ASSERT_EQ(at(got, i), at(expected, i)) << what << " at " << i;
      continue;
    }
    ASSERT_NEAR(at(got, i), at(expected, i), error * scale)
        << what << " at " << i;
  }
}

struct NamedCase {
  const char* name;
  AttentionOptions options;
};

const std::vector<NamedCase>& cases() {
  using enum AttentionMask;
  static const std::vector<NamedCase> all = {
      {"causal", {.mask = kCausal}},
      {"full_cross", {.mask = kNone}},
      {"bottom_right", {.mask = kCausalBottomRight}},
      {"padding", {.mask = kPadding}},
      {"padding_causal", {.mask = kPaddingCausal}},
      {"padding_causal_bottom_right", {.mask = kPaddingCausalBottomRight}},
      {"window", {.mask = kNone, .window_left = 3, .window_right = 2}},
      {"window_bottom_right", {.mask = kCausalBottomRight, .window_left = 4}},
      {"alibi", {.mask = kNone, .bias = AttentionBiasType::kAlibi}},
      {"alibi_causal", {.mask = kCausal, .bias = AttentionBiasType::kAlibi}},
      {"post_scale_bias",
       {.mask = kNone, .bias = AttentionBiasType::kPostScale}},
      {"pre_scale_bias",
       {.mask = kCausal, .bias = AttentionBiasType::kPreScale}},
      {"shared_bias", {.mask = kNone, .bias = AttentionBiasType::kPostScale}},
      {"off_by_one", {.mask = kCausal, .softmax = SoftmaxType::kOffByOne}},
      {"learnable", {.mask = kNone, .softmax = SoftmaxType::kLearnable}},
      {"arbitrary", {.mask = kArbitrary}},
  };
  return all;
}

bool takes_lengths(const AttentionOptions& o) {
  return o.mask == AttentionMask::kPadding ||
         o.mask == AttentionMask::kPaddingCausal ||
         o.mask == AttentionMask::kPaddingCausalBottomRight ||
         o.q_format == QkvFormat::kThd;
}

AttentionInputs inputs_of(const Arrays& a, const AttentionOptions& options,
                          DType dtype, Device device) {
  AttentionInputs in;
  in.q = on(device, cast(a.at("q"), dtype));
  in.k = on(device, cast(a.at("k"), dtype));
  in.v = on(device, cast(a.at("v"), dtype));
  if (a.contains("bias")) in.bias = on(device, a.at("bias"));
  if (a.contains("mask")) in.mask = on(device, a.at("mask"));
  if (a.contains("softmax_offset"))
    in.softmax_offset = on(device, a.at("softmax_offset"));
  if (!takes_lengths(options)) return in;
  in.cu_seqlens_q = on(device, offsets(lengths(a.at("lens_q"))));
  in.cu_seqlens_kv = on(device, offsets(lengths(a.at("lens_kv"))));
  return in;
}

struct Tolerance {
  double forward, backward, lse;
};

void check_bshd(const Arrays& a, AttentionOptions options, DType dtype,
                Device device, const Tolerance& tolerance,
                const std::string& what) {
  options.q_format = options.kv_format = QkvFormat::kBshd;
  const AttentionInputs in = inputs_of(a, options, dtype, device);
  const Tensor d_out = on(device, cast(a.at("d_out"), dtype));
  const AttentionResult r = attention_forward(in, options);
  EXPECT_EQ(r.out.dtype(), dtype);
  expect_near(r.out, a.at("out"), tolerance.forward, what + " out");
  expect_near(r.lse, a.at("lse"), tolerance.lse, what + " lse");
  const AttentionGradients g =
      attention_backward(d_out, in, r.out, r.lse, options);
  expect_near(g.dq, a.at("d_q"), tolerance.backward, what + " dq");
  expect_near(g.dk, a.at("d_k"), tolerance.backward, what + " dk");
  expect_near(g.dv, a.at("d_v"), tolerance.backward, what + " dv");
  EXPECT_EQ(g.d_bias.has_value(), a.contains("d_bias"));
  if (a.contains("d_bias"))
    expect_near(*g.d_bias, a.at("d_bias"), tolerance.backward, what + " bias");
  EXPECT_EQ(g.d_softmax_offset.has_value(), a.contains("d_softmax_offset"));
  if (a.contains("d_softmax_offset"))
    expect_near(*g.d_softmax_offset, a.at("d_softmax_offset"),
                tolerance.backward, what + " softmax_offset");
}

TEST(Attention, TorchVectorsInFloat32) {
  for (const NamedCase& c : cases())
    for (const Device device : {Device::kReference, Device::kCpu})
      check_bshd(
          load_case(c.name), c.options, DType::kF32, device, {2e-6, 4e-6, 1e-6},
          std::string(c.name) + " on " + std::string(device_name(device)));
}

// The tolerance of NVTE's own tests of its backends (4.5): 1e-3 and 1.5e-2.
TEST(Attention, TorchVectorsIn16Bits) {
  for (const NamedCase& c : cases()) {
    const Arrays a = load_case(c.name);
    check_bshd(a, c.options, DType::kF16, Device::kCpu, {1e-3, 2e-3, 1e-3},
               std::string(c.name) + " f16");
    check_bshd(a, c.options, DType::kBF16, Device::kCpu,
               {1.5e-2, 1.5e-2, 1.5e-2}, std::string(c.name) + " bf16");
  }
}

TEST(Attention, SbhdHoldsTheSameValues) {
  for (const NamedCase& c : cases()) {
    const Arrays a = load_case(c.name);
    AttentionInputs in = inputs_of(a, c.options, DType::kF32, Device::kCpu);
    AttentionOptions options = c.options;
    options.q_format = options.kv_format = QkvFormat::kBshd;
    const AttentionResult x = attention_forward(in, options);
    const AttentionGradients gx =
        attention_backward(a.at("d_out"), in, x.out, x.lse, options);
    in.q = swap_sequence(in.q);
    in.k = swap_sequence(in.k);
    in.v = swap_sequence(in.v);
    options.q_format = options.kv_format = QkvFormat::kSbhd;
    const AttentionResult y = attention_forward(in, options);
    const AttentionGradients gy = attention_backward(
        swap_sequence(a.at("d_out")), in, y.out, y.lse, options);
    expect_near(swap_sequence(y.out), x.out, 0, c.name);
    expect_near(y.lse, x.lse, 0, c.name);
    expect_near(swap_sequence(gy.dq), gx.dq, 0, c.name);
    expect_near(swap_sequence(gy.dk), gx.dk, 0, c.name);
    expect_near(swap_sequence(gy.dv), gx.dv, 0, c.name);
  }
}

// Packed sequences, without and with padding between them; the padding holds
// NaN and stays out.
TEST(Attention, PackedSequences) {
  for (const NamedCase& c : cases()) {
    const Arrays a = load_case(c.name);
    if (a.contains("bias") || a.contains("mask")) continue;
    const auto lens_q = lengths(a.at("lens_q"));
    const auto lens_kv = lengths(a.at("lens_kv"));
    for (const std::int64_t gap : {0, 3}) {
      AttentionOptions options = c.options;
      options.q_format = options.kv_format = QkvFormat::kThd;
      AttentionInputs in = inputs_of(a, options, DType::kF32, Device::kCpu);
      in.q = pack(in.q, lens_q, gap);
      in.k = pack(in.k, lens_kv, gap);
      in.v = pack(in.v, lens_kv, gap);
      if (gap > 0) {
        in.cu_seqlens_q_padded = offsets(lens_q, gap);
        in.cu_seqlens_kv_padded = offsets(lens_kv, gap);
      }
      const AttentionResult r = attention_forward(in, options);
      const std::string what = std::string(c.name) + " packed";
      const auto whole = [&](const Tensor& t, const char* like,
                             const std::vector<std::int64_t>& lens) {
        return unpack(t, a.at(like).shape(), lens, gap);
      };
      expect_near(whole(r.out, "out", lens_q), a.at("out"), 2e-6, what);
      const AttentionGradients g = attention_backward(
          pack(a.at("d_out"), lens_q, gap), in, r.out, r.lse, options);
      expect_near(whole(g.dq, "q", lens_q), a.at("d_q"), 4e-6, what + " dq");
      expect_near(whole(g.dk, "k", lens_kv), a.at("d_k"), 4e-6, what + " dk");
      expect_near(whole(g.dv, "v", lens_kv), a.at("d_v"), 4e-6, what + " dv");
    }
  }
}

// Every precision but the working one is within fp32's reach of the answer.
TEST(Attention, PrecisionsOfTheSums) {
  const Arrays a = load_case("padding_causal_bottom_right");
  AttentionOptions options{.mask = AttentionMask::kPaddingCausalBottomRight};
  for (const InternalPrecision p : kInternalPrecisions) {
    options.precision = p;
    const bool working = p == InternalPrecision::kWorking;
    check_bshd(a, options, DType::kF32, Device::kCpu, {2e-6, 4e-6, 1e-6},
               std::string(precision_name(p)));
    if (working)
      check_bshd(a, options, DType::kBF16, Device::kCpu, {5e-2, 5e-2, 5e-2},
                 "working bf16");
  }
  // By name: sums rounded to bf16 show.
  AttentionInputs in = inputs_of(a, options, DType::kBF16, Device::kCpu);
  options.precision = InternalPrecision::kF32;
  options.q_format = options.kv_format = QkvFormat::kBshd;
  const Tensor fast = attention_forward(in, options).out;
  const PrecisionScope scope("attention", InternalPrecision::kWorking);
  const Tensor slow = attention_forward(in, options).out;
  EXPECT_FALSE(std::ranges::equal(fast.view.bytes(), slow.view.bytes()));
}

AttentionInputs random_inputs(DType dtype, std::int64_t sq, std::int64_t skv,
                              std::int64_t h, std::int64_t hkv,
                              Device device = Device::kCpu) {
  AttentionInputs in;
  in.q = normal(dtype, {sq, 1, h, 16}, 1, device);
  in.k = normal(dtype, {skv, 1, hkv, 16}, 2, device);
  in.v = normal(dtype, {skv, 1, hkv, 16}, 3, device);
  return in;
}

// Values 10 and 20 in two key heads, four query heads.
TEST(Attention, F35_KeyHeadsAreRepeatedNotTiled) {
  AttentionInputs in = random_inputs(DType::kF32, 3, 5, 4, 2);
  for (std::int64_t j = 0; j < 5; ++j)
    for (std::int64_t h = 0; h < 2; ++h)
      std::fill_n(in.v.mutable_data<float>() + (j * 2 + h) * 16, 16,
                  h == 0 ? 10.0f : 20.0f);
  const Tensor out = attention_forward(in, {.mask = AttentionMask::kNone}).out;
  const double expected[] = {10, 10, 20, 20};
  for (std::int64_t h = 0; h < 4; ++h)
    EXPECT_NEAR(at(out, h * 16), expected[h], 1e-5);
}

// Forward's mask is backward's: dv of an all-ones d_out is, per key, the sum
// of exactly those weights that out was made of.
TEST(Attention, F43_BackwardHasTheMaskOfForward) {
  for (const DType dtype : {DType::kF32, DType::kBF16})
    for (const Device device : {Device::kCpu, Device::kReference}) {
      AttentionInputs in = random_inputs(dtype, 40, 16, 1, 1, device);
      // v is the identity: out[i] is row i of the dropped probabilities.
      std::fill_n(in.v.mutable_data(), in.v.view.bytes().size(), std::byte{0});
      for (std::int64_t j = 0; j < 16; ++j)
        store_from_double(dtype, 1, in.v.mutable_data(), j * 16 + j);
      const AttentionOptions options{
          .mask = AttentionMask::kNone, .dropout = 0.5, .seed = 3, .offset = 8};
      const AttentionResult r = attention_forward(in, options);
      for (std::int64_t i = 0; i < 40; ++i) {
        // One query at a time has a gradient.
        Tensor d_out = Tensor::zeros(dtype, in.q.shape(), device);
        for (std::int64_t d = 0; d < 16; ++d)
          store_from_double(dtype, 1, d_out.mutable_data(), i * 16 + d);
        const AttentionGradients g =
            attention_backward(d_out, in, r.out, r.lse, options);
        for (std::int64_t j = 0; j < 16; ++j) {
          const double weight = at(r.out, i * 16 + j);
          EXPECT_EQ(weight != 0, at(g.dv, j * 16) != 0) << i << " " << j;
          EXPECT_NEAR(at(g.dv, j * 16), weight, 0.01 * weight);
        }
      }
    }
}

// 0.1 is 25 of 256; the element numbers of a second head follow the first's.
TEST(Attention, F44_T19_DropoutIsTheMaskOfTheDropoutKernels) {
  AttentionInputs in = random_inputs(DType::kF32, 7, 16, 2, 2);
  for (std::int64_t j = 0; j < 16; ++j)  // v is the identity
    for (std::int64_t h = 0; h < 2; ++h)
      for (std::int64_t d = 0; d < 16; ++d)
        in.v.mutable_data<float>()[(j * 2 + h) * 16 + d] = j == d ? 1 : 0;
  const Tensor out = attention_forward(in, {.mask = AttentionMask::kNone,
                                            .dropout = 0.1,
                                            .seed = 5,
                                            .offset = 8})
                         .out;
  std::uint16_t masks[14];
  dropout_kernels(Device::kReference)
      .draw({.seed = 5, .offset = 8, .threshold = 25}, 0, 14, masks);
  int dropped = 0;
  for (std::int64_t i = 0; i < 7; ++i)
    for (std::int64_t h = 0; h < 2; ++h)
      for (std::int64_t j = 0; j < 16; ++j) {
        const bool kept = (masks[h * 7 + i] >> j & 1) != 0;
        EXPECT_EQ(at(out, (i * 2 + h) * 16 + j) != 0, kept);
        dropped += kept ? 0 : 1;
      }
  EXPECT_GT(dropped, 5);
  EXPECT_LT(dropped, 50);
}

TEST(Attention, DropoutKeepsTheExpectation) {
  AttentionInputs in = random_inputs(DType::kF32, 1, 64, 1, 1);
  for (std::int64_t i = 0; i < in.v.numel(); ++i)
    in.v.mutable_data<float>()[i] = 1;
  double sum = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed)
    sum += at(
        attention_forward(
            in, {.mask = AttentionMask::kNone, .dropout = 0.25, .seed = seed})
            .out,
        0);
  EXPECT_NEAR(sum / 400, 1, 0.05);
}

// 5 slopes: those of four heads, then the first of eight.
TEST(Attention, AlibiSlopesOfAnyNumberOfHeads) {
  EXPECT_EQ(alibi_slopes(4),
            (std::vector<float>{0.25f, 0.0625f, 0.015625f, 0.00390625f}));
  EXPECT_EQ(alibi_slopes(5)[4], 0.5f);
  EXPECT_EQ(alibi_slopes(6)[5], 0.125f);
  EXPECT_EQ(alibi_slopes(1), (std::vector<float>{0.00390625f}));
}

// Keys in two parts, merged: forward and, with the merged log-sum-exp,
// backward.
TEST(Attention, PartsOfTheKeysMerge) {
  for (const DType dtype : {DType::kF32, DType::kBF16})
    for (const Device device : {Device::kCpu, Device::kReference}) {
      const AttentionInputs in = random_inputs(dtype, 20, 90, 2, 2, device);
      const AttentionOptions options{.mask = AttentionMask::kNone};
      const AttentionResult whole = attention_forward(in, options);
      const auto part = [&](std::int64_t begin, std::int64_t end) {
        AttentionInputs p = in;
        for (Tensor* t : {&p.k, &p.v}) {
          const std::int64_t row = 32 * (traits(dtype).bits / 8);
          t->view.shape[0] = end - begin;
          t->view.data += begin * row;
        }
        return p;
      };
      const AttentionInputs a = part(0, 37), b = part(37, 90);
      const AttentionResult ra = attention_forward(a, options);
      const AttentionResult rb = attention_forward(b, options);
      const AttentionPartial merged =
          merge_attention({ra.out, ra.lse}, {rb.out, rb.lse}, QkvFormat::kSbhd);
      const double error = dtype == DType::kF32 ? 2e-6 : 1e-2;
      expect_near(merged.out, whole.out, error, "merged out");
      expect_near(merged.lse, whole.lse, 1e-6, "merged lse");
      const Tensor d_out = normal(dtype, in.q.shape(), 5, device);
      const AttentionGradients g =
          attention_backward(d_out, in, whole.out, whole.lse, options);
      const AttentionGradients gb =
          attention_backward(d_out, b, merged.out, merged.lse, options);
      Tensor tail = g.dk;
      tail.view.shape[0] = 53;
      tail.view.data += 37 * 32 * (traits(dtype).bits / 8);
      expect_near(gb.dk, tail, dtype == DType::kF32 ? 1e-5 : 2e-2, "dk");
    }
}

Tensor i32(const std::vector<std::int64_t>& values) {
  Tensor t =
      Tensor::empty(DType::kI32, {static_cast<std::int64_t>(values.size())});
  for (std::size_t i = 0; i < values.size(); ++i)
    t.mutable_data<std::int32_t>()[i] = static_cast<std::int32_t>(values[i]);
  return t;
}

// Queries 30 to 79 in one call per range of keys, under masks that count from
// the start of the sequence: merged they are those rows of the whole, and with
// the whole's lse the gradients of q add up to the whole's.
TEST(Attention, OriginsPlaceAPartInTheWhole) {
  using enum AttentionMask;
  const std::vector<AttentionOptions> all = {
      {.mask = kCausal},
      {.mask = kCausal, .window_left = 25},
      {.mask = kNone, .window_left = 7, .window_right = 33},
      {.mask = kCausal, .bias = AttentionBiasType::kAlibi},
      {.mask = kNone, .bias = AttentionBiasType::kAlibi},
      {.mask = kCausal, .dropout = 0.3, .seed = 3, .max_q = 90, .max_kv = 90}};
  const AttentionInputs in = random_inputs(DType::kF32, 90, 90, 2, 1);
  const std::int64_t q_row = in.q.numel() / 90, k_row = in.k.numel() / 90;
  const auto rows = [](Tensor t, std::int64_t row, std::int64_t begin,
                       std::int64_t end) {
    t.view.shape[0] = end - begin;
    t.view.data += begin * row * 4;
    return t;
  };
  const Tensor d_out = normal(DType::kF32, in.q.shape(), 5);
  for (const AttentionOptions& options : all) {
    const AttentionResult whole = attention_forward(in, options);
    const AttentionGradients g =
        attention_backward(d_out, in, whole.out, whole.lse, options);
    AttentionPartial sum;
    std::vector<double> dq;
    for (const auto& [begin, end] : {std::pair{0, 50}, {50, 55}, {55, 90}}) {
      AttentionInputs part = in;
      part.q = rows(in.q, q_row, 30, 80);
      part.k = rows(in.k, k_row, begin, end);
      part.v = rows(in.v, k_row, begin, end);
      part.origin_q = i32({30});
      part.origin_kv = i32({begin});
      const AttentionResult r = attention_forward(part, options);
      sum = begin == 0 ? AttentionPartial{r.out, r.lse}
                       : merge_attention(sum, {r.out, r.lse}, QkvFormat::kSbhd);
      Tensor lse = Tensor::empty(DType::kF32, {1, 2, 50});
      for (int i = 0; i < 100; ++i)
        lse.mutable_data<float>()[i] =
            whole.lse.data<float>()[i / 50 * 90 + 30 + i % 50];
      const AttentionGradients gp =
          attention_backward(rows(d_out, q_row, 30, 80), part,
                             rows(whole.out, q_row, 30, 80), lse, options);
      dq.resize(static_cast<std::size_t>(gp.dq.numel()));
      for (std::size_t i = 0; i < dq.size(); ++i)
        dq[i] += at(gp.dq, static_cast<std::int64_t>(i));
    }
    expect_near(sum.out, rows(whole.out, q_row, 30, 80), 2e-6, "out");
    Tensor total = Tensor::empty(DType::kF32, {50, 1, 2, q_row / 2});
    for (std::size_t i = 0; i < dq.size(); ++i)
      total.mutable_data<float>()[i] = static_cast<float>(dq[i]);
    expect_near(total, rows(g.dq, q_row, 30, 80), 1e-5, "dq");
  }
}

TEST(Attention, OriginsThatMeanNothingAreRefused) {
  AttentionInputs in = random_inputs(DType::kF32, 4, 4, 2, 2);
  in.origin_q = i32({0});
  EXPECT_EQ(message([&] { attention_forward(in, {}); }),
            "attention_forward: origin_kv: absent, expected both origins or "
            "none");
  in.origin_kv = i32({-1});
  EXPECT_EQ(message([&] { attention_forward(in, {}); }),
            "attention_forward: origin_kv: -1, expected 0 or more");
  in.origin_kv = i32({0});
  EXPECT_EQ(message([&] {
              attention_forward(in,
                                {.mask = AttentionMask::kCausalBottomRight});
            }),
            "attention_forward: origin_q: given with a bottom-right diagonal, "
            "expected none");
  in.origin_kv = i32({0, 0});
  EXPECT_EQ(message([&] { attention_forward(in, {}); }),
            "attention_forward: origin_kv: shape [2], expected [1]");
}

TEST(Attention, MergingTwoWithoutKeysIsZero) {
  const AttentionInputs in = random_inputs(DType::kF32, 4, 0, 1, 1);
  const AttentionResult r =
      attention_forward(in, {.mask = AttentionMask::kNone});
  const AttentionPartial m =
      merge_attention({r.out, r.lse}, {r.out, r.lse}, QkvFormat::kSbhd);
  for (std::int64_t i = 0; i < m.out.numel(); ++i) EXPECT_EQ(at(m.out, i), 0);
  EXPECT_EQ(at(m.lse, 0), -std::numeric_limits<double>::infinity());
}

TEST(Attention, MergingKeepsANanOfEitherSide) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float none = -std::numeric_limits<float>::infinity();
  const auto part = [](float lse, float out) {
    Tensor o = Tensor::empty(DType::kF32, {1, 1, 1});
    Tensor l = Tensor::empty(DType::kF32, {1, 1});
    o.mutable_data<float>()[0] = out;
    l.mutable_data<float>()[0] = lse;
    return AttentionPartial{o, l};
  };
  for (const float other : {none, 0.0f, nan})
    for (const bool first : {true, false}) {
      const AttentionPartial a = part(nan, nan), b = part(other, 0);
      const AttentionPartial m = first ? merge_attention(a, b, QkvFormat::kThd)
                                       : merge_attention(b, a, QkvFormat::kThd);
      EXPECT_TRUE(std::isnan(at(m.out, 0)) && std::isnan(at(m.lse, 0)));
    }
}

TEST(Attention, MaxLogitOfEveryHead) {
  for (const Device device : {Device::kCpu, Device::kReference}) {
    AttentionInputs in = random_inputs(DType::kF32, 3, 4, 2, 2, device);
    const AttentionResult r =
        attention_forward(in, {.mask = AttentionMask::kCausal,
                               .scale = 2.0f,
                               .want_max_logit = true});
    for (std::int64_t h = 0; h < 2; ++h) {
      double best = -1e30;
      for (std::int64_t i = 0; i < 3; ++i)
        for (std::int64_t j = 0; j <= i; ++j) {
          double dot = 0;
          for (std::int64_t d = 0; d < 16; ++d)
            dot +=
                at(in.q, (i * 2 + h) * 16 + d) * at(in.k, (j * 2 + h) * 16 + d);
          best = std::max(best, 2 * dot);
        }
      EXPECT_NEAR(at(r.max_logit, h), best, 1e-5);
    }
  }
}

// A NaN logit is the maximum of its head, on every device; another head and
// rows without keys are as they were.
TEST(Attention, MaxLogitOfNanLogitsIsNan) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (const Device device : {Device::kCpu, Device::kReference})
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      AttentionInputs in = random_inputs(dtype, 3, 70, 2, 2, device);
      const AttentionOptions options{.mask = AttentionMask::kNone,
                                     .want_max_logit = true};
      const double other = at(attention_forward(in, options).max_logit, 1);
      const AttentionInputs good = in;
      in.q = cast(good.q, dtype);
      store_from_double(dtype, NAN, in.q.mutable_data(), 2 * 16 + 1);  // head 0
      in.q.device = device;
      AttentionResult r = attention_forward(in, options);
      EXPECT_TRUE(std::isnan(at(r.max_logit, 0))) << device_name(device);
      // The bf16 head runs in other tiles beside one that holds a NaN.
      EXPECT_NEAR(at(r.max_logit, 1), other, 1e-2);
      in.q = good.q;
      in.k = cast(good.k, dtype);  // one key of many: its logits only
      store_from_double(dtype, NAN, in.k.mutable_data(), 65 * 2 * 16);
      in.k.device = device;
      r = attention_forward(in, options);
      EXPECT_TRUE(std::isnan(at(r.max_logit, 0))) << device_name(device);
      in.k = cast(good.k, dtype);
      store_from_double(dtype, kInf, in.k.mutable_data(), 65 * 2 * 16);
      in.k.device = device;
      in.q = cast(good.q, dtype);
      for (std::int64_t i = 0; i < in.q.numel(); ++i)
        store_from_double(dtype, 1, in.q.mutable_data(), i);
      in.q.device = device;
      r = attention_forward(in, options);
      EXPECT_EQ(at(r.max_logit, 0), kInf) << device_name(device);
    }
}

// Central differences of sum(d_out * out) in the fp64 loops.
TEST(Attention, GradientsAreDifferencesOfTheReference) {
  AttentionInputs in =
      random_inputs(DType::kF32, 5, 6, 2, 1, Device::kReference);
  in.bias = normal(DType::kF32, {1, 2, 5, 6}, 7, Device::kReference);
  in.softmax_offset = normal(DType::kF32, {2}, 8, Device::kReference);
  const AttentionOptions options{.mask = AttentionMask::kCausalBottomRight,
                                 .softmax = SoftmaxType::kLearnable,
                                 .bias = AttentionBiasType::kPreScale,
                                 .dropout = 0.25,
                                 .seed = 5};
  const Tensor d_out =
      normal(DType::kF32, {5, 1, 2, 16}, 9, Device::kReference);
  const auto value = [&] {
    const Tensor out = attention_forward(in, options).out;
    double sum = 0;
    for (std::int64_t i = 0; i < out.numel(); ++i)
      sum += at(out, i) * at(d_out, i);
    return sum;
  };
  const AttentionResult r = attention_forward(in, options);
  const AttentionGradients g =
      attention_backward(d_out, in, r.out, r.lse, options);
  const auto check = [&](Tensor& t, const Tensor& gradient, const char* what) {
    constexpr float kStep = 0x1p-6f;
    for (std::int64_t i = 0; i < t.numel(); i += 3) {
      float& x = t.mutable_data<float>()[i];
      const float before = x;
      x = before + kStep;
      const double above = value();
      x = before - kStep;
      const double below = value();
      x = before;
      EXPECT_NEAR(at(gradient, i), (above - below) / (2 * kStep), 1e-3)
          << what << " at " << i;
    }
  };
  check(in.q, g.dq, "q");
  check(in.k, g.dk, "k");
  check(in.v, g.dv, "v");
  check(*in.bias, *g.d_bias, "bias");
  check(*in.softmax_offset, *g.d_softmax_offset, "softmax_offset");
}

// Many small heads and sequences; nothing of the output is left unwritten.
TEST(Attention, F41_F42_EveryElementIsWritten) {
  AttentionInputs in;
  const Shape shape{3, 700, 16, 2};
  in.q = Tensor::zeros(DType::kF32, shape);
  in.k = in.q;
  in.v = Tensor::zeros(DType::kF32, shape);
  std::fill_n(in.v.mutable_data<float>(), in.v.numel(), 1.0f);
  // The pool hands this block out again: what is not written would be NaN.
  {
    Tensor poison = Tensor::empty(DType::kF32, shape);
    std::fill_n(poison.mutable_data<float>(), poison.numel(), NAN);
  }
  const AttentionResult r =
      attention_forward(in, {.mask = AttentionMask::kNone});
  for (std::int64_t i = 0; i < r.out.numel(); ++i)
    ASSERT_EQ(r.out.data<float>()[i], 1.0f) << i;
}

TEST(Attention, StridedInputsAreRead) {
  AttentionInputs in = random_inputs(DType::kF32, 6, 6, 2, 2);
  const AttentionResult whole = attention_forward(in, {});
  AttentionInputs strided = in;
  Tensor wide = Tensor::zeros(DType::kF32, {6, 1, 2, 20});
  for (std::int64_t r = 0; r < 12; ++r)
    std::copy_n(in.k.data<float>() + r * 16, 16,
                wide.mutable_data<float>() + r * 20);
  strided.k = wide;
  strided.k.view.shape = {6, 1, 2, 16};
  strided.k.view.strides = {40, 40, 20, 1};
  expect_near(attention_forward(strided, {}).out, whole.out, 0, "strided");
}

TEST(Attention, ZeroTokensAndZeroSequences) {
  AttentionInputs in = random_inputs(DType::kBF16, 0, 5, 2, 2);
  const AttentionResult r = attention_forward(in, {});
  EXPECT_EQ(r.out.shape(), (Shape{0, 1, 2, 16}));
  const AttentionGradients g = attention_backward(r.out, in, r.out, r.lse, {});
  for (std::int64_t i = 0; i < g.dk.numel(); ++i) EXPECT_EQ(at(g.dk, i), 0);
  AttentionInputs none;
  none.q = none.k = none.v = Tensor::zeros(DType::kBF16, {7, 2, 16});
  none.cu_seqlens_q = none.cu_seqlens_kv = offsets({});
  const AttentionResult e = attention_forward(
      none, {.q_format = QkvFormat::kThd, .kv_format = QkvFormat::kThd});
  for (std::int64_t i = 0; i < e.out.numel(); ++i) EXPECT_EQ(at(e.out, i), 0);
}

TEST(Attention, BitsDoNotDependOnTheNumberOfThreads) {
  for (const AttentionBiasType bias :
       {AttentionBiasType::kNone, AttentionBiasType::kPostScale}) {
    AttentionInputs in = random_inputs(DType::kBF16, 150, 600, 4, 2);
    if (bias != AttentionBiasType::kNone)
      in.bias = normal(DType::kF32, {1, 1, 150, 600}, 4);
    const AttentionOptions options{.mask = AttentionMask::kNone, .bias = bias};
    const Tensor d_out = normal(DType::kBF16, in.q.shape(), 5);
    const auto run = [&](int threads) {
      set_thread_count(threads);
      const AttentionResult r = attention_forward(in, options);
      AttentionGradients g =
          attention_backward(d_out, in, r.out, r.lse, options);
      set_thread_count(0);
      return g;
    };
    const AttentionGradients one = run(1), four = run(4);
    expect_near(four.dq, one.dq, 0, "dq");
    expect_near(four.dk, one.dk, 0, "dk");
    expect_near(four.dv, one.dv, 0, "dv");
    if (one.d_bias) expect_near(*four.d_bias, *one.d_bias, 0, "d_bias");
  }
}

TEST(Attention, TheWidestWindowIsOpen) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  for (const bool bottom_right : {false, true})
    for (const auto& [queries, keys] :
         {std::pair<std::int64_t, std::int64_t>{3, 9}, {9, 3}}) {
      const AttentionInputs in =
          random_inputs(DType::kF32, queries, keys, 2, 2);
      AttentionOptions options{.mask = AttentionMask::kNone,
                               .bottom_right = bottom_right};
      const AttentionResult open = attention_forward(in, options);
      options.window_left = options.window_right = kMost;
      const AttentionResult wide = attention_forward(in, options);
      expect_near(wide.out, open.out, 0, "out");
      expect_near(wide.lse, open.lse, 0, "lse");
      options.window_left = kMost - 1;
      options.window_right = 0;
      const AttentionResult causal = attention_forward(in, options);
      options.window_left = -1;
      expect_near(causal.out, attention_forward(in, options).out, 0, "left");
    }
}

TEST(Attention, ErrorsNameTheArgument) {
  const AttentionInputs good = random_inputs(DType::kF32, 4, 4, 2, 2);
  AttentionInputs in = good;
  in.k = in.v = normal(DType::kF32, {4, 1, 3, 16}, 1);
  EXPECT_EQ(message([&] { attention_forward(in, {}); }),
            "attention_forward: k: 3 heads, expected a divisor of the 2 of q");
  in = good;
  in.k = normal(DType::kBF16, {4, 1, 2, 16}, 1);
  EXPECT_EQ(message([&] { attention_forward(in, {}); }),
            "attention_forward: k: bfloat16, expected float32");
  EXPECT_EQ(message([&] {
              attention_forward(good, {.mask = AttentionMask::kPadding});
            }),
            "attention_forward: cu_seqlens_q: absent, expected int32 offsets "
            "[batch + 1]");
  EXPECT_EQ(message([&] { attention_forward(good, {.dropout = 1.0}); }),
            "attention_forward: dropout: 1.000000, expected at least 0 and "
            "below 1");
  EXPECT_EQ(message([&] { attention_forward(good, {.scale = INFINITY}); }),
            "attention_forward: scale: inf, expected a finite number");
  EXPECT_EQ(message([&] { attention_forward(good, {.scale = NAN}); }),
            "attention_forward: scale: nan, expected a finite number");
  EXPECT_EQ(message([&] { parse_attention_mask("diagonal"); }).substr(0, 27),
            "attn_mask_type: \"diagonal\",");
}

// An input that no option reads would change nothing in silence.
TEST(Attention, InputsThatNoOptionReadsAreRefused) {
  const AttentionInputs plain = random_inputs(DType::kF32, 4, 4, 2, 2);
  const Tensor square = Tensor::zeros(DType::kF32, {1, 1, 4, 4});
  const Tensor heads = Tensor::zeros(DType::kF32, {2});
  const Tensor bytes = Tensor::zeros(DType::kBool, {1, 1, 4, 4});
  const Tensor lengths = offsets({4});
  using Input = std::optional<Tensor> AttentionInputs::*;
  struct Case {
    const char* name;
    Input input;
    Tensor value;
    AttentionOptions options;
    const char* expected;
  };
  using Mask = AttentionMask;
  using Bias = AttentionBiasType;
  const char* kBiases = "AttentionBiasType::kPreScale and kPostScale";
  const char* kLengths = "padding masks and QkvFormat::kThd";
  const std::vector<Case> cases = {
      {"mask", &AttentionInputs::mask, bytes, {}, "AttentionMask::kArbitrary"},
      {"mask",
       &AttentionInputs::mask,
       bytes,
       {.mask = Mask::kNone},
       "AttentionMask::kArbitrary"},
      {"bias", &AttentionInputs::bias, square, {}, kBiases},
      {"bias", &AttentionInputs::bias, square, {.bias = Bias::kAlibi}, kBiases},
      {"alibi_slopes",
       &AttentionInputs::alibi_slopes,
       heads,
       {},
       "AttentionBiasType::kAlibi"},
      {"softmax_offset",
       &AttentionInputs::softmax_offset,
       heads,
       {},
       "SoftmaxType::kLearnable"},
      {"softmax_offset",
       &AttentionInputs::softmax_offset,
       heads,
       {.softmax = SoftmaxType::kOffByOne},
       "SoftmaxType::kLearnable"},
      {"cu_seqlens_q", &AttentionInputs::cu_seqlens_q, lengths, {}, kLengths},
      {"cu_seqlens_kv", &AttentionInputs::cu_seqlens_kv, lengths, {}, kLengths},
      {"cu_seqlens_q_padded",
       &AttentionInputs::cu_seqlens_q_padded,
       lengths,
       {},
       "QkvFormat::kThd"},
      {"cu_seqlens_kv_padded",
       &AttentionInputs::cu_seqlens_kv_padded,
       lengths,
       {},
       "QkvFormat::kThd"}};
  for (const Case& c : cases) {
    AttentionInputs in = plain;
    in.*c.input = c.value;
    const std::string rest = std::string(": ") + c.name +
                             ": given, expected none but for " + c.expected;
    EXPECT_EQ(message([&] { attention_forward(in, c.options); }),
              "attention_forward" + rest);
    const Tensor lse = Tensor::zeros(DType::kF32, {1, 2, 4});
    EXPECT_EQ(
        message([&] { attention_backward(in.q, in, in.q, lse, c.options); }),
        "attention_backward" + rest);
  }
}

// Every tensor, the integer ones too, against q.
TEST(Attention, TensorsOfTwoDevicesAreAnError) {
  const auto away = [](Tensor t) {
    return on(Device::kReference, std::move(t));
  };
  const AttentionInputs plain = random_inputs(DType::kF32, 4, 4, 2, 2);
  const Tensor lengths = offsets({4});
  const AttentionOptions options{.mask = AttentionMask::kPaddingCausal,
                                 .softmax = SoftmaxType::kLearnable,
                                 .bias = AttentionBiasType::kPostScale};
  AttentionInputs good = plain;
  good.cu_seqlens_q = good.cu_seqlens_kv = lengths;
  good.softmax_offset = Tensor::zeros(DType::kF32, {2});
  good.bias = Tensor::zeros(DType::kF32, {1, 1, 4, 4});
  const auto refused = [&](const AttentionInputs& in,
                           const AttentionOptions& o) {
    EXPECT_EQ(message([&] { attention_forward(in, o); }),
              "attention_forward: device: tensors on cpu and reference, "
              "expected all on one device");
  };
  EXPECT_NO_THROW(attention_forward(good, options));
  for (const auto input :
       {&AttentionInputs::bias, &AttentionInputs::softmax_offset,
        &AttentionInputs::cu_seqlens_q, &AttentionInputs::cu_seqlens_kv}) {
    AttentionInputs in = good;
    in.*input = away(*(good.*input));
    refused(in, options);
  }
  AttentionInputs in = plain;
  in.mask = away(Tensor::zeros(DType::kBool, {1, 1, 4, 4}));
  refused(in, {.mask = AttentionMask::kArbitrary});
  in = plain;
  in.alibi_slopes = away(Tensor::zeros(DType::kF32, {2}));
  refused(in, {.bias = AttentionBiasType::kAlibi});
}

TEST(Attention, NamesAreNvtes) {
  EXPECT_EQ(parse_attention_mask("causal,padding"),
            AttentionMask::kPaddingCausal);
  EXPECT_EQ(parse_attention_mask("padding,causal"),
            AttentionMask::kPaddingCausal);
  EXPECT_EQ(parse_softmax_type("off-by-one"), SoftmaxType::kOffByOne);
  EXPECT_EQ(parse_attention_bias("pre_scale_bias"),
            AttentionBiasType::kPreScale);
  EXPECT_EQ(parse_qkv_format("thd"), QkvFormat::kThd);
}

}  // namespace
}  // namespace assay::te
