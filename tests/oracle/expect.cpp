#include "tests/oracle/expect.h"

#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "assay/numerics/element.h"
#include "assay/numerics/rounding.h"

namespace assay::oracle {
namespace {

using Kind = Expectation::Kind;

bool contains(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

Expectation from_text(const std::string& text, DType stored) {
  Expectation e;
  if (text == "input" || text == "info") {
    e.kind = Kind::kSkip;
  } else if (contains(text, "rn(rn(1/amax)*fp8_max)")) {
    e.kind = Kind::kClose;
    e.rtol = 5e-7;
  } else if (contains(text, "amax rtol 5e-6") && stored == DType::kF32) {
    e.kind = Kind::kClose;
    e.rtol = 5e-6;
  } else if (contains(text, "any NaN code")) {
    e.kind = Kind::kExactNan;
  } else if (contains(text, "up to the activation function")) {
    e.kind = Kind::kAdjacent;
    e.share = 0.001;
  } else if (contains(text, "adjacent code allowed")) {
    e.kind = Kind::kAdjacent;
  } else if (text == "bf16 rounding of y") {
    e.kind = Kind::kRounding;
  } else if (text == "bit-exact" ||
             text.rfind("bit-exact (NaN compares", 0) == 0 ||
             text.rfind("bit-exact (partial sums", 0) == 0 ||
             text.rfind("bit-exact unless a value sits within", 0) == 0) {
    e.kind = Kind::kExact;
  }
  return e;
}

// Codes in the order of their values, -0 next to +0.
std::int64_t ordered(DType dtype, std::uint64_t code) {
  const auto magnitude =
      static_cast<std::int64_t>(code & magnitude_mask(dtype));
  return code & sign_mask(dtype) ? -magnitude : magnitude;
}

// Both sides of a comparison, element by element.
struct Pair {
  const Tensor& ours;
  const Tensor& reference;
  DType dtype;     // of the reference's elements
  std::int64_t n;  // elements
  double a(std::int64_t i) const {
    return load_as_double(ours.dtype(), ours.view.data, i);
  }
  double b(std::int64_t i) const {
    return load_as_double(dtype, reference.view.data, i);
  }
  std::uint64_t code_a(std::int64_t i) const {
    return load_code(ours.dtype(), ours.view.data, i);
  }
  std::uint64_t code_b(std::int64_t i) const {
    return load_code(dtype, reference.view.data, i);
  }
};

// The stored dtype of a code array says nothing of its format: ours does.
// Packed fp4 codes are stored as bytes.
Pair pair_up(const Tensor& ours, const Tensor& reference) {
  const DType stored = reference.dtype();
  const bool packed = ours.dtype() == DType::kE2M1 && stored == DType::kU8;
  const bool codes = stored == DType::kU8 || stored == DType::kU16;
  const bool same_width = traits(stored).bits == traits(ours.dtype()).bits;
  return {ours, reference,
          packed || (codes && same_width) ? ours.dtype() : stored,
          packed ? 2 * reference.numel() : reference.numel()};
}

std::string shape_problem(const Pair& p) {
  const bool packed =
      p.dtype == DType::kE2M1 && p.reference.dtype() == DType::kU8;
  const bool agree =
      packed ? p.ours.view.bytes().size() == p.reference.view.bytes().size()
             : p.ours.shape() == p.reference.shape();
  return agree ? ""
               : "shape " + to_string(p.ours.shape()) + ", reference " +
                     to_string(p.reference.shape());
}

struct Worst {
  std::int64_t count = 0, index = -1;
  double excess = -1;
  void add(std::int64_t i, double by) {
    ++count;
    if (by > excess || index < 0) excess = by, index = i;
  }
};

std::string describe(const Worst& worst, const Pair& p) {
  char line[200];
  std::snprintf(line, sizeof line,
                "%lld of %lld differ, worst at %lld of %s: %.9g, "
                "reference %.9g",
                static_cast<long long>(worst.count),
                static_cast<long long>(p.n),
                static_cast<long long>(worst.index),
                to_string(p.reference.shape()).c_str(), p.a(worst.index),
                p.b(worst.index));
  return line;
}

// Half a unit in the last place of our own output, which the reference in a
// wider type does not contain.
double own_rounding(DType dtype, DType reference, double value) {
  if (traits(dtype).mantissa_bits >= traits(reference).mantissa_bits) return 0;
  return unit_roundoff(dtype) * std::fabs(value);
}

bool same(const Pair& p, std::int64_t i, Kind kind) {
  const bool narrow = is_float(p.dtype) && traits(p.dtype).bits <= 8;
  const bool both_nan = std::isnan(p.a(i)) && std::isnan(p.b(i));
  if (narrow) {
    return p.code_a(i) == p.code_b(i) || (kind == Kind::kExactNan && both_nan);
  }
  return both_nan || p.a(i) == p.b(i);
}

bool close(const Expectation& e, const Pair& p, std::int64_t i,
           const Tensor* absdot) {
  const double a = p.a(i), b = p.b(i);
  if (a == b || (std::isnan(a) && std::isnan(b))) return true;
  if (std::isinf(a) || std::isinf(b)) return false;
  const double slack =
      absdot == nullptr
          ? e.atol + e.rtol * std::fabs(b)
          : e.factor * load_as_double(absdot->dtype(), absdot->view.data, i);
  return std::fabs(a - b) <= slack + own_rounding(p.ours.dtype(), p.dtype, b);
}

// How far element i is from where it must be; 0: it meets `e`.
double miss(const Expectation& e, const Pair& p, std::int64_t i,
            const Tensor* other) {
  const double distance = std::fabs(p.a(i) - p.b(i));
  const double at_least = distance > 0 ? distance : 1;
  switch (e.kind) {
    case Kind::kExact:
    case Kind::kExactNan:
      return same(p, i, e.kind) ? 0 : at_least;
    case Kind::kClose:
      return close(e, p, i, nullptr) ? 0 : at_least;
    case Kind::kAbsDot:
      return close(e, p, i, other) ? 0 : at_least;
    case Kind::kAdjacent:
      return std::fabs(
          static_cast<double>(ordered(p.ours.dtype(), p.code_a(i)) -
                              ordered(p.dtype, p.code_b(i))));
    case Kind::kRounding: {
      const double wide = load_as_double(other->dtype(), other->view.data, i);
      return p.a(i) == round_to(p.ours.dtype(), wide) ? 0 : at_least;
    }
    default:
      return 1;
  }
}

bool comparable(DType ours, DType stored, Kind kind, std::string& why) {
  if (kind == Kind::kClose || kind == Kind::kAbsDot) return true;
  if (is_exact(ours) && is_exact(stored)) return true;
  if (ours == stored) return true;
  why = "dtype " + std::string(traits(ours).name) + " against stored " +
        std::string(traits(stored).name);
  return false;
}

}  // namespace

Expectation parse_expectation(const std::string& text, DType stored) {
  const auto json = nlohmann::json::parse(text);
  Expectation e;
  if (json.is_string()) {
    e = from_text(json.get<std::string>(), stored);
  } else if (json.is_object() && json.contains("rtol")) {
    e.kind = Kind::kClose;
    e.rtol = json.at("rtol").get<double>();
    e.atol = json.value("atol", 0.0);
  } else if (json.is_object() && json.contains("abs tolerance")) {
    e.kind = Kind::kAbsDot;
    e.factor = std::stod(json.at("abs tolerance").get<std::string>());
  }
  e.wording = text;
  return e;
}

std::string compare(const Expectation& e, const Tensor& ours,
                    const Tensor& reference, const Tensor* other) {
  if (e.kind == Kind::kUnknown) return "unknown expectation " + e.wording;
  const Pair p = pair_up(ours, reference);
  std::string problem = shape_problem(p);
  if (!problem.empty()) return problem;
  if (!comparable(ours.dtype(), p.dtype, e.kind, problem)) return problem;
  Worst worst;
  for (std::int64_t i = 0; i < p.n; ++i) {
    const double by = miss(e, p, i, other);
    if (by != 0) worst.add(i, by);
  }
  const bool tolerated =
      e.kind == Kind::kAdjacent && worst.excess <= 1 &&
      static_cast<double>(worst.count) <= e.share * static_cast<double>(p.n);
  return worst.count == 0 || tolerated ? "" : describe(worst, p);
}

}  // namespace assay::oracle
