// The rotary embedding: values by hand, every instruction set against fp64,
// layouts against each other.
#include "assay/te/ops/rope.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numbers>
#include <vector>

#include "assay/base/parallel.h"
#include "assay/core/philox.h"
#include "assay/kernels/rope.h"
#include "assay/numerics/element.h"
#include "tests/te/ops/tensor_helpers.h"

namespace assay::te {
namespace {

Tensor numbers(Shape shape, std::vector<float> values) {
  Tensor t = Tensor::empty(DType::kF32, std::move(shape));
  std::copy(values.begin(), values.end(), t.mutable_data<float>());
  return t;
}

Tensor integers(std::vector<std::int32_t> values) {
  Tensor t =
      Tensor::empty(DType::kI32, {static_cast<std::int64_t>(values.size())});
  std::copy(values.begin(), values.end(), t.mutable_data<std::int32_t>());
  return t;
}

bool same_bits(const Tensor& a, const Tensor& b) {
  const auto x = a.view.bytes(), y = b.view.bytes();
  return a.shape() == b.shape() && std::ranges::equal(x, y);
}

// Angles whose two halves differ: cos = [1, 1, 0, 0], sin = [0, 0, 1, 1].
TEST(Rope, F23_BothHalvesOfTheTableAreRead) {
  const auto quarter = static_cast<float>(std::numbers::pi / 2);
  const Tensor freqs = numbers({1, 1, 1, 4}, {0, 0, quarter, quarter});
  const Tensor x = numbers({1, 1, 1, 4}, {1, 2, 3, 4});
  for (const Device device : {Device::kCpu, Device::kReference}) {
    const Tensor y = rope_forward(on(device, x), on(device, freqs), {});
    const double expected[] = {1, 2, 1, 2};
    for (std::int64_t i = 0; i < 4; ++i)
      EXPECT_NEAR(at(y, i), expected[i], 3e-7);
  }
}

// 90 degrees: (x, y) -> (-y, x), pairs (0, 1) and (2, 3).
TEST(Rope, InterleavedPairsAreNeighbours) {
  const auto quarter = static_cast<float>(std::numbers::pi / 2);
  const Tensor freqs = numbers({1, 1, 1, 4}, {quarter, quarter, 0, 0});
  const Tensor x = numbers({1, 1, 1, 6}, {1, 2, 3, 4, 5, 6});
  const Tensor y = rope_forward(x, freqs, {.interleaved = true});
  const double expected[] = {-2, 1, 3, 4, 5, 6};
  for (std::int64_t i = 0; i < 6; ++i) EXPECT_NEAR(at(y, i), expected[i], 5e-7);
}

// Every table against the plain loops: two roundings of fp32 per result, one
// of the dtype.
TEST(Rope, EverySetAgreesWithThePlainLoops) {
  const auto& plain = *all_rope_kernels().back();
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16})
    for (const bool interleaved : {false, true})
      for (const bool backward : {false, true})
        for (const std::int64_t d2 : {2, 6, 14, 16, 30, 32, 34, 64, 66, 128}) {
          const std::int64_t dim = d2 + 5;
          const Tensor x = normal(dtype, {3, dim}, 1);
          const Tensor angles = normal(DType::kF32, {d2}, 2);
          std::vector<double> table(static_cast<std::size_t>(2 * d2));
          Tensor ref = Tensor::empty(dtype, {3, dim});
          RopeRows rows{dtype, x.view.data, dim, ref.mutable_data(), dim,
                        3,     dim,         d2,  interleaved};
          plain.prepare(angles.data<float>(), d2, dtype, interleaved, backward,
                        table.data());
          plain.rotate(rows, table.data());
          for (const RopeKernels* kernels : all_rope_kernels()) {
            Tensor y = Tensor::empty(dtype, {3, dim});
            rows.to = y.mutable_data();
            kernels->prepare(angles.data<float>(), d2, dtype, interleaved,
                             backward, table.data());
            kernels->rotate(rows, table.data());
            for (std::int64_t i = 0; i < y.numel(); ++i)
              ASSERT_NEAR(
                  at(y, i), at(ref, i),
                  2 * unit_roundoff(dtype) * std::fabs(at(ref, i)) + 1.5e-6)
                  << kernels->isa << " d2 " << d2 << " at " << i;
          }
        }
}

