// Refuses report files that cannot be written or would destroy something.
#pragma once

#include <string>
#include <vector>

namespace assay {

struct ReportPath {
  std::string flag;
  std::string path;  // "" when the flag was not given
};

// Throws Error before any work: a report over one of the inputs, two reports
// in one file, a spreadsheet into a pipe (kUsage); a folder that is absent or
// not writable (kUnreadable).
void check_report_paths(const std::vector<ReportPath>& reports,
                        const std::vector<std::string>& inputs);

}  // namespace assay
