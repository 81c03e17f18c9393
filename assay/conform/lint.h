// Reads a spec as an implementation of it would, and says what is odd: the
// slips that otherwise end a conformance run, or weaken it without a word.
#pragma once

#include <string>
#include <vector>

#include "assay/conform/api/manifest.h"
#include "assay/conform/spec.h"

namespace assay::conform {

enum class Severity : std::uint8_t {
  kError,    // a case would fail, or is not what the spec says
  kWarning,  // it would run, and test less than it seems to
};

struct LintFinding {
  std::string path;
  int line = 1;
  Severity severity = Severity::kError;
  std::string text;  // one sentence
  bool operator==(const LintFinding&) const = default;
};

// "specs/linear.yaml:12: error: ...".
std::string to_string(const LintFinding& finding);

struct LintOptions {
  // What `api` may name; null: not looked at.
  const ApiManifest* manifest = nullptr;
  // Asks the engine's adapter, where it has one: whether outputs, contract and
  // parameters are what the spec says. Runs a few small cases of one rank.
  bool ask_engine = true;
};

// By line. Throws nothing that the spec is to blame for.
std::vector<LintFinding> lint(const Spec& spec, const LintOptions& options);

// Every *.yaml of a folder, or one file, or ("") the shipped ones; a file that
// is no spec is a finding, and others are still looked at. `specs`: how many
// there are. Throws Error where there is no such folder.
std::vector<LintFinding> lint_folder(const std::string& folder,
                                     const LintOptions& options, int* specs);

}  // namespace assay::conform
