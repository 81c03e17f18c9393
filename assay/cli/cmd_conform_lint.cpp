// `assay conform lint` and `assay conform new`: for whoever writes specs.
#include <fmt/format.h>

#include <filesystem>

#include "assay/base/atomic_file.h"
#include "assay/base/error.h"
#include "assay/base/text.h"
#include "assay/cli/commands.h"
#include "assay/cli/exit_code.h"
#include "assay/cli/manifest_file.h"
#include "assay/conform/lint.h"
#include "assay/conform/spec_draft.h"

namespace assay {
namespace {

class ConformLintCommand : public Command {
 public:
  std::string name() const override { return "lint"; }
  std::string summary() const override {
    return "find what is odd in specs before a run does";
  }
  std::string examples() const override {
    return "  assay conform lint\n  assay conform lint --specs mine\n";
  }
  void declare(Args& args) override {
    args.option("--specs", "DIR",
                "a folder or one file instead of the shipped ones", &specs_,
                Completes::kPath);
    args.option("--manifest", "NAME",
                "the API that 'api' may name: one of specs/api, a file, or "
                "none",
                &manifest_, Completes::kPath);
    args.flag("--no-engine", "do not ask the engine's adapters", &no_engine_);
  }
  int run() override;

 private:
  std::string specs_, manifest_ = kShippedManifest;
  bool no_engine_ = false;
};

int ConformLintCommand::run() {
  conform::ApiManifest manifest;
  conform::LintOptions options;
  options.ask_engine = !no_engine_;
  if (manifest_ != "none") {
    manifest = read_manifest(manifest_);
    options.manifest = &manifest;
  }
  int specs = 0;
  const std::vector<conform::LintFinding> findings =
      conform::lint_folder(specs_, options, &specs);
  for (const conform::LintFinding& finding : findings)
    fmt::print("{}\n", conform::to_string(finding));
  fmt::print("{} {}, {} {}\n", specs, specs == 1 ? "spec" : "specs",
             findings.size(), findings.size() == 1 ? "finding" : "findings");
  return findings.empty() ? kExitMatch : kExitMismatch;
}

class ConformNewCommand : public Command {
 public:
  std::string name() const override { return "new"; }
  std::string summary() const override {
    return "draft a spec from a signature, with a '?' for each gap";
  }
  std::string examples() const override {
    return "  assay conform new transformer_engine.pytorch.moe_permute\n"
           "  assay conform new transformer_engine.pytorch.Linear -o "
           "linear.yaml\n";
  }
  void declare(Args& args) override {
    args.positional("API", "a function or class of the manifest", &api_,
                    Completes::kNothing);
    args.option("--manifest", "NAME", "one of specs/api, or a file", &manifest_,
                Completes::kPath);
    args.option("-o,--output", "FILE", "the standard output without it",
                &output_, Completes::kPath);
  }
  int run() override {
    const std::string draft =
        conform::draft_spec(read_manifest(manifest_), api_);
    if (output_.empty()) {
      fmt::print("{}", draft);
      return kExitMatch;
    }
    std::error_code ignored;
    if (std::filesystem::exists(output_, ignored))
      throw Error(Code::kUsage, output_ + ": is there already");
    AtomicFile file(output_);
    file.write(draft);
    file.commit();
    fmt::print("{}: fill the gaps ('?'), then assay conform lint --specs {}\n",
               output_, output_);
    return kExitMatch;
  }

 private:
  std::string api_, manifest_ = kShippedManifest, output_;
};

}  // namespace

std::unique_ptr<Command> make_conform_lint_command() {
  return std::make_unique<ConformLintCommand>();
}

std::unique_ptr<Command> make_conform_new_command() {
  return std::make_unique<ConformNewCommand>();
}

}  // namespace assay
