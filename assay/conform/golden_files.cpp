#include "assay/conform/golden_files.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "assay/base/text.h"
#include "assay/conform/case_json.h"

namespace assay::conform {
namespace {

constexpr std::string_view kObjectEnd = ".safetensors";
constexpr std::string_view kCaseEnd = ".json";

class FolderFiles : public GoldenFiles {
 public:
  explicit FolderFiles(std::filesystem::path folder)
      : folder_(std::move(folder)) {}

  std::vector<std::string> names() const override {
    std::vector<std::string> names;
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(folder_)) {
      if (!entry.is_regular_file()) continue;
      std::string name =
          entry.path().lexically_relative(folder_).generic_string();
      if (is_store_name(name)) names.push_back(std::move(name));
    }
    std::sort(names.begin(), names.end());
    return names;
  }
  bool has(const std::string& name) const override {
    std::error_code ignored;
    return std::filesystem::is_regular_file(folder_ / name, ignored);
  }
  FileBytes read(const std::string& name) const override {
    return FileBytes::of(MappedFile::open(folder_ / name));
  }
  std::filesystem::path path_of(const std::string& name) const override {
    return folder_ / name;
  }

 private:
  std::filesystem::path folder_;
};

bool is_object_name(const std::vector<std::string_view>& parts) {
  return parts.size() == 3 && parts[0] == "objects" &&
         parts[2].ends_with(kObjectEnd) &&
         is_hash(parts[2].substr(0, parts[2].size() - kObjectEnd.size())) &&
         parts[1] == parts[2].substr(0, 2);
}

bool is_case_name(const std::vector<std::string_view>& parts) {
  return parts.size() == 3 && parts[0] == "cases" && is_safe_name(parts[1]) &&
         parts[2].ends_with(kCaseEnd) &&
         is_safe_name(parts[2].substr(0, parts[2].size() - kCaseEnd.size()));
}

}  // namespace

std::string case_file(const std::string& module, const std::string& id) {
  return "cases/" + module + "/" + id + std::string(kCaseEnd);
}

std::string object_file(const std::string& hash) {
  return "objects/" + hash.substr(0, 2) + "/" + hash + std::string(kObjectEnd);
}

bool is_store_name(const std::string& name) {
  if (name == kStoreFile) return true;
  const std::vector<std::string_view> parts = split(name, '/');
  return is_object_name(parts) || is_case_name(parts);
}

std::unique_ptr<GoldenFiles> open_folder(const std::filesystem::path& folder) {
  return std::make_unique<FolderFiles>(folder);
}

}  // namespace assay::conform
