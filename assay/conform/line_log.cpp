#include "assay/conform/line_log.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "assay/base/error.h"

namespace assay::conform {

LineLog::LineLog(const std::filesystem::path& path, bool resume,
                 const std::function<void(const std::string& line)>& visit)
    : path_(path) {
  std::error_code ignored;  // opening says why
  std::filesystem::create_directories(path.parent_path(), ignored);
  if (resume) {
    std::ifstream file(path_, std::ios::binary);
    for (std::string line; std::getline(file, line);)
      if (!line.empty()) visit(line);
  }
  file_ = std::fopen(path.c_str(), resume ? "ae" : "we");
  if (!file_) fail();
  // The line that a run died in has no end.
  if (resume && std::fputc('\n', file_) == EOF) fail();
}

LineLog::~LineLog() { std::fclose(file_); }

void LineLog::fail() const {
  throw Error(Code::kUnreadable,
              fmt::format("{}: cannot be written: {}", path_.string(),
                          std::strerror(errno)));
}

void LineLog::add(const std::string& line) {
  const std::lock_guard lock(mutex_);
  if (std::fwrite(line.data(), 1, line.size(), file_) != line.size() ||
      std::fputc('\n', file_) == EOF || std::fflush(file_) != 0)
    fail();
}

}  // namespace assay::conform
