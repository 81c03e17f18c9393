// One API call of a trace, as the pre-check replays it: its arguments put
// together again from the leaves that a capture or an msprobe dump lists.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "assay/trace/trace.h"

namespace assay::precheck {

// An argument: a tensor or a value, which is a record of the trace, or a
// container of arguments.
struct Argument {
  // Where it stands: "0" and "1" are positional, or items of a list or tuple;
  // everything else is a keyword, or a key of a dict.
  std::string key;
  std::int32_t record = -1;  // index into Trace::records; -1: a container
  std::vector<Argument> parts;

  bool is_container() const { return record < 0; }
  // A container whose keys are 0, 1, ... in this order.
  bool is_sequence() const;
};

struct ApiCall {
  std::string name;            // "Functional.linear.0"
  std::string api;             // "Functional.linear"
  std::uint32_t forward = 0;   // index into Trace::ops
  std::int32_t backward = -1;  // its gradients, -1: not in the trace
  std::vector<Argument> arguments;
  std::string problem;  // why `arguments` is empty though there are some
};

// The calls of functions in execution order: operators with a forward
// direction that are no modules and no step of an optimizer, each with the
// backward pass of its name. A trace of modules alone has none. Recomputed
// calls repeat others and are left out. Keys of a dict that hold a dot come
// apart; what is replayed wrongly for that does not give the recorded output,
// and is no match. The second call of a name, "Torch.exp.0.forward#2", is
// "Torch.exp.0#2". More than 10,000 leaves, or deeper than 32, are a problem.
std::vector<ApiCall> read_calls(const Trace& trace);

// An operator of a call that read_calls() leaves out, and why.
struct LeftOut {
  std::uint32_t op = 0;
  std::string why;
};

// Forward passes whose names are no calls', and gradients of calls that the
// trace does not have: what the trace recorded of them is held to nothing.
std::vector<LeftOut> left_out(const Trace& trace);

}  // namespace assay::precheck
