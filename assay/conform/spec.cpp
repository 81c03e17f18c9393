#include "assay/conform/spec.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "assay/base/error.h"
#include "assay/base/text.h"
#include "assay/conform/embedded_specs.h"

namespace assay::conform {
namespace {

namespace fs = std::filesystem;

std::string read_text(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  if (file.bad() || !file.is_open())
    throw Error(Code::kUnreadable,
                fmt::format("{}: cannot be read", path.string()));
  return text;
}

// The file is what `--specs` and reports name the module by.
Spec named_spec(const std::string& yaml, const std::string& path,
                const std::string& stem) {
  Spec spec = parse_spec(yaml, path);
  if (spec.module != stem)
    throw Error(
        Code::kUsage,
        fmt::format("{}:{}: module '{}', expected '{}' as the file is "
                    "named",
                    path, spec.lines["module"], spec.module, printable(stem)));
  return spec;
}

Spec read_spec(const fs::path& path) {
  return named_spec(read_text(path), path.string(), path.stem().string());
}

std::vector<Spec> shipped_specs() {
  std::vector<Spec> specs;
  for (const EmbeddedSpec& shipped : embedded_specs())
    specs.push_back(named_spec(std::string(shipped.yaml),
                               fmt::format("specs/{}.yaml", shipped.name),
                               std::string(shipped.name)));
  return specs;
}

std::vector<fs::path> yaml_files(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end;
       at.increment(error))
    if (at->path().extension() == ".yaml") files.push_back(at->path());
  if (error)
    throw Error(Code::kUnreadable,
                fmt::format("{}: {}", folder.string(), error.message()));
  if (files.empty())
    throw Error(Code::kUsage,
                fmt::format("{}: no spec (*.yaml)", folder.string()));
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

std::string_view to_string(Tier tier) {
  return tier == Tier::kSmall ? "small" : "real";
}

Tier parse_tier(std::string_view text) {
  if (text == "small") return Tier::kSmall;
  if (text == "real") return Tier::kReal;
  throw Error(Code::kUsage, fmt::format("no tier '{}', expected small or real",
                                        printable(text)));
}

std::vector<Spec> load_specs(const std::string& folder) {
  if (folder.empty()) return shipped_specs();
  std::error_code ignored;
  if (fs::is_regular_file(folder, ignored)) return {read_spec(folder)};
  std::vector<Spec> specs;
  for (const fs::path& file : yaml_files(folder))
    specs.push_back(read_spec(file));
  return specs;
}

std::vector<Spec> select_specs(std::vector<Spec> specs,
                               const std::vector<std::string>& modules) {
  if (modules.empty()) return specs;
  std::vector<std::string> names;
  for (const Spec& spec : specs) names.push_back(spec.module);
  for (const std::string& module : modules) {
    if (std::count(names.begin(), names.end(), module)) continue;
    const std::string near = closest(module, names);
    throw Error(Code::kUsage,
                fmt::format("no module '{}'{}", printable(module),
                            near.empty() ? fmt::format(" among {}",
                                                       fmt::join(names, ", "))
                                         : ", did you mean '" + near + "'?"));
  }
  std::erase_if(specs, [&modules](const Spec& spec) {
    return !std::count(modules.begin(), modules.end(), spec.module);
  });
  return specs;
}

}  // namespace assay::conform
