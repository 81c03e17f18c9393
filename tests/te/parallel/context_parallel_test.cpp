// Context parallelism against attention over whole sequences in one process.
#include "assay/te/parallel/context_parallel.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "assay/base/parallel.h"
#include "assay/te/ops/sequence.h"
#include "assay/te/quantize/current.h"
#include "assay/te/quantize/mxfp8.h"
#include "tests/te/parallel/parallel_test.h"

namespace assay::te {
namespace {

using testing::HasSubstr;
using enum AttentionMask;

double at(const Tensor& t, std::int64_t i) {
  return load_as_double(t.dtype(), t.view.data, i);
}

Tensor offsets(const std::vector<std::int64_t>& lengths, Device device) {
  Tensor t = Tensor::empty(
      DType::kI32, {static_cast<std::int64_t>(lengths.size()) + 1}, device);
  auto* out = t.mutable_data<std::int32_t>();
  out[0] = 0;
  for (std::size_t i = 0; i < lengths.size(); ++i)
    out[i + 1] = out[i] + static_cast<std::int32_t>(lengths[i]);
  return t;
}

// Copies rows of `row` elements: row i of the result is row from[i] of x.
Tensor take(const Tensor& x, std::int64_t row, Shape shape,
            const std::vector<std::int64_t>& from) {
  Tensor out = Tensor::empty(x.dtype(), std::move(shape), x.device);
  for (std::size_t i = 0; i < from.size(); ++i)
    for (std::int64_t d = 0; d < row; ++d)
      store_code(x.dtype(),
                 load_code(x.dtype(), x.view.data, from[i] * row + d),
                 out.mutable_data(), static_cast<std::int64_t>(i) * row + d);
  return out;
}

// Positions of the rank's part of one sequence: chunks r and 2 n - 1 - r.
std::vector<std::int64_t> positions(std::int64_t length) {
  const std::int64_t chunk = length / (2 * ranks());
  std::vector<std::int64_t> out;
  for (std::int64_t c : {rank(), 2 * ranks() - 1 - rank()})
    for (std::int64_t i = 0; i < chunk; ++i) out.push_back(c * chunk + i);
  return out;
}

// One problem, whole and cut.
struct Case {
  const char* name;
  AttentionOptions options;
  std::int64_t heads = 4, key_heads = 4, dim = 8, v_dim = 16;
  std::int64_t batch = 2, length = 80, kv_length = 80;
  // Valid tokens of each sequence: padding masks and thd. thd: their padded
  // lengths too.
  std::vector<std::int64_t> valid, padded, kv_valid = valid;
  bool comms[3] = {true, true, true};  // p2p, all_gather, a2a
};

class Cut {
 public:
  Cut(const Case& c, DType dtype, Device device)
      : c_(c), format_(c.options.q_format), dtype_(dtype), device_(device) {
    whole.q = random(c.length, c.heads, c.dim, 1);
    whole.k = random(c.kv_length, c.key_heads, c.dim, 2);
    whole.v = random(c.kv_length, c.key_heads, c.v_dim, 3);
    d_out = random(c.length, c.heads, c.v_dim, 4);
    if (!c.valid.empty()) {
      whole.cu_seqlens_q = offsets(c.valid, device);
      whole.cu_seqlens_kv = offsets(c.kv_valid, device);
    }
    if (format_ == QkvFormat::kThd)
      whole.cu_seqlens_q_padded = whole.cu_seqlens_kv_padded =
          offsets(c.padded, device);
    if (c.options.softmax == SoftmaxType::kLearnable)
      whole.softmax_offset = normal(DType::kF32, {c.heads}, 7, 1, device);
    local = whole;
    local.q = part(whole.q);
    local.k = part(whole.k);
    local.v = part(whole.v);
  }

