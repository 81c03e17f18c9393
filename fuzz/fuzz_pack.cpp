// Fuzzes the reader of golden packs: the head, every entry, the manifests.
#include <algorithm>
#include <string>
#include <string_view>

#include "assay/base/hash.h"
#include "assay/conform/pack.h"
#include "assay/formats/bytes.h"
#include "fuzz_source.h"

namespace {

using namespace assay;
using namespace assay::conform;

void read_pack(std::string_view bytes) {
  try {
    const auto files = open_pack(fuzz::bytes_of(
        reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()));
    for (const std::string& name : files->names()) {
      const FileBytes file = files->read(name);
      if (name.starts_with("cases/"))
        parse_manifest(as_text(file.bytes), file.name);
    }
  } catch (const Error&) {
  }
}

void read_manifest(std::string_view bytes) {
  try {
    parse_manifest(bytes, "fuzz");
  } catch (const Error&) {
  }
}

// A head of the right hash around any index, followed by any bytes: what lies
// behind the hash is reached, too.
std::string with_index(std::string_view index, std::string_view rest) {
  std::string pack = "ASSAYPCK";
  for (int shift = 0; shift < 64; shift += 8)
    pack.push_back(static_cast<char>(std::uint64_t{index.size()} >> shift));
  return pack.append(to_hex(hash128(index))).append(index).append(rest);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  read_pack(bytes);
  read_manifest(bytes);
  const std::size_t end = bytes.rfind('}');
  if (end == bytes.npos) return 0;
  const std::size_t begin = std::min(bytes.find('{'), end);
  read_pack(
      with_index(bytes.substr(begin, end + 1 - begin), bytes.substr(end + 1)));
  return 0;
}
