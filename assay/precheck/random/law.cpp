#include "assay/precheck/random/law.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "assay/base/error.h"
#include "assay/metrics/distribution.h"
#include "assay/numerics/element.h"

namespace assay::precheck {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

using Names = std::initializer_list<const char*>;

// What builds a law: the arguments, and where parameters begin.
struct Source {
  const RandomCall& call;
  const RandomArguments arguments;
  const Tensor& device;
  int first;  // place of the first parameter: 1 behind a tensor

  Parameter parameter(int place, Names names,
                      std::optional<double> absent) const {
    std::optional<Parameter> found = arguments.parameter(
        place < 0 ? place : first + place, names, absent, device.shape());
    if (!found)
      throw Error(Code::kUsage, std::string(call.api) + ": argument " +
                                    *names.begin() +
                                    " is no number and no tensor that "
                                    "broadcasts to the output");
    return *found;
  }
  double number(int place, Names names, std::optional<double> absent) const {
    const Parameter found = parameter(place, names, absent);
    if (!found.constant())
      throw Error(Code::kUsage, std::string(call.api) + ": argument " +
                                    *names.begin() + " is a tensor");
    return found.value;
  }
};

RandomLaw everywhere(std::string text) {
  RandomLaw law;
  law.text = std::move(text);
  law.least = -kInfinity;
  law.most = kInfinity;
  return law;
}

RandomLaw uniform(double from, double to) {
  RandomLaw law = everywhere(fmt::format("uniform in [{}, {})", from, to));
  law.least = from;
  law.most = to;
  law.most_belongs = from == to;
  law.grain = to - from;
  law.cdf = [=](double x, std::int64_t) { return (x - from) / (to - from); };
  if (from == to) law.fixed = [=](std::int64_t) { return std::optional(from); };
  return law;
}

RandomLaw normal(Parameter mean, Parameter std) {
  const bool alike = mean.constant() && std.constant();
  RandomLaw law = everywhere(
      alike ? fmt::format("normal of mean {} and std {}", mean.value, std.value)
            : "normal of the given means and deviations");
  law.alike = alike;
  law.fixed = [=](std::int64_t i) {
    return std.at(i) == 0 ? std::optional(mean.at(i)) : std::nullopt;
  };
  law.cdf = [mean = std::move(mean), std](double x, std::int64_t i) {
    return normal_cdf((x - mean.at(i)) / std.at(i));
  };
  return law;
}

RandomLaw log_normal(double mean, double std) {
  RandomLaw law =
      everywhere(fmt::format("log-normal of mean {} and std {}", mean, std));
  law.least = 0;
  law.cdf = [=](double x, std::int64_t) {
    return x > 0 ? normal_cdf((std::log(x) - mean) / std) : 0.0;
  };
  return law;
}

RandomLaw exponential(double rate) {
  RandomLaw law = everywhere(fmt::format("exponential of rate {}", rate));
  law.least = 0;
  law.cdf = [=](double x, std::int64_t) {
    return x > 0 ? -std::expm1(-rate * x) : 0.0;
  };
  return law;
}

RandomLaw cauchy(double median, double sigma) {
  RandomLaw law = everywhere(
      fmt::format("Cauchy of median {} and sigma {}", median, sigma));
  law.cdf = [=](double x, std::int64_t) {
    return 0.5 + std::atan((x - median) / sigma) / std::numbers::pi;
  };
  return law;
}

RandomLaw geometric(double p) {
  RandomLaw law = everywhere(fmt::format("geometric of p {}", p));
  law.integers = true;
  law.least = 1;
  law.cdf = [=](double k, std::int64_t) {
    return k < 1 ? 0 : -std::expm1(std::floor(k) * std::log1p(-p));
  };
  return law;
}

RandomLaw poisson(Parameter rate) {
  RandomLaw law = everywhere("Poisson of the given rates");
  law.integers = true;
  law.alike = rate.constant();
  law.least = 0;
  law.fixed = [=](std::int64_t i) {
    return rate.at(i) == 0 ? std::optional(0.0) : std::nullopt;
  };
  law.cdf = [rate = std::move(rate)](double k, std::int64_t i) {
    return poisson_cdf(k, rate.at(i));
  };
  return law;
}

// Whole numbers from `low` to before `high`.
RandomLaw whole(double low, double high) {
  RandomLaw law =
      everywhere(fmt::format("whole numbers in [{:.17g}, {:.17g})", low, high));
  law.integers = true;
  law.least = low;
  law.most = high;
  law.most_belongs = false;
  law.cdf = [=](double k, std::int64_t) {
    return std::clamp((std::floor(k) + 1 - low) / (high - low), 0.0, 1.0);
  };
  if (high - low <= 1)
    law.fixed = [=](std::int64_t) { return std::optional(low); };
  return law;
}

RandomLaw truncated(double mean, double std, double a, double b) {
  RandomLaw law = everywhere(fmt::format(
      "normal of mean {} and std {} within [{}, {}]", mean, std, a, b));
  law.least = a;
  law.most = b;
  const double below = normal_cdf((a - mean) / std);
  const double mass = normal_cdf((b - mean) / std) - below;
  law.cdf = [=](double x, std::int64_t) {
    return std::clamp((normal_cdf((x - mean) / std) - below) / mass, 0.0, 1.0);
  };
  return law;
}

// Fan in and fan out of a weight, as torch.nn.init counts them.
struct Fans {
  double in, out;
};
Fans fans(const Source& source) {
  const Shape& shape = source.device.shape();
  if (shape.size() < 2)
    throw Error(Code::kUsage, std::string(source.call.api) +
                                  ": weight of shape " + to_string(shape) +
                                  ", expected two dimensions or more");
  double field = 1;
  for (std::size_t i = 2; i < shape.size(); ++i)
    field *= static_cast<double>(shape[i]);
  return {static_cast<double>(shape[1]) * field,
          static_cast<double>(shape[0]) * field};
}

// torch.nn.init.calculate_gain().
double gain_of(const std::string& nonlinearity, double slope) {
  if (nonlinearity == "leaky_relu") return std::sqrt(2 / (1 + slope * slope));
  if (nonlinearity == "relu") return std::sqrt(2.0);
  if (nonlinearity == "tanh") return 5.0 / 3;
  if (nonlinearity == "selu") return 0.75;
  return 1;
}

double kaiming_std(const Source& source) {
  const Fans fan = fans(source);
  const bool out = source.arguments.word(2, {"mode"}, "fan_in") == "fan_out";
  const double gain =
      gain_of(source.arguments.word(3, {"nonlinearity"}, "leaky_relu"),
              source.number(0, {"a"}, 0.0));
  return gain / std::sqrt(out ? fan.out : fan.in);
}

double xavier_std(const Source& source) {
  const Fans fan = fans(source);
  return source.number(0, {"gain"}, 1.0) * std::sqrt(2 / (fan.in + fan.out));
}

RandomLaw of_spread(double std, bool bounded) {
  const double bound = std::sqrt(3.0) * std;
  return bounded ? uniform(-bound, bound)
                 : normal(Parameter{0, {}}, Parameter{std, {}});
}

// random_(): [from, to), or up to what the dtype counts exactly.
RandomLaw random_integers(const Source& source) {
  const DTypeTraits& t = traits(source.device.dtype());
  const bool first = source.arguments.find(1, {"from", "to"}) != nullptr;
  const bool both = source.arguments.find(2, {"to"}) != nullptr &&
                    source.arguments.find(1, {"from"}) != nullptr;
  if (both)
    return whole(source.number(0, {"from"}, {}), source.number(1, {"to"}, {}));
  if (first) {
    if (source.arguments.find(-1, {"from"}))
      throw Error(Code::kUsage, "random_: from without to");
    return whole(0, source.number(0, {"to"}, {}));
  }
  if (t.kind == DTypeKind::kBool) return whole(0, 2);
  if (t.kind == DTypeKind::kFloat)
    return whole(0, std::ldexp(1, t.mantissa_bits + 1) + 1);
  return whole(0, std::ldexp(1, t.bits - (t.kind == DTypeKind::kInt)));
}

// randint(high, size) or randint(low, high, size); _like behind a tensor.
RandomLaw randint(const Source& source) {
  const RandomArguments& a = source.arguments;
  const int at = source.first;
  if (a.find(-1, {"low"}) || a.find(-1, {"high"})) {
    const bool placed = a.find(-1, {"low"}) == nullptr;
    // randint(2, high=5): what stands at the first place is low.
    const double low =
        placed ? a.number(at, {}, 0.0).value_or(0) : *a.number(-1, {"low"}, {});
    return whole(low, source.number(placed ? 1 : 0, {"high"}, {}));
  }
  const std::optional<double> second = a.number(at + 1, {}, {});
  if (!second) return whole(0, source.number(0, {"high"}, {}));
  return whole(source.number(0, {"low"}, {}), *second);
}

std::optional<RandomLaw> law_by_name(const std::string& name, const Source& s) {
  const bool complex = is_complex(s.device.dtype());
  const double part = complex ? std::sqrt(0.5) : 1;  // of a normal's std
  if (name == "rand" || name == "rand_like") return uniform(0, 1);
  if (name == "randn" || name == "randn_like")
    return normal(Parameter{0, {}}, Parameter{part, {}});
  if (name == "uniform")
    return uniform(s.number(0, {"from", "a"}, 0.0),
                   s.number(1, {"to", "b"}, 1.0));
  if (complex) return std::nullopt;
  if (name == "normal" || name == "normal_functional")
    return normal(s.parameter(0, {"mean"}, 0.0), s.parameter(1, {"std"}, 1.0));
  if (name == "log_normal")
    return log_normal(s.number(0, {"mean"}, 1.0), s.number(1, {"std"}, 2.0));
  if (name == "exponential") return exponential(s.number(0, {"lambd"}, 1.0));
  if (name == "cauchy")
    return cauchy(s.number(0, {"median"}, 0.0), s.number(1, {"sigma"}, 1.0));
  if (name == "geometric") return geometric(s.number(0, {"p"}, {}));
  if (name == "poisson") return poisson(s.parameter(0, {"input"}, {}));
  if (name == "randint" || name == "randint_like") return randint(s);
  if (name == "random") return random_integers(s);
  if (name == "trunc_normal")
    return truncated(s.number(0, {"mean"}, 0.0), s.number(1, {"std"}, 1.0),
                     s.number(2, {"a"}, -2.0), s.number(3, {"b"}, 2.0));
  if (name == "kaiming_uniform") return of_spread(kaiming_std(s), true);
  if (name == "kaiming_normal") return of_spread(kaiming_std(s), false);
  if (name == "xavier_uniform") return of_spread(xavier_std(s), true);
  if (name == "xavier_normal") return of_spread(xavier_std(s), false);
  return std::nullopt;
}

}  // namespace

std::optional<RandomLaw> find_law(const RandomCall& call,
                                  const std::string& name,
                                  const Tensor& device) {
  // torch.normal(mean, std) and torch.poisson(rate) have the parameters
  // first; whatever fills, or is like, a tensor has that one before them.
  const bool before = name == "poisson" || name == "randint" ||
                      (name == "normal" && !is_in_place(call.api));
  return law_by_name(name,
                     {call, RandomArguments(call), device, before ? 0 : 1});
}

double spacing(DType dtype, double x) {
  const DTypeTraits& t = traits(component(dtype));
  if (t.kind != DTypeKind::kFloat && t.kind != DTypeKind::kComplex) return 0;
  const int exponent = x == 0 || !std::isfinite(x) ? -2000 : std::ilogb(x);
  return std::ldexp(1, std::max(exponent, 1 - t.bias) - t.mantissa_bits);
}

}  // namespace assay::precheck
