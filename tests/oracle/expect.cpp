#include "tests/oracle/expect.h"

#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string_view>

#include "assay/numerics/element.h"
#include "assay/numerics/rounding.h"

namespace assay::oracle {
namespace {

using Kind = Expectation::Kind;

struct Wording {
  std::string_view text;
  Kind kind;
  double rtol = 0, share = 1;
};

constexpr Wording kWordings[] = {
    {"input", Kind::kInput},
    {"info", Kind::kInfo},
    {"bit-exact", Kind::kExact},
    {"bit-exact (NaN compares equal to NaN)", Kind::kExact},
    {"bit-exact (partial sums are exact in fp32 in any order)", Kind::kExact},
    {"bit-exact unless a value sits within 1e-6 of a bin edge", Kind::kExact},
    {"bit-exact (any NaN code where NaN)", Kind::kExactNan},
    {"bit-exact (any NaN code at NaN inputs)", Kind::kExactNan},
    {"any NaN code; sign not significant (torch keeps the sign)",
     Kind::kExactNan},
    {"bit-exact if computed as rn(rn(1/amax)*fp8_max)/2^margin; otherwise rtol "
     "5e-7 against true division",
     Kind::kClose, 5e-7},
    {"adjacent code allowed", Kind::kAdjacent},
    {"bit-exact up to the activation function: allow 1 adjacent code / scale "
     "+-1 on <0.1% of entries",
     Kind::kAdjacent, 0, 0.001},
};

// Codes of an array, or its float32 largest magnitude.
constexpr Wording kCodesOrAmax[] = {
    {"codes: adjacent code allowed; amax rtol 5e-6", Kind::kAdjacent, 5e-6},
    {"codes: adjacent code allowed where the fp32 activation differs in the "
     "last bits; amax rtol 5e-6",
     Kind::kAdjacent, 5e-6},
};

Expectation from_text(const std::string& text, DType stored) {
  Expectation e;
  for (const Wording& w : kWordings)
    if (w.text == text) e.kind = w.kind, e.rtol = w.rtol, e.share = w.share;
  for (const Wording& w : kCodesOrAmax)
    if (w.text == text) {
      e.kind = stored == DType::kF32 ? Kind::kClose : w.kind;
      e.rtol = w.rtol;
    }
  constexpr std::string_view kOf = " rounding of ";
  const auto of = text.find(kOf);
  if (of == std::string::npos) return e;
  if (const auto dtype = parse_dtype(text.substr(0, of))) {
    e.kind = Kind::kRounding;
    e.dtype = *dtype;
    e.of = text.substr(of + kOf.size());
  }
  return e;
}

bool is_tolerance(double v) { return std::isfinite(v) && v >= 0; }

// "2e-06 * absdot (elementwise), plus rounding of the output dtype"
void from_absdot(const std::string& text, Expectation& e) {
  std::size_t end = 0;
  try {
    e.factor = std::stod(text, &end);
  } catch (const std::exception&) {
    return;  // no number
  }
  const std::string rest = text.substr(end);
  if (rest != " * absdot" && rest != " * absdot (elementwise)" &&
      rest != " * absdot (elementwise), plus rounding of the output dtype")
    return;
  if (is_tolerance(e.factor)) e.kind = Kind::kAbsDot;
}

void from_object(const nlohmann::json& object, Expectation& e) {
  if (object.size() == 1 && object.contains("abs tolerance")) {
    const auto& value = object.at("abs tolerance");
    if (value.is_string()) from_absdot(value.get<std::string>(), e);
    return;
  }
  for (const auto& [name, value] : object.items()) {
    if ((name != "rtol" && name != "atol") || !value.is_number()) return;
    (name == "rtol" ? e.rtol : e.atol) = value.get<double>();
  }
  if (!object.empty() && is_tolerance(e.rtol) && is_tolerance(e.atol))
    e.kind = Kind::kClose;
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

// The rounding of our own output (unit roundoff), which the reference in a
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
  return std::isfinite(slack) &&
         std::fabs(a - b) <= slack + own_rounding(p.ours.dtype(), p.dtype, b);
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
  const auto json = nlohmann::json::parse(text, nullptr, false);
  Expectation e;
  if (json.is_string())
    e = from_text(json.get<std::string>(), stored);
  else if (json.is_object())
    from_object(json, e);
  e.wording = text;
  return e;
}

std::string compare(const Expectation& e, const Tensor& ours,
                    const Tensor& reference, const Tensor* other) {
  if (e.kind == Kind::kUnknown)
    return "\"expect\" is " + e.wording + ", which is no known wording";
  const Pair p = pair_up(ours, reference);
  std::string problem = shape_problem(p);
  if (!problem.empty()) return problem;
  if (!comparable(ours.dtype(), p.dtype, e.kind, problem)) return problem;
  if (e.kind == Kind::kRounding && ours.dtype() != e.dtype)
    return "dtype " + std::string(traits(ours.dtype()).name);
  if (other != nullptr && other->numel() != p.n)
    return "its other array has shape " + to_string(other->shape());
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
