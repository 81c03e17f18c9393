// Undoes what activation checkpointing does to call indices.
#include "assay/trace/recompute.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "assay/trace/entry_name.h"
#include "assay/trace/msprobe.h"

namespace assay {
namespace {

using OpId = std::int32_t;

bool same_statistics(const TensorStatistics& a, const TensorStatistics& b) {
  return a.max == b.max && a.min == b.min && a.mean == b.mean &&
         a.norm == b.norm;
}

bool same_leaf(const Record& a, const Record& b) {
  return a.leaf == b.leaf && a.role == b.role && a.value == b.value &&
         a.digest == b.digest && a.facts.shape == b.facts.shape &&
         a.facts.dtype_text == b.facts.dtype_text &&
         same_statistics(a.stats, b.stats);
}

// Ties each recomputed forward to the first run of the same call.
class RecomputeMatcher {
 public:
  explicit RecomputeMatcher(const Trace& trace)
      : trace_(trace),
        match_(trace.ops.size(), -1),
        used_(trace.ops.size(), false) {
    for (std::size_t i = 0; i < trace.ops.size(); ++i) {
      const Op& op = trace.ops[i];
      if (op.direction != Direction::kForward) continue;
      (op.recompute ? again_ : first_[key(op)]).push_back(static_cast<OpId>(i));
    }
    resolve_all();
  }

  // The first run that op `again` repeats, -1 when unknown.
  OpId match(OpId again) const { return match_[index(again)]; }

 private:
  static std::string key(const Op& op) { return op.prefix + '.' + op.api; }
  static std::size_t index(OpId op) { return static_cast<std::size_t>(op); }
  const Op& op(OpId id) const { return trace_.ops[index(id)]; }

  // Parents before the calls inside them.
  void resolve_all() {
    std::stable_sort(again_.begin(), again_.end(),
                     [this](OpId a, OpId b) { return depth(a) < depth(b); });
    for (const OpId again : again_) resolve(again);
  }

  int depth(OpId id) const {
    constexpr int kDeepest = 400;
    int hops = 0;
    while (hops < kDeepest && (id = op(id).parent) >= 0) ++hops;
    return hops;
  }

  void resolve(OpId again) {
    const auto group = first_.find(key(op(again)));
    if (group == first_.end()) return;
    const auto wanted_parent = matched_parent(again);
    std::vector<OpId> open;
    for (const OpId first : group->second) {
      if (first > again) break;
      if (used_[index(first)]) continue;
      if (wanted_parent >= 0 && op(first).parent != wanted_parent) continue;
      open.push_back(first);
    }
    const OpId chosen = choose(again, open, wanted_parent >= 0);
    if (chosen < 0) return;
    match_[index(again)] = chosen;
    used_[index(chosen)] = true;
  }

  OpId matched_parent(OpId again) const {
    const OpId parent = op(again).parent;
    return parent >= 0 && op(parent).recompute ? match_[index(parent)] : -1;
  }

  // A repeated run sees the inputs of the first one. Equal candidates inside
  // one parent call repeat in order; elsewhere they cannot be told apart.
  OpId choose(OpId again, const std::vector<OpId>& open, bool in_order) const {
    if (open.size() == 1) return open.front();
    std::vector<OpId> alike;
    for (const OpId first : open) {
      if (same_inputs(op(first), op(again))) alike.push_back(first);
    }
    if (alike.size() == 1 || (in_order && !alike.empty())) return alike[0];
    return in_order && !open.empty() ? open.front() : -1;
  }

  bool same_inputs(const Op& a, const Op& b) const {
    if (a.record_count != b.record_count) return false;
    for (std::uint32_t i = 0; i < a.record_count; ++i) {
      const Record& left = trace_.records[a.first_record + i];
      const Record& right = trace_.records[b.first_record + i];
      if (left.role == Role::kInput && !same_leaf(left, right)) return false;
    }
    return true;
  }

