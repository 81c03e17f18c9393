#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "assay/base/parallel.h"
#include "assay/core/buffer.h"
#include "assay/te/ops/attention_careful.h"
#include "assay/te/ops/attention_flash.h"
#include "assay/te/ops/attention_pack.h"
#include "assay/te/ops/attention_tile_masks.h"

namespace assay::te {
namespace {

constexpr float kNone = -std::numeric_limits<float>::infinity();
constexpr float kMost = std::numeric_limits<float>::max();
constexpr std::int64_t kTile = kKeyBlock * kQueryBlock;

// Blocks of queries that one task takes through the keys together: each block
// of keys comes from the outer caches once for all of them.
constexpr std::int64_t kQueryGroup = 4;

// Scores go into the softmax unscaled where that changes neither their order
// nor what overflows: their difference is then scaled once, with log2(e).
bool keeps_scores(const AttentionHead& head) {
  return head.bias.data == nullptr && head.bias.slope == 0 &&
         head.scale >= 0x1p-20f && head.scale <= 0x1p100f;
}

// What the blocks of one task use one after the other.
struct Scratch {
  explicit Scratch(std::int64_t v_dim)
      : memory(allocate_buffer(
            static_cast<std::size_t>((2 * kTile + v_dim * kQueryBlock) * 4))),
        scores(reinterpret_cast<float*>(memory.get())),
        probabilities(scores + kTile),
        rows(probabilities + kTile) {}

  std::shared_ptr<std::byte> memory;
  float *scores, *probabilities;
  float* rows;  // columns x v_dim
  alignas(64) float correction[kQueryBlock];
  TileMasks masks;
};

// What one block of queries keeps from key block to key block.
struct Running {
  explicit Running(std::int64_t v_dim)
      : memory(
            allocate_buffer(static_cast<std::size_t>(v_dim * kQueryBlock * 4))),
        sums(reinterpret_cast<float*>(memory.get())) {
    std::fill_n(max, kQueryBlock, kNone);
    std::fill_n(sum, kQueryBlock, 0.0f);
  }

  std::shared_ptr<std::byte> memory;
  float* sums;  // v_dim x columns: out, transposed, not normalised
  alignas(64) float max[kQueryBlock], sum[kQueryBlock];
  bool started = false;
};

class BlockForward {
 public:
  BlockForward(const AttentionTiles& tiles, const AttentionHead& head,
               const PackedHead& packed, const AttentionOutput& out,
               std::int64_t block, Scratch& scratch)
      : tiles_(tiles),
        head_(head),
        packed_(packed),
        out_(out),
        block_(block),
        first_(block * packed.columns),
        last_(std::min(head.queries, first_ + packed.columns)),
        blocks_(key_blocks_of(head, first_, last_)),
        unit_(keeps_scores(head) ? head.scale : 1.0f),
        scratch_(scratch),
        running_(packed.v_dim) {}

  const BlockRange& blocks() const { return blocks_; }

  void key_block(std::int64_t b) {
    if (b < blocks_.begin || b >= blocks_.end) return;
    Scratch& s = scratch_;
    const std::int64_t columns = packed_.columns;
    tiles_.product(kKeyBlock, columns, packed_.qk_dim,
                   packed_.key_block(packed_.k, packed_.qk_dim, b),
                   packed_.query_block(packed_.q, packed_.qk_dim, block_),
                   s.scores, false);
    const std::int64_t begin = b * kKeyBlock;
    s.masks.fill(head_, {first_, last_, begin,
                         std::min(head_.keys, begin + kKeyBlock), columns});
    SoftmaxTile tile{.scores = s.scores,
                     .columns = columns,
                     .scale = keeps_scores(head_) ? 1.0f : head_.scale,
                     .factor = unit_ * static_cast<float>(kLog2E),
                     .added = s.masks.added,
                     .keep = s.masks.keep,
                     .dropped = s.masks.dropped,
                     .max = running_.max,
                     .sum = running_.sum,
                     .correction = s.correction,
                     .probabilities = s.probabilities};
    if (tiles_.softmax(tile) && running_.started)
      tiles_.scale_columns(running_.sums, packed_.v_dim, columns, s.correction);
    add_values(b);
    running_.started = true;
  }

  // Normalises, adds the sink to the denominator, turns and stores.
  void finish() {
    Scratch& s = scratch_;
    if (!running_.started)
      std::fill_n(running_.sums, packed_.v_dim * packed_.columns, 0.0f);
    alignas(64) float factor[kQueryBlock] = {};
    for (std::int64_t i = 0; i < last_ - first_; ++i)
      factor[i] = finish_query(i);
    tiles_.transpose(running_.sums, packed_.v_dim, packed_.columns, s.rows);
    // No weight at all: zero, whatever stands in v.
    for (std::int64_t i = 0; i < last_ - first_; ++i)
      if (out_.lse[first_ + i] == kNone)
        std::fill_n(s.rows + i * packed_.v_dim, packed_.v_dim, 0.0f);
    const std::int64_t bytes = traits(head_.dtype).bits / 8;
    tiles_.store({.from = s.rows,
                  .from_stride = packed_.v_dim,
                  .rows = last_ - first_,
                  .columns = head_.v_dim,
                  .row_factor = factor,
                  .dtype = head_.dtype,
                  .to = out_.out + first_ * out_.stride * bytes,
                  .to_stride = out_.stride});
  }

