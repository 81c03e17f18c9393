// `assay conform cases`: what a run would compute.
#include <fmt/format.h>

#include "assay/base/atomic_file.h"
#include "assay/base/text.h"
#include "assay/cli/commands.h"
#include "assay/cli/exit_code.h"
#include "assay/cli/interrupt.h"
#include "assay/conform/case_list.h"

namespace assay {
namespace {

class ConformCasesCommand : public Command {
 public:
  std::string name() const override { return "cases"; }
  std::string summary() const override {
    return "list the cases of modules, or write them with their inputs";
  }
  std::string examples() const override {
    return "  assay conform cases linear\n"
           "  assay conform cases linear --tier real --json -\n"
           "  assay conform cases linear -o cases\n";
  }
  void declare(Args& args) override {
    args.optional_positionals("MODULE", "names; every module without one",
                              &modules_);
    args.option("--tier", "TIER",
                "small: seconds a module; real: shapes of language models",
                &tier_);
    args.option("--specs", "DIR",
                "specs of your own instead of the shipped ones", &specs_,
                Completes::kPath);
    args.option("--json", "FILE", "write JSON, - for the standard output",
                &json_, Completes::kPath);
    args.option("-o,--output", "DIR",
                "write MODULE/ID.json and MODULE/ID.safetensors", &output_,
                Completes::kPath);
    args.flag("-q,--quiet", "one line a module", &quiet_);
  }
  int run() override;

 private:
  std::vector<std::string> modules_;
  std::string tier_ = "small", specs_, json_, output_;
  bool quiet_ = false;
};

int ConformCasesCommand::run() {
  install_interrupt_handler();
  const conform::Tier tier = conform::parse_tier(tier_);
  conform::List documents;
  for (const conform::Spec& spec :
       conform::select_specs(conform::load_specs(specs_), modules_)) {
    const std::vector<conform::Case> cases = conform::make_cases(spec, tier);
    if (!json_.empty()) documents.push_back(conform::cases_json(spec, cases));
    if (!output_.empty())
      for (const conform::Case& c : cases)
        conform::write_case(spec, c, output_);
    if (json_ == "-") continue;
    const std::string text = conform::cases_text(spec, cases);
    fmt::print("{}", quiet_ ? text.substr(0, text.find('\n') + 1) : text);
  }
  if (json_.empty()) return kExitMatch;
  AtomicFile file(json_ == "-" ? "/dev/stdout" : json_);
  file.write(conform::to_json(documents) + "\n");
  file.commit();
  return kExitMatch;
}

}  // namespace

std::unique_ptr<Command> make_conform_cases_command() {
  return std::make_unique<ConformCasesCommand>();
}

}  // namespace assay
