// The vector activations against the plain fp64 loops: every bf16 value, and
// floats of all magnitudes.
#include "assay/kernels/activation.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "assay/kernels/scalar_half.h"
#include "assay/numerics/ulp.h"

namespace assay {
namespace {

constexpr double kU = 0x1p-24;
const ActivationKernels& reference() {
  return *all_activation_kernels().back();
}

std::vector<const ActivationKernels*> vector_tables() {
  const auto all = all_activation_kernels();
  return {all.begin(), all.end() - 1};
}

std::string name_of(Activation act) {
  return "activation " + std::to_string(static_cast<int>(act));
}

// Every finite bf16 value between -1e4 and 1e4: what activations see, tiny
// values and subnormals included.
std::vector<float> bf16_values() {
  std::vector<float> values;
  for (unsigned code = 0; code < 0x10000; ++code) {
    const float x = bf16_value(static_cast<std::uint16_t>(code));
    if (std::fabs(x) <= 1e4f) values.push_back(x);
  }
  return values;
}

// Mantissas at random over the same range, denser where they bend.
std::vector<float> float_values(int count, std::uint64_t seed) {
  std::mt19937_64 rng(seed);
  std::uniform_real_distribution<float> near(-30, 30), exponent(-60, 12);
  std::vector<float> values;
  for (int i = 0; i < count; ++i) {
    const float far = std::exp2(exponent(rng)) * (near(rng) > 0 ? 1 : -1);
    values.push_back(i % 4 == 0 ? far : near(rng));
  }
  return values;
}

// |ours - theirs| in units of u * |theirs|, beyond what falls below the
// absolute floor.
double excess(float ours, double theirs, double scale, double floor = 1) {
  if (std::isnan(ours) != std::isnan(theirs)) return 1e30;
  if (std::isnan(theirs)) return 0;
  const double d = std::fabs(static_cast<double>(ours) - theirs);
  if (d <= 0x1p-120 * floor) return 0;
  return d / (kU * scale);
}

// The logistic function of a negative v is e^v and inherits the rounding of v:
// 88 ulps where it leaves fp32.
double forward_bound(double x) { return x >= -1 ? 8 : 256; }

// The fp64 value of act and its derivative, from the plain loops one element
// at a time with results that fp32 rounds (1 u more).
struct Worst {
  double forward = 0, backward = 0;
};

Worst unary_worst(const ActivationKernels& table, Activation act,
                  const std::vector<float>& x) {
  const auto n = static_cast<std::int64_t>(x.size());
  const std::vector<float> ones(x.size(), 1.0f);
  std::vector<float> y(x.size()), dx(x.size()), ry(x.size()), rdx(x.size());
  table.unary(act, DType::kF32, DType::kF32)(x.data(), n, 1, y.data());
  table.unary_grad(act, DType::kF32, DType::kF32)(ones.data(), x.data(), n, 1,
                                                  dx.data(), nullptr);
  reference().unary(act, DType::kF32, DType::kF32)(x.data(), n, 1, ry.data());
  reference().unary_grad(act, DType::kF32, DType::kF32)(
      ones.data(), x.data(), n, 1, rdx.data(), nullptr);
  Worst worst;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double f = static_cast<double>(ry[i]), g = rdx[i];
    // The derivative is a sum of terms up to 1: near its zero it is judged
    // against them.
    worst.forward = std::max(
        worst.forward, excess(y[i], f, std::fabs(f)) / forward_bound(x[i]));
    worst.backward = std::max(
        worst.backward,
        excess(dx[i], g, std::max(std::fabs(g), std::min(1.0, std::fabs(f)))) /
            (2 * forward_bound(x[i])));
  }
  return worst;
}

TEST(Activation, VectorsStayWithinTheirBoundOfTheReference) {
  const auto bf16 = bf16_values();
  const auto floats = float_values(400000, 1);
  for (const auto* table : vector_tables()) {
    for (int a = 0; a < static_cast<int>(Activation::kGlu); ++a) {
      const auto act = static_cast<Activation>(a);
      for (const auto* values : {&bf16, &floats}) {
        const Worst worst = unary_worst(*table, act, *values);
        EXPECT_LE(worst.forward, 1) << table->isa << " " << name_of(act);
        EXPECT_LE(worst.backward, 1) << table->isa << " " << name_of(act);
      }
    }
  }
}

TEST(Activation, GatedVectorsStayWithinTheirBound) {
  const auto a = float_values(100000, 2), b = float_values(100000, 3),
             dy = float_values(100000, 4);
  const auto n = static_cast<std::int64_t>(a.size());
  for (const auto* table : vector_tables()) {
    for (int k = static_cast<int>(Activation::kGlu); k < kActivationCount;
         ++k) {
      const auto act = static_cast<Activation>(k);
      std::vector<float> y(a.size()), ry(y), da(y), rda(y), db(y), rdb(y);
      const auto f32 = DType::kF32;
      table->gated(act, f32, f32)(a.data(), b.data(), n, {}, 0.75f, y.data());
      reference().gated(act, f32, f32)(a.data(), b.data(), n, {}, 0.75f,
                                       ry.data());
      double dot = 0, rdot = 0;
      table->gated_grad(act, f32, f32)(dy.data(), a.data(), b.data(), n, {},
                                       0.75f, da.data(), db.data(), &dot);
      reference().gated_grad(act, f32, f32)(dy.data(), a.data(), b.data(), n,
                                            {}, 0.75f, rda.data(), rdb.data(),
                                            &rdot);
      double forward = 0, gate = 0, linear = 0, magnitude = 0;
      for (std::size_t i = 0; i < a.size(); ++i) {
        const double v = ry[i], g = dy[i];
        magnitude += std::fabs(v * g);
        forward =
            std::max(forward, excess(y[i], v, std::fabs(v),
                                     1 + std::fabs(static_cast<double>(b[i]))) /
                                  forward_bound(a[i]));
        // situglu's slope 1 - tanh^2 vanishes against its terms.
        linear = std::max(linear,
                          excess(db[i], rdb[i],
                                 act == Activation::kSituglu
                                     ? std::fabs(g) * 4
                                     : std::fabs(static_cast<double>(rdb[i]))) /
                              forward_bound(a[i]));
        // Terms of the derivative: up to |dy * b|.
        const double term =
            std::fabs(g * std::max(1.0, std::fabs(static_cast<double>(b[i]))));
        gate = std::max(
            gate,
            excess(da[i], rda[i],
                   std::max(std::fabs(static_cast<double>(rda[i])), term)));
      }
      EXPECT_LE(forward, 1.5) << table->isa << " " << name_of(act);
      EXPECT_LE(gate, 32) << table->isa << " " << name_of(act);
      EXPECT_LE(linear, 1.5) << table->isa << " " << name_of(act);
      EXPECT_LE(std::fabs(dot - rdot), 1e-4 * magnitude)
          << table->isa << " " << name_of(act);
    }
  }
}

// Every vector set gives the same bits, in every dtype, at every length.
TEST(Activation, SetsAndPositionsAgreeBitForBit) {
  const auto tables = vector_tables();
  if (tables.empty()) GTEST_SKIP() << "no vector set here";
  const auto x = float_values(200, 5);
  for (int a = 0; a < static_cast<int>(Activation::kGlu); ++a) {
    const auto act = static_cast<Activation>(a);
    std::vector<float> whole(x.size());
    tables[0]->unary(act, DType::kF32, DType::kF32)(
        x.data(), static_cast<std::int64_t>(x.size()), 1, whole.data());
    for (const auto* table : tables) {
      const auto fn = table->unary(act, DType::kF32, DType::kF32);
      for (std::size_t begin : {0, 1, 7, 33}) {
        for (std::size_t n : {0, 1, 7, 8, 9, 15, 16, 17, 31, 32, 33, 65}) {
          std::vector<float> y(n + 1, -7.0f);
          fn(x.data() + begin, static_cast<std::int64_t>(n), 1, y.data());
          EXPECT_EQ(0, std::memcmp(y.data(), whole.data() + begin, 4 * n))
              << table->isa << " " << name_of(act) << " n " << n;
          EXPECT_EQ(y[n], -7.0f);  // nothing beyond the run is touched
        }
      }
    }
  }
}

// 16-bit outputs are the fp32 results rounded once, for every bf16 value.
TEST(Activation, SixteenBitOutputsRoundTheFp32ResultOnce) {
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    std::vector<std::uint16_t> codes;
    for (unsigned c = 0; c < 0x10000; ++c)
      codes.push_back(static_cast<std::uint16_t>(c));
    std::vector<float> wide(codes.size());
    std::vector<std::uint16_t> narrow(codes.size());
    const auto n = static_cast<std::int64_t>(codes.size());
    for (const auto* table : all_activation_kernels()) {
      for (int a = 0; a < static_cast<int>(Activation::kGlu); ++a) {
        const auto act = static_cast<Activation>(a);
        table->unary(act, dtype, DType::kF32)(codes.data(), n, 1, wide.data());
        table->unary(act, dtype, dtype)(codes.data(), n, 1, narrow.data());
        int wrong = 0;
        const bool exact = std::string_view(table->isa) != "scalar";
        for (std::size_t i = 0; i < codes.size(); ++i) {
          const auto once = static_cast<std::uint16_t>(
              encode_float(dtype, static_cast<double>(wide[i])));
          if (exact ? narrow[i] != once
                    : code_distance(dtype, narrow[i], once) > 1)
            ++wrong;
        }
        EXPECT_EQ(wrong, 0) << table->isa << " " << name_of(act);
      }
    }
  }
}

// -inf * 0 is NaN in gelu and silu, as their formulas have it; +inf stays.
TEST(Activation, NonFiniteInputsGoWhereTheFormulaSendsThem) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const std::vector<float> x = {kInf, -kInf, std::nanf("")};
  for (const auto* table : all_activation_kernels()) {
    for (int a = 0; a < static_cast<int>(Activation::kGlu); ++a) {
      const auto act = static_cast<Activation>(a);
      std::vector<float> y(3);
      table->unary(act, DType::kF32, DType::kF32)(x.data(), 3, 1, y.data());
      EXPECT_EQ(y[0], kInf) << table->isa << " " << name_of(act);
      if (act == Activation::kRelu || act == Activation::kSRelu) {
        EXPECT_EQ(y[1], 0) << table->isa << " " << name_of(act);
        EXPECT_EQ(y[2], 0) << table->isa << " " << name_of(act);
      } else {
        EXPECT_TRUE(std::isnan(y[1])) << table->isa << " " << name_of(act);
        EXPECT_TRUE(std::isnan(y[2])) << table->isa << " " << name_of(act);
      }
    }
  }
}

}  // namespace
}  // namespace assay
