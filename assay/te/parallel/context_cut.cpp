#include "assay/te/parallel/context_cut.h"

#include <algorithm>

namespace assay::te {
namespace {

bool is_causal(AttentionMask mask) {
  return mask == AttentionMask::kCausal ||
         mask == AttentionMask::kPaddingCausal;
}

// Whether a pair's place in the sequence matters beyond the causal mask, which
// the order of chunks answers.
bool needs_places(const AttentionOptions& o) {
  return o.window_left >= 0 || (o.window_right >= 0 && !is_causal(o.mask)) ||
         o.bias == AttentionBiasType::kAlibi || o.dropout > 0;
}

std::int64_t valid_in(const CutSide& side, std::int64_t b, std::int64_t chunk) {
  const auto i = static_cast<std::size_t>(b);
  return std::clamp<std::int64_t>(side.valid[i] - chunk * side.chunk(b), 0,
                                  side.chunk(b));
}

// Whether any query of chunk `iq` may attend to a key of chunk `ik`.
bool any_pair(const CutSide& q, const CutSide& kv, const AttentionOptions& o,
              std::int64_t iq, std::int64_t ik) {
  for (std::int64_t b = 0; b < q.sequences(); ++b) {
    const std::int64_t queries = valid_in(q, b, iq);
    const std::int64_t keys = valid_in(kv, b, ik);
    if (queries == 0 || keys == 0) continue;
    const std::int64_t first_q = iq * q.chunk(b), first_k = ik * kv.chunk(b);
    const std::int64_t last_q = first_q + queries - 1;
    const std::int64_t last_k = first_k + keys - 1;
    const std::int64_t right = is_causal(o.mask) ? 0 : o.window_right;
    const bool above = right >= 0 && first_k - last_q > right;
    const bool below = o.window_left >= 0 && first_q - last_k > o.window_left;
    if (!above && !below) return true;
  }
  return false;
}

// Each pair of chunks by itself.
std::vector<CutCall> placed_calls(const CutSide& q, const CutSide& kv,
                                  const AttentionOptions& options,
                                  std::int64_t rank, std::int64_t from) {
  std::vector<CutCall> calls;
  for (Held a : {Held::kFirst, Held::kSecond})
    for (Held b : {Held::kFirst, Held::kSecond}) {
      const bool sink = rank == from && a == b;
      if (sink || any_pair(q, kv, options, chunk_of(a, rank, q.ranks),
                           chunk_of(b, from, q.ranks)))
        calls.push_back({a, b, true, is_causal(options.mask), sink});
    }
  return calls;
}

template <typename Value>
Tensor i32_tensor(std::int64_t count, Device device, const Value& value) {
  Tensor out = Tensor::empty(DType::kI32, {count}, device);
  for (std::int64_t i = 0; i < count; ++i)
    out.mutable_data<std::int32_t>()[i] = static_cast<std::int32_t>(value(i));
  return out;
}

}  // namespace

std::int64_t CutSide::chunk(std::int64_t b) const {
  return padded[static_cast<std::size_t>(b)] / (2 * ranks);
}

std::int64_t CutSide::tokens() const {
  std::int64_t sum = 0;
  for (std::int64_t b = 0; b < sequences(); ++b) sum += 2 * chunk(b);
  return sum;
}

std::int64_t CutSide::longest() const {
  return valid.empty() ? 0 : *std::max_element(valid.begin(), valid.end());
}

std::int64_t chunk_of(Held held, std::int64_t rank, std::int64_t ranks) {
  return held == Held::kFirst ? rank : 2 * ranks - 1 - rank;
}

std::vector<CutCall> cut_calls(const CutSide& q, const CutSide& kv,
                               const AttentionOptions& options,
                               std::int64_t rank, std::int64_t from) {
  // Queries and keys are cut alike only where their lengths are the same.
  const bool aligned = q.padded == kv.padded;
  const bool causal = is_causal(options.mask);
  if (needs_places(options) || (causal && !aligned))
    return placed_calls(q, kv, options, rank, from);
  const bool own = rank == from;
  if (!causal || own) return {{Held::kBoth, Held::kBoth, false, causal, own}};
  // Of another rank's two chunks the early one is before both of ours or
  // between them, the late one between ours or behind both.
  if (from < rank) return {{Held::kBoth, Held::kFirst, false, false, false}};
  return {{Held::kSecond, Held::kBoth, false, false, false}};
}

Tensor cut_lengths(const CutSide& side, Held held, std::int64_t rank,
                   Device device) {
  std::int64_t sum = 0;
  return i32_tensor(side.sequences() + 1, device, [&](std::int64_t i) {
    if (i == 0) return sum;
    for (Held part : {Held::kFirst, Held::kSecond})
      if (held == part || held == Held::kBoth)
        sum += valid_in(side, i - 1, chunk_of(part, rank, side.ranks));
    return sum;
  });
}

Tensor cut_begins(const CutSide& side, Held held, Device device) {
  std::int64_t begin = 0;
  return i32_tensor(side.sequences() + 1, device, [&](std::int64_t b) {
    if (b == side.sequences()) return begin;
    const std::int64_t skipped = held == Held::kSecond ? side.chunk(b) : 0;
    const std::int64_t at = begin + skipped;
    begin += 2 * side.chunk(b);
    return at;
  });
}

Tensor cut_origins(const CutSide& side, std::int64_t chunk, Device device) {
  return i32_tensor(side.sequences(), device,
                    [&](std::int64_t b) { return chunk * side.chunk(b); });
}

}  // namespace assay::te
