#include "assay/conform/summary.h"

#include <fmt/format.h>

#include "assay/base/text.h"

namespace assay::conform {

std::string summary(const Collected& collected, const std::string& folder) {
  std::string text;
  for (const Collected::Failure& failure : collected.failures) {
    text += fmt::format("no golden of {}: {}\n", failure.name, failure.message);
    if (!failure.log.empty()) text += "  log: " + failure.log + "\n";
  }
  text +=
      fmt::format("{}: {} goldens by {} {} on {}", folder,
                  human_count(collected.made), collected.hello.implementation,
                  collected.hello.version, collected.hello.device);
  const auto add = [&](std::int64_t count, std::string_view what) {
    if (count > 0) text += fmt::format(", {} {}", human_count(count), what);
  };
  add(collected.refused, "of them refusals");
  add(collected.unsupported, "of them unsupported");
  add(collected.kept, "kept");
  add(static_cast<std::int64_t>(collected.failures.size()), "failed");
  return text + (collected.interrupted ? "; interrupted\n" : "\n");
}

}  // namespace assay::conform
