#include "assay/conform/api/parameter_compare.h"

#include <algorithm>
#include <map>
#include <set>

namespace assay::conform {
namespace {

std::string shown(const ApiParameter& parameter) {
  const char* stars = parameter.kind == "var-positional" ? "*"
                      : parameter.kind == "var-keyword"  ? "**"
                                                         : "";
  std::string text = stars + parameter.name;
  if (parameter.fallback) text += "=" + *parameter.fallback;
  return text;
}

bool is_variable(const ApiParameter& parameter) {
  return parameter.kind.starts_with("var-");
}

// May be given by its place.
bool has_place(const ApiParameter& parameter) {
  return parameter.kind.starts_with("positional") || parameter.kind == "field";
}

class Comparison {
 public:
  Comparison(const FindingSink& sink, std::string what, const std::string& of,
             const ApiParameters& golden, const ApiParameters& target,
             bool env_is_known)
      : sink_(sink),
        what_(std::move(what)),
        of_(of.empty() ? "" : " of " + of),
        golden_(golden),
        target_(target),
        env_is_known_(env_is_known) {}

  void run() {
    for (std::size_t i = 0; i < golden_.size(); ++i) compare_one(i);
    for (std::size_t i = 0; i < target_.size(); ++i) note_added(i);
    if (!differs_) compare_places();
  }

 private:
  void add(Change change, const ApiParameter& parameter, std::string expected,
           std::string found) {
    if (change == Change::kChanged || change == Change::kMissing) {
      differs_ = true;
    }
    sink_.add(change, what_ + " " + parameter.name + of_, std::move(expected),
              std::move(found));
  }

  const ApiParameter* in(const ApiParameters& list,
                         const ApiParameter& wanted) const {
    for (const ApiParameter& one : list) {
      const bool same = is_variable(wanted) ? one.kind == wanted.kind
                                            : one.name == wanted.name;
      if (same && is_variable(one) == is_variable(wanted)) return &one;
    }
    return nullptr;
  }

  void compare_one(std::size_t i) {
    const ApiParameter& mine = golden_[i];
    ++sink_.check->things;
    if (const ApiParameter* theirs = in(target_, mine)) {
      compare_pair(mine, *theirs);
      return;
    }
    // In the same place and unknown to the golden side: another name.
    if (i < target_.size() && !in(golden_, target_[i]) &&
        target_[i].kind == mine.kind) {
      renamed_.insert(i);
      add(Change::kChanged, mine, shown(mine),
          shown(target_[i]) + ", another name");
      return;
    }
    const bool swallowed =
        !is_variable(mine) &&
        std::any_of(target_.begin(), target_.end(),
                    [](const auto& one) { return one.kind == "var-keyword"; });
    add(Change::kMissing, mine, shown(mine),
        swallowed ? "only **keywords take it" : "none of this name");
  }

  void compare_pair(const ApiParameter& mine, const ApiParameter& theirs) {
    if (mine.kind != theirs.kind) {
      add(Change::kChanged, mine, mine.kind, theirs.kind);
    }
    if (!mine.fallback && theirs.fallback) {
      add(Change::kAdded, mine, "required", shown(theirs));
      return;
    }
    if (!mine.fallback) return;
    if (!theirs.fallback) {
      add(Change::kChanged, mine, shown(mine), "required");
    } else if (is_opaque(*mine.fallback) || is_opaque(*theirs.fallback)) {
      add(Change::kNotCompared, mine, shown(mine), shown(theirs));
    } else if (*mine.fallback != *theirs.fallback) {
      add(Change::kChanged, mine, shown(mine), shown(theirs));
    } else if (env_is_known_ && mine.env != theirs.env) {
      const auto variable = [](const std::string& name) {
        return name.empty() ? "no environment variable" : "changed by " + name;
      };
      add(Change::kChanged, mine, variable(mine.env), variable(theirs.env));
    }
  }

  void note_added(std::size_t i) {
    const ApiParameter& one = target_[i];
    if (in(golden_, one) || renamed_.contains(i)) return;
    const bool required = !one.fallback && !is_variable(one);
    add(required ? Change::kChanged : Change::kAdded, one, "",
        required ? one.name + ", required" : shown(one));
  }

  // Golden places in front, in the same order.
  void compare_places() {
    std::vector<std::string> mine, theirs;
    for (const auto& p : golden_) {
      if (has_place(p)) mine.push_back(p.name);
    }
    for (const auto& p : target_) {
      if (has_place(p)) theirs.push_back(p.name);
    }
    for (std::size_t i = 0; i < mine.size() && i < theirs.size(); ++i) {
      if (mine[i] == theirs[i]) continue;
      sink_.add(Change::kChanged, "order of " + what_ + "s" + of_,
                mine[i] + " in place " + std::to_string(i + 1), theirs[i]);
      return;
    }
  }

  const FindingSink& sink_;
  std::string what_, of_;
  const ApiParameters& golden_;
  const ApiParameters& target_;
  bool env_is_known_;
  bool differs_ = false;
  std::set<std::size_t> renamed_;
};

}  // namespace

bool is_opaque(const std::string& text) { return text.starts_with('<'); }

void FindingSink::add(Change change, std::string what, std::string expected,
                      std::string found) const {
  check->findings.push_back(
      {change, symbol, std::move(what), std::move(expected), std::move(found)});
}

void compare_parameters(const FindingSink& sink, const std::string& what,
                        const std::string& of, const ApiParameters& golden,
                        const ApiParameters& target, bool env_is_known) {
  Comparison(sink, what, of, golden, target, env_is_known).run();
}

}  // namespace assay::conform
