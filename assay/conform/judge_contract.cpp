#include "assay/conform/judge_contract.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "assay/base/text.h"
#include "assay/conform/judge_tensor.h"
#include "assay/conform/value_shown.h"

namespace assay::conform {
namespace {

constexpr std::size_t kMaxDifferences = 50;  // of one field

// Collects the places where two values differ.
class Differences {
 public:
  explicit Differences(std::vector<Check>& checks) : checks_(checks) {}

  void walk(const std::string& path, const Value* golden, const Value* target) {
    if (count_ >= kMaxDifferences) return;
    if (golden && target && *golden == *target) return;
    if (golden && target && golden->is_object() && target->is_object())
      return members(path, *golden, *target);
    if (golden && target && golden->is_list() && target->is_list() &&
        golden->list().size() == target->list().size())
      return items(path, golden->list(), target->list());
    ++count_;
    checks_.push_back(make_check(
        path, 0, Verdict::kMismatch, "contract",
        fmt::format("golden {}, target {}", shown(golden), shown(target))));
  }

 private:
  void members(const std::string& path, const Value& golden,
               const Value& target) {
    std::set<std::string> names;
    for (const auto& [name, value] : golden.object()) names.insert(name);
    for (const auto& [name, value] : target.object()) names.insert(name);
    for (const std::string& name : names)
      walk(path + "." + printable(name), golden.find(name), target.find(name));
  }
  void items(const std::string& path, const List& golden, const List& target) {
    for (std::size_t i = 0; i < golden.size(); ++i)
      walk(fmt::format("{}[{}]", path, i), &golden[i], &target[i]);
  }

  std::vector<Check>& checks_;
  std::size_t count_ = 0;
};

const Value* find(const Object& object, const std::string& name) {
  const auto found = object.find(name);
  return found == object.end() ? nullptr : &found->second;
}

}  // namespace

std::vector<Check> judge_contract(const std::vector<std::string>& fields,
                                  const Object& golden, const Object& target) {
  std::vector<Check> checks;
  for (const std::string& field : fields) {
    const std::string name = "contract." + field;
    const Value* a = find(golden, field);
    const Value* b = find(target, field);
    if (!a || !b) {
      const char* who = a   ? "the target does not give it"
                        : b ? "the golden does not give it"
                            : "neither side gives it";
      checks.push_back(
          make_check(name, 0, Verdict::kIncomplete, "missing", who));
    } else if (*a == *b) {
      checks.push_back(make_check(name, 0, Verdict::kMatch, "", ""));
    } else {
      Differences(checks).walk(name, a, b);
    }
  }
  return checks;
}

}  // namespace assay::conform
