// Dropout: the generator's words and bytes, rates, recomputation, gradients.
#include "assay/te/ops/dropout.h"

#include <gmock/gmock.h>

#include "assay/core/philox.h"
#include "assay/kernels/dropout.h"
#include "tests/te/ops/row_op_helpers.h"

namespace assay::te {
namespace {

using testing::HasSubstr;

bool bit(const Tensor& mask, std::int64_t i) {
  return mask.data<std::uint8_t>()[i / 8] >> i % 8 & 1;
}

Tensor ones(Shape shape, DType dtype = DType::kF32) {
  Tensor t = Tensor::empty(dtype, std::move(shape));
  for (std::int64_t i = 0; i < t.numel(); ++i)
    store_from_double(dtype, 1, t.mutable_data(), i);
  return t;
}

// A transcription of the CUDA kernel's steps (packed byte comparison, shifts):
// it names no element by a table, as the plain kernel does.
std::uint16_t cuda_mask(const std::array<std::uint32_t, 4>& words,
                        std::uint32_t threshold) {
  const std::uint32_t b = threshold * 0x01010101u;
  const auto below = [b](std::uint32_t a) {
    std::uint32_t result = 0;
    for (int shift = 0; shift < 32; shift += 8)
      if ((a >> shift & 0xff) < (b >> shift & 0xff)) result |= 0x80u << shift;
    return result;
  };
  std::uint32_t result = below(words[0]);
  for (int k = 1; k < 4; ++k) result = (result >> 2) | below(words[k]);
  result |= result >> 17;
  return static_cast<std::uint16_t>(~result);
}

// Counter {offset / 4, chunk}, key = seed, then the CUDA steps.
TEST(Dropout, TheMaskIsTheOneOfTheKernel) {
  for (Device device : {Device::kCpu, Device::kReference}) {
    for (const DropoutState state :
         {DropoutState{42, 0}, DropoutState{0x123456789abcdefull, 8},
          DropoutState{7, 0x1000000004ull}}) {
      for (double p : {0.0, 0.1, 0.25, 0.5, 0.996}) {
        Tensor x = ones({40 * 16});
        x.device = device;
        const auto f = dropout_forward(x, static_cast<float>(p), state);
        const auto threshold = static_cast<std::uint32_t>(
            std::floor(static_cast<float>(p) * 256.0f));
        for (std::uint32_t chunk = 0; chunk < 40; ++chunk) {
          const std::uint64_t block = state.offset / 4;
          const auto words =
              philox4x32({static_cast<std::uint32_t>(block),
                          static_cast<std::uint32_t>(block >> 32), chunk, 0},
                         {static_cast<std::uint32_t>(state.seed),
                          static_cast<std::uint32_t>(state.seed >> 32)});
          std::uint16_t mask;
          std::memcpy(&mask, f.mask.data<std::uint8_t>() + 2 * chunk, 2);
          ASSERT_EQ(mask, cuda_mask(words, threshold)) << p << " " << chunk;
        }
      }
    }
  }
}

// cuRAND numbers words: an offset of 1 begins with the second one.
TEST(Dropout, OffsetsBetweenBlocksShiftByWords) {
  for (const auto* table : all_dropout_kernels()) {
    for (std::uint64_t offset : {1, 2, 3, 6}) {
      std::vector<std::uint16_t> mask(19);
      table->draw({99, offset, 100}, 5, 19, mask.data());
      for (std::uint64_t c = 0; c < 19; ++c) {
        PhiloxStream stream(99, 5 + c);
        stream.seek(offset);
        std::array<std::uint32_t, 4> words;
        for (auto& word : words) word = stream.next();
        EXPECT_EQ(mask[c], cuda_mask(words, 100)) << table->isa;
      }
    }
  }
}

// T19: p = 0.1 drops 25/256, yet keeps scale 1/0.9.
TEST(Dropout, T19_TheRateIsInStepsOf256) {
  const std::int64_t n = 1 << 20;
  const auto f = dropout_forward(ones({n}), 0.1f, {1, 0});
  std::int64_t dropped = 0;
  for (std::int64_t i = 0; i < n; ++i) dropped += !bit(f.mask, i);
  const double rate = 25.0 / 256, sigma = std::sqrt(rate * (1 - rate) / n);
  EXPECT_NEAR(static_cast<double>(dropped) / n, rate, 4 * sigma);
  EXPECT_GT(std::fabs(static_cast<double>(dropped) / n - 0.1), 4 * sigma);
  for (double v : values_of(f.y))
    EXPECT_TRUE(v == 0 || v == static_cast<double>(1.0f / 0.9f));
}

// A recomputed forward and the backward use the mask of the first pass.
TEST(Dropout, F43_RecomputationDrawsTheSameMask) {
  const Tensor x = ones({8});
  const DropoutState state{1234, 12};
  const auto first = dropout_forward(x, 0.5f, state);
  const auto again = dropout_forward(x, 0.5f, state);
  EXPECT_TRUE(same_bits(first.mask, again.mask));
  const auto out = values_of(again.y);
  const auto grad = values_of(dropout_backward(x, first.mask, 0.5f));
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(out[i] != 0, grad[i] != 0);
    EXPECT_TRUE(grad[i] == 0 || grad[i] == 2);
  }
  const auto next = dropout_forward(ones({4096}), 0.5f, next_state(state));
  EXPECT_FALSE(
      same_bits(next.mask, dropout_forward(ones({4096}), 0.5f, state).mask));
}

// Neighbours are independent: at lags 1 to 16 half of the bits agree.
TEST(Dropout, F44_NeighboursDoNotShareBits) {
  const std::int64_t n = 64 * 4096;
  const auto f = dropout_forward(ones({64, 4096}), 0.5f, {5, 0});
  const double sigma = std::sqrt(0.25 / static_cast<double>(n));
  std::int64_t kept = 0;
  for (std::int64_t i = 0; i < n; ++i) kept += bit(f.mask, i);
  EXPECT_NEAR(static_cast<double>(kept) / n, 0.5, 4 * sigma);
  for (std::int64_t lag : {1, 2, 3, 4, 8, 16, 32, 4096}) {
    std::int64_t agree = 0;
    for (std::int64_t i = 0; i + lag < n; ++i)
      agree += bit(f.mask, i) == bit(f.mask, i + lag);
    EXPECT_NEAR(static_cast<double>(agree) / static_cast<double>(n - lag), 0.5,
                4 * sigma)
        << "lag " << lag;
  }
}

// Every table, dtype and length: the same bits, nothing beyond the end.
TEST(Dropout, SetsAgreeBitForBit) {
  for (DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    for (std::int64_t n : {0, 1, 15, 16, 17, 31, 32, 33, 63, 64, 65, 1000}) {
      const Tensor x = normal_tensor({n}, dtype, 3);
      const auto fast = dropout_forward(x, 0.3f, {77, 4});
      const auto plain =
          dropout_forward(on(Device::kReference, x), 0.3f, {77, 4});
      EXPECT_TRUE(same_bits(fast.y, on(Device::kCpu, plain.y)));
      EXPECT_TRUE(same_bits(fast.mask, on(Device::kCpu, plain.mask)));
      const std::int64_t size = traits(dtype).bits / 8;
      for (const auto* table : all_dropout_kernels()) {
        std::vector<std::byte> y(static_cast<std::size_t>(n * size + 1),
                                 std::byte{0x5a});
        table->apply(dtype, x.view.data, fast.mask.data<std::uint8_t>(), n,
                     1.0f / 0.7f, y.data());
        EXPECT_EQ(y.back(), std::byte{0x5a}) << table->isa << " " << n;
        EXPECT_EQ(std::memcmp(y.data(), fast.y.view.data,
                              static_cast<std::size_t>(n * size)),
                  0)
            << table->isa << " " << n;
      }
    }
  }
}

TEST(Dropout, ADroppedNanIsZero) {
  Tensor x = ones({64});
  for (int i = 0; i < 64; ++i) x.mutable_data<float>()[i] = std::nanf("");
  const auto f = dropout_forward(x, 0.5f, {1, 0});
  const auto y = values_of(f.y);
  for (int i = 0; i < 64; ++i) EXPECT_EQ(std::isnan(y[i]), bit(f.mask, i));
}

TEST(Dropout, GradientIsTheSlopeUnderTheSameMask) {
  const Tensor x = normal_tensor({3, 21}, DType::kF32, 1, Device::kReference);
  const Tensor dy = normal_tensor({3, 21}, DType::kF32, 2, Device::kReference);
  const auto f = dropout_forward(x, 0.25f, {9, 0});
  expect_gradient(
      [](const Tensor& at) {
        return dropout_forward(at, 0.25f, {9, 0}).y;
      },
      x, dy, dropout_backward(dy, f.mask, 0.25f), 1e-3, "dropout");
}

TEST(Dropout, ThreadsDoNotChangeBits) {
  const Tensor x = normal_tensor({300, 1001}, DType::kBF16, 1);
  expect_thread_invariance(
      [&] {
        const auto f = dropout_forward(x, 0.4f, {3, 0});
        return std::vector<Tensor>{f.y, f.mask,
                                   dropout_backward(x, f.mask, 0.4f)};
      },
      "dropout");
}

TEST(Dropout, ErrorsNameTheArgument) {
  const Tensor x = ones({32});
  EXPECT_THAT(error_of([&] { dropout_forward(x, 1.0f, {}); }),
              HasSubstr("dropout_forward: p: 1.000000, expected 0 <= p < 1"));
  EXPECT_THAT(error_of([&] { dropout_forward(x, std::nanf(""), {}); }),
              HasSubstr("0 <= p < 1"));
  EXPECT_THAT(error_of([&] {
                dropout_backward(x, Tensor::zeros(DType::kU8, {3}), 0.5f);
              }),
              HasSubstr("mask: shape [3], expected [4]"));
}

}  // namespace
}  // namespace assay::te
