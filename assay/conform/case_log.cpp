#include "assay/conform/case_log.h"

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

}  // namespace assay::conform
