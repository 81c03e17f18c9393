// Fuzzes the reader of ptdbg's text files.
#include "assay/trace/ptdbg.h"
#include "fuzz_trace.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  static const assay::fuzz::ScratchDirectory scratch;
  scratch.write("dump.pkl", {reinterpret_cast<const char*>(data), size});
  assay::fuzz::read_and_check(scratch.path() / "dump.pkl");
  return 0;
}
