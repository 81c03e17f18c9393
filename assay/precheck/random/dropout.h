// Dropout of every kind: which elements were dropped, and whether the others
// are exactly what they must be.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "assay/precheck/random/arguments.h"
#include "assay/precheck/random/tests.h"

namespace assay::precheck {

struct Dropout {
  double p = 0;          // chance to be dropped
  bool training = true;  // otherwise nothing happens
  bool alpha = false;    // alpha dropout: another value, another scale
  int channel_dims = 0;  // > 0: whole channels, told apart by these dimensions
  const Tensor* input = nullptr;

  bool draws() const { return training && p > 0 && p < 1; }
  // What becomes of x, kept and dropped; and of its gradient.
  double kept(double x) const;
  double dropped() const;
  double scale() const;
};

// nullopt: no dropout by that name. Throws Error{kUsage} where an argument
// that it needs is missing.
std::optional<Dropout> find_dropout(const RandomCall& call,
                                    const std::string& name);

// Each element of a result: kDropped, kKept, or kUnknown where the input tells
// nothing (zero, not finite).
enum class Fate : std::uint8_t { kKept, kDropped, kUnknown };
// Elements that are neither kept nor dropped are failures in `findings`.
std::vector<Fate> fates(Findings& findings, const Dropout& dropout,
                        const Tensor& output);
// Of a dropout of channels: one fate a channel, given to all its elements; a
// failure where elements of one channel disagree. Others: as they are.
void share_fates(Findings& findings, const Dropout& dropout,
                 std::vector<Fate>& fates);

void judge_dropout(Findings& findings, const Dropout& dropout,
                   const Tensor& golden, const Tensor& device);
// The mask that native_dropout (bool) and npu_dropout (bits) give beside it.
void judge_dropout_mask(Findings& findings, const Dropout& dropout,
                        const Tensor& mask);

// Zeros and ones, with the chances that the arguments give.
void judge_bernoulli(Findings& findings, const Parameter& p,
                     const Tensor& device);

}  // namespace assay::precheck
