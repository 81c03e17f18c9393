// Fuzzes the .npz reader and, through it, the zip archive reader.
#include <utility>

#include "assay/formats/npz.h"
#include "fuzz/fuzz_source.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  using namespace assay;        // NOLINT(google-build-using-namespace)
  using namespace assay::fuzz;  // NOLINT(google-build-using-namespace)
  open_and_read(data, size,
                [](FileBytes file) { return open_npz(std::move(file), {}); });
  return 0;
}
