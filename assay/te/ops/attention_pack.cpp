#include "assay/te/ops/attention_pack.h"

#include <algorithm>
#include <atomic>

#include "assay/base/parallel.h"
#include "assay/base/round_up.h"
#include "assay/core/buffer.h"

namespace assay::te {
namespace {

constexpr std::int64_t kDimStep = 32;

// Hands out parts of one block of memory: sizes first, then addresses.
struct Layout {
  std::int64_t size = 0;
  std::int64_t take(std::int64_t bytes) {
    const std::int64_t at = size;
    size += round_up(bytes, 64);
    return at;
  }
};

struct Slot {
  std::byte* PackedHead::*where;
  std::int64_t offset;
};

struct Unit {
  std::size_t head;
  enum { kQuery, kGradient, kKey, kValue } what;
  std::int64_t block;
};

bool shares_keys(const AttentionHead& a, const AttentionHead& b) {
  return a.k.data == b.k.data && a.v.data == b.v.data && a.keys == b.keys &&
         a.k.stride == b.k.stride && a.v.stride == b.v.stride;
}

std::int64_t columns_for(std::int64_t queries, std::int64_t least) {
  std::int64_t columns = least;
  while (columns < queries && columns < kQueryBlock) columns *= 2;
  return columns;
}

class Packer {
 public:
  Packer(const AttentionTiles& tiles, std::span<const AttentionHead> heads,
         std::span<const RowsView> d_out, const PackPlan& plan)
      : tiles_(tiles), heads_(heads), d_out_(d_out), plan_(plan) {}

  PackedHeads run(std::int64_t least_columns) {
    for (std::size_t h = 0; h < heads_.size(); ++h) lay_out(h, least_columns);
    out_.memory = allocate_buffer(static_cast<std::size_t>(layout_.size));
    for (std::size_t h = 0; h < heads_.size(); ++h)
      for (const Slot& slot : slots_[h])
        out_.heads[h].*slot.where = out_.memory.get() + slot.offset;
    pack_all();
    return std::move(out_);
  }

 private:
  void lay_out(std::size_t h, std::int64_t least_columns) {
    const AttentionHead& head = heads_[h];
    PackedHead p;
    p.columns = columns_for(head.queries, least_columns);
    p.qk_dim = round_up(head.qk_dim, kDimStep);
    p.v_dim = round_up(head.v_dim, kDimStep);
    p.q_blocks = (head.queries + p.columns - 1) / p.columns;
    p.k_blocks = (head.keys + kKeyBlock - 1) / kKeyBlock;
    p.element = tiles_.element_bytes;
    slots_.emplace_back();
    const std::int64_t q = p.q_blocks * p.columns * p.element;
    const std::int64_t k = p.k_blocks * kKeyBlock * p.element;
    slot(h, &PackedHead::q, q * p.qk_dim);
    if (plan_.q_by_query) slot(h, &PackedHead::q_by_query, q * p.qk_dim);
    if (plan_.d_out) {
      slot(h, &PackedHead::d_out, q * p.v_dim);
      slot(h, &PackedHead::d_out_by_query, q * p.v_dim);
    }
    add_units(h, Unit::kQuery, p.q_blocks);
    if (plan_.d_out) add_units(h, Unit::kGradient, p.q_blocks);
    keys_of_.push_back(h);
    if (h > 0 && shares_keys(heads_[h - 1], head)) {
      keys_of_[h] = keys_of_[h - 1];
      for (const Slot& s : slots_[keys_of_[h]])
        if (s.where == &PackedHead::k || s.where == &PackedHead::k_by_key ||
            s.where == &PackedHead::v || s.where == &PackedHead::v_by_key)
          slots_[h].push_back(s);
    } else {
      slot(h, &PackedHead::k, k * p.qk_dim);
      if (plan_.k_by_key) slot(h, &PackedHead::k_by_key, k * p.qk_dim);
      if (plan_.v_rows) slot(h, &PackedHead::v, k * p.v_dim);
      if (plan_.v_by_key) slot(h, &PackedHead::v_by_key, k * p.v_dim);
      add_units(h, Unit::kKey, p.k_blocks);
      add_units(h, Unit::kValue, p.k_blocks);
    }
    out_.heads.push_back(p);
  }

