#include "assay/conform/values.h"

#include <fmt/format.h>

#include <algorithm>

#include "assay/base/error.h"
#include "assay/base/text.h"
#include "assay/numerics/element.h"
#include "assay/numerics/rounding.h"

namespace assay::conform {
namespace {

const ValueKind kKinds[] = {
    {"arange", false, {"start", "step"}, draw_arange},
    {"codes", false, {"finite", "of"}, draw_codes},
    {"constant", false, {"value"}, draw_constant},
    {"cu_seqlens",
     false,
     {"total", "parts", "multiple", "empty"},
     draw_cu_seqlens},
    {"integers", false, {"low", "high"}, draw_integers},
    {"labels", false, {"classes", "ignore_share", "ignore_index"}, draw_labels},
    {"mask", false, {"share"}, draw_mask},
    {"near_zero", true, {}, draw_near_zero},
    {"normal", true, {"scale", "mean"}, draw_normal},
    {"one_hot", false, {}, draw_one_hot},
    {"ones", false, {}, draw_ones},
    {"permutation", false, {}, draw_permutation},
    {"positive", true, {"scale"}, draw_positive},
    {"probabilities", true, {}, draw_probabilities},
    {"routing", false, {"experts", "topk"}, draw_routing},
    {"sorted", false, {"low", "high", "scale", "mean"}, draw_sorted},
    {"special", true, {"scale", "mean", "each"}, draw_special},
    {"splits", false, {"total", "parts", "multiple", "empty"}, draw_splits},
    {"uniform", true, {"low", "high"}, draw_uniform},
    {"wide", true, {"low", "high"}, draw_wide},
    {"zeros", false, {}, draw_zeros},
};

const Value& option(const Draw& draw, const std::string& name) {
  const auto found = draw.options.find(name);
  if (found == draw.options.end())
    draw.fail(fmt::format("option '{}' is missing", name));
  return found->second;
}

[[noreturn]] void wrong(const Draw& draw, const std::string& name,
                        const char* wanted) {
  draw.fail(fmt::format("option '{}': {}, expected {}", name,
                        printable(to_json(option(draw, name))), wanted));
}

}  // namespace

std::span<const ValueKind> value_kinds() { return kKinds; }

const ValueKind* find_value_kind(std::string_view name) {
  for (const ValueKind& kind : kKinds)
    if (kind.name == name) return &kind;
  return nullptr;
}

void Draw::fail(const std::string& what) const {
  throw Error(Code::kUsage, fmt::format("{}: {}", where, what));
}

std::int64_t Draw::integer(const std::string& name) const {
  const Value& value = option(*this, name);
  if (!value.is_integer()) wrong(*this, name, "an integer");
  return value.integer();
}

double Draw::number(const std::string& name) const {
  const Value& value = option(*this, name);
  if (!value.is_number()) wrong(*this, name, "a number");
  return value.number();
}

std::int64_t Draw::integer(const std::string& name, std::int64_t absent) const {
  return options.count(name) ? integer(name) : absent;
}

double Draw::number(const std::string& name, double absent) const {
  return options.count(name) ? number(name) : absent;
}

bool Draw::flag(const std::string& name, bool absent) const {
  if (!options.count(name)) return absent;
  const Value& value = option(*this, name);
  if (!value.is_bool()) wrong(*this, name, "true or false");
  return value.boolean();
}

std::int64_t Draw::columns() const { return shape.empty() ? 1 : shape.back(); }

void Draw::put(std::int64_t index, std::int64_t value) const {
  if (!is_exact(dtype)) {
    store_from_double(dtype, static_cast<double>(value), data, index);
    return;
  }
  const auto as_double = static_cast<double>(value);
  const bool fits =
      traits(dtype).bits == 64
          ? value >= 0 || traits(dtype).is_signed
          : as_double >= int_min(dtype) && as_double <= int_max(dtype);
  if (!fits) fail(fmt::format("{} is no {}", value, traits(dtype).name));
  store_code(dtype, static_cast<std::uint64_t>(value), data, index);
}

}  // namespace assay::conform
