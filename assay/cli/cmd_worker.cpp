// `assay worker`: the engine as a process that a conformance run drives.
#include <iostream>

#include "assay/base/error.h"
#include "assay/base/text.h"
#include "assay/cli/commands.h"
#include "assay/cli/version.h"
#include "assay/conform/serve.h"
#include "assay/metrics/verdict.h"

namespace assay {
namespace {

class WorkerCommand : public Command {
 public:
  std::string name() const override { return "worker"; }
  std::string summary() const override {
    return "answer conformance requests on stdin with the engine "
           "(docs/worker-protocol.md)";
  }
  std::string examples() const override {
    return "  assay worker --provider reference\n"
           "  assay conform loop --reference reference --target 'assay worker "
           "--provider cpu'\n"
           "  mpirun -n 2 assay worker --provider cpu --ranks 2\n";
  }
  void declare(Args& args) override {
    args.option("--provider", "NAME",
                "cpu: the fast kernels; reference: fp64, plain loops",
                &provider_);
    args.number("--ranks", "N",
                "processes that mpirun started; the first one answers", &ranks_,
                1);
  }
  int run() override;

 private:
  std::string provider_ = "cpu";
  int ranks_ = 1;
};

int WorkerCommand::run() {
  conform::ServeOptions options;
  options.version = kVersion;
  if (provider_ == "reference") {
    options.device = Device::kReference;
  } else if (provider_ != "cpu") {
    throw Error(Code::kUsage, "--provider: " + printable(provider_) +
                                  ", expected cpu or reference");
  }
  std::shared_ptr<te::Communicator> group;
  if (ranks_ > 1) {
    group = te::mpi_communicator();
    if (group->size() != ranks_)
      throw Error(Code::kUsage, "--ranks: " + std::to_string(ranks_) +
                                    ", but " + std::to_string(group->size()) +
                                    " processes were started: mpirun -n " +
                                    std::to_string(ranks_) +
                                    " assay worker ...");
    options.group = group.get();
  }
  conform::serve(std::cin, std::cout, options);
  return kExitMatch;
}

}  // namespace

std::unique_ptr<Command> make_worker_command() {
  return std::make_unique<WorkerCommand>();
}

}  // namespace assay
