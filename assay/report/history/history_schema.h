// The tables of a history, and how an older file becomes the newest form.
#pragma once

#include "assay/report/history/database.h"

namespace assay {

// "ASSY": says in the file's header whose it is.
inline constexpr std::int64_t kHistoryApplication = 0x41535359;

// Creates the tables in an empty file, brings older ones up to date where
// `writable`. Throws Error{kRefused} for a file that is another program's, was
// written by a newer assay, or has other tables than ours.
void prepare_history(const Database& db, bool writable);

}  // namespace assay
