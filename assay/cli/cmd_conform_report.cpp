// `assay conform report`: the reports of a run that is over.
#include "assay/cli/commands.h"
#include "assay/cli/exit_code.h"
#include "assay/cli/run_reports.h"
#include "assay/conform/report/run_json.h"

namespace assay {
namespace {

class ConformReportCommand : public Command {
 public:
  std::string name() const override { return "report"; }
  std::string summary() const override {
    return "render the result of a run again, in any form";
  }
  std::string examples() const override {
    return "  assay conform report assay-run --html run.html --junit run.xml\n"
           "  assay conform report assay-run/run.json --api uses.json --all\n";
  }
  void declare(Args& args) override {
    args.positional("RUN", "the folder of a run, or its run.json", &run_);
    reports_.declare(args);
    args.flag("-q,--quiet", "print one line", &quiet_);
  }
  int run() override {
    const std::filesystem::path file = conform::run_file(run_);
    reports_.check({file.string()});
    const conform::RunResult result = conform::read_run(file);
    reports_.write(result, quiet_);
    return exit_code(result.verdict);
  }

 private:
  std::string run_;
  RunReports reports_;
  bool quiet_ = false;
};

}  // namespace

std::unique_ptr<Command> make_conform_report_command() {
  return std::make_unique<ConformReportCommand>();
}

}  // namespace assay
