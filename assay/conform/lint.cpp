#include "assay/conform/lint.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <tuple>
#include <utility>

#include "assay/base/error.h"
#include "assay/base/text.h"
#include "assay/conform/lint_rules.h"

namespace assay::conform {
namespace {

// "specs/x.yaml:12: what" -> 12 and "what"; 1 and all of it where there is no
// place.
std::pair<int, std::string> placed(const std::string& message,
                                   const std::string& path) {
  std::string rest = message;
  if (rest.rfind(path + ":", 0) != 0) return {1, rest};
  rest.erase(0, path.size() + 1);
  int line = 0;
  std::size_t digits = 0;
  while (digits < rest.size() && digits < 7 &&
         std::isdigit(static_cast<unsigned char>(rest[digits])))
    line = line * 10 + (rest[digits++] - '0');
  if (digits > 0 && digits < rest.size() && rest[digits] == ':')
    rest.erase(0, digits + 1);
  return {std::max(line, 1), std::string(trim(rest))};
}

LintFinding finding_of(const Error& error, const std::string& path) {
  auto [line, text] = placed(error.what(), path);
  return {path, line, Severity::kError, std::move(text)};
}

void run_rules(Linting& lint) {
  lint_api(lint);
  lint_names(lint);
  lint_parameters(lint);
  lint_inputs(lint);
  lint_outputs(lint);
  lint_contract(lint);
  lint_invalid(lint);
  // Only a spec that is sound is worth the adapter's time.
  if (lint.options.ask_engine && lint.findings.empty()) lint_engine(lint);
}

}  // namespace

std::string without_place(const std::string& message) {
  const std::size_t at = message.find(".yaml:");
  if (at == std::string::npos) return message;
  return placed(message, message.substr(0, at + 5)).second;
}

std::string to_string(const LintFinding& finding) {
  return fmt::format("{}:{}: {}: {}", finding.path, finding.line,
                     finding.severity == Severity::kError ? "error" : "warning",
                     finding.text);
}

void Linting::add(Severity severity, const std::string& key, std::string text) {
  const auto found = spec.lines.find(key);
  LintFinding finding{spec.path, found == spec.lines.end() ? 1 : found->second,
                      severity, std::move(text)};
  if (!std::count(findings.begin(), findings.end(), finding))
    findings.push_back(std::move(finding));
}

void Linting::error(const std::string& key, std::string text) {
  add(Severity::kError, key, std::move(text));
}
void Linting::warn(const std::string& key, std::string text) {
  add(Severity::kWarning, key, std::move(text));
}

std::string Linting::first_wrong(
    const std::function<std::string(const Case&)>& wrong) const {
  for (const std::vector<Case>* cases : {&small, &real})
    for (const Case& c : *cases) {
      const std::string reason = wrong(c);
      if (!reason.empty()) return fmt::format("case {}: {}", c.id, reason);
    }
  return "";
}

std::vector<LintFinding> lint(const Spec& spec, const LintOptions& options) {
  Linting linting{spec, options, {}, {}, {}};
  try {
    linting.small = make_cases(spec, Tier::kSmall);
    linting.real = make_cases(spec, Tier::kReal);
    run_rules(linting);
  } catch (const Error& error) {
    linting.findings.push_back(finding_of(error, spec.path));
  }
  std::stable_sort(linting.findings.begin(), linting.findings.end(),
                   [](const LintFinding& a, const LintFinding& b) {
                     return a.line < b.line;
                   });
  return std::move(linting.findings);
}

std::vector<LintFinding> lint_folder(const std::string& folder,
                                     const LintOptions& options, int* specs) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  std::vector<std::string> sources;
  if (fs::is_directory(folder, ignored)) {
    for (const fs::directory_entry& entry : fs::directory_iterator(folder))
      if (entry.path().extension() == ".yaml")
        sources.push_back(entry.path().string());
    std::sort(sources.begin(), sources.end());
    if (sources.empty())
      throw Error(Code::kUsage, folder + ": no spec (*.yaml)");
  } else {
    if (!folder.empty() && !fs::is_regular_file(folder, ignored))
      throw Error(Code::kUnreadable, folder + ": no such file or folder");
    sources.push_back(folder);
  }
  std::vector<LintFinding> findings;
  *specs = 0;
  for (const std::string& source : sources) {
    try {
      for (const Spec& spec : load_specs(source)) {
        const std::vector<LintFinding> found = lint(spec, options);
        findings.insert(findings.end(), found.begin(), found.end());
        ++*specs;
      }
    } catch (const Error& error) {
      findings.push_back(finding_of(error, source));
      ++*specs;
    }
  }
  return findings;
}

}  // namespace assay::conform
