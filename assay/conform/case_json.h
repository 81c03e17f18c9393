// A case as JSON, in manifests, journals and run.json.
#pragma once

#include "assay/conform/cases.h"
#include "assay/conform/report/run_fields.h"
#include "assay/conform/value.h"

namespace assay::conform {

Object case_to_json(const Case& c);
// Throws Error{kRefused} naming the field, also where module or id could not
// be a file's name.
Case case_from_json(const RunFields& fields);

// Letters, digits, '_', '-', '.', not at its beginning; 100 at most: safe as
// the name of a file, whoever wrote it.
bool is_safe_name(std::string_view text);

}  // namespace assay::conform
