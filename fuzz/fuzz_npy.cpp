// Fuzzes the .npy reader, also with a dtype given for raw elements.
#include <utility>

#include "assay/formats/npy.h"
#include "fuzz/fuzz_source.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  using namespace assay;        // NOLINT(google-build-using-namespace)
  using namespace assay::fuzz;  // NOLINT(google-build-using-namespace)
  open_and_read(data, size,
                [](FileBytes file) { return open_npy(std::move(file), {}); });
  open_and_read(data, size, [](FileBytes file) {
    return open_npy(std::move(file), ReadOptions{.dtype = DType::kE2M1});
  });
  return 0;
}
