// The contract manifest of a Python package: what can be imported, and how it
// is called. `python -m assay.api extract` writes it, docs/api-inventory.md
// shows it.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "assay/conform/value.h"

namespace assay::conform {

// A parameter of a function or a field of a dataclass. Texts are those of
// python/assay/api/values.py; one that begins with '<' cannot be compared.
struct ApiParameter {
  std::string name;
  // positional, positional-only, keyword, var-positional, var-keyword; field
  std::string kind;
  std::optional<std::string> fallback;  // the default; none: required
  std::string env;  // the environment variable that may change it, or ""
};
using ApiParameters = std::vector<ApiParameter>;

struct ApiMethod {
  std::string kind;  // method, classmethod, staticmethod, property
  std::optional<ApiParameters> parameters;  // none: not known
};

struct ApiSymbol {
  // function, class, dataclass, enum, constant, module; external: taken from
  // another package, known by name alone
  std::string kind;
  std::vector<std::string> paths;           // every name it is imported by
  std::optional<ApiParameters> parameters;  // of functions
  std::optional<ApiParameters> fields;      // of dataclasses
  std::map<std::string, ApiMethod> methods;
  std::map<std::string, std::string> values;           // of enums
  std::optional<std::vector<std::string>> state_dict;  // "weight{}": numbered
  bool state_dict_is_open = false;  // and further names that are computed
  bool extra_state = false;
};

// A source that could not be read, wholly or at all.
struct ApiProblem {
  std::string file, reason;
  int line = 0;
};

struct ApiManifest {
  std::string package, version, revision, how;
  std::vector<ApiProblem> problems;
  std::map<std::string, ApiSymbol> symbols;  // by full name
};

// `origin` names the document in messages. Throws Error{kRefused} for a
// document that is none, of another schema version, or with a field of another
// type.
ApiManifest parse_api_manifest(const Value& document, std::string_view origin);

// Adds the symbols of another package. Throws Error{kUsage} where both have a
// symbol of the same name.
void merge(ApiManifest& into, const ApiManifest& other);

// "problems" of a scan or a manifest.
std::vector<ApiProblem> parse_problems(const Value& document,
                                       std::string_view origin);

}  // namespace assay::conform
