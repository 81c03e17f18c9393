#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "assay/base/parallel.h"
#include "assay/base/round_up.h"
#include "assay/core/buffer.h"
#include "assay/te/ops/attention_careful.h"
#include "assay/te/ops/attention_flash.h"
#include "assay/te/ops/attention_pack.h"
#include "assay/te/ops/attention_tile_masks.h"

namespace assay::te {
namespace {

constexpr std::int64_t kTile = kKeyBlock * kQueryBlock;
// Keys are split into at most so many parts that there are kTasks tasks, each
// of at least kLeastBlocks blocks. Fixed: a part has its own sum of dQ.
constexpr std::int64_t kTasks = 32;
constexpr std::int64_t kLeastBlocks = 8;
// Blocks of keys that meet a block of queries together: it comes from the outer
// caches once for all of them.
constexpr std::int64_t kKeyGroup = 4;

// dO . O and the log-sum-exp of every query, padded to whole blocks.
struct RowTerms {
  std::vector<float> delta, lse;  // lse +inf: no gradient
  // One word a block of queries: those that take part. Padding takes part in
  // vain where 0 times any operand is 0: masks cost more.
  std::vector<std::uint64_t> live;
};

RowTerms row_terms(const AttentionTiles& general, const AttentionHead& head,
                   const AttentionGradient& g, const PackedHead& packed) {
  const auto padded =
      static_cast<std::size_t>(packed.q_blocks * packed.columns);
  RowTerms terms{
      std::vector<float>(padded, 0.0f),
      std::vector<float>(padded, std::numeric_limits<float>::infinity()),
      std::vector<std::uint64_t>(static_cast<std::size_t>(packed.q_blocks),
                                 packed.ordinary ? ~std::uint64_t{0} : 0)};
  general.row_dots(head.dtype, g.d_out.data, g.d_out.stride, g.out.data,
                   g.out.stride, head.queries, head.v_dim, terms.delta.data());
  double d_sink = 0;
  for (std::int64_t i = 0; i < head.queries; ++i) {
    const float lse = g.lse[i];
    const auto at = static_cast<std::size_t>(i);
    std::uint64_t& live =
        terms.live[static_cast<std::size_t>(i / packed.columns)];
    const std::uint64_t bit = std::uint64_t{1} << (i % packed.columns);
    if (lse == -std::numeric_limits<float>::infinity()) {
      live &= ~bit;
      continue;
    }
    live |= bit;
    terms.lse[at] = lse;
    if (head.has_sink)
      d_sink -=
          std::exp(static_cast<double>(head.sink) - static_cast<double>(lse)) *
          static_cast<double>(terms.delta[at]);
  }
  if (g.d_sink != nullptr) *g.d_sink = d_sink;
  return terms;
}

struct Part {
  std::int64_t begin, end;  // blocks of keys
};

// The sums of dQ of one head: [part][query block][qk_dim][columns], and which
// of those blocks were written.
struct QuerySums {
  float* first = nullptr;
  std::vector<std::uint8_t> written;
};

struct Scratch {
  explicit Scratch(const PackedHead& p)
      : memory(allocate_buffer(static_cast<std::size_t>(
            (5 * kTile + kKeyGroup * kKeyBlock * (p.qk_dim + p.v_dim)) * 4))),
        scores(reinterpret_cast<float*>(memory.get())),
        dp(scores + kTile),
        p_a(dp + kTile),
        ds_a(p_a + kTile),
        ds_b(ds_a + kTile),
        dk(ds_b + kTile),
        dv(dk + kKeyGroup * kKeyBlock * p.qk_dim) {}

  std::shared_ptr<std::byte> memory;
  float *scores, *dp, *p_a, *ds_a, *ds_b;
  float *dk, *dv;  // of a group of key blocks
  TileMasks masks;
};

class PartBackward {
 public:
  PartBackward(const AttentionTiles& tiles, const AttentionHead& head,
               const PackedHead& packed, const AttentionGradient& gradient,
               const RowTerms& terms, QuerySums& sums, std::int64_t part)
      : tiles_(tiles),
        head_(head),
        packed_(packed),
        gradient_(gradient),
        terms_(terms),
        sums_(sums),
        part_(part),
        scratch_(packed) {}

