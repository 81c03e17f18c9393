// Judges what an operator drew: by its distribution, never value by value.
// docs/precheck.md, "Operators that draw", says how.
#pragma once

#include <string>
#include <string_view>

#include "assay/conform/cases.h"
#include "assay/metrics/verdict.h"

namespace assay::precheck {

// A replayed call of an operator that draws random numbers.
struct RandomCall {
  std::string_view api;  // "Functional.dropout"
  // "arguments" of the request that the worker was sent (docs/
  // worker-protocol.md), and the tensors it names.
  const conform::Object* arguments = nullptr;
  const conform::TensorMap* inputs = nullptr;
};

// Whether operators of that name draw random numbers with these arguments:
// dropout in evaluation, or with p = 0, does not. Attention and recurrent
// layers do where they drop. Arguments that cannot be read: true.
bool draws_random(const RandomCall& call);

// `golden`, `device`: the same output of two runs, drawn independently.
// Dropouts: the share of zeros against p, and every survivor exactly scaled;
// permutations: a permutation; otherwise the laws that the arguments name, or
// the two samples against each other. Too few elements to tell are
// kIncomplete. The tests' levels are such that a healthy operator fails once
// in a million calls. Thread-safe.
//
// Shapes must be equal; dtypes too, but that a golden may be of the widest
// dtype of its kind. Where the golden fails the same tests nothing is held to
// it: kIncomplete. Does not throw for arguments that cannot be read: those are
// kIncomplete too.
Judgement judge_random(const RandomCall& call, std::string_view output,
                       const Tensor& golden, const Tensor& device);

// The gradient that went back through a dropout or an rrelu, by the mask or
// the slopes of its own run: exact within the roundings of its dtype.
// `output`: what the device computed in that run (output.0, or after.<input>
// of an in-place form); `given`: the gradient of that output, as the device
// had it; `gradient`: what it answered for the operator's first input.
// In-place forms that fill a tensor: exactly 0. Of other operators kIncomplete:
// how their gradient hangs on the draw cannot be seen. Thread-safe.
Judgement judge_random_gradient(const RandomCall& call, const Tensor& output,
                                const Tensor& given, const Tensor& gradient);

}  // namespace assay::precheck
