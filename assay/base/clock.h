// The time of day as reports and traces of ours write it.
#pragma once

#include <string>

namespace assay {

// UTC, "2026-11-30T01:02:03Z".
std::string utc_time(double seconds_ago = 0);

}  // namespace assay
