// Draws that choose: permutations, categories by weight, slopes.
#pragma once

#include "assay/precheck/random/arguments.h"
#include "assay/precheck/random/tests.h"

namespace assay::precheck {

// 0 to n - 1, each once, in an order without pattern.
void judge_permutation(Findings& findings, const Tensor& device);

// Throw Error{kUsage} where an argument that they need is missing.
void judge_multinomial(Findings& findings, const RandomCall& call,
                       const Tensor& device);
void judge_gumbel_softmax(Findings& findings, const RandomCall& call,
                          const Tensor& device);
// F.rrelu, and rrelu_with_noise, whose noise stands before the limits.
void judge_rrelu(Findings& findings, const RandomCall& call, bool with_noise,
                 const Tensor& device);

struct Rrelu {
  const Tensor* input;
  double lower, upper;
  bool training;

  bool draws() const { return training && lower < upper; }
};
Rrelu read_rrelu(const RandomCall& call, bool with_noise);

}  // namespace assay::precheck