  void run(const Part& part) {
    for (std::int64_t b = part.begin; b < part.end; b += kKeyGroup)
      key_group(b, std::min(part.end, b + kKeyGroup));
  }

 private:
  std::int64_t last_key(std::int64_t b) const {
    return std::min(head_.keys, (b + 1) * kKeyBlock);
  }

  void key_group(std::int64_t first, std::int64_t last) {
    BlockRange all{packed_.q_blocks, 0}, own[kKeyGroup];
    for (std::int64_t b = first; b < last; ++b) {
      BlockRange& range = own[b - first];
      range =
          query_blocks_of(head_, b * kKeyBlock, last_key(b), packed_.columns);
      if (range.begin >= range.end) continue;
      all = {std::min(all.begin, range.begin), std::max(all.end, range.end)};
    }
    std::fill_n(scratch_.dk, kKeyGroup * kKeyBlock * packed_.qk_dim, 0.0f);
    std::fill_n(scratch_.dv, kKeyGroup * kKeyBlock * packed_.v_dim, 0.0f);
    for (std::int64_t q = all.begin; q < all.end; ++q)
      for (std::int64_t b = first; b < last; ++b) {
        const BlockRange& range = own[b - first];
        if (q < range.begin || q >= range.end) continue;
        dk_ = scratch_.dk + (b - first) * kKeyBlock * packed_.qk_dim;
        dv_ = scratch_.dv + (b - first) * kKeyBlock * packed_.v_dim;
        tile(b, q, b * kKeyBlock, last_key(b));
      }
    // The blocks of the group follow each other in memory as their keys do.
    const std::int64_t begin = first * kKeyBlock;
    const std::int64_t rows = last_key(last - 1) - begin;
    tiles_.store({.from = scratch_.dk,
                  .from_stride = packed_.qk_dim,
                  .rows = rows,
                  .columns = head_.qk_dim,
                  .factor = head_.scale,
                  .to = reinterpret_cast<std::byte*>(gradient_.dk +
                                                     begin * head_.qk_dim),
                  .to_stride = head_.qk_dim});
    tiles_.store(
        {.from = scratch_.dv,
         .from_stride = packed_.v_dim,
         .rows = rows,
         .columns = head_.v_dim,
         .to = reinterpret_cast<std::byte*>(gradient_.dv + begin * head_.v_dim),
         .to_stride = head_.v_dim});
  }

  void tile(std::int64_t b, std::int64_t q, std::int64_t begin,
            std::int64_t end) {
    const PackedHead& p = packed_;
    Scratch& s = scratch_;
    const std::int64_t first = q * p.columns;
    const TileRange range{first, std::min(head_.queries, first + p.columns),
                          begin, end, p.columns};
    tiles_.product(kKeyBlock, p.columns, p.qk_dim,
                   p.key_block(p.k, p.qk_dim, b),
                   p.query_block(p.q, p.qk_dim, q), s.scores, false);
    tiles_.product(kKeyBlock, p.columns, p.v_dim, p.key_block(p.v, p.v_dim, b),
                   p.query_block(p.d_out, p.v_dim, q), s.dp, false);
    s.masks.fill(head_, range, terms_.live[static_cast<std::size_t>(q)]);
    tiles_.gradient({.scores = s.scores,
                     .d_probabilities = s.dp,
                     .columns = p.columns,
                     .scale = head_.scale,
                     .added = s.masks.added,
                     .keep = s.masks.keep,
                     .dropped = s.masks.dropped,
                     .keep_scale = head_.dropout.keep_scale,
                     .lse = terms_.lse.data() + first,
                     .delta = terms_.delta.data() + first,
                     .want_ds = gradient_.d_bias != nullptr,
                     .p_a = s.p_a,
                     .ds_a = s.ds_a,
                     .ds_b = s.ds_b});
    add_products(b, q);
    if (gradient_.d_bias != nullptr) add_bias(range);
  }

