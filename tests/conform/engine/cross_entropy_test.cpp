// The adapter of `cross_entropy` against numbers of torch's cross_entropy and
// its gradients in fp64, numbers worked by hand, and its refusals.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "tests/conform/engine/run_on.h"
#include "tests/conform/engine/vectors.h"
#include "tests/te/ops/row_op_helpers.h"

namespace assay::conform {
namespace {

using te::error_of;
using te::expect_close;
using te::make_tensor;
using te::values_of;
using Values = std::vector<double>;

constexpr Device kDevices[] = {Device::kCpu, Device::kReference};

AdapterCall loss_call(const Parameters& other, const Values& logits,
                      std::int64_t vocab,
                      const std::vector<std::int64_t>& target,
                      const Values& d_loss) {
  const auto rows = static_cast<std::int64_t>(target.size());
  return call_of(
      "cross_entropy",
      {{"label_smoothing", 0.0}, {"ignore_idx", -100}, {"reduce_loss", false}},
      other,
      {{"input", make_tensor(logits, {rows, 1, vocab})},
       {"target", tensor_of(DType::kI64, {rows, 1}, target)},
       {"d_loss", make_tensor(d_loss, {std::int64_t(d_loss.size())})}});
}

// torch 2.13, float64: F.cross_entropy(x, t, label_smoothing=0.25,
// ignore_index=1, reduction="none" and "mean"), x.grad for d_loss = (2, 3, 1)
// and 2.
const Values kLogits = {0.5, -1.0, 2.0, 0.0, 1.5, 0.25, -0.5, 3.0, 1.0};
TEST(CrossEntropyAdapter, AgreesWithTorch) {
  const Parameters p = {{"label_smoothing", 0.25}, {"ignore_idx", 1}};
  const std::vector<std::int64_t> target = {2, 1, 0};
  const Values loss = {0.6163112966571571, 0, 3.2365115404556217};
  const Values grad = {
      0.18391411761340673, -0.08844152012529176, -0.09547259748811499, 0, 0, 0,
      -0.8074246786159318, 0.7746434772751238,   0.03278120134080782};
  const Values mean_grad = {
      0.09195705880670337, -0.04422076006264588, -0.04773629874405749, 0, 0, 0,
      -0.8074246786159318, 0.7746434772751238,   0.03278120134080782};
  for (const Device device : kDevices) {
    const AdapterResult each =
        run_on(device, loss_call(p, kLogits, 3, target, {2, 3, 1}));
    expect_close(each.outputs.at("loss"), make_tensor(loss, {3, 1}), 2e-7, 0,
                 "loss");
    expect_close(each.outputs.at("grad.input"), make_tensor(grad, {3, 1, 3}),
                 1e-6, 1e-7, "grad.input");
    Parameters reduce = p;
    reduce["reduce_loss"] = true;
    const AdapterResult mean =
        run_on(device, loss_call(reduce, kLogits, 3, target, {2}));
    expect_close(mean.outputs.at("loss"),
                 make_tensor({1.9264114185563894}, {1}), 2e-7, 0, "mean");
    expect_close(mean.outputs.at("grad.input"),
                 make_tensor(mean_grad, {3, 1, 3}), 1e-6, 1e-7, "grad.input");
  }
}

// Two equal logits: log 2, and half a probability each.
TEST(CrossEntropyAdapter, EqualLogits) {
  for (const Device device : kDevices) {
    const AdapterResult r =
        run_on(device, loss_call({}, {7, 7, 7, 7}, 2, {0, 1}, {1, 4}));
    expect_close(r.outputs.at("loss"),
                 make_tensor({std::log(2), std::log(2)}, {2, 1}), 1e-7, 0,
                 "loss");
    EXPECT_EQ(values_of(r.outputs.at("grad.input")),
              (Values{-0.5, 0.5, 2, -2}));
  }
}

TEST(CrossEntropyAdapter, ContractIsNvtes) {
  const AdapterResult r =
      run_on(Device::kCpu, loss_call({}, {1, 2}, 2, {0}, {1}));
  EXPECT_EQ(to_json(r.contract.at("defaults")),
            R"({"ignore_idx": -100, "label_smoothing": 0.0, )"
            R"("reduce_loss": false})");
}

TEST(CrossEntropyAdapter, Refusals) {
  const auto refusal = [](const Parameters& p, std::int64_t target) {
    return error_of([&] {
      run_on(Device::kCpu, loss_call(p, {1, 2}, 2, {target}, {1}));
    });
  };
  EXPECT_THAT(refusal({}, 2), testing::HasSubstr("target"));
  EXPECT_THAT(refusal({}, -1), testing::HasSubstr("target"));
  EXPECT_THAT(refusal({{"label_smoothing", 1.0}}, 0),
              testing::HasSubstr("label_smoothing"));
}

}  // namespace
}  // namespace assay::conform
