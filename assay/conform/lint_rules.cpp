// Rules of lint that read the spec and its cases alone.
#include "assay/conform/lint_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <iterator>
#include <optional>
#include <set>
#include <string_view>

#include "assay/base/error.h"
#include "assay/base/text.h"
#include "assay/conform/case_space.h"
#include "assay/conform/standards.h"
#include "assay/conform/values.h"

namespace assay::conform {
namespace {

constexpr std::int64_t kSmallBytes = 64 << 20;  // of a case's inputs

// As Python and torch spell types; an argument of such a name hides the type
// from whoever writes an adapter, or is taken for it.
constexpr std::string_view kTypes[] = {
    "bool", "bytes", "complex", "dict",   "double", "float",
    "half", "int",   "list",    "long",   "none",   "object",
    "set",  "short", "str",     "tensor", "tuple",  "type",
};
// Usual as hyperparameters, never as tensors.
constexpr std::string_view kAttributes[] = {"device", "dtype", "shape"};

// What is summed, scaled or measured is compared as an output, with a
// tolerance.
constexpr std::string_view kData[] = {"amax", "loss",  "max",   "mean",
                                      "min",  "norm",  "probs", "scale",
                                      "std",  "value", "var"};

template <std::size_t N>
bool among(const std::string_view (&words)[N], const std::string& name) {
  std::string lower;
  for (const unsigned char c : name)
    lower += static_cast<char>(std::tolower(c));
  return std::find(std::begin(words), std::end(words), lower) !=
         std::end(words);
}

bool is_type(const std::string& name) {
  return among(kTypes, name) || name.rfind("Tensor", 0) == 0;
}

// Every way to say a symbol of the manifest or a member of one.
std::set<std::string> known_names(const ApiManifest& manifest) {
  std::set<std::string> names;
  for (const auto& [full, symbol] : manifest.symbols) {
    std::vector<std::string> paths = symbol.paths;
    paths.push_back(full);
    for (const std::string& path : paths) {
      names.insert(path);
      for (const auto& [method, unused] : symbol.methods)
        names.insert(path + "." + method);
      for (const auto& [value, unused] : symbol.values)
        names.insert(path + "." + value);
    }
  }
  return names;
}

std::string last_part(const std::string& dotted) {
  return dotted.substr(dotted.rfind('.') + 1);
}

// What `evaluate` throws, without its place; "" where it does not.
template <typename F>
std::string thrown(F evaluate) {
  try {
    evaluate();
    return "";
  } catch (const Error& error) {
    return without_place(error.what());
  }
}

bool present(const std::optional<Expression>& when, const Case& c) {
  return !when || when->holds(c.parameters);
}

bool ever_present(const Linting& lint, const std::optional<Expression>& when) {
  const auto there = [&](const Case& c) {
    return !c.invalid && present(when, c);
  };
  return std::any_of(lint.small.begin(), lint.small.end(), there) ||
         std::any_of(lint.real.begin(), lint.real.end(), there);
}

void lint_values_of(Linting& lint, const Parameter& parameter, Tier tier) {
  CaseSpace space(lint.spec, tier);
  for (const Value& value : parameter.values(tier)) {
    if (space.complete(space.choose({{parameter.name, value}}))) continue;
    lint.error("parameters." + parameter.name,
               fmt::format("the constraints leave no {} case with {} {}",
                           to_string(tier), parameter.name,
                           printable(to_json(value))));
  }
}

void lint_nesterov(Linting& lint, const Parameter& momentum, Tier tier) {
  CaseSpace space(lint.spec, tier);
  for (const Value& value : momentum.values(tier)) {
    if (!value.is_number() || value.number() != 0) continue;
    if (space.complete(space.choose({{"nesterov", true}, {"momentum", value}})))
      lint.error("parameters.nesterov",
                 "a case has nesterov with momentum 0, which no optimizer "
                 "takes: a constraint has to exclude it");
  }
}

// The spec with one of its inputs.
Spec with_input(const Spec& spec, const Input& input) {
  Spec one = spec;
  one.inputs = {input};
  return one;
}

// A tier's first input that cannot be drawn, small ones with their values.
std::string undrawable(const Spec& one, const Case& c) {
  if (c.invalid) return "";
  return thrown([&] {
    const auto facts = input_facts(one, c);
    const bool draws = c.tier == Tier::kSmall && !facts.empty() &&
                       facts.begin()->second.bytes <= kSmallBytes;
    if (draws) make_inputs(one, c);
    strided_inputs(one, c);
  });
}

}  // namespace

void lint_api(Linting& lint) {
  if (lint.spec.api.empty())
    lint.warn("module", "guards no API: 'api' is missing or empty");
  if (!lint.options.manifest) return;
  const std::set<std::string> known = known_names(*lint.options.manifest);
  for (std::size_t i = 0; i < lint.spec.api.size(); ++i) {
    const std::string& name = lint.spec.api[i];
    if (known.count(name)) continue;
    const std::string near =
        closest(name, std::vector<std::string>(known.begin(), known.end()));
    lint.error(fmt::format("api.{}", i),
               fmt::format("{} is not in the manifest of {}{}", printable(name),
                           lint.options.manifest->package,
                           near.empty() ? "" : ", did you mean " + near + "?"));
  }
}

void lint_names(Linting& lint) {
  for (const Parameter& parameter : lint.spec.parameters)
    if (is_type(parameter.name))
      lint.warn(
          "parameters." + parameter.name,
          fmt::format("parameter {} has the name of a type", parameter.name));
  const auto tensor = [&lint](const char* kind, const std::string& name) {
    const std::string last = last_part(name);
    if (is_type(last) || among(kAttributes, last))
      lint.warn(fmt::format("{}s.{}", kind, name),
                fmt::format("{} {} has the name of a type", kind, name));
  };
  for (const Input& input : lint.spec.inputs) tensor("input", input.name);
  for (const Output& output : lint.spec.outputs) tensor("output", output.name);
}

void lint_parameters(Linting& lint) {
  const Parameter* momentum = nullptr;
  bool nesterov = false;
  for (const Parameter& parameter : lint.spec.parameters) {
    if (parameter.name == "momentum") momentum = &parameter;
    nesterov |= parameter.name == "nesterov";
  }
  for (const Tier tier : {Tier::kSmall, Tier::kReal}) {
    for (const Parameter& parameter : lint.spec.parameters)
      lint_values_of(lint, parameter, tier);
    if (nesterov && momentum) lint_nesterov(lint, *momentum, tier);
  }
}

void lint_inputs(Linting& lint) {
  for (const Input& input : lint.spec.inputs) {
    const std::string key = "inputs." + input.name;
    const Spec one = with_input(lint.spec, input);
    const std::string wrong =
        lint.first_wrong([&one](const Case& c) { return undrawable(one, c); });
    if (!wrong.empty()) {
      lint.error(key, "cannot be drawn: " + wrong);
    } else if (!ever_present(lint, input.when)) {
      lint.error(key, fmt::format("input {} is in no case: 'when' never holds",
                                  input.name));
    }
  }
  for (const Case& c : lint.small) {
    if (c.invalid) continue;
    std::int64_t bytes = 0, most = 0;
    std::string largest;
    const std::string wrong = thrown([&] {
      for (const auto& [name, facts] : input_facts(lint.spec, c)) {
        bytes += facts.bytes;
        if (facts.bytes <= most) continue;
        most = facts.bytes;
        largest = name;
      }
    });
    if (!wrong.empty() || bytes <= kSmallBytes) continue;
    lint.warn("inputs." + largest,
              fmt::format("case {} has {} of inputs, expected at most {} in "
                          "the small tier",
                          c.id, human_bytes(bytes), human_bytes(kSmallBytes)));
    return;  // one is enough
  }
}

void lint_outputs(Linting& lint) {
  for (const Output& output : lint.spec.outputs) {
    const std::string key = "outputs." + output.name;
    const std::string wrong = lint.first_wrong([&output](const Case& c) {
      return c.invalid ? "" : thrown([&] {
        if (!present(output.when, c)) return;
        for (const Expression& size : output.shape)
          if (size.evaluate(c.parameters).integer() < 0)
            throw Error(Code::kUsage, size.text() + " is negative");
        if (!output.dtype) return;
        const std::string& name = output.dtype->evaluate(c.parameters).text();
        if (!parse_dtype(name))
          throw Error(Code::kUsage, "no dtype " + printable(name));
      });
    });
    if (!wrong.empty()) {
      lint.error(key, "has no shape or dtype: " + wrong);
    } else if (!ever_present(lint, output.when)) {
      lint.error(key, fmt::format("output {} is in no case: 'when' never holds",
                                  output.name));
    }
    if (output.standard.empty()) continue;
    const std::string standard =
        thrown([&] { load_standard(output.standard, lint.spec.path); });
    if (!standard.empty()) lint.error(key, standard);
  }
  for (const StandardRule& rule : lint.spec.standard) {
    const std::string wrong =
        thrown([&] { load_standard(rule.standard, lint.spec.path); });
    if (!wrong.empty()) lint.error("standard", wrong);
  }
}

void lint_contract(Linting& lint) {
  for (const std::string& field : lint.spec.contract)
    if (among(kData, last_part(field)))
      lint.error("contract",
                 fmt::format("field {} sounds as if it depended on the data: "
                             "compare it as an output",
                             printable(field)));
}

void lint_invalid(Linting& lint) {
  for (const Case& c : lint.small) {
    if (!c.invalid) continue;
    const std::string name = c.id.substr(std::string("small-invalid-").size());
    const bool listed =
        std::all_of(lint.spec.parameters.begin(), lint.spec.parameters.end(),
                    [&c](const Parameter& p) {
                      return std::count(p.small.begin(), p.small.end(),
                                        c.parameters.at(p.name)) > 0;
                    });
    const auto allowed = [&c](const Expression& constraint) {
      try {
        return constraint.holds(c.parameters);
      } catch (const Error&) {
        return false;
      }
    };
    if (listed && std::all_of(lint.spec.constraints.begin(),
                              lint.spec.constraints.end(), allowed))
      lint.error("invalid." + name,
                 "must be refused, but the constraints allow it and all its "
                 "values are listed");
    const std::string wrong = thrown([&] {
      input_facts(lint.spec, c);
      make_inputs(lint.spec, c);
    });
    if (!wrong.empty())
      lint.error("invalid." + name,
                 "never reaches an implementation: " + wrong);
  }
}

}  // namespace assay::conform