  void add_products(std::int64_t b, std::int64_t q) {
    const PackedHead& p = packed_;
    Scratch& s = scratch_;
    const std::uint64_t* keep = p.ordinary ? nullptr : s.masks.keep;
    CarefulProduct{kKeyBlock,
                   p.v_dim,
                   p.columns,
                   s.p_a,
                   p.query_block(p.d_out_by_query, p.v_dim, q),
                   dv_,
                   true,
                   keep}
        .run(tiles_, KeepOf::kMK);
    CarefulProduct{kKeyBlock,
                   p.qk_dim,
                   p.columns,
                   s.ds_a,
                   p.query_block(p.q_by_query, p.qk_dim, q),
                   dk_,
                   true,
                   keep}
        .run(tiles_, KeepOf::kMK);
    const std::int64_t at = part_ * p.q_blocks + q;
    std::uint8_t& written = sums_.written[static_cast<std::size_t>(at)];
    CarefulProduct{p.qk_dim,     p.columns,
                   kKeyBlock,    p.key_block(p.k_by_key, p.qk_dim, b),
                   s.ds_b,       sums_.first + at * p.qk_dim * p.columns,
                   written != 0, keep}
        .run(tiles_, KeepOf::kKN);
    written = 1;
  }

  void add_bias(const TileRange& r) {
    const AttentionGradient& g = gradient_;
    for (std::int64_t i = r.first; i < r.last; ++i)
      for (std::int64_t j = r.begin; j < r.end; ++j)
        g.d_bias[i * g.d_bias_row + j * g.d_bias_column] +=
            head_.bias.scale *
            scratch_.dp[(j - r.begin) * r.columns + i - r.first];
  }

  const AttentionTiles& tiles_;
  const AttentionHead& head_;
  const PackedHead& packed_;
  const AttentionGradient& gradient_;
  const RowTerms& terms_;
  QuerySums& sums_;
  std::int64_t part_;
  Scratch scratch_;
  float *dk_ = nullptr, *dv_ = nullptr;  // of the block at work
};

// Heads [begin, end): those that share a bias gradient, else one.
struct Group {
  std::size_t begin, end;
};

std::vector<Group> groups_of(std::span<const AttentionGradient> gradients) {
  std::vector<Group> groups;
  for (std::size_t h = 0; h < gradients.size(); ++h) {
    const float* bias = gradients[h].d_bias;
    if (h > 0 && bias != nullptr && bias == gradients[h - 1].d_bias)
      groups.back().end = h + 1;
    else
      groups.push_back({h, h + 1});
  }
  return groups;
}

std::vector<Part> parts_of(std::int64_t blocks, std::int64_t groups) {
  const std::int64_t most = ceil_div(kTasks, groups);
  const std::int64_t count =
      std::clamp<std::int64_t>(blocks / kLeastBlocks, 1, most);
  std::vector<Part> parts;
  for (std::int64_t p = 0; p < count; ++p)
    parts.push_back({blocks * p / count, blocks * (p + 1) / count});
  return parts;
}

class Backward {
 public:
  Backward(const AttentionTiles& tiles, const AttentionTiles& general,
           std::span<const AttentionHead> heads,
           std::span<const AttentionGradient> gradients)
      : tiles_(tiles), general_(general), heads_(heads), gradients_(gradients) {
    std::vector<RowsView> d_out;
    for (const AttentionGradient& g : gradients) d_out.push_back(g.d_out);
    packed_ = pack_heads(
        tiles, heads, d_out,
        {.q_by_query = true, .d_out = true, .k_by_key = true, .v_rows = true},
        32);
  }

  const PackedHeads& packed() const { return packed_; }

  void run() {
    groups_ = groups_of(gradients_);
    std::int64_t blocks = 0;
    for (const PackedHead& p : packed_.heads)
      blocks = std::max(blocks, p.k_blocks);
    parts_ = parts_of(blocks, static_cast<std::int64_t>(groups_.size()));
    reserve_sums();
    const auto heads = static_cast<std::int64_t>(heads_.size());
    terms_.resize(heads_.size());
    parallel_for(heads, [&](std::int64_t i) {
      const auto h = static_cast<std::size_t>(i);
      terms_[h] =
          row_terms(general_, heads_[h], gradients_[h], packed_.heads[h]);
    });
    const auto parts = static_cast<std::int64_t>(parts_.size());
    parallel_for(
        static_cast<std::int64_t>(groups_.size()) * parts,
        [&](std::int64_t task) { run_task(task / parts, task % parts); });
    store_queries();
  }

