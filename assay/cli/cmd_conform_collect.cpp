// `assay conform collect`: goldens from a reference.
#include <fmt/format.h>

#include "assay/base/error.h"
#include "assay/cli/commands.h"
#include "assay/cli/conform_flags.h"
#include "assay/cli/interrupt.h"
#include "assay/conform/collect.h"
#include "assay/conform/summary.h"
#include "assay/metrics/verdict.h"

namespace assay {
namespace {

class ConformCollectCommand : public Command {
 public:
  std::string name() const override { return "collect"; }
  std::string summary() const override {
    return "compute goldens with a reference and store them";
  }
  std::string examples() const override {
    return "  assay conform collect --worker reference --goldens goldens\n"
           "  assay conform collect --worker 'python3 -m assay.worker "
           "--provider te --device cuda' --goldens goldens --resume\n";
  }
  void declare(Args& args) override {
    args.option("--worker,--reference", "WORKER",
                "reference, cpu, torch, te, or a command line", &worker_);
    args.option("--goldens", "DIR", "the store; made where it is not there",
                &goldens_, Completes::kPath);
    flags_.declare(args);
  }
  int run() override;

 private:
  std::string worker_ = "reference", goldens_ = "goldens";
  ConformFlags flags_;
};

int ConformCollectCommand::run() {
  const std::atomic<bool>* stop = install_interrupt_handler();
  conform::Collected collected;
  {
    Progress progress(flags_.quiet(), "cases");
    collected =
        conform::collect(showing(progress, flags_.options(stop)),
                         conform::parse_worker_command(worker_), goldens_);
  }
  fmt::print("{}", conform::summary(collected, goldens_));
  if (collected.interrupted) return 130;
  return collected.failures.empty() ? kExitMatch : kExitIncomplete;
}

}  // namespace

std::unique_ptr<Command> make_conform_collect_command() {
  return std::make_unique<ConformCollectCommand>();
}

}  // namespace assay