  // The rank's part of [.., heads, dim] in the format.
  Tensor part(const Tensor& x) const {
    const Shape& s = x.shape();
    std::vector<std::int64_t> rows;
    if (format_ == QkvFormat::kThd) {
      std::int64_t begin = 0;
      for (std::int64_t length : c_.padded) {
        for (std::int64_t i : positions(length)) rows.push_back(begin + i);
        begin += length;
      }
      return take(x, s[1] * s[2],
                  {static_cast<std::int64_t>(rows.size()), s[1], s[2]}, rows);
    }
    const bool sbhd = format_ == QkvFormat::kSbhd;
    const std::int64_t length = s[sbhd ? 0 : 1], batch = s[sbhd ? 1 : 0];
    if (sbhd) {
      for (std::int64_t i : positions(length)) rows.push_back(i);
      return take(x, batch * s[2] * s[3], {length / ranks(), batch, s[2], s[3]},
                  rows);
    }
    for (std::int64_t b = 0; b < batch; ++b)
      for (std::int64_t i : positions(length)) rows.push_back(b * length + i);
    return take(x, s[2] * s[3], {batch, length / ranks(), s[2], s[3]}, rows);
  }

  // The rank's part of [b, h, s], thd [h, tokens].
  Tensor part_of_lse(const Tensor& lse) const {
    const Shape& s = lse.shape();
    std::vector<std::int64_t> from;
    const std::int64_t length = s.back();
    for (std::int64_t r = 0;
         r < lse.numel() / std::max<std::int64_t>(1, length); ++r) {
      std::int64_t begin = r * length;
      for (std::int64_t n : format_ == QkvFormat::kThd
                                ? c_.padded
                                : std::vector<std::int64_t>{length}) {
        for (std::int64_t i : positions(n)) from.push_back(begin + i);
        begin += n;
      }
    }
    Shape shape = s;
    shape.back() = length / ranks();
    return take(lse, 1, shape, from);
  }

  AttentionInputs whole, local;
  Tensor d_out;

 private:
  Tensor random(std::int64_t length, std::int64_t heads, std::int64_t dim,
                unsigned seed) const {
    Shape shape{c_.batch, length, heads, dim};
    if (format_ == QkvFormat::kSbhd) shape = {length, c_.batch, heads, dim};
    if (format_ == QkvFormat::kThd) {
      std::int64_t tokens = 0;
      for (std::int64_t n : c_.padded) tokens += n;
      shape = {tokens, heads, dim};
    }
    return normal(dtype_, shape, seed, 1, device_);
  }

