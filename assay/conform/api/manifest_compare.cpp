#include "assay/conform/api/manifest_compare.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "assay/base/error.h"
#include "assay/conform/api/parameter_compare.h"

namespace assay::conform {
namespace {

std::string leaf(const std::string& path) {
  return path.substr(path.rfind('.') + 1);
}

std::string parent(const std::string& path) {
  const std::size_t dot = path.rfind('.');
  return dot == std::string::npos ? "" : path.substr(0, dot);
}

std::string top(const std::string& path) {
  return path.substr(0, path.find('.'));
}

// A place in the target: its name there and the symbol.
using Found = std::pair<std::string, const ApiSymbol*>;

class Comparer {
 public:
  Comparer(const ApiManifest& golden, const ApiManifest& target)
      : golden_(golden), target_(target) {
    for (const auto& [name, symbol] : target.symbols) {
      for (const std::string& path : symbol.paths) {
        by_path_[path].push_back({name, &symbol});
        by_leaf_[leaf(path)].push_back({name, &symbol});
        packages_.insert(top(path));
      }
    }
    for (const auto& [name, symbol] : golden.symbols) {
      golden_paths_.insert(symbol.paths.begin(), symbol.paths.end());
    }
  }

  ContractCheck run() {
    for (const auto& [name, symbol] : golden_.symbols) {
      ++check_.symbols;
      compare_symbol({name, &check_}, symbol);
    }
    for (const auto& [package, paths] : absent_packages_) {
      check_.findings.push_back({Change::kNotCompared, package, "package",
                                 fmt::format("{} paths", paths), "not given"});
    }
    for (const ApiProblem& problem : target_.problems) {
      if (!matters(problem)) continue;
      check_.findings.push_back(
          {Change::kNotCompared, problem.file, "source", "", problem.reason});
    }
    note_added();
    return std::move(check_);
  }

 private:
  // Of several things under one path, the one of the same kind.
  const Found* at(const std::string& path, const ApiSymbol& wanted) const {
    const auto place = by_path_.find(path);
    if (place == by_path_.end()) return nullptr;
    for (const Found& found : place->second) {
      if (found.second->kind == wanted.kind) return &found;
    }
    return &place->second.front();
  }

  // The same thing under paths that the golden side does not know.
  const Found* elsewhere(const ApiSymbol& wanted) const {
    const auto place = by_leaf_.find(leaf(wanted.paths.front()));
    if (place == by_leaf_.end() || wanted.kind == "module") return nullptr;
    for (const Found& found : place->second) {
      const auto& paths = found.second->paths;
      const bool known = std::any_of(
          paths.begin(), paths.end(),
          [&](const auto& path) { return golden_paths_.contains(path); });
      if (!known && found.second->kind == wanted.kind) return &found;
    }
    return nullptr;
  }

  void compare_symbol(const FindingSink& sink, const ApiSymbol& symbol) {
    std::vector<std::string> absent;
    const Found* found = nullptr;
    for (const std::string& path : symbol.paths) {
      if (!packages_.contains(top(path))) {
        ++absent_packages_[top(path)];
        continue;
      }
      ++check_.things;
      const Found* here = at(path, symbol);
      if (!here) {
        absent.push_back(path);
      } else if (!found) {
        found = here;
      }
    }
    if (!absent.empty()) {
      const Found* other = found ? found : elsewhere(symbol);
      sink.add(other ? Change::kMoved : Change::kMissing,
               absent.size() == 1 ? "path" : "paths",
               fmt::format("{}", fmt::join(absent, ", ")),
               other ? other->second->paths.front() : "nowhere");
      if (!found) found = other;
    }
    if (found) compare_contents(sink, symbol, *found->second);
  }

  void compare_contents(const FindingSink& sink, const ApiSymbol& golden,
                        const ApiSymbol& target) {
    if (target.kind == "external" && golden.kind != "external") {
      sink.add(Change::kNotCompared, "symbol", golden.kind,
               "taken from another package");
      return;
    }
    ++check_.things;
    if (golden.kind != target.kind) {
      sink.add(Change::kChanged, "kind", golden.kind, target.kind);
      return;
    }
    compare_optional(sink, "parameter", "", golden.parameters,
                     target.parameters);
    compare_optional(sink, "field", "", golden.fields, target.fields);
    for (const auto& [name, method] : golden.methods) {
      compare_method(sink, name, method, target);
    }
    compare_values(sink, golden, target);
    compare_state(sink, golden, target);
  }

  void compare_optional(const FindingSink& sink, const std::string& what,
                        const std::string& of,
                        const std::optional<ApiParameters>& golden,
                        const std::optional<ApiParameters>& target) {
    if (!golden) return;
    if (!target) {
      sink.add(Change::kNotCompared,
               fmt::format("{}s{}{}", what, of.empty() ? "" : " of ", of),
               "declared", "not declared");
      return;
    }
    compare_parameters(sink, what, of, *golden, *target,
                       target_.how != "import");
  }

  void compare_method(const FindingSink& sink, const std::string& name,
                      const ApiMethod& golden, const ApiSymbol& target) {
    ++check_.things;
    const auto place = target.methods.find(name);
    if (place == target.methods.end()) {
      sink.add(Change::kMissing, "method " + name, golden.kind, "none");
    } else if (place->second.kind != golden.kind) {
      sink.add(Change::kChanged, "method " + name, golden.kind,
               place->second.kind);
    } else {
      compare_optional(sink, "parameter", name, golden.parameters,
                       place->second.parameters);
    }
  }

