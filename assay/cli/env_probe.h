// What only other programs can tell of an environment: Python's libraries and
// switches, the devices that a vendor's tool lists.
#pragma once

#include "assay/env/snapshot.h"

namespace assay {

// By `python -m assay.env` of $ASSAY_PYTHON, and nvidia-smi, npu-smi or
// rocminfo where PATH has them. Never throws: what cannot be had is said in the
// sections' `missing`.
env::Snapshot probe_environment();

}  // namespace assay
