// `assay convert`: between the layouts people's tools read.
#include <fmt/format.h>

#include <cstdio>
#include <filesystem>

#include "assay/base/error.h"
#include "assay/base/text.h"
#include "assay/cli/commands.h"
#include "assay/cli/interrupt.h"
#include "assay/cli/read_flags.h"
#include "assay/metrics/verdict.h"
#include "assay/trace/convert.h"

namespace assay {
namespace {

class ConvertCommand : public Command {
 public:
  std::string name() const override { return "convert"; }
  std::string summary() const override {
    return "write a dump or tensor file as msprobe layout, .safetensors or "
           ".npy";
  }
  std::string examples() const override {
    return "  assay convert ptdbg_dump_v4.0 out_dir\n"
           "  assay convert gpu/step0/rank0 gpu.safetensors\n"
           "  assay convert x.pt x.npy\n";
  }
  void declare(Args& args) override {
    args.positional("IN", "a dump directory or a tensor file", &in_);
    args.positional(
        "OUT", "FILE.safetensors, FILE.npy, or a directory (msprobe)", &out_);
    read_.declare(args);
  }
  int run() override;

 private:
  std::string in_, out_;
  ReadFlags read_;
};

int ConvertCommand::run() {
  install_interrupt_handler();
  const ConvertSummary summary = convert_path(in_, out_, read_.options());
  fmt::print("{}: {} tensors, {}", out_, human_count(summary.tensors),
             human_bytes(summary.bytes));
  if (summary.left_out.empty()) {
    fmt::print("\n");
    return kExitMatch;
  }
  fmt::print("; {} left out\n", summary.left_out.size());
  for (const std::string& why : summary.left_out) {
    fmt::print(stderr, "assay: left out: {}\n", why);
  }
  return kExitIncomplete;
}

}  // namespace

std::unique_ptr<Command> make_convert_command() {
  return std::make_unique<ConvertCommand>();
}

}  // namespace assay
