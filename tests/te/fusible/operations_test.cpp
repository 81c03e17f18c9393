// Each operation by itself. Values: torch 2.13 in float64 on the same inputs
// (gelu is its tanh form; the gated ones torch.chunk(2, -1), gate first).
#include "assay/base/error.h"
#include "assay/te/fusible/activation.h"
#include "assay/te/fusible/bias.h"
#include "assay/te/fusible/collective.h"
#include "assay/te/fusible/elementwise.h"
#include "assay/te/fusible/grouped_linear.h"
#include "assay/te/fusible/layout.h"
#include "assay/te/fusible/linear.h"
#include "assay/te/fusible/normalization.h"
#include "tests/te/fusible/fusible_test.h"

namespace assay::te::ops {
namespace {

const std::vector<double> kX = {-2, -0.5, 0.25, 3, 1, -1, 0.5, 2};
const std::vector<double> kDy = {1, 0.5, -1, 2, -0.5, 1.5, 1, 0.25};
const std::vector<double> kHalfDy = {1, -2, 0.5, 1.5};
const std::vector<double> kWeight = {1, 2, 0.5, -1};
const std::vector<double> kBias = {0.1, 0.2, 0.3, 0.4};
constexpr double kTolerance = 2e-6;  // fp32 against float64

Tensor x_tensor() { return filled(DType::kF32, {2, 4}, kX); }
Tensor dy_tensor(bool half = false) {
  return half ? filled(DType::kF32, {2, 2}, kHalfDy)
              : filled(DType::kF32, {2, 4}, kDy);
}

struct ActivationCase {
  Activation act;
  std::string name;
  std::vector<double> y, dx;
};

const std::vector<ActivationCase>& activation_cases() {
  static const std::vector<ActivationCase> cases = {
      {Activation::kGelu,
       "GELU",
       {-0.0454023059, -0.15428599, 0.149675351, 2.99636261, 0.841191991,
        -0.158808009, 0.34571401, 1.95459769},
       {-0.0860992566, 0.0663150482, -0.695354095, 2.02316833, -0.541482042,
        -0.124446126, 0.867369904, 0.271524814}},
      {Activation::kSilu,
       "SiLU",
       {-0.238405844, -0.188770334, 0.140544125, 2.85772238, 0.731058579,
        -0.268941421, 0.311229666, 1.76159416},
       {-0.0907842488, 0.130019406, -0.623710022, 2.17620821, -0.463835256,
        0.108494232, 0.739961187, 0.272696062}},
      {Activation::kRelu,
       "ReLU",
       {0, 0, 0.25, 3, 1, 0, 0.5, 2},
       {0, 0, -1, 2, -0.5, 0, 1, 0.25}},
      {Activation::kQGelu,
       "QGELU",
       {-0.0643413769, -0.149611563, 0.15119965, 2.98192869, 0.845795766,
        -0.154204234, 0.350388437, 1.93565862},
       {-0.0738153543, 0.060389044, -0.706500441, 2.04909665, -0.533889803,
        -0.10166941, 0.879221912, 0.268453839}},
      {Activation::kSRelu,
       "SReLU",
       {0, 0, 0.0625, 9, 1, 0, 0.25, 4},
       {0, 0, -0.5, 12, -1, 0, 1, 1}},
      {Activation::kGlu,
       "GLU",
       {0.0298007305, 1.13262201, 0.365529289, 0.537882843},
       {0.0262483964, -1.41002227, 0.119202922, -0.755081338, 0.0491529833,
        0.5898358, 0.365529289, 0.403412132}},
      {Activation::kGeglu,
       "GEGLU",
       {-0.0113505765, -0.462857971, 0.420595995, -0.317616019},
       {-0.0215248142, -0.795780579, -0.0454023059, 0.30857198, 0.270741021,
        -0.248892252, 0.420595995, -0.238212014}},
      {Activation::kSwiglu,
       "SwiGLU",
       {-0.059601461, -0.566311003, 0.365529289, -0.537882843},
       {-0.0226960622, -1.56023288, -0.238405844, 0.377540669, 0.231917628,
        0.216988464, 0.365529289, -0.403412132}},
      {Activation::kReglu,
       "ReGLU",
       {0, 0, 0.5, 0},
       {0, 0, 0, -0, 0.25, 0, 0.5, 0}},
      {Activation::kQGeglu,
       "QGEGLU",
       {-0.0160853442, -0.44883469, 0.422897883, -0.308408468},
       {-0.0184538386, -0.724668528, -0.0643413769, 0.299223127, 0.266944902,
        -0.20333882, 0.422897883, -0.231306351}},
      {Activation::kSreglu,
       "SReGLU",
       {0, 0, 0.5, 0},
       {0, 0, 0, -0, 0.5, 0, 0.5, 0}},
      {Activation::kClampedSwiglu,
       "ClampedSwiGLU",
       {-0.0804267211, -0.374028908, 1.26869365, -0.385510585},
       {-0.0922691929, -0.60389044, -0.0643413769, 0, 0.800834705, -0.254173525,
        0.422897883, 0}},
      {Activation::kSituglu,
       "SiTUGLU",
       {-0.0550838793, -0.560691049, 0.358052039, -0.525828896},
       {-0.0250817842, -1.52155655, -0.220320829, 0.370229578, 0.219926089,
        0.180195355, 0.357956577, -0.392694031}},
  };
  return cases;
}

TEST(FusibleOperations, ActivationsAreTorchs) {
  ASSERT_EQ(activation_cases().size(), std::size_t{kActivationCount});
  for (const ActivationCase& c : activation_cases()) {
    ActivationOperationOptions options;
    // The case of the clamped one clamps at 1.5, so that it does.
    if (c.act == Activation::kClampedSwiglu) options.params.limit = 1.5f;
    Sequential model(std::make_shared<ActivationOperation>(c.act, options));
    EXPECT_EQ(model[0].type(), c.name);
    const bool half = is_gated(c.act);
    const Pass pass = run(model, x_tensor(), dy_tensor(half));
    expect_values(pass.y, c.y, kTolerance, c.name + " y");
    expect_values(pass.dx, c.dx, kTolerance, c.name + " dx");
  }
}

TEST(FusibleOperations, InterleavedGatesAreTheSameColumnsInTurn) {
  ActivationOperationOptions options;
  options.glu_interleave_size = 1;
  Sequential model(std::make_shared<SwiGLU>(options));
  // Gate and linear columns of kX, one by one.
  const Tensor x =
      filled(DType::kF32, {2, 4}, {-2, 0.25, -0.5, 3, 1, 0.5, -1, 2});
  const ActivationCase& c = activation_cases()[7];
  ASSERT_EQ(c.name, "SwiGLU");
  const Pass pass = run(model, x, dy_tensor(true));
  expect_values(pass.y, c.y, kTolerance, "y");
  expect_values(
      pass.dx,
      {c.dx[0], c.dx[2], c.dx[1], c.dx[3], c.dx[4], c.dx[6], c.dx[5], c.dx[7]},
      kTolerance, "dx");
  EXPECT_THROW(GELU{options}, Error);
}

// dy act'(x^), x^ the E4M3 code nearest to x 448 / 3, decoded. -0.5 and so on
// are not multiples: worked out with torch.float8_e4m3fn.
TEST(FusibleOperations, ACachedInputIsE4M3) {
  ActivationOperationOptions options;
  options.cache_quantized_input = true;
  Sequential plain(std::make_shared<SReLU>());
  Sequential cached(std::make_shared<SReLU>(options));
  const Tensor x = x_tensor(), dy = dy_tensor();
  // The output is of the input itself, the kept bytes are a quarter.
  Sequential::Context a, b;
  const Tensor y = plain.forward(x, &a), z = cached.forward(x, &b);
  EXPECT_TRUE(same_bits(y, z));
  EXPECT_EQ(saved_bytes(a), 8 * 4);
  EXPECT_LT(saved_bytes(b), 8 * 4);
  const Tensor dx = cached.backward(dy, b);
  // 2 x^ dy for x > 0.
  expect_values(dx,
                std::vector<double>{0, 0, -0.48214287, 12, -0.96428573, 0,
                                    0.96428573, 0.96428573},
                1e-6, "dx");
}

TEST(FusibleOperations, NormalisationsAreTorchs) {
  const auto load = [](Module& m, bool bias) {
    std::vector<NamedTensor> state = {
        {"0.weight", filled(DType::kF32, {4}, kWeight)}};
    if (bias) state.push_back({"0.bias", filled(DType::kF32, {4}, kBias)});
    m.load_state_dict(state);
  };
  Sequential layer(std::make_shared<LayerNorm>(Shape{4}));
  load(layer, true);
  Pass p = run(layer, x_tensor(), dy_tensor());
  expect_values(
      p.y,
      std::vector<double>{-1.1054622, -0.557719099, 0.317220889, -1.14987997,
                          0.446408684, -2.80220859, 0.242265219, -0.870165173},
      kTolerance, "LayerNorm y");
  expect_values(p.dx,
                std::vector<double>{-0.160807635, 0.374570394, -0.184343245,
                                    -0.0294195129, -0.692820816, 0.384913481,
                                    -0.30791768, 0.615825014},
                kTolerance, "LayerNorm dx");
  expect_values(
      p.parameter_grads[0],
      std::vector<double>{-1.37866654, -2.44108622, -0.149911338, 3.41730124},
      kTolerance, "LayerNorm dw");
  expect_values(p.parameter_grads[1], std::vector<double>{0.5, 2, 0, 2.25},
                kTolerance, "LayerNorm db");

  NormalizationOptions centered;
  centered.zero_centered_gamma = true;
  Sequential zero(std::make_shared<LayerNorm>(Shape{4}, centered));
  EXPECT_EQ(at(*zero.parameters()[0].parameter->value, 0), 0);
  load(zero, true);
  p = run(zero, x_tensor(), dy_tensor());
  expect_values(p.y,
                std::vector<double>{-2.31092441, -0.936578648, 0.351662666, 0.4,
                                    0.792817367, -4.30331289, 0.126795658, 0.4},
                kTolerance, "1 + gamma y");
  expect_values(
      p.dx,
      std::vector<double>{0.323255789, 0.392873707, -1.08775553, 0.371626037,
                          -1.49649048, 0.480374894, 0.0369519149, 0.97916367},
      kTolerance, "1 + gamma dx");

  Sequential rms(std::make_shared<RMSNorm>(Shape{4}));
  EXPECT_EQ(at(*rms.parameters()[0].parameter->value, 3), 1);
  load(rms, false);
  p = run(rms, x_tensor(), dy_tensor());
  expect_values(
      p.y,
      std::vector<double>{-1.09630029, -0.548150144, 0.068518768, -1.64445043,
                          0.79999744, -1.59999488, 0.19999936, -1.59999488},
      kTolerance, "RMSNorm y");
  expect_values(p.dx,
                std::vector<double>{-0.162126782, 0.370580913, -0.185290456,
                                    -0.0308848995, 0.079996672, 1.91999693,
                                    0.639996416, 0.759991424},
                kTolerance, "RMSNorm dx");
  expect_values(
      p.parameter_grads[0],
      std::vector<double>{-1.49629901, -1.3370337, 0.262961184, 3.68889959},
      kTolerance, "RMSNorm dw");

  Sequential l2(std::make_shared<L2Normalization>());
  p = run(l2, x_tensor(), dy_tensor());
  expect_values(
      p.y,
      std::vector<double>{-0.548150947, -0.137037737, 0.0685188684, 0.822226421,
                          0.399999968, -0.399999968, 0.199999984, 0.799999936},
      kTolerance, "L2 y");
  expect_values(
      p.dx,
      std::vector<double>{0.418190266, 0.173066435, -0.292089823, 0.331978759,
                          -0.135999999, 0.535999967, 0.43199996, 0.227999961},
      kTolerance, "L2 dx");
}

TEST(FusibleOperations, NormalisesOverSeveralDimensions) {
  Sequential flat(std::make_shared<LayerNorm>(Shape{4}));
  Sequential square(std::make_shared<LayerNorm>(Shape{2, 2}));
  EXPECT_EQ(square.parameters()[0].parameter->shape, (Shape{2, 2}));
  const Pass a = run(flat, x_tensor(), dy_tensor());
  const Pass b = run(square, with_shape(x_tensor(), {2, 2, 2}),
                     with_shape(dy_tensor(), {2, 2, 2}));
  EXPECT_EQ(b.y.shape(), (Shape{2, 2, 2}));
  EXPECT_EQ(b.dx.shape(), (Shape{2, 2, 2}));
  EXPECT_TRUE(same_bits(a.y, with_shape(b.y, {2, 4})));
  EXPECT_TRUE(same_bits(a.dx, with_shape(b.dx, {2, 4})));
  EXPECT_TRUE(
      same_bits(a.parameter_grads[0], with_shape(b.parameter_grads[0], {4})));
  EXPECT_THROW(flat.forward(with_shape(x_tensor(), {4, 2})), Error);
}

TEST(FusibleOperations, F51_AnFp32WeightDoesNotSpoilABf16Input) {
  Sequential norm(std::make_shared<RMSNorm>(Shape{4}));
  const Tensor y = norm.forward(filled(DType::kBF16, {2, 4}, kX));
  EXPECT_EQ(y.dtype(), DType::kBF16);
  const double rms = std::sqrt((4 + 0.25 + 0.0625 + 9) / 4 + 1e-5);
  for (int i = 0; i < 4; ++i)
    EXPECT_NEAR(at(y, i), kX[static_cast<std::size_t>(i)] / rms, 0.01) << i;
}

TEST(FusibleOperations, ScaledActivationsAreTorchs) {
  struct Case {
    std::shared_ptr<ScaledActivation> op;
    bool half;
    std::vector<double> y, dx, ds;
  };
  const std::vector<Case> cases = {
      {std::make_shared<ScaledSwiGLU>(),
       true,
       {-0.0298007305, -0.283155502, -0.731058579, 1.07576569},
       {-0.0113480311, -0.780116438, -0.119202922, 0.188770334, -0.463835256,
        -0.433976929, -0.731058579, 0.806824264},
       {1.07302055, -0.624059619}},
      {std::make_shared<ScaledSiTUGLU>(),
       true,
       {-0.0275419397, -0.280345524, -0.716104079, 1.05165779},
       {-0.0125408921, -0.760778275, -0.110160415, 0.185114789, -0.439852178,
        -0.360390711, -0.715913153, 0.785388062},
       {1.06629822, -0.609717324}},
      {std::make_shared<ScaledClampedQGeGLU>(0, 1.5f),
       true,
       {-0.0402133605, -0.187014454, -2.5373873, 0.77102117},
       {-0.0461345964, -0.30194522, -0.0321706884, 0, -1.60166941, 0.508347049,
        -0.845795766, 0},
       {0.667631096, 0.0560809467}},
      {std::make_shared<ScaledSReLU>(),
       false,
       {0, 0, 0.03125, 4.5, -2, -0, -0.5, -8},
       {0, 0, -0.25, 6, 2, 0, -2, -2},
       {17.9375, 0.75}},
  };
  for (const Case& c : cases) {
    Sequential model(c.op);
    EXPECT_EQ(model.num_extra_inputs(), 1);
    const Pass p = run(model, x_tensor(), dy_tensor(c.half),
                       {filled(DType::kF32, {2}, {0.5, -2})});
    expect_values(p.y, c.y, kTolerance, c.op->type() + " y");
    expect_values(p.dx, c.dx, kTolerance, c.op->type() + " dx");
    expect_values(p.extra_grads.at(0), c.ds, kTolerance, c.op->type() + " ds");
  }
}

TEST(FusibleOperations, LinearIsAWeightAndABias) {
  Sequential model(std::make_shared<Linear>(2, 3));
  model.load_state_dict(std::vector<NamedTensor>{
      {"0.basic_ops.0.weight", filled(DType::kF32, {3, 2}, {1, 2, 3, 4, 5, 6})},
      {"0.basic_ops.1.bias", filled(DType::kF32, {3}, {10, 20, 30})}});
  const Pass p = run(model, filled(DType::kF32, {2, 2}, {1, -1, 2, 0.5}),
                     filled(DType::kF32, {2, 3}, {1, 0, 2, -1, 1, 0}));
  expect_values(p.y, {9, 19, 29, 13, 28, 43}, 0, "y");
  expect_values(p.dx, {11, 14, 2, 2}, 0, "dx");
  expect_values(p.parameter_grads[0], {-1, -1.5, 2, 0.5, 2, -2}, 0, "dw");
  expect_values(p.parameter_grads[1], {0, 1, 2}, 0, "db");
}

TEST(FusibleOperations, LinearStartsAsTorchs) {
  manual_seed(3);
  Linear layer(400, 100);
  double largest = 0, squares = 0;
  const Tensor& w = *layer.weight().value;
  for (std::int64_t i = 0; i < w.numel(); ++i) {
    largest = std::max(largest, std::abs(at(w, i)));
    squares += at(w, i) * at(w, i);
  }
  EXPECT_LE(largest, 0.05);
  EXPECT_GT(largest, 0.0499);
  // Variance of a uniform distribution: width^2 / 12; 4.5 standard errors.
  const double variance = 0.1 * 0.1 / 12, n = 40000;
  EXPECT_NEAR(squares / n, variance, 4.5 * variance * std::sqrt(0.8 / n));
  EXPECT_EQ(at(*layer.bias()->value, 7), 0);
}

TEST(FusibleOperations, ResidualEndsAndScalesAreWhatTheySay) {
  const Tensor x = x_tensor(), dy = dy_tensor();
  const Tensor r = filled(DType::kF32, {2, 4}, {1, 2, 3, 4, 5, 6, 7, 8});
  Sequential add(std::make_shared<AddExtraInput>());
  Pass p = run(add, x, dy, {r});
  expect_values(p.y, {-1, 1.5, 3.25, 7, 6, 5, 7.5, 10}, 0, "sum");
  expect_values(p.dx, kDy, 0, "dx");
  expect_values(p.extra_grads.at(0), kDy, 0, "gradient of the extra input");

  Sequential make(std::make_shared<MakeExtraOutput>());
  p = run(make, x, dy, {}, {r});
  expect_values(p.y, kX, 0, "y");
  expect_values(p.extra_outputs.at(0), kX, 0, "extra output");
  expect_values(p.dx, {2, 2.5, 2, 6, 4.5, 7.5, 8, 8.25}, 0, "dx");

  Sequential scale(std::make_shared<ConstantScale>(-2.0f));
  p = run(scale, x, dy);
  expect_values(p.y, {4, 1, -0.5, -6, -2, 2, -1, -4}, 0, "scaled");
  expect_values(p.dx, {-2, -1, 2, -4, 1, -3, -2, -0.5}, 0, "scaled dx");

  Sequential bias(std::make_shared<Bias>(4));
  bias.load_state_dict(std::vector<NamedTensor>{
      {"0.bias", filled(DType::kF32, {4}, {1, 2, 3, 4})}});
  p = run(bias, x, dy);
  expect_values(p.y, {-1, 1.5, 3.25, 7, 2, 1, 3.5, 6}, 0, "biased");
  expect_values(p.dx, kDy, 0, "bias dx");
  expect_values(p.parameter_grads[0], {0.5, 2, 0, 2.25}, 0, "db");

  Sequential shape(std::make_shared<Reshape>(Shape{4, -1}),
                   std::make_shared<Identity>());
  p = run(shape, x, with_shape(dy, {4, 2}));
  EXPECT_EQ(p.y.shape(), (Shape{4, 2}));
  EXPECT_EQ(p.dx.shape(), (Shape{2, 4}));
  expect_values(p.y, kX, 0, "reshaped");
  expect_values(p.dx, kDy, 0, "reshaped dx");
}

TEST(FusibleOperations, DropoutKeepsItsShareAndItsMask) {
  manual_seed(11);
  Sequential model(std::make_shared<Dropout>(0.25f));
  const Tensor x = normal_tensor(DType::kF32, {64, 256}, 1);
  const Pass p = run(model, x, x);
  std::int64_t kept = 0;
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    const double expected = at(p.y, i) == 0 ? 0 : at(x, i) / 0.75;
    kept += at(p.y, i) != 0;
    ASSERT_NEAR(at(p.y, i), expected, 1e-6);
    ASSERT_EQ(at(p.dx, i), at(p.y, i)) << "one mask for both";
  }
  const double n = static_cast<double>(x.numel());
  EXPECT_NEAR(static_cast<double>(kept), 0.75 * n,
              4.5 * std::sqrt(n * 0.75 * 0.25));
  EXPECT_TRUE(same_bits(model.forward(x), x)) << "inference";
}

TEST(FusibleOperations, GroupedLinearIsALinearForEachGroup) {
  manual_seed(5);
  GroupedLinearOptions options;
  options.dtype = DType::kBF16;
  Sequential grouped(std::make_shared<GroupedLinear>(3, 32, 16, options));
  const Tensor x = normal_tensor(DType::kBF16, {48, 32}, 1);
  const Tensor dy = normal_tensor(DType::kBF16, {48, 16}, 2);
  Tensor splits = Tensor::zeros(DType::kI64, {3});
  splits.mutable_data<std::int64_t>()[0] = 16;
  splits.mutable_data<std::int64_t>()[2] = 32;  // the second is empty
  const auto parameters = grouped.parameters();
  ASSERT_EQ(parameters.size(), 6u);
  EXPECT_EQ(parameters[2].name, "0.weight1");
  EXPECT_EQ(parameters[3].name, "0.bias1");
  for (int g : {1, 3, 5})
    normal_init(1)(*parameters[static_cast<std::size_t>(g)].parameter->value,
                   static_cast<std::uint64_t>(g));
  const Pass p = run(grouped, x, dy, {splits});
  std::int64_t first = 0;
  for (int g : {0, 2}) {
    const std::int64_t rows = splits.data<std::int64_t>()[g];
    const auto part = [&](const Tensor& t) {
      Tensor out = t;
      out.view.shape[0] = rows;
      out.view.data += first * t.shape()[1] * 2;
      return contiguous(out);
    };
    te::LinearOptions module_options;
    module_options.params_dtype = DType::kBF16;
    te::Linear module(32, 16, module_options);
    const auto index = static_cast<std::size_t>(2 * g);
    module.load_state_dict(std::vector<NamedTensor>{
        {"weight", *parameters[index].parameter->value},
        {"bias", *parameters[index + 1].parameter->value}});
    te::Linear::Context context;
    EXPECT_TRUE(same_bits(part(p.y), module.forward(part(x), &context))) << g;
    EXPECT_TRUE(same_bits(part(p.dx), module.backward(part(dy), context)));
    EXPECT_TRUE(same_bits(p.parameter_grads[index], *module.weight().grad));
    EXPECT_TRUE(same_bits(p.parameter_grads[index + 1], *module.bias()->grad));
    first += rows;
  }
  for (std::int64_t i = 0; i < 32 * 16; ++i)
    ASSERT_EQ(at(p.parameter_grads[2], i), 0) << "the empty group";
  splits.mutable_data<std::int64_t>()[0] = 17;
  EXPECT_THROW(run(grouped, x, dy, {splits}), Error);
}

TEST(FusibleOperations, GroupedLinearScalesItsBiases) {
  GroupedLinearOptions options;
  options.scale_bias = true;
  Sequential model(std::make_shared<GroupedLinear>(2, 1, 2, options));
  model.load_state_dict(std::vector<NamedTensor>{
      {"0.weight0", filled(DType::kF32, {2, 1}, {1, 2})},
      {"0.bias0", filled(DType::kF32, {2}, {10, 20})},
      {"0.weight1", filled(DType::kF32, {2, 1}, {3, 4})},
      {"0.bias1", filled(DType::kF32, {2}, {30, 40})}});
  Tensor splits = Tensor::zeros(DType::kI32, {2});
  splits.mutable_data<std::int32_t>()[0] = 1;
  splits.mutable_data<std::int32_t>()[1] = 2;
  const Pass p = run(model, filled(DType::kF32, {3, 1}, {1, 2, -1}),
                     filled(DType::kF32, {3, 2}, {1, 2, 3, -1, 0, 1}),
                     {splits, filled(DType::kF32, {3}, {0.5, 2, -1})});
  expect_values(p.y, {6, 12, 66, 88, -33, -44}, 0, "y");
  expect_values(p.dx, {5, 5, 4}, 0, "dx");
  expect_values(p.parameter_grads[0], {1, 2}, 0, "dw0");
  expect_values(p.parameter_grads[1], {0.5, 1}, 0, "db0");
  expect_values(p.parameter_grads[2], {6, -3}, 0, "dw1");
  expect_values(p.parameter_grads[3], {6, -3}, 0, "db1");
  expect_values(p.extra_grads.at(1), {50, 50, 40}, 0, "dscale");
}

TEST(FusibleOperations, CollectivesOfOneRankAreTheIdentity) {
  Sequential model(std::make_shared<AllGather>(self_communicator()),
                   std::make_shared<ReduceScatter>(self_communicator()),
                   std::make_shared<AllReduce>(nullptr));
  const Pass p = run(model, x_tensor(), dy_tensor());
  expect_values(p.y, kX, 0, "y");
  expect_values(p.dx, kDy, 0, "dx");
}

TEST(FusibleOperations, NoRowsGiveNoRows) {
  const auto empty = [](std::int64_t columns) {
    return Tensor::zeros(DType::kF32, {0, columns});
  };
  Sequential model(
      std::make_shared<LayerNorm>(Shape{4}), std::make_shared<Linear>(4, 8),
      std::make_shared<GELU>(), std::make_shared<Linear>(8, 8),
      std::make_shared<SwiGLU>(), std::make_shared<L2Normalization>(),
      std::make_shared<ConstantScale>(2.0f), std::make_shared<Dropout>(0.5f));
  const Pass p = run(model, empty(4), empty(4));
  EXPECT_EQ(p.y.shape(), (Shape{0, 4}));
  EXPECT_EQ(p.dx.shape(), (Shape{0, 4}));
  for (const Tensor& grad : p.parameter_grads)
    for (std::int64_t i = 0; i < grad.numel(); ++i) ASSERT_EQ(at(grad, i), 0);
}

}  // namespace
}  // namespace assay::te::ops
