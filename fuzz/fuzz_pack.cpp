// Fuzzes the reader of golden packs: the head, every entry, the manifests.
#include "assay/conform/pack.h"
#include "assay/formats/bytes.h"
#include "fuzz_source.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  using namespace assay;
  using namespace assay::conform;
  try {
    const auto files = open_pack(fuzz::bytes_of(data, size));
    for (const std::string& name : files->names()) {
      const FileBytes bytes = files->read(name);
      if (name.starts_with("cases/"))
        parse_manifest(as_text(bytes.bytes), bytes.name);
    }
  } catch (const Error&) {
  }
  // What the hashes keep out of reach above.
  try {
    parse_manifest({reinterpret_cast<const char*>(data), size}, "fuzz");
  } catch (const Error&) {
  }
  return 0;
}
