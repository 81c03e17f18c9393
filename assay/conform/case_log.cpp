#include "assay/conform/case_log.h"

#include <ctime>
#include <system_error>

#include "assay/base/atomic_file.h"

namespace assay::conform {

std::string keep_log(const std::filesystem::path& folder, const Case& c,
                     const std::string& side, const std::string& text) {
  if (text.empty()) return "";
  std::error_code ignored;  // writing says why
  std::filesystem::create_directories(folder, ignored);
  const std::filesystem::path path =
      folder / (c.module + "-" + c.id + "." + side + ".log");
  AtomicFile file(path);
  file.write(text);
  file.commit();
  return path.string();
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

}  // namespace assay::conform
