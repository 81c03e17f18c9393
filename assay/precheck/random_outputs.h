// Judges what an operator drew: by its distribution, never value by value.
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
// dropout in evaluation, or with p = 0, does not.
bool draws_random(const RandomCall& call);

// `golden`, `device`: the same output of two runs, drawn independently.
// Dropouts: the share of zeros against p, and every survivor exactly scaled;
// permutations: a permutation; otherwise the laws that the arguments name, or
// the two samples against each other. Too few elements to tell are
// kIncomplete. The tests' levels are such that a healthy operator fails once
// in a million calls. Thread-safe.
Judgement judge_random(const RandomCall& call, std::string_view output,
                       const Tensor& golden, const Tensor& device);

}  // namespace assay::precheck
