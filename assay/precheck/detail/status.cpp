// The verdict that msprobe's pre-check has on one output's figures.
#include <algorithm>
#include <array>
#include <cmath>

#include "assay/core/dtype.h"
#include "assay/precheck/detail/detail.h"
#include "assay/precheck/detail/row_name.h"

namespace assay::precheck {
namespace {

constexpr double kCosine = 0.99;
constexpr double kMaxAbs = 0.001;
constexpr double kFloat8UlpShare = 0.001;

// Integer outputs of quantising operators may be one off: msprobe's config,
// quantization_api_list.
constexpr std::array<std::string_view, 3> kQuantising = {
    "npu_dynamic_quant", "npu_quant_lightning_indexer",
    "npu_rms_norm_dynamic_quant"};

class Judge {
 public:
  explicit Judge(Detail& detail) : detail_(detail) {}

  void run() {
    detail_.message.clear();
    const auto golden = parse_dtype(detail_.bench_dtype);
    const auto device = parse_dtype(detail_.device_dtype);
    if (detail_.elements == 0) return set("SKIP", "the output is empty");
    if (golden && device && is_exact(*golden) && is_exact(*device))
      return judge_integers();
    if (golden && device && is_float(*golden) && is_float(*device))
      return judge_floats(*device);
    set("error", detail_.bench_dtype + " and " + detail_.device_dtype +
                     " are not comparable");
  }

 private:
  void set(std::string_view status, const std::string& why) {
    detail_.status = status;
    if (!detail_.message.empty() && !why.empty()) detail_.message += "; ";
    detail_.message += why;
  }

  void judge_integers() {
    if (is_quantising(detail_.name)) {
      const bool near = detail_.max_abs.value_or(HUGE_VAL) <= 1;
      return set(near ? "pass" : "error",
                 near ? "a quantised output, at most 1 off"
                      : "a quantised output, more than 1 off");
    }
    const bool equal = detail_.binary_error_rate.value_or(1) == 0;
    set(equal ? "pass" : "error",
        equal ? "every element is equal" : "elements differ");
  }

  void judge_floats(DType device) {
    if (device == DType::kF64)
      detail_.message = "no standard of two devices for float64";
    if (!cosine_passes()) return;
    if (detail_.max_abs.value_or(NAN) < kMaxAbs)
      return set("pass", "max abs error below 0.001");
    if (traits(device).bits <= 8) return judge_float8();
    if (device == DType::kF16 || device == DType::kBF16)
      return judge_shares("1 %", detail_.hundredth, 0.01, "0.1 %",
                          detail_.thousandth, 0.001);
    judge_shares("0.1 %", detail_.thousandth, 0.001, "0.01 %",
                 detail_.ten_thousandth, 0.0001);
  }

  // False: it decided.
  bool cosine_passes() {
    if (!detail_.cosine) return no_cosine();
    if (std::isnan(*detail_.cosine)) {
      set("", "the cosine is NaN");
      return true;
    }
    if (*detail_.cosine > kCosine) return true;
    set("error", "cosine not above 0.99");
    return false;
  }
  bool no_cosine() {
    if (detail_.elements == 1) {
      set("", "a single element has no cosine");
      return true;
    }
    if (detail_.golden_is_zero && detail_.device_is_zero) {
      set("", "both sides are zero");
      return true;
    }
    set("error", detail_.device_is_zero ? "the device's result is all zero"
                                        : "the golden is all zero");
    return false;
  }

  // More than 1 - bound of the elements within `bound`: otherwise it is an
  // error for the coarse one, a warning for the fine one.
  void judge_shares(const char* coarse_name, std::optional<double> coarse,
                    double coarse_bound, const char* fine_name,
                    std::optional<double> fine, double fine_bound) {
    const auto misses = [&](const char* bound) {
      return std::string("too few elements within ") + bound;
    };
    if (!(coarse.value_or(0) > 1 - coarse_bound))
      return set("error", misses(coarse_name));
    if (!(fine.value_or(0) > 1 - fine_bound))
      return set("warning", misses(fine_name));
    set("pass", std::string("relative errors below ") + fine_name);
  }

  void judge_float8() {
    const bool near = detail_.ulp_over_threshold.value_or(1) < kFloat8UlpShare;
    set(near ? "pass" : "error",
        near ? "within one ULP" : "too many elements over one ULP off");
  }

  Detail& detail_;
};

}  // namespace

bool is_quantising(std::string_view row_name) {
  const std::optional<RowName> row = parse_row_name(row_name);
  return row && std::find(kQuantising.begin(), kQuantising.end(), row->api) !=
                    kQuantising.end();
}

void judge_detail(Detail& detail) { Judge(detail).run(); }

}  // namespace assay::precheck
