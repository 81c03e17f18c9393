// A conformance run as JSON: run.json, and the report of the same form.
#pragma once

#include <filesystem>
#include <string>

#include "assay/conform/report/api_coverage.h"
#include "assay/conform/report/run_fields.h"
#include "assay/conform/run_result.h"

namespace assay::conform {

// run.json as write_run writes it, with the coverage of the API as "api" where
// there is one. docs/json-output.md has the schema.
std::string run_json(const RunResult& run, const ApiCoverage* api);

// To a file, which appears complete or not at all; a path that exists and is
// no regular file is written in place. Throws Error.
void write_run_json(const RunResult& run, const ApiCoverage* api,
                    const std::filesystem::path& path);

// One case as run.json has it, on one line. `run` gives the command that
// repeats it.
void append_case(std::string& out, const RunResult& run, const CaseResult& c);
// The same back; module and tier are not part of it. Throws Error{kRefused}.
CaseResult read_case(const RunFields& fields, const ModuleResult& module);

// The run.json of a run's folder, or the path itself where it is a file.
// Throws Error{kUnreadable}.
std::filesystem::path run_file(const std::filesystem::path& path);

}  // namespace assay::conform
