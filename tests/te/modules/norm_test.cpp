#include "assay/te/modules/norm.h"

#include "assay/te/modules/recompute.h"
#include "tests/te/modules/module_checks.h"

namespace assay::te {
namespace {

const std::vector<double> kX = {1, -2, 3, 0.5, 0.25, 4, -1, 2};
const std::vector<double> kW = {1.5, -0.5, 2, 1};
const std::vector<double> kB = {0.1, 0.2, -0.3, 0};
const std::vector<double> kDy = {1, 0, -1, 2, 0.5, 1, -2, 0.25};

// torch 2.13, float64: layer_norm(x, (4,), w, b, 1e-5) and its backward.
TEST(LayerNorm, ComputesWhatTorchComputes) {
  LayerNorm norm(4);
  norm.load_state_dict(
      std::vector<NamedTensor>{{"weight", filled(DType::kF32, {4}, kW)},
                               {"bias", filled(DType::kF32, {4}, kB)}});
  const PassResult r = train(norm, filled(DType::kF32, {2, 4}, kX),
                             filled(DType::kF32, {2, 4}, kDy), nullptr);
  expect_values(r.y,
                {0.415837585, 0.936954365, 2.36707294, -0.07018613,
                 -0.746712408, -0.513894775, -2.7571262, 0.36524849},
                1e-6, "y");
  expect_values(r.dx,
                {0.705318513, -0.726061789, -0.867128633, 0.887871909,
                 1.15333069, -0.53434362, -1.02900895, 0.410021887},
                1e-6, "dx");
  expect_values(*norm.parameter("weight").grad,
                {-0.0716790793, 1.42778955, 1.12358973, -0.0490601376}, 1e-6,
                "dw");
  expect_values(*norm.parameter("bias").grad, {1.5, 1, -3, 2.25}, 1e-6, "db");
}

// torch 2.13, float64: rms_norm(x, (4,), w, 1e-5). The weight is stored less 1.
TEST(RMSNorm, ComputesWhatTorchComputesAroundOne) {
  RMSNorm norm(4, {.zero_centered_gamma = true});
  EXPECT_EQ(norm.parameters().size(), 1u);
  norm.load_state_dict(std::vector<NamedTensor>{
      {"weight", filled(DType::kF32, {4}, {0.5, -1.5, 1, 0})}});
  const PassResult r = train(norm, filled(DType::kF32, {2, 4}, kX),
                             filled(DType::kF32, {2, 4}, kDy), nullptr);
  expect_values(r.y,
                {0.794718299, 0.529812199, 3.1788732, 0.2649061, 0.163420258,
                 -0.87157471, -0.87157471, 0.87157471},
                1e-6, "y");
  expect_values(r.dx,
                {0.924847246, -0.260257894, -0.669237558, 1.12468887,
                 0.312939314, -0.440312914, -1.68754461, -0.00226277952},
                1e-6, "dx");
  expect_values(*norm.parameter("weight").grad,
                {0.584285619, 1.74314942, -0.717861888, 0.747705877}, 1e-6,
                "dw");
}

TEST(LayerNorm, StartsAtOneWhateverTheParameterHolds) {
  LayerNorm plain(3);
  RMSNorm centred(3, {.zero_centered_gamma = true, .sequence_parallel = true});
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(at(*plain.parameter("weight").value, i), 1);
    EXPECT_EQ(at(*plain.parameter("bias").value, i), 0);
    EXPECT_EQ(at(*centred.parameter("weight").value, i), 0);
  }
  EXPECT_FALSE(plain.parameter("weight").sequence_parallel);
  EXPECT_TRUE(centred.parameter("weight").sequence_parallel);
}

TEST(LayerNorm, AgreesWithTheReference) {
  for (Normalization kind :
       {Normalization::kLayerNorm, Normalization::kRMSNorm}) {
    const auto make = [&](DType dtype,
                          Device device) -> std::unique_ptr<NormModule> {
      const NormModuleOptions options = {.params_dtype = dtype,
                                         .device = device};
      if (kind == Normalization::kLayerNorm)
        return std::make_unique<LayerNorm>(96, options);
      return std::make_unique<RMSNorm>(96, options);
    };
    expect_agrees_with_reference(make, {5, 7, 96}, {5, 7, 96}, 0);
    expect_finite_differences(*make(DType::kF32, Device::kReference),
                              normal_tensor(DType::kF32, {3, 96}, 1), {3, 96});
  }
}

TEST(LayerNorm, NormalisesOverSeveralDimensionsTogether) {
  LayerNorm flat(12), block(Shape{3, 4});
  const Tensor x = normal_tensor(DType::kF32, {5, 3, 4}, 1);
  Tensor rows = x;
  rows.view.shape = {5, 12};
  LayerNorm::Context a, b;
  const Tensor y = block.forward(x, &a), z = flat.forward(rows, &b);
  EXPECT_EQ(y.shape(), (Shape{5, 3, 4}));
  const auto p = y.view.bytes(), q = z.view.bytes();
  EXPECT_TRUE(std::equal(p.begin(), p.end(), q.begin(), q.end()));
  EXPECT_EQ(block.backward(x, a).shape(), (Shape{5, 3, 4}));
  EXPECT_EQ(block.parameter("weight").grad->shape(), (Shape{3, 4}));
}

// bf16 input beside fp32 weights: correct, not NaN.
TEST(LayerNorm, F51_TakesAnInputOfAnotherDtypeThanItsWeights) {
  RMSNorm norm(64);
  const Tensor x = normal_tensor(DType::kBF16, {4, 64}, 1);
  Tensor wide = Tensor::empty(DType::kF32, {4, 64});
  for (std::int64_t i = 0; i < 256; ++i)
    wide.mutable_data<float>()[i] = static_cast<float>(at(x, i));
  EXPECT_EQ(norm.forward(x).dtype(), DType::kBF16);
  EXPECT_LT(distance(norm.forward(x), norm.forward(wide)), 0x1p-9);
}

// A transposed view gives what its copy gives, and is not written.
TEST(LayerNorm, F39_TakesStridedInput) {
  LayerNorm norm(3);
  Tensor x = normal_tensor(DType::kF32, {3, 5}, 1);
  const Tensor before = normal_tensor(DType::kF32, {3, 5}, 1);
  Tensor strided = x;
  strided.view.shape = {5, 3};
  strided.view.strides = {1, 5};
  LayerNorm::Context a, b;
  EXPECT_TRUE(same_bits(norm.forward(strided, &a),
                        norm.forward(contiguous(strided), &b)));
  Tensor dy = strided;
  EXPECT_TRUE(
      same_bits(norm.backward(dy, a), norm.backward(contiguous(dy), b)));
  EXPECT_TRUE(same_bits(x, before));
}

TEST(LayerNorm, AddsToMainGradWhereItIsAsked) {
  LayerNorm norm(
      4, {.params_dtype = DType::kBF16, .fuse_wgrad_accumulation = true});
  Parameter& w = norm.parameter("weight");
  w.main_grad = Tensor::zeros(DType::kF32, {4});
  const Tensor x = normal_tensor(DType::kBF16, {6, 4}, 1);
  train(norm, x, x, nullptr);
  const double once = at(*w.main_grad, 1);
  EXPECT_FALSE(w.grad);
  EXPECT_TRUE(w.grad_added_to_main_grad);
  EXPECT_TRUE(norm.parameter("bias").grad);
  train(norm, x, x, nullptr);
  EXPECT_EQ(at(*w.main_grad, 1), 2 * once);
  EXPECT_NE(once, 0);
}

TEST(LayerNorm, TakesNoRows) {
  LayerNorm norm(8);
  const Tensor x = Tensor::zeros(DType::kF32, {0, 8});
  const PassResult r = train(norm, x, x, nullptr);
  EXPECT_EQ(r.dx.shape(), (Shape{0, 8}));
  EXPECT_EQ(at(*norm.parameter("weight").grad, 3), 0);
}

TEST(LayerNorm, NamesWhatItCannotTake) {
  LayerNorm norm(8, {.name = "final"});
  EXPECT_EQ(message_of([&] {
              norm.forward(Tensor::zeros(DType::kF32, {2, 7}));
            }),
            "final: input: shape [2, 7], expected [..., 8]");
  EXPECT_EQ(message_of([] { LayerNorm bad(0); }),
            "LayerNorm: normalized_shape: [0], expected positive sizes");
  LayerNorm::Context context;
  norm.forward(Tensor::zeros(DType::kF32, {2, 8}), &context);
  EXPECT_EQ(message_of([&] {
              norm.backward(Tensor::zeros(DType::kF32, {3, 8}), context);
            }),
            "final: grad_output: shape [3, 8], expected [2, 8]");
  EXPECT_EQ(message_of([] { parse_normalization("BatchNorm"); }),
            "module: normalization: \"BatchNorm\", expected LayerNorm or "
            "RMSNorm");
}

}  // namespace
}  // namespace assay::te
