// How context parallelism cuts the sequences of an attention call, and the
// calls that one rank makes of the pieces it holds.
//
// Source: NVTE context_parallel.py (AttnFuncWithCPAndKVP2P), Ring Attention
// (Liu et al., arXiv:2310.01889) with the two chunks a rank that even causal
// work out. Every layout is seen as packed rows (thd): a call then takes any
// part of every sequence without copying, by where the parts begin.
#pragma once

#include <cstdint>
#include <vector>

#include "assay/te/ops/attention.h"

namespace assay::te {

// The queries, or the keys, of all sequences. A sequence of 2 n chunks: rank r
// of n holds chunk r and chunk 2 n - 1 - r, one behind the other.
struct CutSide {
  std::vector<std::int64_t> padded;  // of the whole sequence; multiples of 2 n
  std::vector<std::int64_t> valid;   // its first tokens, that take part
  std::int64_t ranks = 1;

  std::int64_t sequences() const {
    return static_cast<std::int64_t>(padded.size());
  }
  std::int64_t chunk(std::int64_t b) const;  // tokens
  std::int64_t tokens() const;               // of all sequences on one rank
  std::int64_t longest() const;              // valid tokens of a sequence
};

// Chunks that a rank has, as parts of its tokens. The valid tokens of two are
// one range: the second has none unless the first is full.
enum class Held : std::uint8_t { kFirst, kSecond, kBoth };

// One call of attention: a rank's queries against keys that a rank had.
struct CutCall {
  Held q, kv;
  // Both are single chunks, whose positions masks and windows count from.
  bool placed;
  bool causal;
  bool sink;  // the queries' one call whose softmax has the sink
};

// Calls of rank `rank` with the keys of rank `from`: those without a pair left
// out, but the ones with a sink. The queries of any call come with a sink once
// among all `from`.
std::vector<CutCall> cut_calls(const CutSide& q, const CutSide& kv,
                               const AttentionOptions& options,
                               std::int64_t rank, std::int64_t from);

// The chunk number of a single held one.
std::int64_t chunk_of(Held held, std::int64_t rank, std::int64_t ranks);

// i32 [sequences + 1] for the packed rows of the rank: lengths of the valid
// tokens of what is held, as running sums; where they begin; and, i32
// [sequences], the position of a single chunk in its sequence.
Tensor cut_lengths(const CutSide& side, Held held, std::int64_t rank,
                   Device device);
Tensor cut_begins(const CutSide& side, Held held, Device device);
Tensor cut_origins(const CutSide& side, std::int64_t chunk, Device device);

}  // namespace assay::te
