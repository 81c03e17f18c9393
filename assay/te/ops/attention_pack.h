// The operands of tiled attention, packed once for all tiles of a call.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "assay/kernels/attention.h"
#include "assay/kernels/attention_tiles.h"

namespace assay::te {

// Which layouts of which operand a pass needs.
struct PackPlan {
  bool q_by_query = false;  // B operand, K = queries (dK)
  bool d_out = false;       // both layouts of dO
  bool k_by_key = false;    // A operand, K = keys (dQ)
  bool v_rows = false;      // A operand, keys x v_dim (dP)
  bool v_by_key = false;    // A operand, K = keys (out)
};
// Q as B operand with K = qk_dim and K rows as A operand always.

struct PackedHead {
  std::int64_t columns = kQueryBlock;  // of a tile
  std::int64_t qk_dim = 0, v_dim = 0;  // padded to multiples of 32
  std::int64_t q_blocks = 0, k_blocks = 0;
  bool ordinary = true;  // every block could be packed
  // First block of each operand; null: not packed.
  std::byte *q = nullptr, *q_by_query = nullptr;
  std::byte *d_out = nullptr, *d_out_by_query = nullptr;
  std::byte *k = nullptr, *k_by_key = nullptr;
  std::byte *v = nullptr, *v_by_key = nullptr;
  std::int64_t element = 4;

  // Blocks of 64 keys, of `columns` queries.
  const std::byte* key_block(const std::byte* first, std::int64_t dim,
                             std::int64_t block) const {
    return first + block * kKeyBlock * dim * element;
  }
  const std::byte* query_block(const std::byte* first, std::int64_t dim,
                               std::int64_t block) const {
    return first + block * columns * dim * element;
  }
};

struct PackedHeads {
  std::vector<PackedHead> heads;
  std::shared_ptr<std::byte> memory;
};

// Packs all heads in parallel. Neighbours with the same k and v share them.
// `d_out`: one a head where the plan asks for it.
PackedHeads pack_heads(const AttentionTiles& tiles,
                       std::span<const AttentionHead> heads,
                       std::span<const RowsView> d_out, const PackPlan& plan,
                       std::int64_t least_columns);

}  // namespace assay::te
