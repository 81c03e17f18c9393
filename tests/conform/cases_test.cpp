// Cases: every pair that any allowed case has is covered, by brute force.
#include "assay/conform/cases.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <set>

#include "assay/base/error.h"

namespace assay::conform {
namespace {

using ::testing::HasSubstr;

Spec spec_of(const std::string& parameters, const std::string& rest = "") {
  return parse_spec(
      "module: m\nparameters:\n" + parameters + "outputs:\n  y: {}\n" + rest,
      "specs/m.yaml");
}

std::vector<Case> valid(const std::vector<Case>& cases) {
  std::vector<Case> kept = cases;
  std::erase_if(kept, [](const Case& c) { return c.invalid; });
  return kept;
}

// Every combination of listed values that the constraints allow.
std::vector<Parameters> brute_force(const Spec& spec, Tier tier) {
  std::vector<Parameters> all = {{}};
  for (const Parameter& parameter : spec.parameters) {
    std::vector<Parameters> longer;
    for (const Parameters& some : all)
      for (const Value& value : parameter.values(tier)) {
        longer.push_back(some);
        longer.back()[parameter.name] = value;
      }
    all = std::move(longer);
  }
  std::erase_if(all, [&spec](const Parameters& p) {
    return !std::all_of(spec.constraints.begin(), spec.constraints.end(),
                        [&p](const Expression& e) { return e.holds(p); });
  });
  return all;
}

using PairSet = std::set<std::string>;
void add_pairs(const Parameters& p, PairSet& pairs) {
  for (auto a = p.begin(); a != p.end(); ++a)
    for (auto b = p.begin(); b != p.end(); ++b)
      pairs.insert(
          to_json(Object{{a->first, a->second}, {b->first, b->second}}));
}

void expect_covered(const Spec& spec, Tier tier) {
  PairSet wanted, found;
  const std::vector<Parameters> allowed = brute_force(spec, tier);
  for (const Parameters& p : allowed) add_pairs(p, wanted);
  for (const Case& c : valid(make_cases(spec, tier))) {
    EXPECT_TRUE(std::count(allowed.begin(), allowed.end(), c.parameters))
        << to_json(c.parameters);
    add_pairs(c.parameters, found);
  }
  EXPECT_EQ(wanted, found);
}

TEST(Cases, CoverEveryAllowedPair) {
  expect_covered(spec_of("  a: [1, 2, 3]\n  b: [x, y]\n  c: [true, false]\n"),
                 Tier::kSmall);
  expect_covered(
      spec_of("  a: [1, 2, 3, 4]\n  b: [1, 2, 3]\n  c: [1, 2, 3]\n"
              "  d: [p, q]\n",
              "constraints:\n  - a != b\n  - b + c <= 4 or d == 'q'\n"
              "  - not (a == 4 and d == 'q')\n"),
      Tier::kSmall);
  // b is tied to a, and c to b: few pairs of a and c are possible.
  expect_covered(spec_of("  a: [1, 2, 3]\n  b: [1, 2, 3]\n  c: [1, 2, 3]\n",
                         "constraints: [a == b, b == c]\n"),
                 Tier::kSmall);
}

TEST(Cases, CoverEveryAllowedPairOfAnySmallSpec) {
  rc::check([] {
    std::string parameters, constraints = "constraints:\n  - true\n";
    const int n = *rc::gen::inRange(1, 6);
    for (int p = 0; p < n; ++p) {
      parameters += "  p" + std::to_string(p) + ": [0";
      const int last = *rc::gen::inRange(0, 4);
      for (int v = 1; v <= last; ++v) parameters += ", " + std::to_string(v);
      parameters += "]\n";
    }
    const int rules = *rc::gen::inRange(0, 4);
    for (int r = 0; r < rules; ++r) {
      const auto name = [n] {
        return "p" + std::to_string(*rc::gen::inRange(0, n));
      };
      // All zeros is always allowed.
      constraints += "  - " + name() + " * " +
                     std::to_string(*rc::gen::inRange(1, 4)) + " <= " + name() +
                     " + " + name() + " * 2\n";
    }
    expect_covered(spec_of(parameters, constraints), Tier::kSmall);
  });
}

TEST(Cases, AreNearTheFewestThereCanBe) {
  // Without constraints the product of the two largest is the least.
  const auto count = [](const std::string& parameters) {
    return make_cases(spec_of(parameters), Tier::kSmall).size();
  };
  EXPECT_EQ(count("  a: [1, 2, 3]\n  b: [1, 2, 3, 4]\n"), 12u);
  EXPECT_LE(count("  a: [1, 2, 3, 4, 5, 6, 7, 8]\n  b: [1, 2, 3, 4, 5, 6]\n"
                  "  c: [1, 2, 3]\n  d: [1, 2]\n  e: [1, 2]\n  f: [1, 2]\n"),
            50u);
  std::string ten;
  for (int p = 0; p < 10; ++p) ten += "  p" + std::to_string(p) + ": [1, 2]\n";
  EXPECT_LE(count(ten), 8u);  // the best that is known is 6
  const Spec linear = select_specs(load_specs(""), {"linear"})[0];
  EXPECT_LE(make_cases(linear, Tier::kSmall).size(), 80u);  // 8 * 7 and more
}

TEST(Cases, StartWithThePinnedAndEndWithTheInvalid) {
  const Spec spec =
      spec_of("  a: {small: [1, 2], real: [7]}\n  b: [x, y]\n",
              "constraints: [a != 2 or b == 'y' or true]\n"
              "pinned:\n  - {a: 2, b: x}\n  - {a: 99}\n  - {a: 7}\n"
              "  - {b: y}\n"
              "invalid:\n  odd: {b: z}\n");
  const std::vector<Case> cases = make_cases(spec, Tier::kSmall);
  EXPECT_EQ(to_json(cases[0].parameters), R"({"a": 2, "b": "x"})");
  EXPECT_EQ(to_json(cases[1].parameters), R"({"a": 99, "b": "x"})");
  EXPECT_EQ(cases[2].parameters.at("b"), Value("y"));
  EXPECT_NE(cases[2].parameters.at("a"), Value(7)) << "of the real tier alone";
  const Case& last = cases.back();
  EXPECT_TRUE(last.invalid);
  EXPECT_EQ(last.id, "small-invalid-odd");
  EXPECT_EQ(to_json(last.parameters), R"({"a": 1, "b": "z"})");
  for (const Case& c : make_cases(spec, Tier::kReal)) {
    EXPECT_EQ(c.parameters.at("a"), Value(7));
    EXPECT_FALSE(c.invalid);
  }
}

TEST(Cases, KeepTheirIdsWhateverOthersThereAre) {
  const Spec few = spec_of("  a: [1, 2]\n  b: [x, y]\n");
  const Spec more = spec_of("  a: [1, 2, 3, 4, 5]\n  b: [x, y, z]\n");
  const auto ids = [](const Spec& spec) {
    std::map<std::string, std::string> found;
    for (const Case& c : make_cases(spec, Tier::kSmall))
      found[to_json(c.parameters)] = c.name();
    return found;
  };
  const auto small = ids(few), large = ids(more);
  int shared = 0;
  for (const auto& [parameters, name] : small)
    if (large.count(parameters)) {
      EXPECT_EQ(large.at(parameters), name);
      ++shared;
    }
  EXPECT_GT(shared, 0);
  // The same bytes on every machine, for ever: goldens are found by them.
  EXPECT_EQ(small.at(R"({"a": 1, "b": "x"})"), "m/small-b8444944");
}

TEST(Cases, DifferInIdWithSeedAndSteps) {
  const std::string a = "  a: [1]\n";
  std::set<std::string> ids;
  for (const char* rest : {"", "seed: 2\n", "steps: 3\n", "steps: 4\n"})
    ids.insert(make_cases(spec_of(a, rest), Tier::kSmall)[0].id);
  EXPECT_EQ(ids.size(), 4u);
  EXPECT_EQ(
      make_cases(spec_of(a, "steps: {small: 2, real: 5}\n"), Tier::kReal)[0]
          .steps,
      5);
}

std::string refusal(const Spec& spec) {
  try {
    make_cases(spec, Tier::kSmall);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Cases, NameTheConstraintsThatForbidEverything) {
  EXPECT_EQ(refusal(spec_of("  a: [1, 2]\n  b: [1, 2]\n",
                            "constraints:\n  - a < b\n  - a != 7\n"
                            "  - a > b\n")),
            "specs/m.yaml:7: small tier: no case satisfies the constraints: "
            "a < b; a > b");
  EXPECT_EQ(refusal(spec_of("  a: [1, 2]\n  b: [1, 2]\n",
                            "constraints: [a < b]\npinned:\n  - {a: 2}\n")),
            "specs/m.yaml:9: small tier: constraints forbid the pinned case "
            "{\\\"a\\\": 2}: a < b");
}

TEST(Cases, LetOneConstraintGuardAnother) {
  const std::string parameters = "  a: [0, 1, 2]\n  b: [0, 1]\n";
  const Spec spec = spec_of(
      parameters, "constraints: [a // b == a or b == 7, (a == 0) == (b == 0),"
                  " a > 0]\n");
  for (const Case& c : make_cases(spec, Tier::kSmall))
    EXPECT_EQ(c.parameters.at("b"), Value(1));
  EXPECT_THAT(refusal(spec_of(parameters, "constraints: [a // b == a]\n")),
              HasSubstr("specs/m.yaml:7: a // b == a: a division by zero"));
}

TEST(Cases, AreFoundAmongConstraintsThatASearchWithoutForesightGetsLostIn) {
  // Twelve parameters that are all equal, which the last one alone decides.
  std::string parameters, constraints = "constraints:\n";
  for (int p = 0; p < 12; ++p) {
    const std::string name = "p" + std::to_string(p);
    parameters += "  " + name + ": [0, 1, 2, 3, 4, 5, 6, 7]\n";
    if (p > 0)
      constraints += "  - " + name + " == p" + std::to_string(p - 1) + "\n";
  }
  constraints += "  - p11 == 7\n";
  EXPECT_EQ(make_cases(spec_of(parameters, constraints), Tier::kSmall).size(),
            1u);
}

TEST(Cases, ReadRanks) {
  const std::vector<Case> cases =
      make_cases(spec_of("  ranks: [1, 4]\n"), Tier::kSmall);
  ASSERT_EQ(cases.size(), 2u);
  EXPECT_EQ(cases[0].ranks + cases[1].ranks, 5);
  EXPECT_THAT(refusal(spec_of("  ranks: [0]\n")), HasSubstr("ranks 0"));
}

TEST(Cases, OfASpecWithoutParametersAreOne) {
  const Spec spec = parse_spec("module: m\noutputs: {y: {}}\n", "m.yaml");
  EXPECT_EQ(make_cases(spec, Tier::kSmall).size(), 1u);
}

}  // namespace
}  // namespace assay::conform
