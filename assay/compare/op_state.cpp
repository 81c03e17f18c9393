#include "assay/compare/op_state.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <unordered_map>

#include "assay/compare/localise.h"
#include "assay/compare/row_judge.h"

namespace assay {
namespace {

void add_row(const Row& row, Agreement& agreement) {
  if (row.verdict == Verdict::kEmpty) return;
  Agreement one;
  one.any = true;
  one.differs = row.verdict == Verdict::kMismatch;
  one.unknown = row.verdict == Verdict::kIncomplete;
  one.equal = is_known_equal(row);
  const double error = error_of(row);
  one.measured = error >= 0 || one.equal;
  one.error = std::max(error, 0.0);
  agreement.merge(one);
}

// The name of the call `name` belongs to, with another direction:
// "Module.a.Linear.parameters_grad.0" -> "Module.a.Linear.backward.0".
std::string with_direction(std::string_view name, std::string_view from,
                           std::string_view to) {
  const std::size_t at = name.rfind(from);
  if (at == std::string_view::npos) return "";
  std::string result(name.substr(0, at));
  result.append(to).append(name.substr(at + from.size()));
  // Older dumps give parameter gradients no call index.
  if (from == ".parameters_grad" && at + from.size() == name.size()) {
    result += ".0";
  }
  return result;
}

class StateFinder {
 public:
  StateFinder(const TracePair& pair, const Comparison& result,
              std::uint32_t group)
      : pair_(pair),
        result_(result),
        group_(result.groups[group]),
        states_(group_.ops.size()) {}

  std::vector<OpState> run() {
    for (std::size_t i = 0; i < states_.size(); ++i) add_rows(i);
    for (std::size_t i = 0; i < states_.size(); ++i) climb(i);
    set_spans();
    link_directions();
    return std::move(states_);
  }

 private:
  void add_rows(std::size_t op) {
    const OpRow& rows = group_.ops[op];
    OpState& state = states_[op];
    for (std::uint32_t i = 0; i < rows.row_count; ++i) {
      const Row& row = result_.rows[rows.first_row + i];
      add_row(row, feeds(row.role) ? state.inputs : state.outputs);
    }
  }

  // Tells every enclosing module. Stops where an ancestor knows already, so
  // the walk is short and a cyclic tree of a broken dump ends it.
  void climb(std::size_t op) {
    if (!states_[op].outputs.differs) return;
    for (std::int32_t at = group_.ops[op].parent;
         at >= 0 && !states_[at].inner_differs; at = group_.ops[at].parent) {
      states_[at].inner_differs = true;
    }
  }

  void set_spans() {
    std::vector<std::int32_t> parents(states_.size());
    for (std::size_t i = 0; i < parents.size(); ++i) {
      parents[i] = group_.ops[i].parent;
    }
    const std::vector<OpSpan> spans = find_spans(parents);
    for (std::size_t i = 0; i < spans.size(); ++i) {
      states_[i].start = spans[i].start;
      states_[i].finish = spans[i].finish;
    }
  }

  void link_directions() {
    bool any = false;
    for (std::size_t i = 0; i < states_.size() && !any; ++i) {
      any = source_op(pair_, i).direction > Direction::kForward;
    }
    if (!any) return;
    std::unordered_map<std::string_view, std::int32_t> by_name;
    by_name.reserve(states_.size());
    for (std::size_t i = 0; i < states_.size(); ++i) {
      by_name.emplace(group_.ops[i].name, static_cast<std::int32_t>(i));
    }
    const auto find = [&](const std::string& name) {
      const auto at = by_name.find(name);
      return at == by_name.end() ? -1 : at->second;
    };
    for (std::size_t i = 0; i < states_.size(); ++i) {
      const std::string& name = group_.ops[i].name;
      const Direction direction = source_op(pair_, i).direction;
      if (direction == Direction::kBackward) {
        states_[i].forward =
            find(with_direction(name, ".backward", ".forward"));
      } else if (direction == Direction::kParametersGrad) {
        states_[i].backward =
            find(with_direction(name, ".parameters_grad", ".backward"));
        states_[i].forward =
            find(with_direction(name, ".parameters_grad", ".forward"));
      }
    }
  }

  const TracePair& pair_;
  const Comparison& result_;
  const Group& group_;
  std::vector<OpState> states_;
};

}  // namespace

void Agreement::merge(const Agreement& other) {
  any = any || other.any;
  differs = differs || other.differs;
  unknown = unknown || other.unknown;
  equal = equal && other.equal;
  error = std::max(error, other.error);
  measured = measured && other.measured;
}

std::vector<OpSpan> find_spans(const std::vector<std::int32_t>& parents) {
  const auto count = static_cast<std::int64_t>(parents.size());
  std::vector<OpSpan> spans(parents.size());
  for (std::int64_t i = 0; i < count; ++i) spans[i] = {i, i};
  // Upwards from the earliest: whoever knows an earlier start ends the walk.
  for (std::int64_t i = 0; i < count; ++i) {
    for (std::int32_t at = parents[i]; at >= 0 && spans[at].start > i;
         at = parents[at]) {
      spans[at].start = i;
    }
  }
  for (std::int64_t i = count - 1; i >= 0; --i) {
    for (std::int32_t at = parents[i]; at >= 0 && spans[at].finish < i;
         at = parents[at]) {
      spans[at].finish = i;
    }
  }
  return spans;
}

std::vector<OpState> find_op_states(const TracePair& pair,
                                    const Comparison& result,
                                    std::uint32_t group) {
  return StateFinder(pair, result, group).run();
}

const Op& source_op(const TracePair& pair, std::size_t op) {
  const OpPair& ops = pair.matching.ops[op];
  return ops.golden >= 0 ? pair.golden.ops[ops.golden]
                         : pair.target.ops[ops.target];
}

Agreement upstream(const std::vector<OpState>& states, std::size_t op) {
  const OpState& state = states[op];
  Agreement all = state.inputs;
  if (state.backward >= 0) all.merge(states[state.backward].inputs);
  // The forward's values feed a backward, but alone they explain nothing.
  const bool any = all.any;
  if (state.forward >= 0) {
    all.merge(states[state.forward].inputs);
    all.merge(states[state.forward].outputs);
  }
  all.any = any;
  return all;
}

}  // namespace assay
