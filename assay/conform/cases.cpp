#include "assay/conform/cases.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "assay/base/error.h"
#include "assay/base/hash.h"
#include "assay/base/text.h"
#include "assay/conform/case_space.h"
#include "assay/conform/pairwise.h"

namespace assay::conform {
namespace {

// Seeds stay in 31 bits: every framework's generator takes those.
constexpr std::uint64_t kSeedMask = 0x7fffffff;
constexpr std::int64_t kMaxRanks = 1024;

int ranks_of(const Spec& spec, const Parameters& parameters) {
  const auto found = parameters.find("ranks");
  if (found == parameters.end()) return 1;
  const Value& ranks = found->second;
  if (!ranks.is_integer() || ranks.integer() < 1 || ranks.integer() > kMaxRanks)
    throw Error(Code::kUsage,
                fmt::format("{}: ranks {}, expected an integer from 1 to {}",
                            spec.path, printable(to_json(ranks)), kMaxRanks));
  return static_cast<int>(ranks.integer());
}

Case make_case(const Spec& spec, Tier tier, Parameters parameters) {
  Case made;
  made.module = spec.module;
  made.tier = tier;
  made.steps = spec.steps(tier);
  made.ranks = ranks_of(spec, parameters);
  const Hash128 hash =
      hash128(to_json(List{spec.module, parameters, std::int64_t{made.steps},
                           static_cast<std::int64_t>(spec.seed)}));
  made.seed = hash.low & kSeedMask;
  made.id = fmt::format("{}-{:08x}", to_string(tier), hash.high >> 32);
  made.parameters = std::move(parameters);
  return made;
}

// "specs/x.yaml:12" of what `key` of Spec::lines says.
std::string place(const Spec& spec, const std::string& key) {
  const auto found = spec.lines.find(key);
  if (found == spec.lines.end()) return spec.path;
  return fmt::format("{}:{}", spec.path, found->second);
}

[[noreturn]] void refuse(const std::string& where, Tier tier,
                         const std::string& what,
                         const std::vector<Expression>& conflict) {
  std::string names;
  for (const Expression& expression : conflict)
    names += (names.empty() ? "" : "; ") + printable(expression.text());
  throw Error(Code::kUsage, fmt::format("{}: {} tier: {}: {}", where,
                                        to_string(tier), what, names));
}

bool among(const std::vector<Value>& values, const Value& value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

// The rule that Spec::pinned states.
bool belongs(const Spec& spec, const Parameters& pinned, Tier tier) {
  for (const Parameter& parameter : spec.parameters) {
    const auto found = pinned.find(parameter.name);
    if (found == pinned.end()) continue;
    const bool small = among(parameter.small, found->second);
    const bool real = among(parameter.real, found->second);
    if (tier == Tier::kReal ? !real : real && !small) return false;
  }
  return true;
}

std::vector<Choice> pinned_choices(const Spec& spec, Tier tier,
                                   CaseSpace& space) {
  std::vector<Choice> choices;
  for (std::size_t i = 0; i < spec.pinned.size(); ++i) {
    if (!belongs(spec, spec.pinned[i], tier)) continue;
    const Choice partial = space.choose(spec.pinned[i]);
    std::optional<Choice> found = space.complete(partial);
    if (!found)
      refuse(place(spec, fmt::format("pinned.{}", i)), tier,
             fmt::format("constraints forbid the pinned case {}",
                         printable(to_json(spec.pinned[i]))),
             space.conflict(partial));
    if (!std::count(choices.begin(), choices.end(), *found))
      choices.push_back(std::move(*found));
  }
  return choices;
}

Case invalid_case(const Spec& spec, const Invalid& invalid) {
  Parameters parameters;
  for (const Parameter& parameter : spec.parameters)
    parameters[parameter.name] = parameter.small.front();
  for (const auto& [name, value] : invalid.parameters) parameters[name] = value;
  Case made = make_case(spec, Tier::kSmall, std::move(parameters));
  made.id = "small-invalid-" + invalid.name;
  made.invalid = true;
  return made;
}

std::uint64_t covering_seed(const Spec& spec, Tier tier) {
  return hash128(to_json(List{spec.module, std::string(to_string(tier)),
                              static_cast<std::int64_t>(spec.seed)}))
      .low;
}

}  // namespace

std::vector<Case> make_cases(const Spec& spec, Tier tier) {
  CaseSpace space(spec, tier);
  const Choice nothing(static_cast<std::size_t>(space.size()), kOpen);
  if (!space.complete(nothing))
    refuse(place(spec, "constraints"), tier,
           "no case satisfies the constraints", space.conflict(nothing));
  std::vector<Choice> pinned = pinned_choices(spec, tier, space);

  std::vector<Case> cases;
  std::set<std::string> ids;
  for (const Choice& choice :
       cover_pairs(space, std::move(pinned), covering_seed(spec, tier))) {
    cases.push_back(make_case(spec, tier, space.parameters(choice)));
    if (!ids.insert(cases.back().id).second)
      throw Error(Code::kUsage,
                  fmt::format("{}: two cases have the id {}; another seed "
                              "tells them apart",
                              place(spec, "seed"), cases.back().id));
  }
  if (tier == Tier::kSmall)
    for (const Invalid& invalid : spec.invalid)
      cases.push_back(invalid_case(spec, invalid));
  return cases;
}

}  // namespace assay::conform
