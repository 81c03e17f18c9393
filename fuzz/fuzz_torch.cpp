// Fuzzes the torch reader: the bytes as a file, and as the data.pkl of an
// archive whose zip framing is sound, to get past the checks of the framing.
#include <string>
#include <utility>

#include "assay/formats/torch_file.h"
#include "fuzz/fuzz_source.h"
#include "tests/formats/pickle_builder.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  using namespace assay;        // NOLINT(google-build-using-namespace)
  using namespace assay::fuzz;  // NOLINT(google-build-using-namespace)
  const auto open = [](FileBytes file) {
    return open_torch(std::move(file), {});
  };
  open_and_read(data, size, open);
  const std::string pickle(reinterpret_cast<const char*>(data), size);
  const std::string framed =
      pickled::archive(pickle, std::string(24, '\1')).bytes();
  open_and_read(reinterpret_cast<const std::uint8_t*>(framed.data()),
                framed.size(), open);
  return 0;
}
