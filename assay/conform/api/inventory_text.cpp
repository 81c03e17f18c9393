#include "assay/conform/api/inventory_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "assay/base/text.h"

namespace assay::conform {
namespace {

std::string count(int number, const char* noun) {
  return fmt::format("{} {}{}", number, noun, number == 1 ? "" : "s");
}

std::string guard_text(const ApiEntry& entry, bool has_manifest) {
  std::string text = entry.guards.empty()
                         ? "unguarded"
                         : fmt::format("{}", fmt::join(entry.guards, ", "));
  if (has_manifest && !entry.in_manifest) text += "; not in the manifest";
  return text;
}

}  // namespace

std::string inventory_summary(const Inventory& inventory) {
  std::string text = fmt::format(
      "{} of {} in {} of {} read\n", count(inventory.uses, "use"),
      count(static_cast<int>(inventory.apis.size()), "API"),
      inventory.files_with_uses, count(inventory.files_read, "file"));
  for (int i = 0; i < kApiClasses; ++i) {
    const Inventory::Share& share =
        inventory.shares[static_cast<std::size_t>(i)];
    if (share.apis == 0) continue;
    text += fmt::format("{:<12}  {:>9}  {:>9}  {} unguarded\n",
                        to_string(static_cast<ApiClass>(i)),
                        count(share.apis, "API"), count(share.uses, "use"),
                        share.unguarded);
  }
  std::vector<std::string> unknown;
  for (const ApiEntry& entry : inventory.apis) {
    if (!entry.in_manifest) unknown.push_back(entry.name);
  }
  if (inventory.has_manifest && !unknown.empty()) {
    text += fmt::format("not in the manifest: {}\n", fmt::join(unknown, ", "));
  }
  for (const ApiProblem& problem : inventory.problems) {
    text +=
        fmt::format("not read      {}{}: {}\n", printable(problem.file),
                    problem.line > 0 ? fmt::format(":{}", problem.line) : "",
                    printable(problem.reason));
  }
  return text;
}

std::string inventory_table(const Inventory& inventory) {
  std::size_t width = 0;
  for (const ApiEntry& entry : inventory.apis) {
    width = std::max(width, entry.name.size());
  }
  std::string text;
  for (const ApiEntry& entry : inventory.apis) {
    text +=
        fmt::format("{:<12}  {:<{}}  {:>4} in {:<8}  {}\n",
                    to_string(entry.api_class), entry.name, width, entry.uses,
                    count(static_cast<int>(entry.files.size()), "file"),
                    guard_text(entry, inventory.has_manifest));
  }
  return text;
}

std::string inventory_by_file(const Inventory& inventory) {
  std::map<std::string, std::map<std::string, int>> files;
  for (const ApiEntry& entry : inventory.apis) {
    for (const auto& [file, uses] : entry.files) {
      files[file][entry.name] = uses;
    }
  }
  std::string text;
  for (const auto& [file, apis] : files) {
    int uses = 0;
    for (const auto& [name, number] : apis) uses += number;
    text += fmt::format("{}  {}\n", printable(file), count(uses, "use"));
    for (const auto& [name, number] : apis) {
      text += fmt::format("  {:>4}  {}\n", number, name);
    }
  }
  return text;
}

}  // namespace assay::conform