  void slot(std::size_t h, std::byte* PackedHead::*where, std::int64_t bytes) {
    slots_[h].push_back({where, layout_.take(bytes)});
  }
  void add_units(std::size_t h, decltype(Unit::what) what, std::int64_t n) {
    for (std::int64_t b = 0; b < n; ++b) units_.push_back({h, what, b});
  }

  void pack_all() {
    // Not vector<bool>: several threads write.
    std::vector<std::atomic<bool>> special(heads_.size());
    // A few units a task: one takes microseconds.
    constexpr std::int64_t kGroup = 8;
    const auto n = static_cast<std::int64_t>(units_.size());
    parallel_for((n + kGroup - 1) / kGroup, [&](std::int64_t group) {
      for (std::int64_t u = group * kGroup;
           u < std::min(n, (group + 1) * kGroup); ++u) {
        const Unit& unit = units_[static_cast<std::size_t>(u)];
        if (!pack(unit)) special[unit.head] = true;
      }
    });
    for (std::size_t h = 0; h < heads_.size(); ++h)
      out_.heads[h].ordinary = !special[h] && !special[keys_of_[h]];
  }

  static PackSource source(const AttentionHead& head, const RowsView& rows,
                           std::int64_t begin, std::int64_t end,
                           std::int64_t dim, std::int64_t padded_rows,
                           std::int64_t padded_dim) {
    const std::int64_t bytes = traits(head.dtype).bits / 8;
    return {head.dtype,  rows.data + begin * rows.stride * bytes,
            rows.stride, end - begin,
            dim,         padded_rows,
            padded_dim};
  }

  static std::byte* at(std::byte* first, std::int64_t block,
                       std::int64_t bytes) {
    return first == nullptr ? nullptr : first + block * bytes;
  }

  bool pack(const Unit& unit) const {
    const AttentionHead& head = heads_[unit.head];
    const PackedHead& p = out_.heads[unit.head];
    const bool queries =
        unit.what == Unit::kQuery || unit.what == Unit::kGradient;
    const bool wide = unit.what == Unit::kGradient || unit.what == Unit::kValue;
    const std::int64_t rows = queries ? p.columns : kKeyBlock;
    const std::int64_t dim = wide ? p.v_dim : p.qk_dim;
    const std::int64_t begin = unit.block * rows;
    const std::int64_t end =
        std::min(begin + rows, queries ? head.queries : head.keys);
    const std::int64_t bytes = rows * dim * p.element;
    const RowsView& from = unit.what == Unit::kQuery      ? head.q
                           : unit.what == Unit::kGradient ? d_out_[unit.head]
                           : unit.what == Unit::kKey      ? head.k
                                                          : head.v;
    PackTargets to;
    switch (unit.what) {
      case Unit::kQuery:
        to.b_transposed = at(p.q, unit.block, bytes);
        to.b = at(p.q_by_query, unit.block, bytes);
        break;
      case Unit::kGradient:
        to.b_transposed = at(p.d_out, unit.block, bytes);
        to.b = at(p.d_out_by_query, unit.block, bytes);
        break;
      case Unit::kKey:
        to.a = at(p.k, unit.block, bytes);
        to.a_transposed = at(p.k_by_key, unit.block, bytes);
        break;
      case Unit::kValue:
        to.a = at(p.v, unit.block, bytes);
        to.a_transposed = at(p.v_by_key, unit.block, bytes);
        break;
    }
    return tiles_.pack(source(head, from, begin, end,
                              wide ? head.v_dim : head.qk_dim, rows, dim),
                       to);
  }

  const AttentionTiles& tiles_;
  std::span<const AttentionHead> heads_;
  std::span<const RowsView> d_out_;
  const PackPlan& plan_;
  Layout layout_;
  std::vector<std::vector<Slot>> slots_;
  std::vector<std::size_t> keys_of_;  // whose packed keys a head uses
  std::vector<Unit> units_;
  PackedHeads out_;
};

}  // namespace

PackedHeads pack_heads(const AttentionTiles& tiles,
                       std::span<const AttentionHead> heads,
                       std::span<const RowsView> d_out, const PackPlan& plan,
                       std::int64_t least_columns) {
  return Packer(tiles, heads, d_out, plan).run(least_columns);
}

}  // namespace assay::te
