// What torch drew on a CPU (tests/data/precheck/make_random_torch.py) passes
// as every operator it is; the same numbers under other arguments do not.
#include <gtest/gtest.h>

#include "assay/conform/tensor_file.h"
#include "tests/precheck/random_call.h"

namespace assay::precheck {
namespace {

const conform::TensorMap& recorded() {
  static const conform::TensorMap tensors =
      conform::read_tensors(std::filesystem::path(
          ASSAY_TEST_DATA "/precheck/random_torch.safetensors"));
  return tensors;
}

struct Value {
  const char* key;
  const char* type;
  const char* text;
};
struct Case {
  const char* name;
  const char* api;
  bool takes_x;  // the recorded input is argument 0
  std::vector<Value> values;
  std::vector<Value> wrong;  // in place of those: a mismatch; none: not tried
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {"dropout",
       "Functional.dropout",
       true,
       {{"p", "float", "0.1"}},
       {{"p", "float", "0.2"}}},
      {"alpha_dropout",
       "Functional.alpha_dropout",
       true,
       {{"1", "float", "0.3"}, {"training", "bool", "True"}},
       {{"1", "float", "0.35"}, {"training", "bool", "True"}}},
      {"dropout1d", "Functional.dropout1d", true, {}, {{"p", "float", "0.3"}}},
      {"dropout3d", "Functional.dropout3d", true, {}, {{"p", "float", "0.3"}}},
      {"feature_alpha",
       "Torch.feature_alpha_dropout",
       true,
       {{"1", "float", "0.5"}, {"2", "bool", "True"}},
       {{"1", "float", "0.4"}, {"2", "bool", "True"}}},
      {"native_dropout",
       "Aten.native_dropout.default",
       true,
       {{"1", "float", "0.25"}, {"2", "bool", "True"}},
       {{"1", "float", "0.75"}, {"2", "bool", "True"}}},
      {"rand_brain", "Torch.rand", false, {}, {}},
      {"randn_half", "Torch.randn", false, {}, {}},
      {"cauchy_half",
       "Tensor.cauchy_",
       false,
       {{"1", "float", "1.0"}, {"sigma", "int", "3"}},
       {{"1", "float", "0.0"}, {"sigma", "int", "3"}}},
      {"randn_complex", "Torch.randn", false, {}, {}},
      {"trunc_normal",
       "Torch.trunc_normal_",
       false,
       {{"1", "float", "1"},
        {"2", "float", "2"},
        {"3", "float", "-1"},
        {"4", "float", "4"}},
       {{"1", "float", "0"},
        {"2", "float", "2"},
        {"3", "float", "-1"},
        {"4", "float", "4"}}},
      {"kaiming_uniform",
       "Torch.kaiming_uniform_",
       false,
       {{"a", "float", "2.23606797749979"}},
       {{"a", "float", "3"}}},
      {"xavier_normal",
       "Torch.xavier_normal_",
       false,
       {{"gain", "float", "0.5"}},
       {{"gain", "float", "1"}}},
      {"poisson", "Torch.poisson", true, {}, {}},
      {"bernoulli", "Torch.bernoulli", true, {}, {{"p", "float", "0.3"}}},
      {"random_int8", "Tensor.random_", false, {}, {{"1", "int", "100"}}},
      {"randint_half",
       "Torch.randint",
       false,
       {{"0", "int", "0"}, {"1", "int", "1000"}},
       {{"high", "int", "1200"}}},
      {"multinomial", "Torch.multinomial", true, {{"1", "int", "2"}}, {}},
      {"multinomial_again",
       "Torch.multinomial",
       true,
       {{"1", "int", "1000"}, {"2", "bool", "True"}},
       {{"1", "int", "1000"}}},
      {"gumbel_hard",
       "Functional.gumbel_softmax",
       true,
       {{"hard", "bool", "True"}, {"dim", "int", "0"}},
       {}},
      {"gumbel_soft",
       "Functional.gumbel_softmax",
       true,
       {{"1", "float", "0.5"}, {"dim", "int", "0"}},
       {{"dim", "int", "1"}}},
      {"rrelu",
       "Functional.rrelu",
       true,
       {{"1", "float", "0.1"}, {"2", "float", "0.4"}, {"3", "bool", "True"}},
       {{"1", "float", "0.1"}, {"2", "float", "0.6"}, {"3", "bool", "True"}}},
  };
  return all;
}

TestCall call_of(const Case& c, const std::vector<Value>& values) {
  TestCall call(c.api);
  if (c.takes_x) call.input("0", recorded().at(std::string(c.name) + ".x"));
  for (const Value& v : values) call.value(v.key, v.type, v.text);
  return call;
}

const Tensor& part(const Case& c, const char* what) {
  return recorded().at(std::string(c.name) + "." + what);
}

TEST(RandomTorch, EveryOperatorPasses) {
  for (const Case& c : cases()) {
    const TestCall call = call_of(c, c.values);
    EXPECT_TRUE(draws_random(call.call())) << c.name;
    const Judgement result = judge_random(call.call(), "output.0",
                                          part(c, "output"), part(c, "output"));
    EXPECT_EQ(result.verdict, Verdict::kMatch)
        << c.name << ": " << reasons(result);
  }
}

TEST(RandomTorch, OtherArgumentsHoldNothing) {
  for (const Case& c : cases()) {
    if (c.wrong.empty()) continue;
    // The golden fails alike, which leaves nothing to hold the device to.
    const Judgement result =
        judge_random(call_of(c, c.wrong).call(), "output.0", part(c, "output"),
                     part(c, "output"));
    EXPECT_EQ(result.verdict, Verdict::kIncomplete) << c.name;
    ASSERT_FALSE(result.reasons.empty());
    EXPECT_EQ(result.reasons[0].criterion, "golden")
        << c.name << ": " << reasons(result);
  }
}

TEST(RandomTorch, MaskOfNativeDropout) {
  const Case& c = cases()[5];
  const Tensor& mask = part(c, "mask");
  const TestCall call = call_of(c, c.values);
  EXPECT_EQ(judge_random(call.call(), "output.1", mask, mask).verdict,
            Verdict::kMatch);
  Tensor turned = Tensor::zeros(DType::kBool, mask.shape());
  for (std::int64_t i = 0; i < mask.numel(); ++i)
    turned.mutable_data<std::uint8_t>()[i] = !mask.data<std::uint8_t>()[i];
  EXPECT_EQ(judge_random(call.call(), "output.1", mask, turned).verdict,
            Verdict::kMismatch);
}

TEST(RandomTorch, GradientsOfDropouts) {
  for (const Case& c : cases()) {
    if (!recorded().count(std::string(c.name) + ".gradient")) continue;
    const TestCall call = call_of(c, c.values);
    const auto judge = [&](const Tensor& gradient) {
      return judge_random_gradient(call.call(), part(c, "output"),
                                   part(c, "given"), gradient);
    };
    const Tensor& right = part(c, "gradient");
    EXPECT_EQ(judge(right).verdict, Verdict::kMatch)
        << c.name << reasons(judge(right));
    // Not masked, not scaled, and masked by another draw.
    EXPECT_EQ(judge(part(c, "given")).verdict, Verdict::kMismatch) << c.name;
    const std::int64_t n = right.numel();
    const Tensor other = filled(right.dtype(), right.shape(), [&](auto i) {
      return load_as_double(right.dtype(), right.view.data, n - 1 - i);
    });
    EXPECT_EQ(judge(other).verdict, Verdict::kMismatch) << c.name;
    const Tensor doubled = filled(right.dtype(), right.shape(), [&](auto i) {
      return 1.1 * load_as_double(right.dtype(), right.view.data, i);
    });
    EXPECT_EQ(judge(doubled).verdict, Verdict::kMismatch) << c.name;
  }
}

}  // namespace
}  // namespace assay::precheck
