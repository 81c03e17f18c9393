// What the rules of lint share.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "assay/conform/cases.h"
#include "assay/conform/lint.h"

namespace assay::conform {

// One spec under lint, and what was found so far.
struct Linting {
  const Spec& spec;
  const LintOptions& options;
  std::vector<Case> small, real;  // invalid ones too
  std::vector<LintFinding> findings;

  // `key`: of Spec::lines.
  void error(const std::string& key, std::string text);
  void warn(const std::string& key, std::string text);
  // The first case of either tier for which `wrong` gives a reason, if any.
  std::string first_wrong(
      const std::function<std::string(const Case&)>& wrong) const;

 private:
  void add(Severity severity, const std::string& key, std::string text);
};

// An Error of a spec without the place that it begins with.
std::string without_place(const std::string& message);

void lint_api(Linting& lint);         // paths that the manifest lacks
void lint_names(Linting& lint);       // names that are taken for types
void lint_parameters(Linting& lint);  // values that no case has, nesterov
void lint_inputs(Linting& lint);      // what cannot be drawn
void lint_outputs(Linting& lint);     // what is never there, sizes, standards
void lint_contract(Linting& lint);    // fields that depend on data by name
void lint_invalid(Linting& lint);     // cases that are allowed, or not drawn
void lint_engine(Linting& lint);      // what the engine's adapter says

}  // namespace assay::conform