 private:
  void reserve_sums() {
    std::int64_t floats = 0;
    const auto parts = static_cast<std::int64_t>(parts_.size());
    for (const PackedHead& p : packed_.heads)
      floats += parts * p.q_blocks * p.qk_dim * p.columns;
    sums_memory_ = allocate_buffer(static_cast<std::size_t>(floats) * 4);
    auto* next = reinterpret_cast<float*>(sums_memory_.get());
    for (const PackedHead& p : packed_.heads) {
      sums_.push_back(
          {next, std::vector<std::uint8_t>(
                     static_cast<std::size_t>(parts * p.q_blocks), 0)});
      next += parts * p.q_blocks * p.qk_dim * p.columns;
    }
  }

  void run_task(std::int64_t g, std::int64_t part) {
    const Group& group = groups_[static_cast<std::size_t>(g)];
    tiles_.enter();
    for (std::size_t h = group.begin; h < group.end; ++h) {
      // Heads of one call may have different lengths.
      Part blocks = parts_[static_cast<std::size_t>(part)];
      const bool last = part + 1 == static_cast<std::int64_t>(parts_.size());
      const std::int64_t own = packed_.heads[h].k_blocks;
      blocks.end = last ? own : std::min(blocks.end, own);
      PartBackward(tiles_, heads_[h], packed_.heads[h], gradients_[h],
                   terms_[h], sums_[h], part)
          .run(blocks);
    }
    tiles_.leave();
  }

  // dq = scale * the parts' sums, in order of the parts.
  void store_queries() {
    struct Work {
      std::size_t head;
      std::int64_t block;
    };
    std::vector<Work> work;
    for (std::size_t h = 0; h < heads_.size(); ++h)
      for (std::int64_t b = 0; b < packed_.heads[h].q_blocks; ++b)
        work.push_back({h, b});
    parallel_for(static_cast<std::int64_t>(work.size()), [&](std::int64_t w) {
      const auto& [h, block] = work[static_cast<std::size_t>(w)];
      store_query_block(h, block);
    });
  }

  void store_query_block(std::size_t h, std::int64_t block) {
    const PackedHead& p = packed_.heads[h];
    const AttentionHead& head = heads_[h];
    const std::int64_t size = p.qk_dim * p.columns;
    std::vector<float> total(static_cast<std::size_t>(size), 0.0f);
    for (std::size_t part = 0; part < parts_.size(); ++part) {
      const auto at = part * static_cast<std::size_t>(p.q_blocks) +
                      static_cast<std::size_t>(block);
      if (sums_[h].written[at] == 0) continue;
      const float* from = sums_[h].first + static_cast<std::int64_t>(at) * size;
      for (std::int64_t i = 0; i < size; ++i)
        total[static_cast<std::size_t>(i)] += from[i];
    }
    std::vector<float> rows(static_cast<std::size_t>(size));
    tiles_.transpose(total.data(), p.qk_dim, p.columns, rows.data());
    const std::int64_t first = block * p.columns;
    tiles_.store({.from = rows.data(),
                  .from_stride = p.qk_dim,
                  .rows = std::min(p.columns, head.queries - first),
                  .columns = head.qk_dim,
                  .factor = head.scale,
                  .to = reinterpret_cast<std::byte*>(gradients_[h].dq +
                                                     first * head.qk_dim),
                  .to_stride = head.qk_dim});
  }

  const AttentionTiles& tiles_;
  const AttentionTiles& general_;
  std::span<const AttentionHead> heads_;
  std::span<const AttentionGradient> gradients_;
  PackedHeads packed_;
  std::vector<Group> groups_;
  std::vector<Part> parts_;
  std::vector<RowTerms> terms_;
  std::vector<QuerySums> sums_;
  std::shared_ptr<std::byte> sums_memory_;
};

bool all_ordinary(const PackedHeads& packed) {
  return std::all_of(packed.heads.begin(), packed.heads.end(),
                     [](const PackedHead& p) { return p.ordinary; });
}

}  // namespace

void flash_attention_backward(const AttentionTileChoice& tiles,
                              std::span<const AttentionHead> heads,
                              std::span<const AttentionGradient> gradients) {
  if (heads.empty()) return;
  if (tiles.fast != tiles.general) {
    Backward fast(*tiles.fast, *tiles.general, heads, gradients);
    if (all_ordinary(fast.packed())) return fast.run();
  }
  Backward(*tiles.general, *tiles.general, heads, gradients).run();
}

}  // namespace assay::te
