// Fuzzes the readers of dump.json, stack.json and construct.json: one input
// holds the three, separated by zero bytes.
#include "assay/trace/msprobe.h"
#include "fuzz_trace.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  static const assay::fuzz::ScratchDirectory scratch;
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  for (const char* name : {"dump.json", "stack.json", "construct.json"}) {
    const auto end = rest.find('\0');
    scratch.write(name, rest.substr(0, end));
    rest.remove_prefix(end == rest.npos ? rest.size() : end + 1);
  }
  assay::fuzz::read_and_check(scratch.path());
  return 0;
}
