// What the recipes promise beside numbers: the fields' defaults, the formats'
// ranges, the numbers of dtypes.
#pragma once

#include "assay/conform/value.h"

namespace assay::conform {

// {"enums": {"DType": {"kByte": 0, ...}, "Format": {"E4M3": [448, 448], ...}},
//  "defaults": {"DelayedScaling": {"margin": 0, ...}, ...}}
// with NVTE's names. A format in a default is its name, MMParams an object of
// its fields, a backward_override that is not set null.
Object recipe_contract();

}  // namespace assay::conform
