#include "assay/compare/overflow/execution_order.h"

#include <algorithm>
#include <tuple>

#include "assay/compare/op_state.h"

namespace assay {
namespace {

// Of modules that end together the inner one, listed later, ends first.
std::tuple<std::int64_t, bool, std::int64_t> place(
    const OpMoment& moment, const std::vector<OpSpan>& spans) {
  const auto op = static_cast<std::int64_t>(moment.op);
  if (!moment.ends) return {spans[moment.op].start, false, op};
  const std::int64_t finish = spans[moment.op].finish;
  return {finish, true, finish > op ? -op : op};
}

}  // namespace

std::vector<OpMoment> execution_order(
    const Trace& trace, const std::function<bool(std::uint32_t op)>& wanted) {
  std::vector<std::int32_t> parents;
  parents.reserve(trace.ops.size());
  for (const Op& op : trace.ops) parents.push_back(op.parent);
  const std::vector<OpSpan> spans = find_spans(parents);
  std::vector<OpMoment> moments;
  for (std::uint32_t op = 0; op < trace.ops.size(); ++op) {
    if (!wanted(op)) continue;
    moments.push_back({op, false});
    moments.push_back({op, true});
  }
  std::stable_sort(moments.begin(), moments.end(),
                   [&](const OpMoment& a, const OpMoment& b) {
                     return place(a, spans) < place(b, spans);
                   });
  return moments;
}

}  // namespace assay
