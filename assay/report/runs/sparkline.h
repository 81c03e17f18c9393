// A curve as a few blocks of text.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace assay {

// Means of equal parts of `values` as one of eight blocks each, `low` the
// lowest and `high` the highest; a part with a value that is not finite is a
// cross. Shorter where there are fewer values than columns.
std::string sparkline(const std::vector<double>& values, double low,
                      double high, std::size_t columns);

}  // namespace assay