// cos and sin at large positions: 0.6 ulp of the correctly rounded ones.
TEST(Rope, AnglesOfLongContextsAreExact) {
  std::vector<float> angles;
  PhiloxStream stream(3);
  for (int i = 0; i < 4096; ++i)
    angles.push_back(
        static_cast<float>(std::ldexp(stream.next_uniform() - 0.5, i % 30)));
  const auto n = static_cast<std::int64_t>(angles.size());
  for (const RopeKernels* kernels : all_rope_kernels()) {
    if (kernels->element_bytes != sizeof(float)) continue;
    std::vector<float> table(angles.size() * 2);
    kernels->prepare(angles.data(), n, DType::kF32, false, false, table.data());
    for (std::size_t i = 0; i < angles.size(); ++i) {
      const double angle = angles[i];
      const double sign = i < angles.size() / 2 ? -1 : 1;
      const double cosine = std::cos(angle), sine = sign * std::sin(angle);
      ASSERT_NEAR(table[i], cosine, 0.6 * 0x1p-23 * std::fabs(cosine) + 1e-30)
          << kernels->isa << " cos " << angle;
      ASSERT_NEAR(table[angles.size() + i], sine,
                  0.6 * 0x1p-23 * std::fabs(sine) + 1e-30)
          << kernels->isa << " sin " << angle;
    }
  }
}

// <forward(x), g> = <x, backward(g)> for any table.
TEST(Rope, BackwardIsTheTranspose) {
  for (const bool interleaved : {false, true}) {
    const RopeOptions options{.interleaved = interleaved};
    const Tensor x = normal(DType::kF32, {5, 2, 3, 12}, 1, Device::kReference);
    const Tensor g = normal(DType::kF32, {5, 2, 3, 12}, 2, Device::kReference);
    const Tensor freqs =
        normal(DType::kF32, {5, 1, 1, 8}, 3, Device::kReference);
    const Tensor y = rope_forward(x, freqs, options);
    const Tensor dx = rope_backward(g, freqs, options);
    double left = 0, right = 0;
    for (std::int64_t i = 0; i < x.numel(); ++i) {
      left += at(y, i) * at(g, i);
      right += at(x, i) * at(dx, i);
    }
    EXPECT_NEAR(left, right, 1e-5);
  }
}

// Where the two of a pair have one angle, backward undoes forward.
TEST(Rope, BackwardUndoesForward) {
  const Tensor freqs = rope_frequencies({.dim = 16}, 40);
  const Tensor x = normal(DType::kF32, {40, 2, 3, 16}, 1);
  const Tensor y = rope_backward(rope_forward(x, freqs, {}), freqs, {});
  for (std::int64_t i = 0; i < x.numel(); ++i)
    EXPECT_NEAR(at(y, i), at(x, i), 1e-6);
}

TEST(Rope, LayoutsHoldTheSameValues) {
  constexpr std::int64_t kS = 6, kB = 2, kH = 3, kD = 10;
  const Tensor freqs = rope_frequencies({.dim = 8}, kS);
  const Tensor sbhd = normal(DType::kBF16, {kS, kB, kH, kD}, 1);
  Tensor bshd = Tensor::empty(DType::kBF16, {kB, kS, kH, kD});
  for (std::int64_t s = 0; s < kS; ++s)
    for (std::int64_t b = 0; b < kB; ++b)
      std::memcpy(bshd.mutable_data() + (b * kS + s) * kH * kD * 2,
                  sbhd.view.data + (s * kB + b) * kH * kD * 2, kH * kD * 2);
  const Tensor y = rope_forward(sbhd, freqs, {});
  const Tensor z = rope_forward(bshd, freqs, {.format = QkvFormat::kBshd});
  Tensor thd = bshd;
  thd.view.shape = {kB * kS, kH, kD};
  const Tensor w = rope_forward(
      thd, freqs,
      {.format = QkvFormat::kThd, .cu_seqlens = integers({0, 6, 12})});
  for (std::int64_t s = 0; s < kS; ++s)
    for (std::int64_t b = 0; b < kB; ++b)
      for (std::int64_t i = 0; i < kH * kD; ++i) {
        EXPECT_EQ(at(y, (s * kB + b) * kH * kD + i),
                  at(z, (b * kS + s) * kH * kD + i));
        EXPECT_EQ(at(z, (b * kS + s) * kH * kD + i),
                  at(w, (b * kS + s) * kH * kD + i));
      }
}

