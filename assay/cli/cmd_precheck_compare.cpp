// `assay precheck compare`: a device against a reference device, both judged
// against a golden before.
#include <fmt/format.h>

#include <chrono>
#include <utility>

#include "assay/base/error.h"
#include "assay/base/parallel.h"
#include "assay/base/text.h"
#include "assay/cli/commands.h"
#include "assay/cli/comparison_reports.h"
#include "assay/cli/exit_code.h"
#include "assay/compare/compare.h"
#include "assay/precheck/detail/csv.h"
#include "assay/precheck/ratio/compare.h"
#include "assay/precheck/ratio/csv.h"

namespace assay {
namespace {

using precheck::RatioLevel;

class PrecheckCompareCommand : public Command {
 public:
  std::string name() const override { return "compare"; }
  std::string summary() const override {
    return "hold a device's errors to those of a reference device";
  }
  std::string examples() const override {
    return "  assay precheck compare npu gpu\n"
           "  assay precheck compare npu/accuracy_checking_details_1.csv "
           "gpu/accuracy_checking_details_2.csv --html report.html\n"
           "  assay precheck compare npu gpu --level L2 --details details.csv "
           "--result result.csv\n";
  }

  void declare(Args& args) override {
    args.positional("DEVICE",
                    "details of the device under test (msprobe: -npu): a "
                    "result folder of precheck run, or a details csv, "
                    "msprobe's too",
                    &device_);
    args.positional("REFERENCE",
                    "details of the device that it is held to (msprobe: -gpu)",
                    &reference_);
    args.option("--level", "LEVEL",
                "L0, L1 or L2: how strict, instead of each API's own level",
                &level_);
    args.option("--profile", "NAME",
                "msprobe-26: the rules of its code (default); published: "
                "those of its documents, by lists of APIs",
                &profile_);
    args.option("--details", "FILE",
                "write msprobe's csv of api_precision_compare_details",
                &details_, Completes::kPath);
    args.option("--result", "FILE",
                "write msprobe's csv of api_precision_compare_result", &result_,
                Completes::kPath);
    reports_.declare(args);
  }

  int run() override {
    const precheck::RatioOptions options = ratio_options();
    reports_.check({precheck::details_csv_path(device_).string(),
                    precheck::details_csv_path(reference_).string()},
                   {{"--details", details_}, {"--result", result_}});
    precheck::RatioResult result = compare(options);
    reports_.write(result.comparison);
    if (!details_.empty()) precheck::write_ratio_details(details_, result);
    if (!result_.empty()) precheck::write_ratio_result(result_, result);
    const int code = exit_code(result.comparison.verdict);
    discard(std::move(result.comparison));
    return code;
  }

 private:
  precheck::RatioOptions ratio_options() const {
    precheck::RatioOptions options;
    if (!profile_.empty()) options.profile = &precheck::ratio_profile(profile_);
    if (level_.empty()) return options;
    for (const RatioLevel level :
         {RatioLevel::kL0, RatioLevel::kL1, RatioLevel::kL2})
      if (iequals(level_, precheck::level_name(level))) options.level = level;
    if (!options.level)
      throw Error(Code::kUsage, fmt::format("--level: '{}', expected L0, L1 or "
                                            "L2",
                                            printable(level_)));
    return options;
  }

  precheck::RatioResult compare(const precheck::RatioOptions& options) const {
    const auto began = std::chrono::steady_clock::now();
    std::vector<precheck::Detail> device, reference;
    parallel_for(2, [&](std::int64_t side) {
      (side == 0 ? device : reference) =
          precheck::read_details_csv(side == 0 ? device_ : reference_);
    });
    precheck::RatioResult result =
        precheck::compare_devices(device, reference, options);
    Comparison& comparison = result.comparison;
    comparison.target_path = device_;
    comparison.subject = Subject::kDevices;
    comparison.golden_path = reference_;
    comparison.command = "assay precheck compare " + device_ + " " + reference_;
    comparison.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - began)
            .count();
    std::error_code ignored;
    if (std::filesystem::equivalent(device_, reference_, ignored))
      comparison.warnings.emplace_back(
          "device and reference are the same path");
    return result;
  }

  std::string device_, reference_, level_, profile_, details_, result_;
  ComparisonReports reports_;
};

}  // namespace

std::unique_ptr<Command> make_precheck_compare_command() {
  return std::make_unique<PrecheckCompareCommand>();
}

}  // namespace assay
