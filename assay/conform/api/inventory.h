// What a code base uses of a package, classified and joined with what guards
// it: the rest of `assay api scan` once Python has read the sources.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "assay/conform/api/manifest.h"

namespace assay::conform {

// How an API is checked on another device.
enum class ApiClass : std::uint8_t {
  kContract,  // names, signatures and types alone: by the manifest
  kNumeric,   // numbers: by a conformance module
  kChain,     // state across calls: by a scenario of several of them
  kUnclassified,
};
inline constexpr int kApiClasses = 4;
std::string_view to_string(ApiClass api_class);

struct ClassRule {
  std::string pattern;  // as glob_match has it, of the API's full name
  ApiClass api_class;
  std::string why;  // one sentence
};

// specs/api/classes.yaml, in order: the first rule that fits decides. Throws
// Error{kUsage} with the line.
std::vector<ClassRule> parse_class_rules(const std::string& yaml,
                                         const std::string& origin);

// A conformance module or test and the APIs that it holds to account.
struct ApiGuard {
  std::string name;
  std::vector<std::string> apis;  // full names; of members too
};

struct ApiEntry {
  std::string name;
  int uses = 0;
  std::map<std::string, int> kinds, files;
  ApiClass api_class = ApiClass::kUnclassified;
  std::string why;
  bool in_manifest = false;
  std::vector<std::string> guards;
};

struct Inventory {
  std::vector<ApiEntry> apis;  // by class, then name
  std::vector<ApiProblem> problems;
  int files_read = 0, files_with_uses = 0, uses = 0;
  bool has_manifest = false;
  // Of each class: APIs, uses, and APIs without a guard.
  struct Share {
    int apis = 0, uses = 0, unguarded = 0;
  };
  std::array<Share, kApiClasses> shares;

  // Whether everything was read and there was something to read.
  bool is_complete() const;
};

// A contract is guarded by the manifest that knows it; a spec guards an API
// that it names, under any of the paths that the manifest has for it, or a
// member of it. A manifest without symbols is none. Throws Error{kRefused} for
// a scan that is none.
Inventory make_inventory(const Value& scan, const std::vector<ClassRule>& rules,
                         const ApiManifest& manifest,
                         const std::vector<ApiGuard>& guards);

// The scan with "class", "why", "in_manifest" (null without a manifest) and
// "guarded_by" in every API.
Value annotated(const Value& scan, const Inventory& inventory);

}  // namespace assay::conform
