#include "assay/precheck/ratio/facts.h"

#include <fmt/format.h>

#include "assay/precheck/ratio/api.h"

namespace assay::precheck {
namespace {

// "(0, 4)": a dimension that is nothing.
bool is_empty_shape(std::string_view shape) {
  for (std::size_t at = 0; (at = shape.find('0', at)) != shape.npos; ++at) {
    const bool starts = at == 0 || shape[at - 1] == '(' || shape[at - 1] == ' ';
    const bool ends =
        at + 1 == shape.size() || shape[at + 1] == ',' || shape[at + 1] == ')';
    if (starts && ends) return true;
  }
  return false;
}

}  // namespace

std::string said_of(const Detail& detail) {
  return detail.message.empty() ? "" : ": " + detail.message;
}

bool RatioFacts::judge_computed() {
  if (device_.device_dtype.empty()) {
    const bool failed = device_.status == "error";
    findings_.add(failed ? Verdict::kMismatch : Verdict::kIncomplete,
                  "not_computed",
                  "the device has nothing to compare" + said_of(device_));
    findings_.msprobe("SKIP");
    return true;
  }
  if (!has_ratio_rule(device_.device_dtype)) {
    findings_.add(Verdict::kIncomplete, "dtype",
                  "no rule of two devices is for " + device_.device_dtype);
    findings_.msprobe("SKIP");
    return true;
  }
  if (reference_.device_dtype.empty()) {
    findings_.add(
        Verdict::kIncomplete, "reference_not_computed",
        "the reference device has nothing to compare" + said_of(reference_));
    findings_.msprobe(kTakenForZero);
    return true;
  }
  return false;
}

bool RatioFacts::judge_shape() {
  const bool shapes = !device_.shape.empty() && !reference_.shape.empty();
  if (shapes && device_.shape != reference_.shape) {
    differ("shape", device_.shape, reference_.shape);
    return true;
  }
  if (device_.device_dtype != reference_.device_dtype) {
    differ("dtype", device_.device_dtype, reference_.device_dtype);
    return true;
  }
  if (!is_empty_shape(device_.shape)) return false;
  empty_ = true;
  return true;
}

void RatioFacts::differ(std::string_view what, std::string_view device,
                        std::string_view reference) {
  findings_.add(Verdict::kMismatch, what,
                fmt::format("the device's result is {}, the reference's {}",
                            device, reference));
  findings_.msprobe(
      fmt::format("does not look at the {} of the reference", what));
}

}  // namespace assay::precheck
