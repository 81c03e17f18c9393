// What localisation knows of each operator of a group.
#pragma once

#include <cstdint>
#include <vector>

#include "assay/compare/comparison.h"
#include "assay/compare/engine.h"

namespace assay {

// What an operator computes from, rather than what it puts out.
constexpr bool feeds(Role role) {
  return role == Role::kInput || role == Role::kParameter;
}

// How well a set of values agrees.
struct Agreement {
  bool any = false;      // there is at least one
  bool differs = false;  // one is a mismatch
  bool unknown = false;  // one was not compared
  bool equal = true;     // all bitwise, or as far as their evidence goes
  double error = 0;      // the largest error_of
  bool measured = true;  // every error is known

  void merge(const Agreement& other);
};

struct OpState {
  Agreement inputs;            // and parameters
  Agreement outputs;           // and parameter gradients
  bool inner_differs = false;  // an operator inside it has a wrong output
  std::int64_t start = 0;      // first operator that runs inside it
  std::int64_t finish = 0;     // last one
  std::int32_t forward = -1;   // the forward call of a backward or gradient
  std::int32_t backward = -1;  // the backward call of a parameter gradient
};

// The first and the last operator that run inside each, itself included.
// msprobe lists a module after what runs inside it, our captures before it.
// `parents`: of each operator, -1 for a root.
struct OpSpan {
  std::int64_t start = 0, finish = 0;
};
std::vector<OpSpan> find_spans(const std::vector<std::int32_t>& parents);

std::vector<OpState> find_op_states(const TracePair& pair,
                                    const Comparison& result,
                                    std::uint32_t group);

// The trace's operator behind an operator of the report: the golden's, or the
// target's where only that has one.
const Op& source_op(const TracePair& pair, std::size_t op);

// Everything an output of the operator depends on. `any` is false when none of
// its own inputs (of a parameter gradient: its module's backward's) was dumped.
Agreement upstream(const std::vector<OpState>& states, std::size_t op);

}  // namespace assay
