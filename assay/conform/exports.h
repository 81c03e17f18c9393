// Whether a package has every name that the specs guard.
#pragma once

#include <optional>

#include "assay/conform/protocol.h"
#include "assay/conform/run_result.h"
#include "assay/conform/spec.h"

namespace assay::conform {

// One case more of a module whose worker says in its hello which names of the
// API it has, as those that stand for an installed package do: "exports", a
// mismatch that names what is missing. Nullopt for a worker that says nothing
// of the kind (the engine, plain PyTorch): it computes what the names mean, and
// claims none of them.
std::optional<CaseResult> judge_exports(const Spec& spec, Tier tier,
                                        const Hello& hello);

}  // namespace assay::conform
