// Kinds of values for float dtypes (and, component by component, complex).
#include <algorithm>
#include <cmath>
#include <vector>

#include "assay/conform/values.h"
#include "assay/conform/values_random.h"
#include "assay/numerics/basic_math.h"
#include "assay/numerics/float_format.h"

namespace assay::conform {
namespace {

double normal(const ElementRandom& random) {
  return normal_quantile(random.uniform());
}

// Uniform magnitude within a binade drawn from [low, high), random sign.
double log_uniform(const ElementRandom& random, int low, int high) {
  const int binade = low + static_cast<int>(random.below(high - low, 1));
  const double magnitude = std::ldexp(1 + random.uniform(), binade);
  return random.bits(0) & 1 ? -magnitude : magnitude;
}

int exponent_of(double x) {  // of a power of two times [1, 2)
  int exponent = 0;
  std::frexp(x, &exponent);
  return exponent - 1;
}

// Codes that no ordinary draw gives, as many as the dtype has.
std::vector<std::uint64_t> special_codes(DType dtype) {
  const DTypeTraits& t = traits(dtype);
  std::vector<std::uint64_t> codes;
  const auto encode = [dtype](double x) { return encode_float(dtype, x); };
  if (t.specials != Specials::kNone) codes.push_back(nan_code(dtype));
  if (t.specials == Specials::kIeee) {
    const std::uint64_t infinity = max_finite_code(dtype) + 1;
    codes.push_back(infinity);
    codes.push_back(infinity | sign_mask(dtype));
  }
  if (t.is_signed && t.specials != Specials::kFnuz)
    codes.push_back(encode(-0.0));
  codes.push_back(encode(max_finite(dtype)));
  if (t.is_signed) codes.push_back(encode(-max_finite(dtype)));
  codes.push_back(encode(min_positive(dtype)));
  return codes;
}

}  // namespace

void draw_normal(const Draw& draw) {
  const double scale = draw.number("scale", 1), mean = draw.number("mean", 0);
  fill_elements(draw, [=](const ElementRandom& random) {
    return mean + scale * normal(random);
  });
}

void draw_uniform(const Draw& draw) {
  const double low = draw.number("low", -1), high = draw.number("high", 1);
  if (!(low <= high)) draw.fail("low is above high");
  fill_elements(draw, [=](const ElementRandom& random) {
    return low + (high - low) * random.uniform();
  });
}

void draw_near_zero(const Draw& draw) {
  const DType dtype = component(draw.dtype);
  const int smallest = exponent_of(min_normal(dtype));
  // From half the smallest subnormal, which rounds to zero or to it, to eight
  // times the smallest normal.
  const int low = smallest - traits(dtype).mantissa_bits - 1;
  fill_elements(draw, [=](const ElementRandom& random) {
    if (random.bits(1) % 16 == 0) return random.bits(0) & 1 ? -0.0 : 0.0;
    return log_uniform(random, low, smallest + 3);
  });
}

void draw_wide(const Draw& draw) {
  const DType dtype = component(draw.dtype);
  const int least = exponent_of(min_normal(dtype));
  const int most = exponent_of(max_finite(dtype));
  const auto low = draw.integer("low", std::max(least, -12));
  const auto high = draw.integer("high", std::min(most, 12));
  if (low >= high || low < -1100 || high > 1024)
    draw.fail("expected binades low < high");
  fill_elements(draw, [low, high](const ElementRandom& random) {
    return log_uniform(random, static_cast<int>(low), static_cast<int>(high));
  });
}

void draw_special(const Draw& draw) {
  const DType dtype = component(draw.dtype);
  draw_normal(draw);
  const std::vector<std::uint64_t> codes = special_codes(dtype);
  const std::int64_t each = draw.integer("each", 1);
  if (each < 1) draw.fail("expected at least one of each");
  const std::int64_t count = draw.numel * (is_complex(draw.dtype) ? 2 : 1);
  const auto kinds = static_cast<std::int64_t>(codes.size());
  const std::int64_t wanted =
      each > count / kinds ? count : std::min(count, each * kinds);
  OrderedRandom random(draw);
  std::size_t next = 0;
  for (const std::int64_t place : choose(random, count, wanted))
    store_code(draw.dtype, codes[next++ % codes.size()], draw.data, place);
}

void draw_positive(const Draw& draw) {
  const double scale = draw.number("scale", 1);
  if (!(scale > 0)) draw.fail("expected a scale above 0");
  fill_elements(draw, [=](const ElementRandom& random) {
    return scale * (1.0 / 16 + std::fabs(normal(random)));
  });
}

void draw_zeros(const Draw&) {}  // the memory is

void draw_ones(const Draw& draw) {
  fill_elements(draw, [](const ElementRandom&) { return 1.0; });
}

void draw_constant(const Draw& draw) {
  const double value = draw.number("value");
  fill_elements(draw, [=](const ElementRandom&) { return value; });
}

void draw_probabilities(const Draw& draw) {
  const std::int64_t columns = draw.columns();
  parallel_for(draw.rows(), [&](std::int64_t row) {
    std::vector<double> weights(static_cast<std::size_t>(columns));
    double sum = 0;
    for (std::int64_t i = 0; i < columns; ++i)
      sum += weights[static_cast<std::size_t>(i)] =
          ElementRandom(draw.key, row * columns + i).uniform();
    for (std::int64_t i = 0; i < columns; ++i)
      store_from_double(draw.dtype, weights[static_cast<std::size_t>(i)] / sum,
                        draw.data, row * columns + i);
  });
}

}  // namespace assay::conform
