// Cases as a table for a terminal, as JSON, and as files.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "assay/conform/cases.h"

namespace assay::conform {

// A line about the module, what all cases share, and a table with a column for
// each other parameter and the bytes of the inputs. Of an invalid case whose
// inputs have no size: "-".
std::string cases_text(const Spec& spec, const std::vector<Case>& cases);

// {"module", "summary", "spec", "tier", "cases": [{"case", "parameters", ...,
// "inputs": {"x": {"dtype", "shape", "bytes"}}, "strided": ["x"]}]}
Value cases_json(const Spec& spec, const std::vector<Case>& cases);

// FOLDER/MODULE/ID.json as cases_json has it and, where there are inputs,
// FOLDER/MODULE/ID.safetensors. Each file appears complete or not at all.
void write_case(const Spec& spec, const Case& c,
                const std::filesystem::path& folder);

}  // namespace assay::conform
