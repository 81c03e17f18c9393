// The two kinds of lines of a run's log: JSON objects, and rows of a CSV file.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "assay/trace/run_log.h"

namespace assay {

// One JSON object. False: a heading, whose texts and numbers are in `facts`.
// `where` names the line in errors; throws Error{kRefused}, and kUnreadable
// where the object is cut off.
bool parse_json_step(std::string_view line, const std::string& where,
                     RunStep& step,
                     std::vector<std::pair<std::string, std::string>>& facts);

// The rows below a heading.
class CsvSteps {
 public:
  // Throws Error{kRefused} where the heading has no step or a name twice.
  CsvSteps(std::string_view heading, const std::string& where);
  RunStep parse(std::string_view line, const std::string& where) const;

 private:
  enum : int { kSkipped = -2, kStep = -1 };
  std::vector<int> columns_;  // a figure's number, or one of the above
};

}  // namespace assay
