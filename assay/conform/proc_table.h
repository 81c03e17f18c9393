// The processes of this machine as /proc shows them.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace assay::conform {

// Resident bytes of a process, of its group and of all that descend from it.
// 0 where /proc cannot be read.
std::int64_t resident_bytes_below(int pid);

// Processes of this user, but for this one, whose environment holds the entry
// "NAME=value": it is inherited by whatever a process starts, also by what
// moves to another group or session.
std::vector<int> processes_with_environment(std::string_view entry);

}  // namespace assay::conform
