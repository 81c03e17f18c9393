// Fuzzes the reader of snapshots; what it lets through is written again and
// compared with itself.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "assay/base/error.h"
#include "assay/env/secrets.h"
#include "assay/env/snapshot.h"

namespace {

void use(assay::env::Snapshot snapshot) {
  const std::string text = assay::env::to_json(snapshot);
  const auto again = assay::env::parse_snapshot(text, "again");
  // Text that is no UTF-8, and U+FFFD, which stands for it, are written longer.
  const bool plain = text.find("\xef\xbf\xbd") == std::string::npos;
  if (plain && assay::env::to_json(again) != text) std::abort();
  assay::env::hide_secrets(snapshot);
  const std::string hidden = assay::env::to_json(snapshot);
  assay::env::hide_secrets(snapshot);
  if (assay::env::to_json(snapshot) != hidden) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    use(assay::env::parse_snapshot(text, "fuzz"));
  } catch (const assay::Error& error) {
    if (std::string_view(error.what()).find('\n') != std::string_view::npos)
      std::abort();
  }
  return 0;
}
