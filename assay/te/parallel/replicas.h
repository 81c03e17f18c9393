// Parameters that every rank of a group must hold alike: made so, and checked.
#pragma once

#include <span>

#include "assay/te/modules/named_tensor.h"
#include "assay/te/parallel/communicator.h"

namespace assay::te {

// Overwrites the tensors, in place, with those of `root`. Any dtype,
// contiguous, writable. Collective: throws Error{kUsage} on every rank where
// names, shapes or dtypes differ.
void broadcast_tensors(std::span<NamedTensor> tensors, int root,
                       Communicator& group);

// Throws Error{kRefused} on every rank where a tensor holds other bytes on one
// of them: names the tensors, and for each the ranks that agree with one
// another, the largest set of them first. Bytes are compared by 128-bit hashes
// (XXH3): what to call after loading a checkpoint and before saving one, for a
// replica that a load or a memory fault has corrupted trains into a NaN many
// steps later (F52). -0 and +0 differ, as two NaNs do. Differing names, shapes
// or dtypes are an Error{kUsage}. Collective.
void require_same_bytes_everywhere(std::span<const NamedTensor> tensors,
                                   Communicator& group);

}  // namespace assay::te