// Rank r of 2 holds chunks r and 3 - r of four.
TEST(Rope, ContextParallelRanksTakeTwoChunks) {
  const Tensor freqs = rope_frequencies({.dim = 4}, 8);
  const Tensor x = normal(DType::kF32, {8, 1, 1, 4}, 1);
  const Tensor whole = rope_forward(x, freqs, {});
  for (std::int64_t rank = 0; rank < 2; ++rank) {
    Tensor part = Tensor::empty(DType::kF32, {4, 1, 1, 4});
    const std::int64_t places[] = {2 * rank, 2 * rank + 1, 6 - 2 * rank,
                                   7 - 2 * rank};
    for (std::int64_t s = 0; s < 4; ++s)
      std::memcpy(part.mutable_data() + s * 16, x.view.data + places[s] * 16,
                  16);
    const Tensor y = rope_forward(part, freqs, {.cp_size = 2, .cp_rank = rank});
    for (std::int64_t s = 0; s < 4; ++s)
      for (std::int64_t d = 0; d < 4; ++d)
        EXPECT_EQ(at(y, s * 4 + d), at(whole, places[s] * 4 + d));
  }
}

TEST(Rope, StartPositionsShiftASequence) {
  const Tensor freqs = rope_frequencies({.dim = 8}, 12);
  const Tensor x = normal(DType::kF32, {4, 2, 1, 8}, 1);
  const Tensor y =
      rope_forward(x, freqs, {.start_positions = integers({0, 5})});
  Tensor later = freqs;
  later.view.shape = {7, 1, 1, 8};
  later.view.data += 5 * 8 * 4;
  const Tensor z = rope_forward(x, later, {});
  const Tensor plain = rope_forward(x, freqs, {});
  for (std::int64_t s = 0; s < 4; ++s)
    for (std::int64_t d = 0; d < 8; ++d) {
      EXPECT_EQ(at(y, (s * 2) * 8 + d), at(plain, (s * 2) * 8 + d));
      EXPECT_EQ(at(y, (s * 2 + 1) * 8 + d), at(z, (s * 2 + 1) * 8 + d));
    }
}

// Empty sequences between others, and tokens that belong to none.
TEST(Rope, PackedSequencesMayBeEmpty) {
  const Tensor freqs = rope_frequencies({.dim = 8}, 12);
  const Tensor x = normal(DType::kF32, {7, 2, 8}, 1);
  for (const bool interleaved : {false, true}) {
    const Tensor y = rope_forward(x, freqs,
                                  {.format = QkvFormat::kThd,
                                   .interleaved = interleaved,
                                   .cu_seqlens = integers({0, 0, 3, 3, 5})});
    for (std::int64_t i = 0; i < 16; ++i) {
      EXPECT_EQ(at(y, i), at(x, i));  // position 0
      EXPECT_EQ(at(y, 3 * 16 + i), at(x, 3 * 16 + i));
      EXPECT_EQ(at(y, 5 * 16 + i), 0);
    }
    EXPECT_NE(at(y, 16), at(x, 16));
  }
}

