#include "assay/cli/report_paths.h"

#include <unistd.h>

#include <filesystem>

#include "assay/base/error.h"
#include "assay/base/text.h"

namespace assay {
namespace fs = std::filesystem;
namespace {

[[noreturn]] void refuse(Code code, const ReportPath& report,
                         const std::string& why) {
  throw Error(code, report.flag + " " + printable(report.path) + ": " + why);
}

bool same_file(const fs::path& a, const fs::path& b) {
  std::error_code ignored;
  if (fs::equivalent(a, b, ignored)) return true;
  return fs::absolute(a).lexically_normal() ==
         fs::absolute(b).lexically_normal();
}

void check_folder(const ReportPath& report) {
  fs::path folder = fs::path(report.path).parent_path();
  if (folder.empty()) folder = ".";
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored)) {
    refuse(Code::kUnreadable, report, "its folder does not exist");
  }
  if (::access(folder.c_str(), W_OK) != 0) {
    refuse(Code::kUnreadable, report, "its folder is not writable");
  }
}

// Pipes and devices are written in place, one byte after the other.
void check_stream(const ReportPath& report) {
  std::error_code ignored;
  const auto status = fs::status(report.path, ignored);
  if (!fs::exists(status) || fs::is_regular_file(status)) {
    return check_folder(report);
  }
  if (fs::is_directory(status)) {
    refuse(Code::kUsage, report, "is a directory");
  }
  if (report.flag == "--xlsx") {
    refuse(Code::kUsage, report, "a spreadsheet needs a regular file");
  }
}

}  // namespace

void check_report_paths(const std::vector<ReportPath>& reports,
                        const std::vector<std::string>& inputs) {
  for (std::size_t i = 0; i < reports.size(); ++i) {
    const ReportPath& report = reports[i];
    if (report.path.empty()) continue;
    check_stream(report);
    for (const std::string& input : inputs) {
      if (same_file(report.path, input)) {
        refuse(Code::kUsage, report, "would overwrite an input");
      }
    }
    for (std::size_t k = 0; k < i; ++k) {
      if (!reports[k].path.empty() && same_file(report.path, reports[k].path)) {
        refuse(Code::kUsage, report,
               "is written by " + reports[k].flag + " too");
      }
    }
  }
}

}  // namespace assay
