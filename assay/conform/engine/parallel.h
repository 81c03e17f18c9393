// What the adapters of modules of several ranks share. Every rank is given the
// whole inputs and takes its part.
#pragma once

#include <memory>
#include <string>

#include "assay/conform/engine/engine.h"
#include "assay/te/parallel/communicator.h"

namespace assay::conform {

// The ranks of the case, which the worker owns; one process where there is no
// group. Throws Error{kUsage} where the parameter `ranks` says another number.
std::shared_ptr<te::Communicator> group_of(const AdapterCall& call);

// The calling rank's part of an input along the first or the last dimension;
// the whole where `cut` is kNone.
enum class Cut : std::uint8_t { kNone, kFirst, kLast };
Tensor part_of(const Tensor& whole, Cut cut, const te::Communicator& group);

}  // namespace assay::conform
