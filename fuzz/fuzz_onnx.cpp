// Fuzzes the ONNX TensorProto reader and the test that recognises its files.
#include <utility>

#include "assay/formats/onnx_tensor.h"
#include "fuzz_source.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  using namespace assay;
  using namespace assay::fuzz;
  classify_onnx(bytes_of(data, size));
  open_and_read(data, size, [](FileBytes file) {
    return open_onnx_tensor(std::move(file));
  });
  return 0;
}
