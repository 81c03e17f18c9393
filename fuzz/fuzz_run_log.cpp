// Fuzzes the reader of runs' logs: JSON lines and CSV.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "assay/base/error.h"
#include "assay/trace/run_log.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  try {
    const assay::RunLog log = assay::parse_run_log(
        {reinterpret_cast<const char*>(data), size}, "fuzz");
    // What every user of a log relies on.
    if (log.steps.empty()) std::abort();
    for (std::size_t i = 1; i < log.steps.size(); ++i)
      if (log.steps[i - 1].step >= log.steps[i].step) std::abort();
  } catch (const assay::Error&) {
  }
  return 0;
}
