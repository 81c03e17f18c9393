// The emulation of FP8 attention: against torch's casts step by step, and,
// without roles, against attention itself.
#include "assay/te/ops/attention_fp8.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "assay/base/error.h"
#include "assay/core/philox.h"
#include "assay/formats/tensor_source.h"
#include "assay/numerics/element.h"
#include "assay/numerics/rounding.h"

namespace assay::te {
namespace {

using Arrays = std::map<std::string, Tensor>;

Arrays load(const std::string& name) {
  const auto source = open_tensors(std::string(ASSAY_TEST_DATA) +
                                   "/te/attention_" + name + ".npz");
  Arrays arrays;
  for (std::size_t i = 0; i < source->tensors().size(); ++i)
    arrays[source->tensors()[i].name] = contiguous(source->load(i));
  return arrays;
}

double at(const Tensor& t, std::int64_t i) {
  return load_as_double(t.dtype(), t.view.data, i);
}

// Cast and back under one scale, max / amax, in place.
void qdq(const std::vector<Tensor*>& tensors, DType format) {
  float amax = 0;
  for (const Tensor* t : tensors)
    for (std::int64_t i = 0; i < t->numel(); ++i)
      amax = std::max(amax, std::fabs(static_cast<float>(at(*t, i))));
  const float scale = static_cast<float>(max_finite(format)) / amax;
  const float back = 1.0f / scale;
  for (Tensor* t : tensors)
    for (std::int64_t i = 0; i < t->numel(); ++i) {
      const float scaled = static_cast<float>(at(*t, i)) * scale;
      const auto code =
          static_cast<float>(round_to(format, scaled, Overflow::kSaturate));
      store_from_double(t->dtype(), code * back, t->mutable_data(), i);
    }
}

AttentionFp8Roles::One one(DType format) {
  return [format](const Tensor& t) {
    Tensor copy = Tensor::empty(t.dtype(), t.shape(), t.device);
    gather(t.view, 0, t.numel(), copy.mutable_data());
    qdq({&copy}, format);
    return copy;
  };
}

AttentionFp8Roles::Three three(DType format) {
  return [format](Tensor& a, Tensor& b, Tensor& c) {
    qdq({&a, &b, &c}, format);
  };
}

AttentionFp8Roles hybrid() {
  using enum DType;
  return {three(kE4M3FN), one(kE4M3FN), one(kE4M3FN),
          one(kE5M2),     one(kE5M2),   three(kE5M2)};
}

void expect_near(const Tensor& got, const Tensor& expected, double error,
                 const std::string& what) {
  ASSERT_EQ(got.shape(), expected.shape()) << what;
  for (std::int64_t i = 0; i < got.numel(); ++i)
    ASSERT_NEAR(at(got, i), at(expected, i),
                error * (1 + std::fabs(at(expected, i))))
        << what << " at " << i;
}

AttentionInputs inputs_of(const Arrays& a) {
  AttentionInputs in;
  in.q = a.at("q");
  in.k = a.at("k");
  in.v = a.at("v");
  if (a.contains("bias")) in.bias = a.at("bias");
  if (a.contains("mask")) in.mask = a.at("mask");
  if (a.contains("softmax_offset")) in.softmax_offset = a.at("softmax_offset");
  return in;
}

// Every element, to the last bit of fp32: a step in another order or with
// another scale moves elements by whole codes.
TEST(AttentionFp8, TorchStepByStep) {
  const Arrays a = load("fp8_emulation");
  const AttentionOptions options{.q_format = QkvFormat::kBshd,
                                 .kv_format = QkvFormat::kBshd};
  const auto f = attention_fp8_forward(inputs_of(a), options, hybrid());
  expect_near(f.out, a.at("out"), 1e-6, "out");
  const auto g = attention_fp8_backward(a.at("d_out"), f, options, hybrid());
  expect_near(g.dq, a.at("d_q"), 1e-6, "dq");
  expect_near(g.dk, a.at("d_k"), 1e-6, "dk");
  expect_near(g.dv, a.at("d_v"), 1e-6, "dv");
}

// Without roles it is attention: masks, biases, sinks, grouped heads.
TEST(AttentionFp8, WithoutRolesItIsAttention) {
  struct Case {
    const char* name;
    AttentionOptions options;
  };
  const Case cases[] = {
      {"causal", {.mask = AttentionMask::kCausal}},
      {"full_cross", {.mask = AttentionMask::kNone}},
      {"bottom_right", {.mask = AttentionMask::kCausalBottomRight}},
      {"alibi",
       {.mask = AttentionMask::kNone, .bias = AttentionBiasType::kAlibi}},
      {"pre_scale_bias",
       {.mask = AttentionMask::kCausal, .bias = AttentionBiasType::kPreScale}},
      {"learnable",
       {.mask = AttentionMask::kNone, .softmax = SoftmaxType::kLearnable}},
      {"arbitrary", {.mask = AttentionMask::kArbitrary}}};
  for (const Case& c : cases) {
    const Arrays a = load(c.name);
    AttentionOptions options = c.options;
    options.q_format = options.kv_format = QkvFormat::kBshd;
    const auto f = attention_fp8_forward(inputs_of(a), options, {});
    expect_near(f.out, a.at("out"), 2e-6, c.name);
    expect_near(f.lse, a.at("lse"), 2e-6, c.name);
    const auto g = attention_fp8_backward(a.at("d_out"), f, options, {});
    expect_near(g.dq, a.at("d_q"), 4e-6, c.name);
    expect_near(g.dk, a.at("d_k"), 4e-6, c.name);
    expect_near(g.dv, a.at("d_v"), 4e-6, c.name);
    if (a.contains("d_bias"))
      expect_near(*g.d_bias, a.at("d_bias"), 4e-6, c.name);
    if (a.contains("d_softmax_offset"))
      expect_near(*g.d_softmax_offset, a.at("d_softmax_offset"), 4e-6, c.name);
  }
}

// A NaN goes where attention_forward takes it, and no further: not to
// probabilities of excluded pairs, which a quantiser of s would see.
TEST(AttentionFp8, NanQueriesAreAsInAttention) {
  const Arrays a = load("causal");
  const AttentionOptions options{.q_format = QkvFormat::kBshd,
                                 .kv_format = QkvFormat::kBshd,
                                 .mask = AttentionMask::kCausal};
  AttentionInputs in = inputs_of(a);
  Tensor q = Tensor::empty(in.q.dtype(), in.q.shape());
  gather(in.q.view, 0, in.q.numel(), q.mutable_data());
  const std::int64_t dim = q.shape()[3], row = q.shape()[2] * dim;
  for (std::int64_t d = 0; d < dim; ++d)  // head 0 of query 2
    store_from_double(q.dtype(), NAN, q.mutable_data(), 2 * row + d);
  in.q = q;
  const auto f = attention_fp8_forward(in, options, {});
  const AttentionResult plain = attention_forward(in, options);
  EXPECT_TRUE(std::isnan(at(plain.lse, 2)));
  for (const auto& [ours, theirs] :
       {std::pair{f.out, plain.out}, std::pair{f.lse, plain.lse}})
    for (std::int64_t i = 0; i < ours.numel(); ++i)
      ASSERT_EQ(std::isnan(at(ours, i)), std::isnan(at(theirs, i))) << i;
  const std::int64_t keys = f.s.shape()[3];
  for (std::int64_t j = 0; j < keys; ++j) {
    EXPECT_EQ(std::isnan(at(f.s, 2 * keys + j)), j <= 2) << j;
    if (j <= 2) continue;
    EXPECT_EQ(at(f.s, 2 * keys + j), 0) << j;
  }
}

TEST(AttentionFp8, TensorsOfTwoDevicesAreAnError) {
  const Arrays a = load("causal");
  const AttentionOptions options{.q_format = QkvFormat::kBshd,
                                 .kv_format = QkvFormat::kBshd};
  const auto f = attention_fp8_forward(inputs_of(a), options, {});
  Tensor d_out = a.at("d_out");
  d_out.device = Device::kReference;
  try {
    attention_fp8_backward(d_out, f, options, {});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "attention_fp8_backward: device: tensors on cpu and "
                 "reference, expected all on one device");
  }
}

// NVTE's own criterion for FP8 attention (4.5): RMSE at most 0.15 of the range
// of the values.
TEST(AttentionFp8, StaysNearHigherPrecision) {
  const Arrays a = load("fp8_emulation");
  const AttentionOptions options{.q_format = QkvFormat::kBshd,
                                 .kv_format = QkvFormat::kBshd};
  const Tensor exact = attention_forward(inputs_of(a), options).out;
  const Tensor fp8 = attention_fp8_forward(inputs_of(a), options, hybrid()).out;
  double sum = 0, low = 1e9, high = -1e9;
  for (std::int64_t i = 0; i < exact.numel(); ++i) {
    sum += std::pow(at(exact, i) - at(fp8, i), 2);
    low = std::min(low, at(exact, i));
    high = std::max(high, at(exact, i));
  }
  const double rmse = std::sqrt(sum / static_cast<double>(exact.numel()));
  EXPECT_LE(rmse, 0.15 * (high - low));
  EXPECT_GT(rmse, 1e-4);  // the roles did something
}

}  // namespace
}  // namespace assay::te
