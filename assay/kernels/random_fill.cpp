#include "assay/kernels/random_fill.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include "assay/base/error.h"
#include "assay/kernels/convert.h"
#include "assay/kernels/random_bits.h"
#include "assay/numerics/basic_math.h"
#include "assay/numerics/element.h"

namespace assay {
namespace {

using random_bits::Bits;
using random_bits::kPart;
using Values = std::array<double, kPart>;

struct Fill {
  Law law;
  double a, b;
  bool narrow;         // anything but float64
  double least, most;  // of the dtype, before it is rounded to
};

void require(bool good, const char* what, double found, const char* expected) {
  if (!good)
    throw Error(Code::kUsage, std::string("random_fill: ") + what + " is " +
                                  std::to_string(found) + ", expected " +
                                  expected);
}

void check(Law law, double a, double b) {
  require(std::isfinite(a), "the first parameter", a, "a finite number");
  require(std::isfinite(b), "the second parameter", b, "a finite number");
  switch (law) {
    case Law::kUniform:
      require(std::isfinite(b - a) && a <= b, "to - from", b - a,
              "a finite number, not below 0");
      break;
    case Law::kNormal:
      require(b >= 0, "the standard deviation", b, "0 or more");
      break;
    case Law::kExponential:
      require(a > 0, "the rate", a, "more than 0");
      break;
    case Law::kCauchy:
    case Law::kLogNormal:
      require(b > 0, "the scale", b, "more than 0");
      break;
    case Law::kGeometric:
      require(a > 0 && a < 1, "the probability", a, "one in (0, 1)");
      break;
  }
}

double stored(DType dtype, std::uint64_t code) {
  std::byte buffer[8];
  store_code(dtype, code, buffer, 0);
  return load_as_double(dtype, buffer, 0);
}

// The largest number of the dtype below `bound`.
double next_below(DType dtype, double bound) {
  std::byte buffer[8];
  store_from_double(dtype, bound, buffer, 0);
  const double rounded = load_as_double(dtype, buffer, 0);
  if (rounded < bound) return rounded;
  const std::uint64_t code = load_code(dtype, buffer, 0);
  if (rounded == 0)  // minus the smallest
    return -stored(dtype, 1);
  return stored(dtype, rounded > 0 ? code - 1 : code + 1);
}

Fill prepared(Law law, double a, double b, DType dtype) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  Fill fill{law, a, b, dtype != DType::kF64, -kInfinity, kInfinity};
  if (law == Law::kUniform && b > a) fill.most = next_below(dtype, b);
  if (law == Law::kExponential) fill.least = stored(dtype, 1);
  return fill;
}

void uniforms(const Fill& fill, const Bits& bits, Values& x) {
  const double span = fill.b - fill.a;
  if (fill.narrow) {
    for (std::size_t i = 0; i < x.size(); ++i)
      x[i] = fill.a + span * (random_bits::as_double(bits[i] >> 40) * 0x1p-24);
  } else {
    for (std::size_t i = 0; i < x.size(); ++i)
      x[i] = fill.a + span * random_bits::unit(bits[i]);
  }
}

void values(const Fill& fill, const Bits& bits, Values& x) {
  if (fill.law == Law::kUniform) return uniforms(fill, bits, x);
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = random_bits::centre(bits[i]);
  const double a = fill.a, b = fill.b;
  const auto each = [&x](auto f) {
    for (double& value : x) value = f(value);
  };
  switch (fill.law) {
    case Law::kUniform:
      break;
    case Law::kNormal:
      random_kernels(Device::kCpu).quantiles(x.data());
      each([=](double z) { return a + b * z; });
      break;
    case Law::kExponential:
      each([=](double u) { return -basic_log(u) / a; });
      break;
    case Law::kCauchy:
      each([=](double u) { return a + b * tan_pi(u - 0.5); });
      break;
    case Law::kLogNormal:
      random_kernels(Device::kCpu).quantiles(x.data());
      each([=](double z) { return basic_exp(a + b * z); });
      break;
    case Law::kGeometric:
      each([log_miss = basic_log1p(-a)](double u) {
        return std::max(1.0, std::ceil(basic_log(u) / log_miss));
      });
      break;
  }
}

}  // namespace

void random_fill(const RandomKey& key, Law law, double a, double b, DType dtype,
                 std::byte* out, std::int64_t n) {
  if (dtype != DType::kF64 && dtype != DType::kF32 && dtype != DType::kBF16 &&
      dtype != DType::kF16)
    throw Error(Code::kUnsupported,
                "random_fill: dtype " + std::string(traits(dtype).name) +
                    ", expected float64, float32, bfloat16 or float16");
  check(law, a, b);
  const Fill fill = prepared(law, a, b, dtype);
  const ConvertKernels& convert = convert_kernels(Device::kCpu);
  random_bits::for_parts(
      key, n, [&](std::int64_t begin, std::int64_t count, const Bits& bits) {
        Values x;
        values(fill, bits, x);
        if (law == Law::kUniform || law == Law::kExponential)
          for (double& value : x)
            value = std::min(std::max(value, fill.least), fill.most);
        if (dtype == DType::kF64) {
          std::memcpy(out + 8 * begin, x.data(),
                      8 * static_cast<std::size_t>(count));
          return;
        }
        std::array<float, kPart> narrow;
        for (std::size_t i = 0; i < x.size(); ++i)
          narrow[i] = static_cast<float>(x[i]);
        const std::int64_t width = dtype == DType::kF32 ? 4 : 2;
        convert.narrow[float_width(dtype)](narrow.data(), count,
                                           out + width * begin);
      });
}

}  // namespace assay