  const Trace& trace_;
  std::vector<OpId> again_;
  std::map<std::string, std::vector<OpId>> first_;
  std::vector<OpId> match_;
  std::vector<bool> used_;
};

using CallKey = std::pair<std::string, std::int64_t>;

// What each op's index becomes; `tied` false where that is unknown.
struct NewIndex {
  std::int64_t index = 0;
  bool again = false;
  bool tied = true;
};

std::vector<NewIndex> forward_indices(const Trace& trace,
                                      const RecomputeMatcher& matcher) {
  std::vector<NewIndex> result(trace.ops.size());
  std::map<std::string, std::int64_t> count;
  for (std::size_t i = 0; i < trace.ops.size(); ++i) {
    const Op& op = trace.ops[i];
    result[i].index = op.call_index;
    if (op.direction == Direction::kForward && !op.recompute) {
      result[i].index = count[op.prefix + '.' + op.api]++;
    }
  }
  for (std::size_t i = 0; i < trace.ops.size(); ++i) {
    const Op& op = trace.ops[i];
    if (op.direction != Direction::kForward || !op.recompute) continue;
    const OpId first = matcher.match(static_cast<OpId>(i));
    result[i].again = true;
    result[i].tied = first >= 0;
    if (first >= 0) {
      result[i].index = result[static_cast<std::size_t>(first)].index;
    }
  }
  return result;
}

// A backward belongs to the forward of the same raw index.
void backward_indices(const Trace& trace, std::vector<NewIndex>& result) {
  std::map<CallKey, std::size_t> forward;
  for (std::size_t i = 0; i < trace.ops.size(); ++i) {
    const Op& op = trace.ops[i];
    if (op.direction != Direction::kForward) continue;
    forward.emplace(CallKey(op.prefix + '.' + op.api, op.call_index), i);
  }
  for (std::size_t i = 0; i < trace.ops.size(); ++i) {
    const Op& op = trace.ops[i];
    if (op.direction != Direction::kBackward) continue;
    const auto it =
        forward.find(CallKey(op.prefix + '.' + op.api, op.call_index));
    if (it == forward.end()) continue;
    result[i].index = result[it->second].index;
    result[i].tied = result[it->second].tied;
  }
}

std::string new_name(const Op& op, const NewIndex& index) {
  if (!index.tied) return op.name + ".recompute";
  EntryName entry = parse_entry_name(op.name);
  std::string name = with_call_index(entry, index.index);
  return index.again ? name + ".recompute" : name;
}

void report(std::int64_t renamed, std::int64_t untied, Trace& trace) {
  if (renamed > 0) {
    trace.warnings.push_back(
        std::to_string(renamed) +
        " calls were renamed to undo the index shift of recomputation");
  }
  if (untied > 0) {
    trace.warnings.push_back(
        std::to_string(untied) +
        (untied == 1 ? " recomputed call could not be tied to its first run"
                     : " recomputed calls could not be tied to their first "
                       "run"));
  }
}

}  // namespace

void normalize_recompute(Trace& trace) {
  const bool any =
      std::any_of(trace.ops.begin(), trace.ops.end(), [](const Op& op) {
        return op.recompute && op.direction == Direction::kForward;
      });
  if (!any) return;
  auto indices = forward_indices(trace, RecomputeMatcher(trace));
  backward_indices(trace, indices);
  std::int64_t renamed = 0;
  std::int64_t untied = 0;
  for (std::size_t i = 0; i < trace.ops.size(); ++i) {
    Op& op = trace.ops[i];
    if (op.direction != Direction::kForward &&
        op.direction != Direction::kBackward) {
      continue;
    }
    std::string name = new_name(op, indices[i]);
    renamed += name != op.name && indices[i].tied;
    untied += !indices[i].tied;
    op.name = std::move(name);
    op.call_index = indices[i].index;
  }
  report(renamed, untied, trace);
  rename_duplicates(trace);
}

}  // namespace assay
