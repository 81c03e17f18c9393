#include "assay/cli/manifest_file.h"

#include <filesystem>

#include "assay/conform/api/python_call.h"
#include "assay/conform/report/run_fields.h"

namespace assay {

conform::ApiManifest read_manifest(const std::string& name) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  fs::path path = name;
  if (name.find('/') == std::string::npos && !fs::exists(path, ignored)) {
    const fs::path shipped =
        conform::shared_folder() / "specs/api" / (name + ".json");
    if (fs::exists(shipped, ignored)) path = shipped;
  }
  return conform::parse_api_manifest(conform::read_json_file(path),
                                     path.string());
}

}  // namespace assay
