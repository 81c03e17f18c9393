// Optimizers on tensors that were never made, and on memory that may not be
// written.
#include "tests/te/absent.h"

#include "assay/te/optim/adam.h"
#include "assay/te/optim/multi_tensor.h"
#include "assay/te/optim/newton_schulz.h"
#include "assay/te/optim/sgd.h"
#include "tests/te/ops/row_op_helpers.h"

namespace assay::te {
namespace {

using List = std::vector<Tensor>;

struct Case {
  const char* name;
  List good;
  std::vector<std::size_t> written;  // which of them
  TensorCall call;
};

Tensor one(double value, DType dtype = DType::kF32) {
  return make_tensor({value}, {1}, dtype);
}

std::span<Tensor> only(Tensor& t) { return {&t, 1}; }

std::vector<Case> cases() {
  const Tensor x = make_tensor({1, 2, 3}, {3});
  const auto adam = [](List& t) {
    return AdamTensors{only(t[0]), only(t[1]), only(t[2]), only(t[3]), {}};
  };
  std::vector<Case> all;
  all.push_back({"multi_tensor_adam", {x, x, x, x}, {1, 2, 3}, [=](List& t) {
                   multi_tensor_adam(adam(t), {}, 1);
                 }});
  all.push_back(
      {"multi_tensor_adam master", {x, x, x, x, x}, {1, 2, 3, 4}, [=](List& t) {
         AdamTensors lists = adam(t);
         lists.master = only(t[4]);
         multi_tensor_adam(lists, {}, 1);
       }});
  all.push_back({"multi_tensor_adam_capturable",
                 {x, x, x, x, one(.1), one(1, DType::kI32), one(1), one(0)},
                 {0, 1, 2, 3},
                 [=](List& t) {
                   multi_tensor_adam_capturable(adam(t), {},
                                                {&t[4], &t[5], &t[6], &t[7]});
                 }});
  all.push_back({"multi_tensor_adam_param_remainder",
                 {x, make_tensor({1, 2, 3}, {3}, DType::kBF16), x, x,
                  Tensor::zeros(DType::kI16, {3})},
                 {1, 2, 3, 4},
                 [=](List& t) {
                   multi_tensor_adam_param_remainder(adam(t), only(t[4]), {},
                                                     1);
                 }});
  all.push_back(
      {"multi_tensor_adam_fp8",
       {x, Tensor::zeros(DType::kE4M3FN, {3}), x, x, x, one(1), one(1), one(1)},
       {1, 2, 3, 4, 6, 7},
       [=](List& t) {
         AdamTensors lists = adam(t);
         lists.master = only(t[4]);
         multi_tensor_adam_fp8(lists, only(t[5]), only(t[6]), only(t[7]), {},
                               1);
       }});
  all.push_back({"scaled_state_values",
                 {Tensor::zeros(DType::kF16, {3}), one(1)},
                 {},
                 [](List& t) { scaled_state_values(t[0], t[1]); }});
  all.push_back({"store_scaled_state",
                 {x, Tensor::zeros(DType::kF16, {3}), one(1)},
                 {1, 2},
                 [](List& t) { store_scaled_state(t[0], t[1], t[2]); }});
  all.push_back(
      {"multi_tensor_sgd", {x, x, x, x, one(0)}, {1, 2, 3}, [](List& t) {
         multi_tensor_sgd({only(t[0]), only(t[1]), only(t[2]), only(t[3])},
                          {.momentum = .9}, &t[4]);
       }});
  all.push_back(
      {"newton_schulz", {make_tensor({1, 0, 0, 1}, {2, 2})}, {0}, [](List& t) {
         newton_schulz(t[0], newton_schulz_coefficients(1));
       }});
  all.push_back({"multi_tensor_scale", {x, x, one(2)}, {1}, [](List& t) {
                   multi_tensor_scale(only(t[0]), only(t[1]), t[2]);
                 }});
  all.push_back({"multi_tensor_l2norm", {x}, {}, [](List& t) {
                   multi_tensor_l2norm(t);
                 }});
  all.push_back({"multi_tensor_unscale_l2norm", {x}, {}, [](List& t) {
                   multi_tensor_unscale_l2norm(t, 2);
                 }});
  all.push_back({"multi_tensor_compute_scale_and_scale_inv",
                 {x, x, x},
                 {1, 2},
                 [](List& t) {
                   multi_tensor_compute_scale_and_scale_inv(
                       only(t[0]), only(t[1]), only(t[2]));
                 }});
  all.push_back({"multi_tensor_compute_scale_inv_e8m0",
                 {x, Tensor::zeros(DType::kE8M0, {3})},
                 {1},
                 [](List& t) {
                   multi_tensor_compute_scale_inv_e8m0(only(t[0]), only(t[1]));
                 }});
  return all;
}

// Every argument its own memory, as a caller has it.
List copies(const List& tensors) {
  List out;
  for (const Tensor& t : tensors) {
    out.push_back(Tensor::empty(t.dtype(), t.shape(), t.device));
    gather(t.view, 0, t.numel(), out.back().mutable_data());
  }
  return out;
}

TEST(AbsentTensors, Optimizers) {
  for (const Case& c : cases())
    expect_absent_refused(c.name, copies(c.good), c.call);
}

// As of a file mapping, where a write is a fault of the process.
TEST(ReadOnlyTensors, AreReadButNeverWritten) {
  for (const Case& c : cases())
    for (std::size_t i = 0; i < c.good.size(); ++i) {
      SCOPED_TRACE(std::string(c.name) + " " + std::to_string(i));
      List arguments = copies(c.good);
      arguments[i].writable = false;
      const List before = copies(arguments);
      const bool written =
          std::count(c.written.begin(), c.written.end(), i) > 0;
      if (!written) {
        EXPECT_NO_THROW(c.call(arguments));
        EXPECT_TRUE(same_bits(arguments[i], before[i]));
        continue;
      }
      const std::string text = error_of([&] { c.call(arguments); });
      EXPECT_NE(text.find(": a read-only tensor, expected memory to write"),
                std::string::npos)
          << text;
      // Refused before anything is written.
      for (std::size_t k = 0; k < arguments.size(); ++k)
        EXPECT_TRUE(same_bits(arguments[k], before[k])) << k;
    }
}

TEST(OptimizerNumbers, OutsideTheirRangeAreRefused) {
  List t = copies(List(4, make_tensor({1, 2, 3}, {3})));
  const AdamTensors lists{only(t[0]), only(t[1]), only(t[2]), only(t[3]), {}};
  const auto adam = [&](const AdamOptions& o) {
    return error_of([&] { multi_tensor_adam(lists, o, 1); });
  };
  const double nan = std::nan(""), inf = HUGE_VAL;
  EXPECT_EQ(adam({.beta1 = 2}),
            "multi_tensor_adam: beta1: 2, expected at least 0 and below 1");
  EXPECT_EQ(adam({.beta1 = nan}),
            "multi_tensor_adam: beta1: nan, expected at least 0 and below 1");
  EXPECT_EQ(adam({.beta2 = 1}),
            "multi_tensor_adam: beta2: 1, expected at least 0 and below 1");
  EXPECT_EQ(adam({.lr = nan}),
            "multi_tensor_adam: lr: nan, expected a finite number");
  EXPECT_EQ(adam({.eps = -1e-8}),
            "multi_tensor_adam: eps: -1e-08, expected finite and at least 0");
  EXPECT_EQ(adam({.weight_decay = inf}),
            "multi_tensor_adam: weight_decay: inf, expected a finite number");
  const SgdTensors sgd{only(t[0]), only(t[1]), only(t[2]), {}};
  EXPECT_EQ(error_of([&] { multi_tensor_sgd(sgd, {.lr = nan}); }),
            "multi_tensor_sgd: lr: nan, expected a finite number");
  EXPECT_EQ(error_of([&] { multi_tensor_sgd(sgd, {.momentum = -1}); }),
            "multi_tensor_sgd: momentum: -1, expected finite and at least 0");
  EXPECT_EQ(error_of([&] {
              multi_tensor_compute_scale_and_scale_inv(
                  only(t[0]), only(t[1]), only(t[2]), {.fp8_max = -1});
            }),
            "multi_tensor_compute_scale_and_scale_inv: fp8_max: -1, expected "
            "finite and above 0");
}

}  // namespace
}  // namespace assay::te
