#include "assay/te/ops/kv_cache.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>
#include <set>
#include <string>

#include "assay/base/checked.h"
#include "assay/te/check.h"

namespace assay::te {
namespace {

constexpr std::string_view kOp = "kv_cache";

void require_positive(std::string_view name, std::int64_t value) {
  require(value > 0, kOp, name, std::to_string(value), "at least 1");
}

}  // namespace

KvCache::KvCache(const KvCacheOptions& options) : options_(options) {
  KvCacheOptions& o = options_;
  if (!o.paged) {
    o.page_size = o.max_length;
    o.total_pages = o.max_batch;
  }
  require(traits(o.dtype).bits >= 8, kOp, "dtype",
          std::string(traits(o.dtype).name), "one whose elements fill bytes");
  require_positive("layers", o.layers);
  require_positive("max_batch", o.max_batch);
  require_positive("max_length", o.max_length);
  require_positive("heads", o.heads);
  require_positive("k_dim", o.k_dim);
  require_positive("v_dim", o.v_dim);
  require_positive("page_size", o.page_size);
  require_positive("total_pages", o.total_pages);
  for (std::int64_t layer = 0; layer < o.layers; ++layer) {
    k_.push_back(Tensor::empty(
        o.dtype, {o.total_pages, o.page_size, o.heads, o.k_dim}, o.device));
    v_.push_back(Tensor::empty(
        o.dtype, {o.total_pages, o.page_size, o.heads, o.v_dim}, o.device));
  }
  for (std::int64_t page = o.total_pages; page-- > 0;) free_.push_back(page);
}

std::int64_t KvCache::pages_for(std::int64_t tokens) const {
  return tokens / options_.page_size + (tokens % options_.page_size != 0);
}

void KvCache::check_step(std::span<const SequenceStep> step) const {
  const auto count = static_cast<std::int64_t>(step.size());
  require(count <= options_.max_batch, kOp, "step",
          std::to_string(count) + " sequences",
          "at most " + std::to_string(options_.max_batch));
  std::set<std::int64_t> seen;
  std::int64_t pages = 0;
  for (const SequenceStep& s : step) {
    require(seen.insert(s.id).second, kOp, "step",
            "sequence " + std::to_string(s.id) + " twice", "every one once");
    require(s.tokens >= 0, kOp, "step", std::to_string(s.tokens) + " tokens",
            "none or more");
    const auto known = entries_.find(s.id);
    const std::int64_t before =
        known == entries_.end() ? 0 : known->second.length;
    require(s.tokens <= options_.max_length - before, kOp, "step",
            "sequence " + std::to_string(s.id) + " of " +
                std::to_string(before + s.tokens) + " tokens",
            "at most " + std::to_string(options_.max_length));
    pages = checked_add(pages, pages_for(before + s.tokens))
                .value_or(std::numeric_limits<std::int64_t>::max());
  }
  require(pages <= options_.total_pages, kOp, "step",
          std::to_string(pages) + " pages",
          "the " + std::to_string(options_.total_pages) + " there are");
}

void KvCache::begin_step(std::span<const SequenceStep> step) {
  check_step(step);
  std::map<std::int64_t, Entry> next;
  order_.clear();
  for (const SequenceStep& s : step) {
    order_.push_back(s.id);
    if (const auto known = entries_.find(s.id); known != entries_.end()) {
      next[s.id] = std::move(known->second);
      entries_.erase(known);
    }
  }
  for (const auto& [id, finished] : entries_)
    free_.insert(free_.end(), finished.pages.begin(), finished.pages.end());
  std::sort(free_.begin(), free_.end(), std::greater<>());
  entries_ = std::move(next);
  for (const SequenceStep& s : step) {
    Entry& e = entries_[s.id];
    e.before = e.length;
    e.length += s.tokens;
    while (static_cast<std::int64_t>(e.pages.size()) < pages_for(e.length)) {
      e.pages.push_back(free_.back());
      free_.pop_back();
    }
  }
}

const KvCache::Entry& KvCache::entry(std::int64_t b) const {
  require(b >= 0 && b < batch(), kOp, "sequence", std::to_string(b),
          "below the batch of " + std::to_string(batch()));
  return entries_.at(order_[static_cast<std::size_t>(b)]);
}

std::int64_t KvCache::length_before(std::int64_t b) const {
  return entry(b).before;
}
std::int64_t KvCache::length(std::int64_t b) const { return entry(b).length; }

const Tensor& KvCache::layer_of(const std::vector<Tensor>& all,
                                std::int64_t layer) const {
  require(layer >= 0 && layer < options_.layers, kOp, "layer",
          std::to_string(layer), "below " + std::to_string(options_.layers));
  return all[static_cast<std::size_t>(layer)];
}

namespace {

// The element at which new token t of the sequence at place b begins; for
// packed tokens `begin` is the sequence's first.
std::int64_t new_token(const Shape& s, QkvFormat format, std::int64_t b,
                       std::int64_t begin, std::int64_t t) {
  if (format == QkvFormat::kThd) return (begin + t) * s[1] * s[2];
  const std::int64_t row = s[2] * s[3];
  return format == QkvFormat::kBshd ? (b * s[1] + t) * row
                                    : (t * s[1] + b) * row;
}

}  // namespace

void KvCache::append(std::int64_t layer, const Tensor& k, const Tensor& v,
                     QkvFormat format) {
  const bool packed = format == QkvFormat::kThd;
  std::int64_t most = 0, tokens = 0;
  for (std::int64_t b = 0; b < batch(); ++b) {
    most = std::max(most, length(b) - length_before(b));
    tokens += length(b) - length_before(b);
  }
  const auto check = [&](const Tensor& from, std::string_view name,
                         std::int64_t dim) {
    require_dtype(kOp, name, from, {options_.dtype});
    require_rank(kOp, name, from, packed ? 3 : 4);
    const Shape& s = from.shape();
    const std::int64_t room = packed                       ? s[0]
                              : format == QkvFormat::kBshd ? s[1]
                                                           : s[0];
    const bool fits =
        s[s.size() - 2] == options_.heads && s.back() == dim &&
        room >= (packed ? tokens : most) &&
        (packed || s[format == QkvFormat::kBshd ? 0 : 1] == batch());
    require(fits, kOp, name, "shape " + to_string(s),
            std::to_string(batch()) + " sequences with up to " +
                std::to_string(most) + " new tokens of " +
                std::to_string(options_.heads) + " x " + std::to_string(dim));
    require(from.device == options_.device, kOp, name,
            "a tensor on " + std::string(device_name(from.device)),
            "one on the cache's " + std::string(device_name(options_.device)));
  };
  const auto write = [&](const Tensor& from, const Tensor& pages,
                         std::int64_t dim) {
    const Shape& s = from.shape();
    const Tensor dense = contiguous(from);
    const std::int64_t row =
        options_.heads * dim * (traits(options_.dtype).bits / 8);
    const std::int64_t element = traits(options_.dtype).bits / 8;
    std::int64_t begin = 0;
    for (std::int64_t b = 0; b < batch(); ++b) {
      const Entry& e = entry(b);
      for (std::int64_t t = e.before; t < e.length; ++t) {
        const std::int64_t page =
            e.pages[static_cast<std::size_t>(t / options_.page_size)];
        const std::int64_t to =
            (page * options_.page_size + t % options_.page_size) * row;
        const std::int64_t at =
            new_token(s, format, b, begin, t - e.before) * element;
        std::memcpy(const_cast<std::byte*>(pages.view.data) + to,
                    dense.view.data + at, static_cast<std::size_t>(row));
      }
      begin += e.length - e.before;
    }
  };
  const Tensor &keys = layer_of(k_, layer), &values = layer_of(v_, layer);
  check(k, "k", options_.k_dim);  // both before either is written
  check(v, "v", options_.v_dim);
  write(k, keys, options_.k_dim);
  write(v, values, options_.v_dim);
}

Tensor KvCache::gather_rows(const Tensor& pages, std::int64_t dim) const {
  std::int64_t longest = 0;
  for (std::int64_t b = 0; b < batch(); ++b)
    longest = std::max(longest, length(b));
  Tensor out = Tensor::zeros(
      options_.dtype, {batch(), longest, options_.heads, dim}, options_.device);
  const std::int64_t row =
      options_.heads * dim * (traits(options_.dtype).bits / 8);
  for (std::int64_t b = 0; b < batch(); ++b) {
    const Entry& e = entry(b);
    for (std::size_t p = 0; p < e.pages.size(); ++p) {
      const std::int64_t first =
          static_cast<std::int64_t>(p) * options_.page_size;
      const std::int64_t n = std::min(options_.page_size, e.length - first);
      if (n <= 0) break;
      std::memcpy(out.mutable_data() + (b * longest + first) * row,
                  pages.view.data + e.pages[p] * options_.page_size * row,
                  static_cast<std::size_t>(n * row));
    }
  }
  return out;
}

Tensor KvCache::keys(std::int64_t layer) const {
  return gather_rows(layer_of(k_, layer), options_.k_dim);
}

Tensor KvCache::values(std::int64_t layer) const {
  return gather_rows(layer_of(v_, layer), options_.v_dim);
}

Tensor KvCache::page_table() const {
  std::int64_t most = 0;
  for (std::int64_t b = 0; b < batch(); ++b)
    most = std::max(most, static_cast<std::int64_t>(entry(b).pages.size()));
  Tensor table = Tensor::empty(DType::kI32, {batch(), most}, options_.device);
  auto* out = table.mutable_data<std::int32_t>();
  std::fill_n(out, batch() * most, -1);
  for (std::int64_t b = 0; b < batch(); ++b)
    std::copy(entry(b).pages.begin(), entry(b).pages.end(), out + b * most);
  return table;
}

AttentionResult attention_over_cache(const KvCache& cache, std::int64_t layer,
                                     const Tensor& q, AttentionOptions options,
                                     const AttentionCacheExtras& extras) {
  AttentionInputs in;
  in.softmax_offset = extras.softmax_offset;
  in.alibi_slopes = extras.alibi_slopes;
  in.q = q;
  in.k = cache.keys(layer);
  in.v = cache.values(layer);
  const std::int64_t batch = cache.batch();
  Tensor q_offsets = Tensor::zeros(DType::kI32, {batch + 1}, q.device);
  Tensor kv_offsets = Tensor::zeros(DType::kI32, {batch + 1}, q.device);
  auto* cu_q = q_offsets.mutable_data<std::int32_t>();
  auto* cu_kv = kv_offsets.mutable_data<std::int32_t>();
  for (std::int64_t b = 0; b < batch; ++b) {
    const std::int64_t length = cache.length(b);
    cu_q[b + 1] =
        cu_q[b] + static_cast<std::int32_t>(length - cache.length_before(b));
    cu_kv[b + 1] = cu_kv[b] + static_cast<std::int32_t>(length);
  }
  in.cu_seqlens_q = q_offsets;
  in.cu_seqlens_kv = kv_offsets;
  options.kv_format = QkvFormat::kBshd;
  return attention_forward(in, options);
}

}  // namespace assay::te
