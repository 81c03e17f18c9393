#include "assay/conform/case_json.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <limits>

#include "assay/base/text.h"

namespace assay::conform {
namespace {

constexpr std::size_t kMaxName = 100;
constexpr std::string_view kTiers[] = {"small", "real"};

bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.';
}

constexpr int kMost = std::numeric_limits<int>::max();

std::string safe_name(const RunFields& fields, const char* field) {
  std::string text = fields.text(field);
  if (!is_safe_name(text))
    fields.wrong(field, printable(text) + ", expected a plain name");
  return text;
}

Tier tier_from(const RunFields& fields) {
  const std::string text = fields.text("tier");
  for (std::size_t i = 0; i < std::size(kTiers); ++i)
    if (kTiers[i] == text) return static_cast<Tier>(i);
  fields.wrong("tier", printable(text) + ", expected small or real");
}

}  // namespace

bool is_safe_name(std::string_view text) {
  return !text.empty() && text.size() <= kMaxName && text[0] != '.' &&
         std::all_of(text.begin(), text.end(), is_name_character);
}

Object case_to_json(const Case& c) {
  return {{"module", c.module},
          {"case", c.id},
          {"tier", kTiers[static_cast<std::size_t>(c.tier)]},
          {"parameters", c.parameters},
          {"steps", c.steps},
          {"ranks", c.ranks},
          {"seed", std::to_string(c.seed)},  // 64 bits without a sign
          {"invalid", c.invalid}};
}

Case case_from_json(const RunFields& fields) {
  Case c;
  c.module = safe_name(fields, "module");
  c.id = safe_name(fields, "case");
  c.tier = tier_from(fields);
  c.parameters = fields.object("parameters");
  c.steps = static_cast<int>(fields.integer("steps", 1, kMost));
  c.ranks = static_cast<int>(fields.integer("ranks", 1, kMost));
  const std::string seed = fields.text("seed");
  if (seed.empty() || seed.size() > 20 ||
      seed.find_first_not_of("0123456789") != std::string::npos)
    fields.wrong("seed", printable(seed) + ", expected digits");
  c.seed = std::strtoull(seed.c_str(), nullptr, 10);
  c.invalid = fields.flag_or("invalid", false);
  return c;
}

}  // namespace assay::conform
