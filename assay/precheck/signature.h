// When two calls are the same question: API and arguments, without the
// contents of tensors.
#pragma once

#include <cstdint>
#include <string>

#include "assay/precheck/api_call.h"

namespace assay::precheck {

// A text that is equal for calls of one signature: API, autocast region, keys,
// of every tensor dtype, shape and requires_grad, of every value its type and
// text, and whether gradients are asked for.
std::string signature_of(const Trace& trace, const ApiCall& call);

// Whether the call has gradients to check: the trace has its backward pass, or
// a result and a floating-point argument that require one.
bool wants_backward(const Trace& trace, const ApiCall& call);

// 64 bits of it, the seed of what is generated for the call.
std::uint64_t seed_of(const std::string& signature);

}  // namespace assay::precheck
