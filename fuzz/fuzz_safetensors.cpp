// Fuzzes the safetensors reader and the test that recognises its files.
#include <utility>

#include "assay/formats/safetensors.h"
#include "fuzz_source.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  using namespace assay;
  using namespace assay::fuzz;
  is_safetensors(bytes_of(data, size));
  open_and_read(data, size, [](FileBytes file) {
    return open_safetensors(std::move(file));
  });
  return 0;
}
