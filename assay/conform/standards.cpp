#include "assay/conform/standards.h"

#include <fmt/format.h>

#include <map>
#include <mutex>
#include <string_view>

#include "assay/base/error.h"
#include "assay/base/text.h"
#include "assay/metrics/standard_text.h"

namespace assay::conform {
namespace {

using StandardPtr = std::shared_ptr<const Standard>;

// The words of the Ascend documents and of torch, and ours for the same.
constexpr std::pair<std::string_view, std::string_view> kAliases[] = {
    {"mare", "ascend-mere-mare"},
    {"mixed_tolerance", "ascend-mixed-2026"},
    {"allclose", "torch-assert-close"},
};

StandardPtr load(const std::string& text, const std::string& path) {
  if (text.find_first_of(":\n{") != std::string::npos)
    return parse_standard(text, path + ": standard");
  for (const auto& [alias, name] : kAliases)
    if (alias == text) return Standard::load(std::string(name));
  // A path would name a file of whoever runs the spec.
  if (text.find('/') != std::string::npos)
    throw Error(Code::kUsage,
                fmt::format("{}: standard: '{}', expected a name or YAML", path,
                            printable(text)));
  try {
    return Standard::load(text);
  } catch (const Error& error) {
    throw Error(error.code(), fmt::format("{}: {}", path, error.what()));
  }
}

}  // namespace

StandardPtr load_standard(const std::string& text, const std::string& path) {
  static std::mutex mutex;
  static std::map<std::string, StandardPtr> loaded;
  const std::lock_guard lock(mutex);
  StandardPtr& standard = loaded[text];
  if (!standard) standard = load(text, path);
  return standard;
}

std::string standard_of(const Spec& spec, const Parameters& parameters,
                        const Output& output) {
  if (!output.standard.empty()) return output.standard;
  for (const StandardRule& rule : spec.standard)
    if (!rule.when || rule.when->holds(parameters)) return rule.standard;
  return "assay";
}

OpClass op_class_of(const Spec& spec, const Output& output) {
  constexpr std::pair<std::string_view, OpClass> kClasses[] = {
      {"", OpClass::kUnknown},
      {"gemm", OpClass::kGemm},
      {"reduction", OpClass::kReduction},
      {"elementwise", OpClass::kElementwise},
      {"movement", OpClass::kMovement},
  };
  for (const auto& [name, op] : kClasses)
    if (name == output.op_class) return op;
  throw Error(Code::kUsage,
              fmt::format("{}: output {}: class '{}', expected gemm, "
                          "reduction, elementwise or movement",
                          spec.path, output.name, printable(output.op_class)));
}

}  // namespace assay::conform