  const Case& c_;
  QkvFormat format_;
  DType dtype_;
  Device device_;
};

// |got - expected| <= error * the greatest |expected|; infinities the same.
void expect_near(const Tensor& got, const Tensor& expected, double error,
                 const std::string& what) {
  ASSERT_EQ(got.shape(), expected.shape()) << what;
  ASSERT_EQ(got.dtype(), expected.dtype()) << what;
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

// Twice the budget of attention itself (te/ops/attention.h: of the greatest
// value), for there are two results, and what the merge adds: u of each
// block's part and of the sum; and, all in fp32, a rounding for each of at
// most 16 merges and |lse| < 10 of both sides' lse in the weights: 16 + 2 * 10.
// The reference device sums in fp64: there only the latter and, of gradients,
// twice that (p is made again from lse) remain.
struct Budget {
  double out, lse, gradient;
};
Budget budget(DType dtype, Device device) {
  const double u = unit_roundoff(dtype), merge = 36 * 0x1p-24;
  if (device == Device::kReference) return {merge, 4 * u, 2 * merge};
  if (dtype == DType::kF32)
    return {2 * 4e-6 + merge, 2e-5, 2 * 2e-5 + 2 * merge};
  return {2 * 0x1p-8 + 2 * u, 2e-5, 2 * 0x1p-7 + 2 * u};
}

void check(const Case& c, CpCommType comm, DType dtype, Device device) {
  const std::string what = std::string(c.name) + " comm " +
                           std::to_string(static_cast<int>(comm)) + " " +
                           std::string(traits(dtype).name) + " " +
                           std::string(device_name(device));
  SCOPED_TRACE(what);
  const Cut cut(c, dtype, device);
  const Budget b = budget(dtype, device);
  const AttentionResult one = attention_forward(cut.whole, c.options);
  const AttentionGradients g1 =
      attention_backward(cut.d_out, cut.whole, one.out, one.lse, c.options);
  const ContextParallelOptions cp{.comm = comm};
  const ContextParallelResult r =
      context_parallel_forward(cut.local, c.options, cp, *group());
  expect_near(r.attention.out, cut.part(one.out), b.out, "out");
  expect_near(r.attention.lse, cut.part_of_lse(one.lse), b.lse, "lse");
  if (c.options.want_max_logit)
    expect_near(r.attention.max_logit, one.max_logit, b.lse, "max_logit");
  const AttentionGradients g = context_parallel_backward(
      cut.part(cut.d_out), cut.local, r, c.options, cp, *group());
  expect_near(g.dq, cut.part(g1.dq), b.gradient, "dq");
  expect_near(g.dk, cut.part(g1.dk), b.gradient, "dk");
  expect_near(g.dv, cut.part(g1.dv), b.gradient, "dv");
  ASSERT_EQ(g.d_softmax_offset.has_value(), g1.d_softmax_offset.has_value());
  if (g.d_softmax_offset)
    expect_near(*g.d_softmax_offset, *g1.d_softmax_offset, b.gradient, "sink");
}

const std::vector<Case>& cases() {
  using enum QkvFormat;
  constexpr auto kAlibi = AttentionBiasType::kAlibi;
  const auto in = [](QkvFormat format, AttentionOptions o) {
    o.q_format = o.kv_format = format;
    return o;
  };
  // Lengths of whole sequences of thd, multiples of 8; some chunks have no
  // valid token, some sequences none.
  const std::vector<std::int64_t> padded = {80, 8, 72, 16};
  static const std::vector<Case> all = {
      {.name = "none",
       .options = in(kSbhd, {.mask = kNone, .want_max_logit = true})},
      {.name = "causal",
       .options = in(kSbhd, {.mask = kCausal, .want_max_logit = true})},
      {.name = "causal bshd", .options = in(kBshd, {.mask = kCausal})},
      {.name = "bottom right",
       .options = in(kBshd, {.mask = kCausalBottomRight})},
      {.name = "padding",
       .options = in(kBshd, {.mask = kPadding}),
       .valid = {70, 17}},
      {.name = "padding_causal",
       .options = in(kSbhd, {.mask = kPaddingCausal}),
       .valid = {80, 0}},
      {.name = "thd",
       .options = in(kThd, {.mask = kPadding, .want_max_logit = true}),
       .valid = {80, 5, 30, 0},
       .padded = padded},
      {.name = "thd causal",
       .options = in(kThd, {.mask = kPaddingCausal}),
       .valid = {77, 8, 50, 1},
       .padded = padded},
      {.name = "thd causal cross",
       .options = in(kThd, {.mask = kPaddingCausal}),
       .valid = {77, 8, 50, 1},
       .padded = padded,
       .kv_valid = {70, 3, 72, 16}},
      {.name = "window",
       .options = in(kSbhd, {.mask = kCausal, .window_left = 20})},
      {.name = "window of two sides",
       .options =
           in(kBshd, {.mask = kNone, .window_left = 3, .window_right = 50})},
      {.name = "open window",
       .options =
           in(kBshd, {.mask = kNone,
                      .window_left = std::numeric_limits<std::int64_t>::max(),
                      .window_right = 0})},
      {.name = "thd window",
       .options = in(kThd, {.mask = kPaddingCausal, .window_left = 30}),
       .valid = {77, 8, 50, 1},
       .padded = padded},
      {.name = "alibi",
       .options = in(kSbhd, {.mask = kCausal, .bias = kAlibi})},
      {.name = "alibi none",
       .options = in(kThd, {.mask = kNone, .bias = kAlibi}),
       .valid = {77, 8, 50, 1},
       .padded = padded},
      {.name = "off by one",
       .options =
           in(kSbhd, {.mask = kCausal, .softmax = SoftmaxType::kOffByOne})},
      {.name = "sinks",
       .options =
           in(kBshd, {.mask = kNone, .softmax = SoftmaxType::kLearnable})},
      {.name = "sinks and window",
       .options = in(kSbhd, {.mask = kCausal,
                             .window_left = 10,
                             .softmax = SoftmaxType::kLearnable})},
      {.name = "dropout",
       .options = in(
           kSbhd, {.mask = kCausal, .dropout = 0.25, .seed = 5, .offset = 3}),
       .comms = {true, true, false}},
      {.name = "dropout thd",
       .options = in(kThd, {.mask = kNone, .dropout = 0.25, .seed = 5}),
       .valid = {77, 8, 50, 1},
       .padded = padded,
       .comms = {true, true, false}},
      {.name = "longer keys",
       .options = in(kSbhd, {.mask = kNone}),
       .kv_length = 16},
      {.name = "shorter queries, causal",
       .options = in(kBshd, {.mask = kCausal}),
       .length = 48},
      {.name = "two key heads",
       .options = in(kBshd, {.mask = kCausal}),
       .key_heads = 2,
       .comms = {true, true, false}},
      {.name = "grouped queries",
       .options = in(kSbhd, {.mask = kCausal}),
       .heads = 8},
      {.name = "long rows",
       .options = in(kSbhd, {.mask = kCausal}),
       .dim = 64,
       .v_dim = 64,
       .batch = 1},
      {.name = "no tokens",
       .options = in(kSbhd, {.mask = kCausal}),
       .length = 0,
       .kv_length = 0},
      {.name = "no sequences",
       .options = in(kSbhd, {.mask = kCausal}),
       .batch = 0},
  };
  return all;
}

constexpr CpCommType kComms[] = {CpCommType::kP2P, CpCommType::kAllGather,
                                 CpCommType::kA2A};

void check_all(DType dtype, Device device) {
  for (const Case& c : cases())
    for (std::size_t i = 0; i < 3; ++i)
      if (c.comms[i]) check(c, kComms[i], dtype, device);
}

TEST(ContextParallel, IsAttentionOfTheWholeInFp64) {
  check_all(DType::kF32, Device::kReference);
}
TEST(ContextParallel, IsAttentionOfTheWholeInF32) {
  check_all(DType::kF32, Device::kCpu);
}
TEST(ContextParallel, IsAttentionOfTheWholeInBf16) {
  check_all(DType::kBF16, Device::kCpu);
}

const Case& causal() {
  static const Case c{.name = "causal",
                      .options = {.q_format = QkvFormat::kBshd,
                                  .kv_format = QkvFormat::kBshd,
                                  .mask = kCausal}};
  return c;
}

// Heads are cut, sums are not: the bits of one process.
TEST(ContextParallel, A2aGivesTheBitsOfOneProcess) {
  const Case& c = causal();
  const Cut cut(c, DType::kBF16, Device::kCpu);
  const AttentionResult one = attention_forward(cut.whole, c.options);
  const AttentionGradients g1 =
      attention_backward(cut.d_out, cut.whole, one.out, one.lse, c.options);
  const ContextParallelOptions cp{.comm = CpCommType::kA2A};
  const ContextParallelResult r =
      context_parallel_forward(cut.local, c.options, cp, *group());
  expect_same_bits(r.attention.out, cut.part(one.out), "out");
  expect_same_bits(r.attention.lse, cut.part_of_lse(one.lse), "lse");
  const AttentionGradients g = context_parallel_backward(
      cut.part(cut.d_out), cut.local, r, c.options, cp, *group());
  expect_same_bits(g.dq, cut.part(g1.dq), "dq");
  expect_same_bits(g.dk, cut.part(g1.dk), "dk");
  expect_same_bits(g.dv, cut.part(g1.dv), "dv");
}

// k and v as the codes of each rank's own quantiser: attention of the whole
// decoded k and v, and of no other.
TEST(ContextParallel, KeysTravelAsCodes) {
  Case c = causal();
  c.length = c.kv_length = 128;  // blocks of MXFP8 are 32 rows
  const Cut cut(c, DType::kF32, Device::kReference);
  std::vector<std::unique_ptr<Quantizer>> quantizers;
  quantizers.push_back(std::make_unique<CurrentScalingQuantizer>(
      CurrentScalingOptions{.format = DType::kE4M3FN}));
  quantizers.push_back(std::make_unique<MXFP8Quantizer>(DType::kE4M3FN));
  for (const auto& quantizer : quantizers)
    for (const CpCommType comm : {CpCommType::kP2P, CpCommType::kAllGather}) {
      // What every rank's codes stand for, put back in order.
      const auto decoded = [&](const Tensor& x) {
        const Tensor part = cut.part(x);
        const Shape s = part.shape();
        Tensor matrix = part;
        matrix.view.shape = {s[0] * s[1], s[2] * s[3]};
        const std::unique_ptr<Quantizer> copy = quantizer->clone();
        copy->set_usage({.rowwise = true, .columnwise = false});
        const Tensor all =
            gathered(dequantize(copy->quantize(matrix), x.dtype()));
        // [ranks, batch, 2 chunks, ...] to [batch, 2 ranks chunks, ...]
        const std::int64_t n = ranks(), chunk = s[1] / 2;
        std::vector<std::int64_t> from;
        for (std::int64_t b = 0; b < s[0]; ++b)
          for (std::int64_t i = 0; i < 2 * n; ++i)
            for (std::int64_t t = 0; t < chunk; ++t)
              from.push_back((std::min(i, 2 * n - 1 - i) * s[0] + b) * s[1] +
                             (i < n ? t : chunk + t));
        return take(all, s[2] * s[3], {s[0], s[1] * n, s[2], s[3]}, from);
      };
      AttentionInputs whole = cut.whole;
      whole.k = decoded(cut.whole.k);
      whole.v = decoded(cut.whole.v);
      const AttentionResult one = attention_forward(whole, c.options);
      const AttentionGradients g1 =
          attention_backward(cut.d_out, whole, one.out, one.lse, c.options);
      const ContextParallelOptions cp{.comm = comm,
                                      .kv_quantizer = quantizer.get()};
      const ContextParallelResult r =
          context_parallel_forward(cut.local, c.options, cp, *group());
      const Budget b = budget(DType::kF32, Device::kReference);
      expect_near(r.attention.out, cut.part(one.out), b.out, "out");
      const AttentionGradients g = context_parallel_backward(
          cut.part(cut.d_out), cut.local, r, c.options, cp, *group());
      expect_near(g.dq, cut.part(g1.dq), b.gradient, "dq");
      expect_near(g.dk, cut.part(g1.dk), b.gradient, "dk");
      expect_near(g.dv, cut.part(g1.dv), b.gradient, "dv");
      EXPECT_TRUE(r.k.has_value());
      EXPECT_TRUE(quantizer->usage().columnwise) << "the usage it had";
      // Codes are coarse: the values themselves give something else.
      const AttentionResult plain = attention_forward(cut.whole, c.options);
      EXPECT_NE(codes(plain.out), codes(one.out));
    }
}

// A NaN of a key reaches the queries that see it and no others.
TEST(ContextParallel, F37_NanKeysReachOnlyWhoSeesThem) {
  const Case& c = causal();
  Cut cut(c, DType::kF32, Device::kCpu);
  const std::int64_t place = 60, row = c.key_heads * c.dim;
  cut.whole.k.mutable_data<float>()[place * row] =
      std::numeric_limits<float>::quiet_NaN();
  const Tensor one = attention_forward(cut.whole, c.options).out;
  AttentionInputs local = cut.local;
  local.k = cut.part(cut.whole.k);
  for (const CpCommType comm : kComms) {
    const Tensor out =
        context_parallel_forward(local, c.options, {.comm = comm}, *group())
            .attention.out;
    const Tensor expected = cut.part(one);
    for (std::int64_t i = 0; i < out.numel(); ++i)
      ASSERT_EQ(std::isnan(at(out, i)), std::isnan(at(expected, i))) << i;
  }
}

TEST(ContextParallel, BitsDoNotDependOnTheNumberOfThreads) {
  const Case& c = causal();
  const Cut cut(c, DType::kBF16, Device::kCpu);
  for (const CpCommType comm : kComms) {
    std::vector<Tensor> first;
    for (const int threads : {1, 4}) {
      set_thread_count(threads);
      const ContextParallelOptions cp{.comm = comm};
      const ContextParallelResult r =
          context_parallel_forward(cut.local, c.options, cp, *group());
      const AttentionGradients g = context_parallel_backward(
          cut.part(cut.d_out), cut.local, r, c.options, cp, *group());
      const std::vector<Tensor> now = {r.attention.out, r.attention.lse, g.dq,
                                       g.dk, g.dv};
      if (first.empty()) first = now;
      for (std::size_t i = 0; i < now.size(); ++i)
        expect_same_bits(now[i], first[i], std::to_string(i));
    }
    set_thread_count(1);
  }
}

std::string refused(const AttentionInputs& in, const AttentionOptions& options,
                    const ContextParallelOptions& cp = {}) {
  try {
    context_parallel_forward(in, options, cp, *group());
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kUsage);
    return error.what();
  }
  return "no error";
}

TEST(ContextParallel, RefusesWhatItCannotMean) {
  const Case& c = causal();
  const Cut cut(c, DType::kF32, Device::kCpu);
  const auto with = [&](auto change) {
    AttentionInputs in = cut.local;
    AttentionOptions o = c.options;
    ContextParallelOptions cp;
    change(in, o, cp);
    return refused(in, o, cp);
  };
  EXPECT_THAT(with([](auto&, auto& o, auto&) { o.mask = kArbitrary; }),
              HasSubstr("context_parallel_forward: mask: arbitrary"));
  EXPECT_THAT(with([](auto&, auto& o, auto&) {
                o.bias = AttentionBiasType::kPostScale;
              }),
              HasSubstr("bias: given, expected none or ALiBi"));
  EXPECT_THAT(with([](auto&, auto& o, auto& cp) {
                o.dropout = 0.1;
                cp.comm = CpCommType::kA2A;
              }),
              HasSubstr("dropout: 0.1"));
  CurrentScalingQuantizer quantizer({});
  EXPECT_THAT(with([&](auto&, auto&, auto& cp) {
                cp.comm = CpCommType::kA2A;
                cp.kv_quantizer = &quantizer;
              }),
              HasSubstr("kv_quantizer: given with a2a"));
  EXPECT_THAT(
      with([](auto& in, auto&, auto&) {
        in.q = normal(DType::kF32, {2, 7, 4, 8}, 1);
      }),
      HasSubstr("length of sequence 0: " + std::to_string(7 * ranks()) +
                ", expected a multiple of " + std::to_string(2 * ranks())));
  EXPECT_THAT(with([](auto& in, auto& o, auto&) {
                in.q = normal(DType::kF32, {2, 8, 4, 8}, 1);
                o.mask = kCausalBottomRight;
              }),
              HasSubstr("bottom_right: a diagonal at the end of longer keys"));
  EXPECT_THAT(with([](auto&, auto& o, auto&) { o.mask = kPadding; }),
              HasSubstr("cu_seqlens_q: absent"));
  EXPECT_THAT(
      with([](auto& in, auto& o, auto&) {
        o.mask = kPadding;
        in.cu_seqlens_q = in.cu_seqlens_kv = offsets({81, 2}, Device::kCpu);
      }),
      HasSubstr("length of sequence 0: 81, expected at most 80"));
  EXPECT_THAT(with([](auto& in, auto&, auto&) { in.v = Tensor{}; }),
              HasSubstr("v: absent"));
  if (ranks() == 1) return;
  // One rank's mistake is an error of all.
  EXPECT_THAT(with([](auto& in, auto&, auto&) {
                if (rank() == 1) in.k = in.v;
              }),
              HasSubstr("rank"));
  EXPECT_THAT(with([](auto&, auto& o, auto&) {
                if (rank() == 1) o.window_left = 3;
              }),
              HasSubstr("rank"));
}

TEST(ContextParallel, NamesAreNvtes) {
  EXPECT_EQ(parse_cp_comm_type("p2p"), CpCommType::kP2P);
  EXPECT_EQ(parse_cp_comm_type("all_gather"), CpCommType::kAllGather);
  EXPECT_EQ(parse_cp_comm_type("a2a"), CpCommType::kA2A);
  EXPECT_THROW(parse_cp_comm_type("a2a+p2p"), Error);
}

}  // namespace
}  // namespace assay::te
