#include "assay/compare/overflow/meaning.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "assay/compare/distributed.h"
#include "assay/compare/op_state.h"
#include "assay/compare/overflow/execution_order.h"
#include "assay/compare/provenance.h"
#include "assay/compare/undefined_memory.h"
#include "assay/metrics/standard.h"

namespace assay {
namespace {

constexpr std::array<std::string_view, 14> kOverwriting = {
    "masked_fill_", "fill_",       "zero_",      "copy_",        "normal_",
    "uniform_",     "random_",     "bernoulli_", "cauchy_",      "exponential_",
    "geometric_",   "log_normal_", "set_",       "trunc_normal_"};

bool is_overwritten(const Op& op, const Record& record) {
  return record.is_tensor && record.role == Role::kInput &&
         record.leaf == "input.0" && op.direction == Direction::kForward &&
         std::find(kOverwriting.begin(), kOverwriting.end(), op.api) !=
             kOverwriting.end();
}

// Whether the operator takes masks away: module names count too.
bool consumes_masks(const Op& op) {
  std::string api = op.api;
  std::transform(api.begin(), api.end(), api.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  for (const std::string_view word :
       {"softmax", "attention", "attn", "sdpa", "logsumexp"}) {
    if (api.find(word) != api.npos) return true;
  }
  return false;
}

// What is known of a value that is not finite. kForeign: a mask, if one of
// this rank's operators consumes it.
enum class Kind : std::uint8_t { kReal, kMask, kForeign, kUndefined };

class MeaningFinder {
 public:
  MeaningFinder(const Trace& trace, const std::vector<ValueState>& values)
      : trace_(trace),
        values_(values),
        kinds_(values.size(), Kind::kReal),
        inner_(trace.ops.size()) {}

  std::vector<Meaning> run() {
    mark_undefined();
    const auto infinite = [&](std::uint32_t op) { return any_infinite(op); };
    for (const OpMoment& moment : execution_order(trace_, infinite)) {
      moment.ends ? put_out(moment.op) : take_in(moment.op);
    }
    std::vector<Meaning> meanings(kinds_.size(), Meaning::kValue);
    for (std::size_t i = 0; i < kinds_.size(); ++i) {
      if (kinds_[i] == Kind::kUndefined) meanings[i] = Meaning::kUndefined;
      if (kinds_[i] == Kind::kMask ||
          (kinds_[i] == Kind::kForeign && foreign_consumed_)) {
        meanings[i] = Meaning::kMask;
      }
    }
    return meanings;
  }

 private:
  void mark_undefined() {
    for (std::size_t i = 0; i < kinds_.size(); ++i) {
      const Record& record = trace_.records[i];
      const Op& op = trace_.ops[record.op];
      if (is_undefined_memory(trace_, op, record) ||
          (is_overwritten(op, record) && overwrites_all(record.op))) {
        kinds_[i] = Kind::kUndefined;
      }
    }
  }

  // masked_fill_ leaves what its mask does not cover: NaN may be older.
  bool overwrites_all(std::uint32_t op) const {
    if (trace_.ops[op].api != "masked_fill_") return true;
    bool all = true;
    each(op, false, [&](std::uint32_t i) {
      all = all && (values_[i].finite() || values_[i].only_negative_inf());
    });
    return all;
  }

  bool any_infinite(std::uint32_t op) const {
    const std::uint32_t first = trace_.ops[op].first_record;
    const std::uint32_t end = first + trace_.ops[op].record_count;
    for (std::uint32_t i = first; i < end; ++i) {
      if (values_[i].not_finite()) return true;
    }
    return false;
  }

  template <typename F>
  void each(std::uint32_t op, bool inputs, F&& body) const {
    const std::uint32_t first = trace_.ops[op].first_record;
    const std::uint32_t end = first + trace_.ops[op].record_count;
    for (std::uint32_t i = first; i < end; ++i) {
      if (feeds(trace_.records[i].role) == inputs) body(i);
    }
  }

  // Where it is counted what is not finite, the counts tell values apart too.
  // Of a tensor with NaN msprobe's statistics say nothing else.
  std::optional<Hash128> key_of(std::uint32_t record) const {
    const Record& r = trace_.records[record];
    const ValueState& value = values_[record];
    std::string text = r.digest;
    if (value.nan == ValueState::kSome) {
      if (text.empty()) return std::nullopt;
    } else if (value.positive_inf >= 0 && value.negative_inf >= 0 &&
               !std::isnan(value.largest())) {
      text += fmt::format(" {} {} {}", value.nan, value.positive_inf,
                          value.negative_inf);
    }
    return fingerprint(r.facts, r.stats, text);
  }

  std::optional<Kind> recognised(std::uint32_t record) const {
    const auto key = key_of(record);
    if (!key) return std::nullopt;
    const auto at = seen_.find(*key);
    return at == seen_.end() ? std::nullopt : std::optional(at->second);
  }

  // Fresh memory may hold the bytes of a value that was real.
  void remember(std::uint32_t record) {
    const auto key = key_of(record);
    if (!key) return;
    const auto [at, is_new] = seen_.try_emplace(*key, kinds_[record]);
    if (!is_new && kinds_[record] != Kind::kUndefined)
      at->second = kinds_[record];
  }

  void take_in(std::uint32_t op) {
    each(op, true, [&](std::uint32_t i) {
      if (!values_[i].not_finite() || kinds_[i] == Kind::kUndefined) return;
      if (const auto known = recognised(i)) {
        kinds_[i] = *known;
      } else if (trace_.records[i].role == Role::kInput) {
        kinds_[i] = from_outside(i);
      }
      if (kinds_[i] == Kind::kReal) real_seen_ = true;
    });
  }

  Kind from_outside(std::uint32_t record) const {
    return values_[record].only_negative_inf() && !real_seen_ ? Kind::kForeign
                                                              : Kind::kReal;
  }

  // What an operator knows of infinities before it puts anything out.
  struct Reasons {
    bool real = false, foreign = false, mask = false, undefined = false;
  };

  Reasons reasons_of(std::uint32_t op) const {
    Reasons reasons;
    each(op, true, [&](std::uint32_t i) {
      const Record& record = trace_.records[i];
      if (!record.is_tensor) {
        if (record.value == "-inf") reasons.mask = true;
        return;
      }
      if (!values_[i].not_finite()) return;
      switch (kinds_[i]) {
        case Kind::kReal:
          reasons.real = true;
          break;
        case Kind::kForeign:
          reasons.foreign = true;
          break;
        case Kind::kMask:
          reasons.mask = true;
          break;
        case Kind::kUndefined:
          reasons.undefined = true;
          break;
      }
    });
    return reasons;
  }

  void put_out(std::uint32_t op) {
    const Reasons reasons = reasons_of(op);
    bool any = false, taken_away = true;
    each(op, false, [&](std::uint32_t i) {
      const ValueState& value = values_[i];
      if (!trace_.records[i].is_tensor) return;
      any = true;
      taken_away = taken_away && value.known && value.negative_inf == 0;
      if (!value.not_finite()) return;
      if (kinds_[i] != Kind::kUndefined)
        kinds_[i] = kind_put_out(op, i, reasons);
      tell_parent(op, kinds_[i]);
      if (kinds_[i] == Kind::kReal) real_seen_ = true;
      remember(i);
    });
    // A softmax makes NaN of a row that is masked wholly: born there.
    if (reasons.foreign && any && taken_away && consumes_masks(trace_.ops[op]))
      foreign_consumed_ = true;
  }

  Kind kind_put_out(std::uint32_t op, std::uint32_t record,
                    const Reasons& reasons) const {
    const auto known = recognised(record);
    if (known == Kind::kUndefined && moves(op, reasons))
      return Kind::kUndefined;
    if (!values_[record].only_negative_inf() || reasons.real ||
        inner_[op].real) {
      return Kind::kReal;
    }
    if (known && *known != Kind::kUndefined) return *known;
    if (reasons.mask || inner_[op].mask) return Kind::kMask;
    if (reasons.foreign || inner_[op].foreign) return Kind::kForeign;
    return is_communication(trace_.ops[op]) ? from_outside(record)
                                            : Kind::kReal;
  }

  // A view of unwritten memory, the same value, is unwritten memory; what is
  // computed of it, or chosen from it, is a bug.
  bool moves(std::uint32_t op, const Reasons& reasons) const {
    return reasons.undefined && !reasons.real &&
           !is_communication(trace_.ops[op]) &&
           op_class(trace_.ops[op].api) == OpClass::kMovement;
  }

  void tell_parent(std::uint32_t op, Kind kind) {
    const std::int32_t parent = trace_.ops[op].parent;
    if (parent < 0) return;
    inner_[parent].mask = inner_[parent].mask || kind == Kind::kMask;
    inner_[parent].foreign = inner_[parent].foreign || kind == Kind::kForeign;
    inner_[parent].real = inner_[parent].real || kind == Kind::kReal;
  }

  struct Inner {
    bool mask = false, foreign = false, real = false;
  };

  const Trace& trace_;
  const std::vector<ValueState>& values_;
  std::vector<Kind> kinds_;
  std::vector<Inner> inner_;  // what operators inside it put out
  std::unordered_map<Hash128, Kind, HashOfFingerprint> seen_;
  bool real_seen_ = false;
  bool foreign_consumed_ = false;
};

}  // namespace

std::vector<Meaning> find_meanings(const Trace& trace,
                                   const std::vector<ValueState>& values) {
  return MeaningFinder(trace, values).run();
}

}  // namespace assay
