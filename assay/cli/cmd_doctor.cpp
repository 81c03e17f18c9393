// `assay doctor`: what this build and this machine can do.
#include <fmt/format.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <cstdio>
#include <thread>

#include "assay/base/parallel.h"
#include "assay/base/text.h"
#include "assay/cli/commands.h"
#include "assay/cli/version.h"
#include "assay/formats/registry.h"
#include "assay/kernels/kernels.h"
#include "assay/metrics/standard.h"

namespace assay {
namespace {

void line(std::string_view key, const std::string& value) {
  fmt::print("{:<14}{}\n", key, value);
}

std::string joined(const std::vector<std::string>& words) {
  return fmt::format("{}", fmt::join(words, ", "));
}

std::string memory() {
  struct sysinfo info {};
  if (::sysinfo(&info) != 0) return "unknown";
  const auto unit = static_cast<std::int64_t>(info.mem_unit);
  return fmt::format(
      "{} of {} free",
      human_bytes(static_cast<std::int64_t>(info.freeram + info.bufferram) *
                  unit),
      human_bytes(static_cast<std::int64_t>(info.totalram) * unit));
}

std::string compiled_isas() {
  std::vector<std::string> names;
  for (const KernelTable* table : all_kernels()) names.emplace_back(table->isa);
  return joined(names);
}

std::string format_names() {
  std::vector<std::string> names;
  for (const FormatInfo& format : supported_formats()) {
    names.emplace_back(format.name);
  }
  return joined(names);
}

class DoctorCommand : public Command {
 public:
  std::string name() const override { return "doctor"; }
  std::string summary() const override {
    return "show versions, the SIMD target in use, threads, memory and what "
           "is missing";
  }
  std::string examples() const override {
    return "  assay doctor\n  ASSAY_ISA=avx2 assay doctor\n";
  }
  void declare(Args&) override {}

  int run() override {
    line("assay", kVersion);
    line("compiler", "C++20, " __VERSION__);
    line("simd", fmt::format("{} (usable here: {}; ASSAY_ISA forces one)",
                             kernels().isa, compiled_isas()));
    line("threads", fmt::format("{} of {} cores", thread_count(),
                                std::thread::hardware_concurrency()));
    line("memory", memory());
    line("reads", format_names() + ", msprobe dump, ptdbg pkl");
    line("standards", joined(Standard::shipped()));
    line("missing", missing());
    return kExitMatch;
  }

 private:
  // Nothing of this program is optional yet; what can be wrong is the host.
  static std::string missing() {
    std::vector<std::string> lacks;
    if (std::string_view(kernels().isa) == "scalar") {
      lacks.emplace_back("SIMD kernels (the scalar ones are about 20x slower)");
    }
    if (::sysconf(_SC_PAGESIZE) <= 0) lacks.emplace_back("a page size");
    return lacks.empty() ? "nothing" : joined(lacks);
  }
};

}  // namespace

std::unique_ptr<Command> make_doctor_command() {
  return std::make_unique<DoctorCommand>();
}

}  // namespace assay
