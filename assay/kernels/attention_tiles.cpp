#include "assay/kernels/attention_tiles.h"

#include <string_view>
#include <vector>

#include "assay/kernels/kernels.h"
#include "assay/kernels/simd/attention.h"
#include "assay/kernels/x86/attention.h"

namespace assay {
namespace {

const std::vector<const AttentionTiles*>& tables() {
  static const std::vector<const AttentionTiles*> all = [] {
    std::vector<const AttentionTiles*> found;
    for (const AttentionTiles* table : simd_attention_tiles()) {
      if (std::string_view(table->isa) == "avx512")
        for (const AttentionTiles* bf16 : x86_attention_tiles(*table))
          found.push_back(bf16);
      found.push_back(table);
    }
    return found;
  }();
  return all;
}

}  // namespace

std::span<const AttentionTiles* const> all_attention_tiles() {
  return tables();
}

AttentionTileChoice choose_attention_tiles(DType dtype) {
  const std::string_view isa = kernels().isa;
  AttentionTileChoice choice;
  for (const AttentionTiles* table : tables())
    if (isa == table->isa) choice.general = table;
  choice.fast = choice.general;
  if (isa == "avx512" && dtype == DType::kBF16)
    for (const AttentionTiles* table : tables())
      if (table->element_bytes == 2) {
        choice.fast = table;
        break;
      }
  return choice;
}

}  // namespace assay