  void compare_values(const FindingSink& sink, const ApiSymbol& golden,
                      const ApiSymbol& target) {
    std::set<std::string> renamed;
    for (const auto& [name, value] : golden.values) {
      ++check_.things;
      const std::string what = "value " + name;
      const auto place = target.values.find(name);
      if (place == target.values.end()) {
        const std::string other = same_value(golden, target, value);
        renamed.insert(other);
        sink.add(other.empty() ? Change::kMissing : Change::kChanged, what,
                 name + " = " + value,
                 other.empty() ? "none" : other + " = " + value);
      } else if (is_opaque(value) || is_opaque(place->second)) {
        sink.add(Change::kNotCompared, what, value, place->second);
      } else if (place->second != value) {
        sink.add(Change::kChanged, what, value, place->second);
      }
    }
    for (const auto& [name, value] : target.values) {
      if (golden.kind != "enum" || golden.values.contains(name) ||
          renamed.contains(name)) {
        continue;
      }
      sink.add(Change::kAdded, "value " + name, "", value);
    }
  }

  static std::string same_value(const ApiSymbol& golden,
                                const ApiSymbol& target,
                                const std::string& value) {
    for (const auto& [name, theirs] : target.values) {
      if (theirs == value && !golden.values.contains(name)) return name;
    }
    return "";
  }

  void compare_state(const FindingSink& sink, const ApiSymbol& golden,
                     const ApiSymbol& target) {
    if (golden.extra_state) {
      ++check_.things;
      if (!target.extra_state) {
        sink.add(Change::kMissing, "extra state", "get_extra_state", "none");
      }
    }
    if (!golden.state_dict) return;
    if (!target.state_dict) {
      sink.add(Change::kNotCompared, "state dict",
               fmt::format("{}", fmt::join(*golden.state_dict, ", ")),
               "no names declared");
      return;
    }
    const std::set<std::string> theirs(target.state_dict->begin(),
                                       target.state_dict->end());
    for (const std::string& name : *golden.state_dict) {
      ++check_.things;
      if (theirs.contains(name)) continue;
      const bool open = target.state_dict_is_open;
      sink.add(open ? Change::kNotCompared : Change::kMissing, "state " + name,
               name, open ? "names that are computed" : "none");
    }
    for (const std::string& name : theirs) {
      if (std::find(golden.state_dict->begin(), golden.state_dict->end(),
                    name) == golden.state_dict->end()) {
        // A strict load of the golden side's state would fail.
        sink.add(Change::kChanged, "state " + name, "none", name);
      }
    }
  }

  // A module that cannot be imported matters if the golden side has a name in
  // it; a file that cannot be read may hold anything.
  bool matters(const ApiProblem& problem) const {
    if (target_.how != "import") return true;
    return std::any_of(golden_paths_.begin(), golden_paths_.end(),
                       [&](const std::string& path) {
                         return path == problem.file ||
                                path.starts_with(problem.file + ".");
                       });
  }

  // Public names beside golden ones; a package's inner ones are its own.
  void note_added() {
    std::set<std::string> modules;
    for (const std::string& path : golden_paths_) modules.insert(parent(path));
    for (const auto& [name, symbol] : target_.symbols) {
      if (symbol.kind == "module" || symbol.kind == "constant") continue;
      bool known = false;
      std::string shown;
      for (const std::string& path : symbol.paths) {
        known = known || golden_paths_.contains(path);
        const bool beside = modules.contains(parent(path));
        if (beside && !leaf(path).starts_with('_') && shown.empty()) {
          shown = path;
        }
      }
      if (known || shown.empty()) continue;
      ++check_.public_symbols;
      check_.findings.push_back(
          {Change::kAdded, shown, "symbol", "", symbol.kind});
    }
  }

  const ApiManifest& golden_;
  const ApiManifest& target_;
  ContractCheck check_;
  std::map<std::string, std::vector<Found>> by_path_, by_leaf_;
  std::set<std::string> golden_paths_, packages_;
  std::map<std::string, int> absent_packages_;  // paths of each
};

}  // namespace

std::string_view to_string(Change change) {
  switch (change) {
    case Change::kMissing:
      return "missing";
    case Change::kMoved:
      return "moved";
    case Change::kChanged:
      return "changed";
    case Change::kNotCompared:
      return "not compared";
    case Change::kAdded:
      return "added";
  }
  throw Error(Code::kInternal, "manifest: unknown change");
}

int ContractCheck::count(Change change) const {
  return static_cast<int>(
      std::count_if(findings.begin(), findings.end(),
                    [&](const auto& one) { return one.change == change; }));
}

Verdict ContractCheck::verdict() const {
  if (count(Change::kMissing) + count(Change::kMoved) +
      count(Change::kChanged)) {
    return Verdict::kMismatch;
  }
  if (things == 0 || count(Change::kNotCompared)) return Verdict::kIncomplete;
  return Verdict::kMatch;
}

ContractCheck compare_manifests(const ApiManifest& golden,
                                const ApiManifest& target) {
  return Comparer(golden, target).run();
}

}  // namespace assay::conform
