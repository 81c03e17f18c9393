// The three ways of context parallelism, over packed rows.
//
// Each forward gives out [tokens, heads, dim of v] and lse [heads, tokens] of
// the rank's queries and, where wanted, the max_logit of its own calls (a2a:
// of all heads); each backward the gradients of the rank's rows, and of the
// sinks this rank's part of the sum (a2a: of all heads, the sum itself).
#pragma once

#include "assay/te/parallel/context_kv.h"

namespace assay::te {

AttentionResult ring_forward(const ContextProblem& p, const TravellingKv& kv,
                             Communicator& group);
AttentionGradients ring_backward(const ContextProblem& p,
                                 const TravellingKv& kv,
                                 const PackedOutput& output,
                                 Communicator& group);

AttentionResult gather_forward(const ContextProblem& p, const TravellingKv& kv,
                               Communicator& group);
AttentionGradients gather_backward(const ContextProblem& p,
                                   const TravellingKv& kv,
                                   const PackedOutput& output,
                                   Communicator& group);

AttentionResult scatter_heads_forward(const ContextProblem& p,
                                      Communicator& group);
AttentionGradients scatter_heads_backward(const ContextProblem& p,
                                          const PackedOutput& output,
                                          Communicator& group);

}  // namespace assay::te
