// `assay api`: what a code base uses of a package, what a package declares,
// and whether it keeps the contract of another one.
#include <fmt/format.h>

#include <cstdio>
#include <fstream>
#include <sstream>

#include "assay/base/atomic_file.h"
#include "assay/base/error.h"
#include "assay/base/text.h"
#include "assay/cli/commands.h"
#include "assay/cli/exit_code.h"
#include "assay/cli/manifest_file.h"
#include "assay/cli/report_paths.h"
#include "assay/conform/api/contract_report.h"
#include "assay/conform/api/inventory_text.h"
#include "assay/conform/api/python_call.h"
#include "assay/conform/report/run_fields.h"
#include "assay/conform/spec.h"

namespace assay {
namespace {

using conform::ApiManifest;
using conform::Value;

std::string read_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (!file || !(text << file.rdbuf())) {
    throw Error(Code::kUnreadable, path.string() + ": cannot be read");
  }
  return text.str();
}

void write_text(const std::string& path, const std::string& text) {
  if (path == "-") {
    std::fputs(text.c_str(), stdout);
    return;
  }
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

std::string described(const ApiManifest& manifest) {
  return manifest.package +
         (manifest.version.empty() ? "" : " " + manifest.version);
}

class ScanVerb : public Command {
 public:
  std::string name() const override { return "scan"; }
  std::string summary() const override {
    return "list every use of an API in Python sources, and what guards it";
  }
  std::string examples() const override {
    return "  assay api scan examples/api/user --table\n"
           "  assay api scan Megatron-LM/megatron --json uses.json\n";
  }
  void declare(Args& args) override {
    args.positionals("SRC", "folders or files of Python sources", &sources_);
    args.list("--root", "NAME",
              "packages whose uses count (transformer_engine and "
              "transformer_engine_torch)",
              &roots_);
    args.list("--without", "KIND", "leave out uses of this kind", &without_);
    args.option("--manifest", "FILE",
                "the manifest that should know every API (nvte-2.20; none "
                "with --root)",
                &manifest_, Completes::kPath);
    args.option("--classes", "FILE",
                "rules that classify APIs (specs/api/classes.yaml)", &classes_,
                Completes::kPath);
    args.option("--specs", "DIR", "conformance modules (the shipped ones)",
                &specs_, Completes::kPath);
    args.option("--json", "FILE", "write JSON, - for the standard output",
                &json_, Completes::kPath);
    args.flag("--table", "one line for each API", &table_);
    args.flag("--by-file", "the APIs of each file", &by_file_);
  }
  int run() override {
    check_report_paths({{"--json", json_}}, sources_);
    const Value scan = conform::call_python_api(arguments());
    const conform::Inventory inventory =
        conform::make_inventory(scan, rules(), manifest(), guards());
    if (!json_.empty()) {
      write_text(json_, to_json(conform::annotated(scan, inventory)) + "\n");
    }
    if (json_ != "-") print(inventory);
    return inventory.is_complete() ? kExitMatch : kExitIncomplete;
  }

 private:
  std::vector<std::string> arguments() const {
    std::vector<std::string> all = {"scan"};
    for (const std::string& root : roots_) all.push_back("--root=" + root);
    for (const std::string& kind : without_) {
      all.push_back("--without=" + kind);
    }
    all.push_back("--");
    all.insert(all.end(), sources_.begin(), sources_.end());
    return all;
  }

  std::vector<conform::ClassRule> rules() const {
    const std::filesystem::path path =
        classes_.empty() ? conform::shared_folder() / "specs/api/classes.yaml"
                         : std::filesystem::path(classes_);
    return conform::parse_class_rules(read_text(path), path.string());
  }

  ApiManifest manifest() const {
    if (!manifest_.empty()) return read_manifest(manifest_);
    return roots_.empty() ? read_manifest("nvte-2.20") : ApiManifest{};
  }

  std::vector<conform::ApiGuard> guards() const {
    std::vector<conform::ApiGuard> guards;
    for (const conform::Spec& spec : conform::load_specs(specs_)) {
      guards.push_back({spec.module, spec.api});
    }
    return guards;
  }

  void print(const conform::Inventory& inventory) const {
    if (table_) fmt::print("{}\n", conform::inventory_table(inventory));
    if (by_file_) fmt::print("{}\n", conform::inventory_by_file(inventory));
    fmt::print("{}", conform::inventory_summary(inventory));
  }

  std::vector<std::string> sources_, roots_, without_;
  std::string manifest_, classes_, specs_, json_;
  bool table_ = false, by_file_ = false;
};

std::vector<std::string> extract_arguments(const std::string& package,
                                           bool import) {
  std::vector<std::string> all = {"extract"};
  if (import) all.emplace_back("--import");
  all.insert(all.end(), {"--", package});
  return all;
}

class ExtractVerb : public Command {
 public:
  std::string name() const override { return "extract"; }
  std::string summary() const override {
    return "write the contract that a package declares";
  }
  std::string examples() const override {
    return "  assay api extract transformer_engine -o te.json\n"
           "  assay api extract path/to/package --import\n";
  }
  void declare(Args& args) override {
    args.positional("PACKAGE", "name of an installed package, or its folder",
                    &package_);
    args.flag("--import", "ask the live package; this runs its code", &import_);
    args.option("-o,--output", "FILE", "write here (the standard output)",
                &output_, Completes::kPath);
  }
  int run() override {
    check_report_paths({{"--output", output_}}, {package_});
    const Value document =
        conform::call_python_api(extract_arguments(package_, import_));
    const ApiManifest manifest =
        conform::parse_api_manifest(document, package_);
    write_text(output_.empty() ? "-" : output_, to_json(document) + "\n");
    if (manifest.problems.empty() && !manifest.symbols.empty()) {
      return kExitMatch;
    }
    for (const conform::ApiProblem& problem : manifest.problems) {
      fmt::print(stderr, "assay: {}: {}\n", printable(problem.file),
                 printable(problem.reason));
    }
    return kExitIncomplete;
  }

 private:
  std::string package_, output_;
  bool import_ = false;
};

class CheckVerb : public Command {
 public:
  std::string name() const override { return "check"; }
  std::string summary() const override {
    return "hold packages against the contract of a manifest";
  }
  std::string examples() const override {
    return "  assay api check transformer_engine --manifest nvte-2.20\n"
           "  assay api check mine/transformer_engine --manifest "
           "nvte-2.20 --all\n";
  }
  void declare(Args& args) override {
    args.positionals("PACKAGE", "names of installed packages, or their folders",
                     &packages_);
    args.option("--manifest", "FILE",
                "the contract: a file, or the shipped nvte-2.20", &manifest_,
                Completes::kPath);
    args.flag("--import", "ask the live packages; this runs their code",
              &import_);
    args.option("--json", "FILE", "write JSON, - for the standard output",
                &json_, Completes::kPath);
    args.option("--junit", "FILE", "write JUnit XML", &junit_,
                Completes::kPath);
    args.flag("--all", "show what the package has besides, too", &all_);
  }
  int run() override {
    if (manifest_.empty()) {
      throw Error(Code::kUsage, "api check: --manifest FILE is required");
    }
    std::vector<std::string> inputs = packages_;
    inputs.push_back(manifest_);
    check_report_paths({{"--json", json_}, {"--junit", junit_}}, inputs);
    const ApiManifest golden = read_manifest(manifest_);
    const ApiManifest target = extracted();
    const conform::ContractCheck check =
        conform::compare_manifests(golden, target);
    const conform::ContractSides sides = {described(golden), described(target)};
    if (!json_.empty()) {
      write_text(json_, to_json(conform::contract_json(check, sides)) + "\n");
    }
    if (!junit_.empty()) {
      write_text(junit_, conform::contract_junit(check, sides));
    }
    if (json_ != "-") {
      fmt::print("{}", conform::contract_text(check, sides, all_));
    }
    return exit_code(check.verdict());
  }

 private:
  ApiManifest extracted() const {
    ApiManifest merged;
    for (const std::string& package : packages_) {
      const ApiManifest one = conform::parse_api_manifest(
          conform::call_python_api(extract_arguments(package, import_)),
          package);
      if (merged.package.empty()) {
        merged = one;
      } else {
        conform::merge(merged, one);
      }
    }
    return merged;
  }

  std::vector<std::string> packages_;
  std::string manifest_, json_, junit_;
  bool import_ = false, all_ = false;
};

}  // namespace

std::unique_ptr<Command> make_api_command() {
  std::vector<std::unique_ptr<Command>> members;
  members.push_back(std::make_unique<ScanVerb>());
  members.push_back(std::make_unique<ExtractVerb>());
  members.push_back(std::make_unique<CheckVerb>());
  return make_command_group(
      "api", "what a code base uses of a package, and whether it is there",
      std::move(members));
}

}  // namespace assay
