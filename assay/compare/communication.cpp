#include "assay/compare/communication.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>

#include "assay/compare/distributed.h"

namespace assay {
namespace {

class Finder {
 public:
  Finder(const TracePair& pair, const Comparison& result,
         const std::vector<OpState>& states, const Group& group)
      : pair_(pair), result_(result), states_(states), group_(group) {}

  std::vector<Communication> run() {
    for (std::size_t i = 0; i < states_.size(); ++i) {
      const Op& op = source_op(pair_, i);
      if (is_communication(op)) add_call(i, op);
    }
    return std::move(calls_);
  }

 private:
  void add_call(std::size_t index, const Op& op) {
    if (add_batch(index)) return;
    Communication call = begin(index);
    call.input_differs = states_[index].inputs.differs;
    call.input_unknown =
        states_[index].inputs.unknown || !states_[index].inputs.any;
    const Trace& trace = trace_of(index);
    if (is_send(op.api) || is_receive(op.api)) {
      const bool send = is_send(op.api);
      auto peer = rank_argument(trace, op, send ? "dst" : "src");
      if (!peer && op.collective) peer = op.collective->peer;
      if (!peer) return;
      connect(send, *peer, call);
    } else {
      join_group(trace, op, call);
    }
    finish(std::move(call));
  }

  // batch_isend_irecv: every entry is a call of its own.
  bool add_batch(std::size_t index) {
    const Trace& trace = trace_of(index);
    const Op& op = source_op(pair_, index);
    bool any = false;
    for (std::uint32_t i = 0; i < op.record_count; ++i) {
      const Record& record = trace.records[op.first_record + i];
      if (record.role != Role::kInput) continue;
      const auto transfer = point_to_point(record);
      if (!transfer) continue;
      any = true;
      Communication call = begin(index);
      const Verdict verdict = verdict_of(index, record.leaf);
      call.input_differs = verdict == Verdict::kMismatch;
      call.input_unknown = verdict == Verdict::kIncomplete;
      connect(transfer->send, transfer->peer, call);
      finish(std::move(call));
    }
    return any;
  }

  Verdict verdict_of(std::size_t index, const std::string& leaf) const {
    const OpRow& op = group_.ops[index];
    for (std::uint32_t i = 0; i < op.row_count; ++i) {
      const Row& row = result_.rows[op.first_row + i];
      if (row.name().ends_with("." + leaf)) return row.verdict;
    }
    return Verdict::kIncomplete;
  }

  const Trace& trace_of(std::size_t index) const {
    return pair_.matching.ops[index].golden >= 0 ? pair_.golden : pair_.target;
  }

  static Communication begin(std::size_t index) {
    Communication call;
    call.op = static_cast<std::uint32_t>(index);
    return call;
  }

  void connect(bool send, std::int64_t peer, Communication& call) const {
    const std::int64_t from = send ? group_.rank : peer;
    const std::int64_t to = send ? peer : group_.rank;
    call.channel = fmt::format("{}>{}", from, to);
    call.members = {std::min(from, to), std::max(from, to)};
    call.sources = {from};
  }

  static void join_group(const Trace& trace, const Op& op,
                         Communication& call) {
    std::string id;
    if (op.collective) {
      call.members = op.collective->group_ranks;
      id = op.collective->group_id;
    }
    std::sort(call.members.begin(), call.members.end());
    call.channel = call.members.empty() && !id.empty()
                       ? "group " + id
                       : fmt::format("ranks {}", fmt::join(call.members, ","));
    if (op.api != "broadcast" && op.api != "scatter") return;
    const auto source = rank_argument(trace, op, "src");
    if (source) call.sources = {*source};
  }

  void finish(Communication call) {
    call.ordinal = made_[call.channel]++;
    calls_.push_back(std::move(call));
  }

  const TracePair& pair_;
  const Comparison& result_;
  const std::vector<OpState>& states_;
  const Group& group_;
  std::map<std::string, std::int64_t> made_;
  std::vector<Communication> calls_;
};

}  // namespace

std::vector<Communication> find_communications(
    const TracePair& pair, const Comparison& result,
    const std::vector<OpState>& states, std::uint32_t group) {
  return Finder(pair, result, states, result.groups[group]).run();
}

}  // namespace assay
