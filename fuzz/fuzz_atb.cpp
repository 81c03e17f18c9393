// Fuzzes the Ascend ATB reader and the test that recognises its files.
#include <utility>

#include "assay/formats/raw_atb.h"
#include "fuzz_source.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  using namespace assay;
  using namespace assay::fuzz;
  is_atb(bytes_of(data, size));
  open_and_read(data, size,
                [](FileBytes file) { return open_atb(std::move(file)); });
  return 0;
}
