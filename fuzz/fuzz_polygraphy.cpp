// Fuzzes the Polygraphy reader, and with it the JSON scanner, base64 and the
// test that tells the JSON formats apart.
#include <utility>

#include "assay/formats/polygraphy.h"
#include "assay/formats/registry_json.h"
#include "fuzz_source.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  using namespace assay;
  using namespace assay::fuzz;
  classify_json(bytes_of(data, size));
  open_and_read(data, size, [](FileBytes file) {
    return open_polygraphy(std::move(file), {});
  });
  return 0;
}
