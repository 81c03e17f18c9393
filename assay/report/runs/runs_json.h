// Compared training runs as JSON: for programs, and for the page.
#pragma once

#include <string>

#include "assay/compare/runs/compare_runs.h"

namespace assay {

// docs/watch.md has its members.
std::string runs_json(const RunsComparison& comparison);
// The same with a member "panels", the points that the page draws.
std::string runs_page_json(const RunsComparison& comparison);

}  // namespace assay
