// oracle_runner DIR [--only GLOB]: every reference vector of a folder, one
// line per file. Exit codes as the command line's: 0 all passed, 1 a failure,
// 2 usage, 3 an unreadable index.
#include <cstdio>
#include <cstring>
#include <exception>

#include "assay/base/error.h"
#include "assay/kernels/kernels.h"
#include "tests/oracle/oracle.h"

namespace {

int usage() {
  std::fprintf(stderr,
               "usage: oracle_runner DIR [--only GLOB]\n"
               "  DIR holds .npz files and INDEX.json; ASSAY_ISA forces an "
               "instruction set\n");
  return 2;
}

int run(const char* folder, const char* only) {
  assay::kernels();  // an unknown ASSAY_ISA is a usage error, not a failure
  const auto outcomes = assay::oracle::run_folder(folder, only);
  int passed = 0, failed = 0;
  for (const auto& outcome : outcomes) {
    const bool ok = outcome.failures.empty();
    ++(ok ? passed : failed);
    std::printf("%s %s (%d arrays)\n", ok ? "pass" : "FAIL",
                outcome.file.c_str(), outcome.arrays);
    for (const auto& failure : outcome.failures)
      std::printf("     %s\n", failure.c_str());
  }
  std::printf("%d passed, %d failed (%s)\n", passed, failed,
              assay::kernels().isa);
  if (outcomes.empty()) {
    std::fprintf(stderr, "oracle_runner: no file matches \"%s\"\n", only);
    return 2;
  }
  return failed == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const char* folder = nullptr;
  const char* only = "*";
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--only") == 0 && i + 1 < argc) {
      only = argv[++i];
    } else if (argv[i][0] == '-' || folder != nullptr) {
      return usage();
    } else {
      folder = argv[i];
    }
  }
  if (folder == nullptr) return usage();
  try {
    return run(folder, only);
  } catch (const assay::Error& error) {
    std::fprintf(stderr, "oracle_runner: %s\n", error.what());
    return error.code() == assay::Code::kUsage ? 2 : 3;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "oracle_runner: %s\n", error.what());
    return 3;
  }
}
