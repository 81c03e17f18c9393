// Drafts a spec from a signature.
#pragma once

#include <string>

#include "assay/conform/api/manifest.h"

namespace assay::conform {

// YAML for `api`, a function or class of the manifest by any of its names:
// inputs, parameters, outputs and constraints are guessed, what a signature
// does not say is '?'. parse_spec refuses it, naming the gap, until every one
// is filled. Throws Error{kUsage} for a name that the manifest lacks, with the
// nearest, or one that cannot be called.
std::string draft_spec(const ApiManifest& manifest, const std::string& api);

}  // namespace assay::conform