TEST(Rope, FusedQkvIsTheThreeByThemselves) {
  constexpr std::int64_t kS = 5, kB = 2, kG = 2, kD = 8, kHeads = 3;
  const QkvSplit split{kHeads * kD, kD, 6};
  constexpr std::int64_t kTotal = kHeads * kD + kD + 6;
  const Tensor q_freqs = rope_frequencies({.dim = 8}, kS);
  const Tensor k_freqs = rope_frequencies({.dim = 4, .base = 100}, kS);
  const Tensor qkv = normal(DType::kBF16, {kS, kB, kG, kTotal}, 1);
  const QkvTensors out =
      fused_qkv_rope_forward(qkv, q_freqs, k_freqs, split, {});
  EXPECT_EQ(out.q.shape(), (Shape{kS, kB, kG * kHeads, kD}));
  QkvTensors by_hand{Tensor::empty(DType::kBF16, out.q.shape()),
                     Tensor::empty(DType::kBF16, out.k.shape()),
                     Tensor::empty(DType::kBF16, out.v.shape())};
  for (std::int64_t r = 0; r < kS * kB * kG; ++r) {
    const std::byte* from = qkv.view.data + r * kTotal * 2;
    std::memcpy(by_hand.q.mutable_data() + r * kHeads * kD * 2, from,
                kHeads * kD * 2);
    std::memcpy(by_hand.k.mutable_data() + r * kD * 2, from + kHeads * kD * 2,
                kD * 2);
    std::memcpy(by_hand.v.mutable_data() + r * 6 * 2,
                from + (kHeads + 1) * kD * 2, 6 * 2);
  }
  EXPECT_TRUE(same_bits(out.q, rope_forward(by_hand.q, q_freqs, {})));
  EXPECT_TRUE(same_bits(out.k, rope_forward(by_hand.k, k_freqs, {})));
  EXPECT_TRUE(same_bits(out.v, by_hand.v));

  const Tensor back = fused_qkv_rope_backward(out, q_freqs, k_freqs, split, {});
  ASSERT_EQ(back.shape(), qkv.shape());
  const Tensor dq = rope_backward(out.q, q_freqs, {});
  for (std::int64_t r = 0; r < kS * kB * kG; ++r)
    EXPECT_EQ(std::memcmp(back.view.data + r * kTotal * 2,
                          dq.view.data + r * kHeads * kD * 2, kHeads * kD * 2),
              0);
}

TEST(Rope, NonFiniteValuesStayInTheirPair) {
  const Tensor freqs = rope_frequencies({.dim = 8}, 4);
  Tensor x = normal(DType::kBF16, {4, 1, 1, 8}, 1);
  store_from_double(DType::kBF16, std::nan(""), x.mutable_data(), 17);
  const Tensor y = rope_forward(x, freqs, {});
  for (std::int64_t i = 0; i < 32; ++i)
    EXPECT_EQ(std::isnan(at(y, i)), i == 17 || i == 21) << i;
}

TEST(Rope, BitsDoNotDependOnTheNumberOfThreads) {
  const Tensor freqs = rope_frequencies({.dim = 64}, 300);
  const Tensor x = normal(DType::kBF16, {300, 2, 4, 80}, 1);
  set_thread_count(1);
  const Tensor one = rope_forward(x, freqs, {});
  set_thread_count(4);
  const Tensor four = rope_forward(x, freqs, {});
  set_thread_count(0);
  EXPECT_TRUE(same_bits(one, four));
}

TEST(Rope, ZeroTokens) {
  const Tensor freqs = rope_frequencies({.dim = 8}, 4);
  const Tensor x = Tensor::zeros(DType::kF32, {0, 2, 3, 8});
  EXPECT_EQ(rope_forward(x, freqs, {}).shape(), (Shape{0, 2, 3, 8}));
  EXPECT_EQ(rope_frequencies({.dim = 8}, 0).shape(), (Shape{0, 1, 1, 8}));
}