 private:
  void add_values(std::int64_t b) {
    const std::byte* v = packed_.key_block(packed_.v_by_key, packed_.v_dim, b);
    const CarefulProduct product{
        .m = packed_.v_dim,
        .n = packed_.columns,
        .k = kKeyBlock,
        .a = v,
        .b = scratch_.probabilities,
        .c = running_.sums,
        .accumulate = running_.started,
        .keep = packed_.ordinary ? nullptr : scratch_.masks.keep};
    product.run(tiles_, KeepOf::kKN);
  }

  float finish_query(std::int64_t i) {
    float max = running_.max[i] * unit_, sum = running_.sum[i], correction = 1;
    if (out_.row_max != nullptr) {
      // The maximum drops a NaN logit, the sum does not. A logit of +inf makes
      // the sum NaN too.
      const bool lost = std::isnan(sum) && !(max > kMost);
      out_.row_max[first_ + i] = lost ? sum : max;
    }
    if (head_.has_sink) {
      const float sink = head_.sink;
      const float greatest = max > sink ? max : sink;
      if (greatest != kNone) {
        correction = std::exp(max - greatest);
        sum = sum * correction + std::exp(sink - greatest);
        max = greatest;
      }
    }
    out_.lse[first_ + i] = sum == 0 ? kNone : max + std::log(sum);
    if (sum == 0) return 0;
    const float kept =
        head_.dropout.draw.threshold == 0 ? 1.0f : head_.dropout.keep_scale;
    return correction * kept / sum;
  }

  const AttentionTiles& tiles_;
  const AttentionHead& head_;
  const PackedHead& packed_;
  const AttentionOutput& out_;
  std::int64_t block_, first_, last_;
  BlockRange blocks_;
  float unit_;  // logits per unit of the running maximum
  Scratch& scratch_;
  Running running_;
};

struct Work {
  std::size_t head;
  std::int64_t begin, end;  // blocks of queries
};

void run(const AttentionTiles& tiles, const AttentionHead& head,
         const PackedHead& packed, const AttentionOutput& out,
         const Work& work) {
  tiles.enter();
  Scratch scratch(packed.v_dim);
  std::vector<BlockForward> blocks;
  blocks.reserve(static_cast<std::size_t>(kQueryGroup));
  BlockRange keys{packed.k_blocks, 0};
  for (std::int64_t b = work.begin; b < work.end; ++b) {
    blocks.emplace_back(tiles, head, packed, out, b, scratch);
    const BlockRange& own = blocks.back().blocks();
    if (own.begin >= own.end) continue;
    keys = {std::min(keys.begin, own.begin), std::max(keys.end, own.end)};
  }
  for (std::int64_t k = keys.begin; k < keys.end; ++k)
    for (BlockForward& block : blocks) block.key_block(k);
  for (BlockForward& block : blocks) block.finish();
  tiles.leave();
}

// Runs `heads`; those the tables cannot hold are given back.
std::vector<std::size_t> forward(const AttentionTiles& tiles,
                                 std::span<const AttentionHead> heads,
                                 std::span<const AttentionOutput> outputs,
                                 bool everything) {
  const PackedHeads packed =
      pack_heads(tiles, heads, {}, {.v_by_key = true}, 16);
  std::vector<std::size_t> left;
  std::vector<Work> work;
  for (std::size_t h = 0; h < heads.size(); ++h) {
    if (!packed.heads[h].ordinary && !everything) {
      left.push_back(h);
      continue;
    }
    const std::int64_t n = packed.heads[h].q_blocks;
    for (std::int64_t b = 0; b < n; b += kQueryGroup)
      work.push_back({h, b, std::min(n, b + kQueryGroup)});
  }
  parallel_for(static_cast<std::int64_t>(work.size()), [&](std::int64_t w) {
    const Work& one = work[static_cast<std::size_t>(w)];
    run(tiles, heads[one.head], packed.heads[one.head], outputs[one.head], one);
  });
  return left;
}

}  // namespace

void flash_attention_forward(const AttentionTileChoice& tiles,
                             std::span<const AttentionHead> heads,
                             std::span<const AttentionOutput> outputs) {
  const bool one = tiles.fast == tiles.general;
  const auto left = forward(*tiles.fast, heads, outputs, one);
  if (left.empty()) return;
  std::vector<AttentionHead> special;
  std::vector<AttentionOutput> special_outputs;
  for (std::size_t h : left) {
    special.push_back(heads[h]);
    special_outputs.push_back(outputs[h]);
  }
  forward(*tiles.general, special, special_outputs, true);
}

}  // namespace assay::te
