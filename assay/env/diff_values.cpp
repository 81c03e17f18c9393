// Settings by key: same, different, or on one side alone.
#include <map>

#include "assay/env/diff_rows.h"
#include "assay/env/environment.h"
#include "assay/env/value_equal.h"

namespace assay::env {
namespace {

// "2.6.0+cu124" -> "2.6.0": what was released, without how it was built.
std::string_view release(std::string_view version) {
  return version.substr(0, version.find('+'));
}

class ValueDiff {
 public:
  ValueDiff(const DiffSides& sides, Section section, DiffRows& rows)
      : sides_(sides), section_(section), rows_(rows) {}

  void run() {
    std::map<std::string, std::pair<const Value*, const Value*>> keys;
    for (const auto& [key, value] : sides_.golden[section_].values)
      keys[name_of(key)].first = &value;
    for (const auto& [key, value] : sides_.target[section_].values)
      keys[name_of(key)].second = &value;
    for (const auto& [key, pair] : keys) add(key, pair.first, pair.second);
  }

 private:
  // Variables of two vendors for one thing are one row.
  std::string name_of(const std::string& key) const {
    if (!sides_.two_vendors()) return key;
    return sides_.table.common_name(section_, key).value_or(key);
  }

  void add(const std::string& key, const Value* golden, const Value* target) {
    Row row = value_row(golden, target);
    if (golden && target) {
      both(key, *golden, *target, row);
    } else {
      one_side(key, golden ? *golden : *target, golden != nullptr, row);
    }
    rows_.add(section_, key, std::move(row));
  }

  void both(const std::string& key, const Value& golden, const Value& target,
            Row& row) const {
    switch (compare_values(section_, golden, target)) {
      case Sameness::kYes:
        row.verdict = Verdict::kMatch;
        return;
      case Sameness::kUnknown:
        return judge(row, Verdict::kIncomplete, kNotKnown,
                     "known only where it runs");
      case Sameness::kNo:
        break;
    }
    const std::string why = expected(key, golden, target);
    if (!why.empty()) return judge(row, Verdict::kEmpty, kExpected, why);
    judge(row, Verdict::kMismatch, kDiffers,
          shown(golden) + " against " + shown(target));
  }

  std::string expected(const std::string& key, const Value& golden,
                       const Value& target) const {
    if (const auto why = sides_.table.expected(section_, key)) return *why;
    if (sides_.table.same_meaning(section_, key, golden.text, target.text))
      return "each vendor's word for the same";
    if (!sides_.two_vendors()) return "";
    if (section_ == Section::kDevice)
      return "devices of " + sides_.golden_vendor + " and " +
             sides_.target_vendor;
    if (section_ == Section::kLibraries &&
        release(golden.text) == release(target.text))
      return "the same release, built for each vendor";
    return "";
  }

  void one_side(const std::string& key, const Value& value, bool golden,
                Row& row) const {
    const std::string who = golden ? "the target" : "the golden";
    const std::string& own =
        golden ? sides_.golden_vendor : sides_.target_vendor;
    const std::string& other =
        golden ? sides_.target_vendor : sides_.golden_vendor;
    const auto why = sides_.table.expected(section_, key);
    if (why) return judge(row, Verdict::kEmpty, kExpected, *why);
    if (sides_.two_vendors() && sides_.table.vendor(section_, key) == own)
      return judge(row, Verdict::kEmpty, kExpected,
                   "of " + own + ", " + who + " runs on " + other);
    switch (section_) {
      case Section::kHyperparameters:
        return option(key, value, golden, who, row);
      case Section::kEnvironment:
        return variable(key, golden, who, row);
      case Section::kLibraries:
        return judge(row, Verdict::kMismatch, kOneSided,
                     "not installed in " + who);
      default:
        return judge(row, Verdict::kIncomplete, kOneSided,
                     "not known of " + who);
    }
  }

  void option(const std::string& key, const Value& value, bool golden,
              const std::string& who, Row& row) const {
    const auto known = sides_.table.option_default(
        golden ? sides_.target : sides_.golden, key);
    if (known && value.kind != Kind::kUnknown) {
      const Value standard{Kind::kText, known->value, ""};
      const std::string text = who + " does not set it: " + known->value +
                               ", the default of " + known->program;
      if (compare_values(section_, value, standard) == Sameness::kYes)
        return judge(row, Verdict::kMatch, "default", text);
      return judge(row, Verdict::kMismatch, kDiffers, text);
    }
    if (value.kind == Kind::kFlag)
      return judge(row, Verdict::kMismatch, kOneSided,
                   "a flag that " + who + " does not give");
    judge(row, Verdict::kIncomplete, kOneSided,
          who + " does not set it, and its default is not known");
  }

  void variable(const std::string& key, bool golden, const std::string& who,
                Row& row) const {
    const Scope scope =
        (golden ? sides_.target : sides_.golden)[section_].scope;
    const bool known =
        scope == Scope::kAll || (scope == Scope::kListed && is_listed(key));
    if (known)
      return judge(row, Verdict::kMismatch, kOneSided, "not set in " + who);
    judge(row, Verdict::kIncomplete, kOneSided,
          "not known of " + who +
              (scope == Scope::kScript ? ": its script does not set it"
                                       : ": only listed variables were kept"));
  }

  const DiffSides& sides_;
  const Section section_;
  DiffRows& rows_;
};

}  // namespace

void diff_values(const DiffSides& sides, Section section, DiffRows& rows) {
  ValueDiff(sides, section, rows).run();
}

}  // namespace assay::env
