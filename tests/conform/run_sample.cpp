#include "tests/conform/run_sample.h"

#include <cmath>
#include <limits>

namespace assay::conform {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

Case subject(std::string module, std::string id, Parameters parameters) {
  Case c;
  c.module = std::move(module);
  c.id = std::move(id);
  c.parameters = std::move(parameters);
  c.seed = 0xfedcba9876543210;  // beyond 63 bits
  return c;
}

Check elements(std::string name, double norm_l2, double ulp,
               Verdict verdict = Verdict::kMatch) {
  Check check;
  check.name = std::move(name);
  check.verdict = verdict;
  check.standard = "assay";
  check.max_abs = norm_l2 * 2;
  check.max_rel = norm_l2 * 4;
  check.norm_l2 = norm_l2;
  check.ulp_max = ulp;
  check.index = 17;
  if (verdict != Verdict::kMatch) {
    check.criterion = "alpha";
    check.text = "|alpha - 1| 4.1e-03 over 2.4e-04";
  }
  return check;
}

Check contract(std::string name, Verdict verdict, std::string text) {
  Check check;
  check.name = "contract." + std::move(name);
  check.verdict = verdict;
  check.max_abs = check.max_rel = check.norm_l2 = check.ulp_max = kNaN;
  if (verdict == Verdict::kMismatch) check.criterion = "contract";
  check.text = std::move(text);
  return check;
}

CaseResult compared(Case c, std::vector<Check> checks) {
  CaseResult result;
  result.subject = std::move(c);
  result.ending = Ending::kCompared;
  result.verdict = Verdict::kMatch;
  result.checks = std::move(checks);
  for (const Check& check : result.checks)
    if (check.verdict == Verdict::kMismatch)
      result.verdict = Verdict::kMismatch;
  result.golden_seconds = 0.25;
  result.seconds = 0.125;
  result.golden_peak_bytes = 300'000'000;
  result.peak_bytes = 200'000'000;
  return result;
}

CaseResult ended(Case c, Ending ending, Verdict verdict, std::string message) {
  CaseResult result;
  result.subject = std::move(c);
  result.ending = ending;
  result.verdict = verdict;
  result.message = std::move(message);
  return result;
}

ModuleResult gelu_module() {
  ModuleResult module;
  module.module = "gelu";
  module.api = {"transformer_engine.pytorch.ops.GELU"};
  module.cases.push_back(
      compared(subject("gelu", "small-00112233", {{"dtype", "float32"}}),
               {elements("y", 1.5e-8, 1), elements("grad.x", 2.5e-8, 1)}));
  module.cases.push_back(
      compared(subject("gelu", "small-44556677", {{"dtype", "bfloat16"}}),
               {elements("y", 1.7e-3, 1), elements("grad.x", 0, 0)}));
  return module;
}

ModuleResult linear_module() {
  ModuleResult module;
  module.module = "linear";
  module.api = {"transformer_engine.pytorch.Linear",
                "transformer_engine.pytorch.ops.Linear"};
  const auto c = [](const char* id, const char* recipe, bool bias) {
    return subject("linear", id,
                   {{"bias", bias},
                    {"dtype", "bfloat16"},
                    {"recipe", recipe},
                    {"shape", List{128, 256}}});
  };
  auto& cases = module.cases;
  cases.push_back(
      compared(c("small-0a1b2c3d", "none", true),
               {elements("y", 9.1e-4, 1), elements("grad.weight", 1.1e-3, 2),
                contract("defaults.eps", Verdict::kMatch, "")}));
  cases.push_back(compared(c("small-3f09a1c2", "mxfp8", true),
                           {elements("y", 4.1e-3, 12, Verdict::kMismatch),
                            contract("y.dtype", Verdict::kMismatch,
                                     "golden \"bfloat16\", target \"float32\""),
                            elements("grad.weight", 1.2e-3, 2)}));
  cases.back().slower = 1.8;
  cases.push_back(ended(c("small-77e0d4aa", "delayed", false), Ending::kCrashed,
                        Verdict::kIncomplete,
                        "the worker was ended by signal 11 (SIGSEGV)"));
  cases.back().log = "run/logs/linear-small-77e0d4aa.log";
  cases.push_back(ended(c("small-9d20beef", "nvfp4", true), Ending::kStale,
                        Verdict::kIncomplete,
                        "the golden is of spec 41c2, this one is 9ab0"));
  cases.push_back(ended(c("small-invalid-odd-width", "mxfp8", false),
                        Ending::kRefused, Verdict::kMismatch,
                        "the target computed what every implementation has "
                        "to refuse"));
  cases.back().subject.invalid = true;
  return module;
}

ModuleResult hostile_module() {
  ModuleResult module;
  module.module = kHostile;
  module.tier = Tier::kReal;
  module.api = {kHostile};
  CaseResult bad = compared(subject(kHostile, std::string("small-") + kHostile,
                                    {{kHostile, kHostile}}),
                            {elements(kHostile, 1, 1e9, Verdict::kMismatch)});
  bad.checks[0].text = kHostile;
  bad.checks[0].norm_l2 = std::numeric_limits<double>::infinity();
  bad.log = kHostile;
  module.cases.push_back(std::move(bad));
  return module;
}

}  // namespace

RunResult run_sample() {
  RunResult run;
  run.golden = {"torch", "2.13.0", "cpu", {{"threads", 2}}};
  run.target = {"assay-cpu", "0.1.0", "cpu", {{"isa", "avx512"}}};
  run.store = "goldens";
  run.command = "assay conform run --store goldens --worker 'assay worker'";
  run.began = "2026-11-30T01:02:03Z";
  run.seconds = 12.5;
  run.modules = {gelu_module(), linear_module(), hostile_module()};
  run.warnings = {"golden and target run on other numbers of threads"};
  conclude(run);
  return run;
}

std::vector<ApiName> scanned_sample() {
  return {{"transformer_engine.pytorch.ops.GELU", 12, {"gelu"}},
          {"transformer_engine.pytorch.LayerNormMLP", 7, {"layernorm_mlp"}},
          {"transformer_engine.pytorch.module.Linear", 5, {"linear"}},
          {"transformer_engine.pytorch.Linear", 75, {"linear"}},
          {"transformer_engine.pytorch.ops.Linear", 0, {}},
          {kHostile, 1, {kHostile}},
          {"transformer_engine.common.recipe.Format", 20, {"manifest 2.20"}}};
}

RunResult large_run(int count) {
  RunResult run = run_sample();
  run.modules.clear();
  for (int i = 0; i < count; ++i) {
    if (i % 500 == 0) {
      run.modules.emplace_back();
      run.modules.back().module = "module" + std::to_string(i / 500);
    }
    ModuleResult& module = run.modules.back();
    const Verdict verdict = i % 7 == 6 ? Verdict::kMismatch : Verdict::kMatch;
    module.cases.push_back(compared(
        subject(module.module, "small-" + std::to_string(i),
                {{"bias", i % 2 == 0}, {"dtype", "bfloat16"}, {"hidden", i}}),
        {elements("y", 1e-6 * i, i % 9, verdict), elements("grad.x", 1e-4, 1),
         elements("grad.weight", 1e-4, 1)}));
  }
  conclude(run);
  return run;
}

}  // namespace assay::conform
