#include "assay/cli/conform_flags.h"

#include <cmath>
#include <cstdlib>
#include <utility>

#include "assay/base/error.h"
#include "assay/base/text.h"
#include "assay/compare/divergence.h"

namespace assay {
namespace {

constexpr double kMostBytes = 1e18;

// The number at the beginning of a text; `rest` is what follows.
bool leading_number(const std::string& text, double& number,
                    std::string& rest) {
  if (text.empty() || (text[0] != '.' && (text[0] < '0' || text[0] > '9')))
    return false;
  char* end = nullptr;
  number = std::strtod(text.c_str(), &end);
  rest = end;
  return std::isfinite(number);
}

}  // namespace

std::int64_t parse_bytes(const std::string& flag, const std::string& text) {
  double number = 0;
  std::string unit;
  if (leading_number(text, number, unit)) {
    constexpr std::string_view kUnits = "KMGT";
    double scale = unit.empty() ? 1 : 0;
    for (std::size_t i = 0; i < kUnits.size(); ++i)
      if (unit == std::string(1, kUnits[i]) ||
          unit == std::string(1, kUnits[i]) + "iB")
        scale = std::ldexp(1.0, 10 * (static_cast<int>(i) + 1));
    const double bytes = number * scale;
    if (bytes >= 1 && bytes < kMostBytes)
      return static_cast<std::int64_t>(bytes);
  }
  throw Error(Code::kUsage, flag + ": '" + printable(text) +
                                "', expected a size such as 512M or 4G");
}

double parse_positive(const std::string& flag, const std::string& text) {
  double number = 0;
  std::string rest;
  if (leading_number(text, number, rest) && rest.empty() && number > 0)
    return number;
  throw Error(Code::kUsage,
              flag + ": '" + printable(text) + "', expected a number above 0");
}

void ConformFlags::declare(Args& args) {
  args.list("-m,--module", "NAME", "only this module; several are allowed",
            &modules_);
  args.option("--tier", "TIER",
              "small: seconds a module; real: shapes of language models",
              &tier_);
  args.list("--only", "CASE", "only this case, as MODULE/ID or ID", &only_);
  args.option("--specs", "DIR", "specs of your own instead of the shipped ones",
              &specs_, Completes::kPath);
  args.number("-j,--workers", "N",
              "workers at once; half of the cores without it", &workers_, 1);
  args.option("--timeout", "SECONDS", "that a case may take (300)", &timeout_);
  args.option("--memory-limit", "SIZE",
              "resident memory that a worker may take, such as 8G", &memory_);
  args.flag("--resume", "keep what an earlier run has finished", &resume_);
  args.flag("-q,--quiet", "print one line", &quiet_);
}

conform::RunOptions ConformFlags::options(const std::atomic<bool>* stop) const {
  conform::RunOptions options;
  options.specs = conform::select_specs(conform::load_specs(specs_), modules_);
  options.tier = conform::parse_tier(tier_);
  options.only = only_;
  options.workers = workers_;
  options.limits.seconds = parse_positive("--timeout", timeout_);
  if (!memory_.empty())
    options.limits.memory_bytes = parse_bytes("--memory-limit", memory_);
  options.resume = resume_;
  options.stop = stop;
  return options;
}

conform::RunOptions showing(Progress& progress, conform::RunOptions options) {
  options.progress = [&progress](std::int64_t done, std::int64_t total) {
    progress.update(done, total, 0);
  };
  return options;
}

std::string ConformFlags::selection() const {
  std::string text;
  const auto add = [&](const char* flag, const std::string& value) {
    text += std::string(" ") + flag + " " + shell_quote(value);
  };
  if (!specs_.empty()) add("--specs", specs_);
  if (tier_ != "small") add("--tier", tier_);
  return text;
}

}  // namespace assay
