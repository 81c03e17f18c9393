// Fuzzes the reader of launch scripts.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "assay/base/error.h"
#include "assay/env/script.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const auto facts = assay::env::parse_script(text, "fuzz.sh");
    // What a snapshot relies on.
    for (const auto& [key, value] : facts.hyperparameters)
      if (value.from.empty()) std::abort();
  } catch (const assay::Error& error) {
    if (std::string_view(error.what()).find('\n') != std::string_view::npos)
      std::abort();
  }
  return 0;
}