// A position past the table is an error, never the next row (F40's kind).
TEST(Rope, PositionsPastTheTableAreErrors) {
  const Tensor freqs = rope_frequencies({.dim = 8}, 4);
  const Tensor x = normal(DType::kF32, {5, 1, 1, 8}, 1);
  EXPECT_EQ(message([&] { rope_forward(x, freqs, {}); }),
            "rope_forward: freqs: 4 positions, expected one for position 4");
  EXPECT_EQ(message([&] {
              rope_forward(normal(DType::kF32, {4, 1, 1, 8}, 1), freqs,
                           {.cp_size = 2, .cp_rank = 2});
            }),
            "rope_forward: cp_rank: 2 of 2, expected a rank of the group");
  EXPECT_NE(message([&] {
              rope_forward(normal(DType::kF32, {4, 1, 1, 6}, 1), freqs, {});
            }).find("an even number up to 6"),
            std::string::npos);
}

TEST(Rope, TensorsOfTwoDevicesAreAnError) {
  const auto indices = [](std::vector<std::int32_t> values) {
    Tensor t =
        Tensor::empty(DType::kI32, {static_cast<std::int64_t>(values.size())},
                      Device::kReference);
    std::copy(values.begin(), values.end(), t.mutable_data<std::int32_t>());
    return t;
  };
  const Tensor freqs = rope_frequencies({.dim = 8}, 4);
  const Tensor x = normal(DType::kF32, {4, 1, 1, 8}, 1);
  const Tensor packed = normal(DType::kF32, {4, 1, 8}, 1);
  const std::string rest =
      ": device: tensors on cpu and reference, expected all on one device";
  EXPECT_EQ(message([&] {
              rope_forward(x, freqs, {.start_positions = indices({0})});
            }),
            "rope_forward" + rest);
  EXPECT_EQ(message([&] {
              rope_backward(
                  packed, freqs,
                  {.format = QkvFormat::kThd, .cu_seqlens = indices({0, 4})});
            }),
            "rope_backward" + rest);
  EXPECT_EQ(message([&] {
              fused_qkv_rope_forward(normal(DType::kF32, {4, 1, 1, 24}, 1),
                                     freqs, freqs, {8, 8, 8},
                                     {.start_positions = indices({0})});
            }),
            "fused_qkv_rope_forward" + rest);
}

// Packed inputs of a file mapping: read where they are, never written.
TEST(Rope, ReadOnlyInputsAreRead) {
  const Tensor freqs = rope_frequencies({.dim = 8}, 4);
  Tensor qkv = normal(DType::kF32, {4, 1, 1, 24}, 1);
  const QkvTensors own =
      fused_qkv_rope_forward(qkv, freqs, freqs, {8, 8, 8}, {});
  qkv.writable = false;
  QkvTensors out = fused_qkv_rope_forward(qkv, freqs, freqs, {8, 8, 8}, {});
  EXPECT_EQ(std::memcmp(out.q.view.data, own.q.view.data, 4 * 8 * 4), 0);
  out.q.writable = out.k.writable = out.v.writable = false;
  EXPECT_NO_THROW(fused_qkv_rope_backward(out, freqs, freqs, {8, 8, 8}, {}));
}

// Interpolation: 20 positions from 8 trained ones by 4: /4; by 2 from 6: the
// length is past 12, so that 20 positions are squeezed into 6.
TEST(Rope, InterpolationOfPositions) {
  const Tensor a = rope_frequencies(
      {.dim = 2, .interpolation_factor = 4, .pretrained_max = 8}, 20);
  EXPECT_FLOAT_EQ(a.data<float>()[19 * 2], 19.0f / 4);
  const Tensor b = rope_frequencies(
      {.dim = 2, .interpolation_factor = 2, .pretrained_max = 6}, 20);
  EXPECT_FLOAT_EQ(b.data<float>()[19 * 2], 19.0f * 6 / 20);
  const Tensor c = rope_frequencies({.dim = 2, .interpolation_factor = 2}, 20);
  EXPECT_EQ(c.data<float>()[19 * 2], 19.0f);
}

}  // namespace
}  // namespace assay::te
