// `assay conform pack` and `unpack`: a golden store as one file.
#include <fmt/format.h>

#include "assay/base/text.h"
#include "assay/cli/commands.h"
#include "assay/cli/interrupt.h"
#include "assay/conform/pack.h"
#include "assay/metrics/verdict.h"

namespace assay {
namespace {

class ConformPackCommand : public Command {
 public:
  explicit ConformPackCommand(bool packs) : packs_(packs) {}
  std::string name() const override { return packs_ ? "pack" : "unpack"; }
  std::string summary() const override {
    return packs_ ? "write a golden store as one file, to carry it elsewhere"
                  : "add the goldens of a pack to a store";
  }
  std::string examples() const override {
    return packs_ ? "  assay conform pack goldens cuda.goldens\n"
                    "  assay conform run --goldens cuda.goldens --target cpu\n"
                  : "  assay conform unpack cuda.goldens goldens\n";
  }
  void declare(Args& args) override {
    args.positional(packs_ ? "DIR" : "FILE",
                    packs_ ? "the store" : "what pack wrote", &from_);
    args.positional(packs_ ? "FILE" : "DIR",
                    packs_ ? "the pack" : "made where it is not there", &to_);
  }
  int run() override {
    install_interrupt_handler();
    const conform::PackSummary done =
        packs_ ? conform::pack(from_, to_) : conform::unpack(from_, to_);
    fmt::print("{}: {} goldens, {} objects, {}\n", to_, human_count(done.cases),
               human_count(done.objects), human_bytes(done.bytes));
    return kExitMatch;
  }

 private:
  const bool packs_;
  std::string from_, to_;
};

}  // namespace

std::unique_ptr<Command> make_conform_pack_command() {
  return std::make_unique<ConformPackCommand>(true);
}

std::unique_ptr<Command> make_conform_unpack_command() {
  return std::make_unique<ConformPackCommand>(false);
}

}  // namespace assay
