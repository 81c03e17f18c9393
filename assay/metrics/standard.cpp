// Loading a standard: by shipped name, or from a YAML file.
#include "assay/metrics/standard.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "assay/base/error.h"
#include "assay/base/text.h"
#include "assay/metrics/checks.h"
#include "assay/metrics/config_node.h"
#include "assay/metrics/embedded_standards.h"
#include "assay/metrics/standard_kinds.h"
#include "assay/metrics/standard_text.h"

namespace assay {
namespace {

struct Kind {
  std::string_view name;
  StandardPtr (*make)(const ConfigNode&);
};

constexpr Kind kKinds[] = {
    {"layered", make_layered},   {"tolerance", make_tolerance},
    {"relative", make_relative}, {"ratio", make_ratio},
    {"cosine", make_cosine},     {"msprobe", make_msprobe},
    {"exact", make_exact},
};

std::string read_file(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored))
    throw Error(Code::kUsage, fmt::format("{}: no regular file", path));
  std::ifstream file(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  if (file.bad() || !file.is_open())
    throw Error(Code::kUsage, fmt::format("{}: cannot be read", path));
  return text;
}

bool looks_like_path(const std::string& text) {
  return text.find('/') != std::string::npos || text.ends_with(".yaml") ||
         text.ends_with(".yml");
}

}  // namespace

std::shared_ptr<const Standard> parse_standard(const std::string& yaml,
                                               const std::string& origin) {
  const ConfigNode node = ConfigNode::parse(yaml, origin);
  const std::string name = node.at("kind").text();
  std::vector<std::string_view> names;
  for (const Kind& kind : kKinds) {
    if (kind.name == name) return kind.make(node);
    names.push_back(kind.name);
  }
  node.at("kind").fail(fmt::format("unknown kind '{}', expected one of {}",
                                   printable(name), fmt::join(names, ", ")));
}

std::shared_ptr<const Standard> Standard::load(
    const std::string& name_or_path) {
  for (const EmbeddedStandard& shipped : embedded_standards())
    if (shipped.name == name_or_path)
      return parse_standard(std::string(shipped.yaml),
                            fmt::format("standards/{}.yaml", shipped.name));
  if (looks_like_path(name_or_path))
    return parse_standard(read_file(name_or_path), name_or_path);
  const std::vector<std::string> names = shipped();
  const std::string near = closest(name_or_path, names);
  throw Error(Code::kUsage,
              fmt::format("no standard '{}'{}; shipped: {}; or give the path "
                          "of a YAML file",
                          printable(name_or_path),
                          near.empty() ? "" : ", did you mean '" + near + "'?",
                          fmt::join(names, ", ")));
}

std::vector<std::string> Standard::shipped() {
  std::vector<std::string> names;
  for (const EmbeddedStandard& standard : embedded_standards())
    names.emplace_back(standard.name);
  return names;
}

Reason Standard::note_values(const ErrorStats& stats, OpClass op) const {
  const Judgement judgement = judge(stats, op, nullptr, -1);
  std::string text =
      fmt::format("values, rounded to {}: {}", traits(stats.judged_dtype).name,
                  to_string(judgement.verdict));
  if (!judgement.reasons.empty()) text += ", " + judgement.reasons[0].text;
  return remark("rounded_values", std::move(text), stats.norm_l2);
}

}  // namespace assay
