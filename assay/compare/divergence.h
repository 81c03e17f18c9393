// Describes the row where two runs first part.
#pragma once

#include "assay/compare/compare.h"

namespace assay {

// `row` is an index into result.rows. The command in `again` repeats the
// comparison for the row's operator alone.
Divergence describe_divergence(const Comparison& result, std::size_t row);

// The shell command that compares the two paths of `result` by its standard
// with every option that decides what is compared and how, but --only.
std::string compare_command(const Comparison& result,
                            const CompareOptions& options);

// `text` as one word of a POSIX shell.
std::string shell_quote(const std::string& text);

}  // namespace assay
