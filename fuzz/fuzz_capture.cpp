// Fuzzes the reader of our capture format: the journal, beside a small shard.
#include "assay/trace/capture_reader.h"
#include "assay/trace/capture_shard.h"
#include "fuzz_trace.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  static const assay::fuzz::ScratchDirectory scratch;
  static const bool shard = [] {
    scratch.write(assay::shard_name(0).c_str(),
                  std::string(assay::kShardHeaderBytes + 64, '\0'));
    return true;
  }();
  static_cast<void>(shard);
  scratch.write("trace.jsonl", {reinterpret_cast<const char*>(data), size});
  assay::fuzz::read_and_check(scratch.path());
  return 0;
}
