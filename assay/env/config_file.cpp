#include "assay/env/config_file.h"

#include "assay/base/error.h"
#include "assay/base/mapped_file.h"
#include "assay/base/text.h"
#include "assay/env/config_values.h"

namespace assay::env {
namespace {

constexpr std::size_t kMostBytes = std::size_t{64} << 20;

bool ends_with_one_of(std::string_view name,
                      std::initializer_list<std::string_view> ends) {
  for (const std::string_view end : ends)
    if (name.size() >= end.size() &&
        iequals(name.substr(name.size() - end.size()), end))
      return true;
  return false;
}

void read_by_content(std::string_view text, ConfigValues& values) {
  if (read_namespace(text, values) || read_argument_lines(text, values)) return;
  if (trim(text).starts_with('{')) return read_json_config(text, values);
  read_ini_config(text, values);
}

}  // namespace

std::map<std::string, Value> parse_config(std::string_view text,
                                          const std::string& source) {
  ConfigValues values(source);
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  if (ends_with_one_of(source, {".json"})) {
    read_json_config(text, values);
  } else if (ends_with_one_of(source, {".yaml", ".yml"})) {
    read_yaml_config(text, values);
  } else if (ends_with_one_of(source, {".ini", ".cfg", ".conf", ".toml"})) {
    read_ini_config(text, values);
  } else {
    read_by_content(text, values);
  }
  return values.take();
}

std::map<std::string, Value> read_config(const std::filesystem::path& path) {
  const auto file = MappedFile::open(path);
  if (file->size() > kMostBytes)
    throw Error(Code::kRefused, printable(path.string()) +
                                    ": a configuration of more than 64 MiB");
  const auto bytes = file->bytes();
  std::map<std::string, Value> values =
      parse_config({reinterpret_cast<const char*>(bytes.data()), bytes.size()},
                   path.string());
  file->check_intact();
  return values;
}

}  // namespace assay::env
