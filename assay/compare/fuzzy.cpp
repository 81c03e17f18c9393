// Index-free pairing: operators agree in layer, API and direction, and come in
// the same order; the call index in their names is ignored.
#include <algorithm>
#include <span>
#include <string>
#include <unordered_map>

#include "assay/base/hash.h"
#include "assay/compare/align.h"
#include "assay/compare/match_ops.h"

namespace assay {
namespace {

// Beyond this many insertions and deletions an alignment of the whole trace
// says little, and its time is quadratic in them.
constexpr int kMaxEdits = 2000;

struct HashOfHash {
  std::size_t operator()(const Hash128& hash) const { return hash.low; }
};

// Small consecutive numbers for equal 128-bit keys of both sides.
class TokenTable {
 public:
  std::uint32_t token(const std::string& key) {
    const auto next = static_cast<std::uint32_t>(tokens_.size());
    return tokens_.try_emplace(hash128(key), next).first->second;
  }
  std::size_t size() const { return tokens_.size(); }

 private:
  std::unordered_map<Hash128, std::uint32_t, HashOfHash> tokens_;
};

struct Side {
  std::vector<std::int32_t> ops;     // those without a partner
  std::vector<std::uint32_t> keys;   // layer, API, direction
  std::vector<std::uint32_t> exact;  // key and the records' shapes as well
};

class FuzzyMatcher {
 public:
  FuzzyMatcher(const Trace& golden, const Trace& target,
               NameTranslator* translator, OpPartners& partners)
      : golden_(golden),
        target_(target),
        translator_(translator),
        partners_(partners),
        use_layers_(has_parents(golden) && has_parents(target)) {}

  void run() {
    collect(golden_, translator_, partners_.of_golden, golden_side_);
    collect(target_, nullptr, partners_.of_target, target_side_);
    join_aligned(golden_side_.exact, target_side_.exact);
    join_in_order(golden_side_.exact, target_side_.exact);
    join_in_order(golden_side_.keys, target_side_.keys);
  }

 private:
  static bool has_parents(const Trace& trace) {
    return std::any_of(trace.ops.begin(), trace.ops.end(),
                       [](const Op& op) { return op.parent >= 0; });
  }

  static void append_api(const Op& op, NameTranslator* translator,
                         std::string& key) {
    if (translator) {
      key += translator->target_api(op);
    } else {
      key.append(op.prefix).append(".").append(op.api);
    }
    key += '\0';
  }

  // Operators without API (plain files) keep their name as the key.
  void append_key(const Trace& trace, const Op& op, NameTranslator* translator,
                  std::string& key) const {
    if (op.api.empty()) {
      key += op.name;
      return;
    }
    append_api(op, translator, key);
    key += static_cast<char>('0' + static_cast<int>(op.direction));
    if (use_layers_ && op.parent >= 0) {
      append_api(trace.ops[op.parent], translator, key);
    }
  }

  static void append_signature(const Trace& trace, const Op& op,
                               std::string& key) {
    for (std::uint32_t i = 0; i < op.record_count; ++i) {
      const Record& record = trace.records[op.first_record + i];
      key.append("\n").append(record.leaf);
      for (const std::int64_t size : record.facts.shape) {
        key.append(reinterpret_cast<const char*>(&size), sizeof size);
      }
    }
  }

  void collect(const Trace& trace, NameTranslator* translator,
               const std::vector<std::int32_t>& partner, Side& side) {
    std::string key;
    for (std::size_t i = 0; i < trace.ops.size(); ++i) {
      if (partner[i] >= 0) continue;
      const Op& op = trace.ops[i];
      key.clear();
      append_key(trace, op, translator, key);
      side.ops.push_back(static_cast<std::int32_t>(i));
      side.keys.push_back(tokens_.token(key));
      append_signature(trace, op, key);
      side.exact.push_back(tokens_.token(key));
    }
  }

  void join(std::int32_t g, std::int32_t t, PairedBy how) {
    const std::int32_t golden_op = golden_side_.ops[g];
    const std::int32_t target_op = target_side_.ops[t];
    const bool same =
        golden_.ops[golden_op].name == target_.ops[target_op].name;
    partners_.join(golden_op, target_op,
                   same && how == PairedBy::kFuzzy ? PairedBy::kName : how);
  }

  // The whole sequence at once: an operator that one side has in addition
  // shifts nothing behind it.
  void join_aligned(std::span<const std::uint32_t> golden,
                    std::span<const std::uint32_t> target) {
    const auto pairs = align(golden, target, kMaxEdits);
    if (!pairs) return;
    for (const auto& [g, t] : *pairs) join(g, t, PairedBy::kFuzzy);
  }

  // What the alignment left: per key, in order.
  void join_in_order(const std::vector<std::uint32_t>& golden,
                     const std::vector<std::uint32_t>& target) {
    std::vector<std::vector<std::int32_t>> waiting(tokens_.size());
    std::vector<std::int32_t> calls(tokens_.size());  // golden minus target
    for (std::size_t t = 0; t < target.size(); ++t) {
      if (partners_.of_target[target_side_.ops[t]] >= 0) continue;
      waiting[target[t]].push_back(static_cast<std::int32_t>(t));
      --calls[target[t]];
    }
    for (std::size_t g = 0; g < golden.size(); ++g) {
      if (partners_.of_golden[golden_side_.ops[g]] < 0) ++calls[golden[g]];
    }
    std::vector<std::size_t> next(tokens_.size());
    for (std::size_t g = 0; g < golden.size(); ++g) {
      const std::uint32_t key = golden[g];
      if (partners_.of_golden[golden_side_.ops[g]] >= 0 ||
          next[key] == waiting[key].size()) {
        continue;
      }
      join(static_cast<std::int32_t>(g), waiting[key][next[key]++],
           calls[key] == 0 ? PairedBy::kFuzzy : PairedBy::kAmbiguous);
    }
  }

  const Trace& golden_;
  const Trace& target_;
  NameTranslator* translator_;
  OpPartners& partners_;
  bool use_layers_;
  TokenTable tokens_;
  Side golden_side_, target_side_;
};

}  // namespace

void match_ops_fuzzy(const Trace& golden, const Trace& target,
                     NameTranslator* translator, OpPartners& partners) {
  FuzzyMatcher(golden, target, translator, partners).run();
}

}  // namespace assay
