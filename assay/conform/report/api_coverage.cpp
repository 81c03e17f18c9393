#include "assay/conform/report/api_coverage.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>

#include "assay/base/text.h"
#include "assay/conform/report/run_fields.h"
#include "assay/conform/report/run_view.h"

namespace assay::conform {
namespace {

std::int64_t uses(const std::vector<ApiName>& names) {
  std::int64_t total = 0;
  for (const ApiName& name : names) total += name.uses;
  return total;
}

std::set<std::string> modules(const RunResult& run) {
  std::set<std::string> names;
  for (const ModuleResult& module : run.modules) names.insert(module.module);
  return names;
}

}  // namespace

ApiCoverage api_coverage(const RunResult& run, std::vector<ApiName> scanned) {
  std::sort(scanned.begin(), scanned.end(),
            [](auto& a, auto& b) { return a.name < b.name; });
  const std::vector<std::string> list = guarded_api(run);
  std::set<std::string> unknown(list.begin(), list.end());
  ApiCoverage coverage;
  const std::set<std::string> ran = modules(run);
  for (ApiName& name : scanned) {
    const bool guarded =
        std::binary_search(list.begin(), list.end(), name.name) ||
        std::any_of(name.guards.begin(), name.guards.end(),
                    [&](const std::string& g) { return ran.contains(g); });
    unknown.erase(name.name);
    auto& names = guarded ? coverage.guarded : coverage.unguarded;
    if (!names.empty() && names.back().name == name.name)
      names.back().uses += name.uses;
    else
      names.push_back(std::move(name));
  }
  coverage.unknown.assign(unknown.begin(), unknown.end());
  return coverage;
}

std::vector<ApiName> read_scanned_api(const std::filesystem::path& scan) {
  const Value document = read_json_file(scan);
  const RunFields fields(document, scan.string());
  if (!fields.find("assay_api_scan"))
    fields.wrong("assay_api_scan",
                 "is missing: expected what assay api scan --json wrote");
  if (fields.integer("assay_api_scan", 1, 1 << 30) != 1)
    fields.wrong("assay_api_scan", "expected 1; a newer assay wrote this");
  std::vector<ApiName> names;
  fields.each("apis", [&](const RunFields& api) {
    names.push_back(
        {api.text("name"),
         api.integer("uses", 0, std::numeric_limits<std::int32_t>::max()),
         api.find("guarded_by") ? api.texts("guarded_by")
                                : std::vector<std::string>()});
  });
  return names;
}

std::string coverage_text(const ApiCoverage& c) {
  const std::int64_t guarded = uses(c.guarded);
  const std::int64_t all = guarded + uses(c.unguarded);
  std::string text =
      fmt::format("guards {} of {} API names",
                  human_count(static_cast<std::int64_t>(c.guarded.size())),
                  human_count(c.total()));
  if (all > 0)
    text += fmt::format(
        " ({} of {} uses)",
        percent_text(static_cast<double>(guarded) / static_cast<double>(all)),
        human_count(all));
  return text;
}

}  // namespace assay::conform
