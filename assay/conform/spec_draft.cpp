#include "assay/conform/spec_draft.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <iterator>
#include <string_view>
#include <vector>

#include "assay/base/error.h"
#include "assay/base/text.h"

namespace assay::conform {
namespace {

// Where something runs, who else runs, what it is called: nothing that a case
// can vary by itself.
constexpr std::string_view kLeftOut[] = {
    "*_group",   "*_stream",        "args",   "device",
    "get_rng_*", "init_method",     "kwargs", "name",
    "out",       "output_layer_*",  "self",   "rng_*",
    "ub_*",      "cp_global_ranks", "cls",    "*_ctx"};
// Arguments of a function that are tensors; the others are hyperparameters.
constexpr std::string_view kTensors[] = {"*input*",  "inp",
                                         "*tensor*", "*logits*",
                                         "*probs*",  "*map",
                                         "*mask",    "*grad*",
                                         "x",        "q",
                                         "k",        "v",
                                         "query*",   "key*",
                                         "value*",   "*bias",
                                         "*weight*", "target*",
                                         "*states",  "*splits",
                                         "*index*",  "hidden_states"};

template <std::size_t N>
bool fits(const std::string_view (&patterns)[N], const std::string& name) {
  return std::any_of(
      std::begin(patterns), std::end(patterns),
      [&name](std::string_view pattern) { return glob_match(pattern, name); });
}

struct Found {
  std::string name;
  const ApiSymbol* symbol;
};

Found find_symbol(const ApiManifest& manifest, const std::string& api) {
  std::vector<std::string> names;
  for (const auto& [name, symbol] : manifest.symbols) {
    const bool named = name == api || std::count(symbol.paths.begin(),
                                                 symbol.paths.end(), api) > 0;
    if (named) return {name, &symbol};
    names.push_back(name);
    names.insert(names.end(), symbol.paths.begin(), symbol.paths.end());
  }
  const std::string near = closest(api, names);
  throw Error(Code::kUsage,
              fmt::format("no {} in the manifest of {}{}", printable(api),
                          manifest.package,
                          near.empty() ? "" : ", did you mean " + near + "?"));
}

// "LayerNormLinear" -> "layer_norm_linear".
std::string snake_case(const std::string& dotted) {
  std::string out;
  for (const char c : dotted.substr(dotted.rfind('.') + 1)) {
    const bool upper = std::isupper(static_cast<unsigned char>(c));
    const bool after_lower =
        !out.empty() && std::islower(static_cast<unsigned char>(out.back()));
    if (upper && after_lower) out += '_';
    out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return out;
}

// YAML list of what a default suggests.
std::string values_of(const ApiParameter& parameter) {
  if (!parameter.fallback) return "['?']";
  const std::string& text = *parameter.fallback;
  if (text == "True") return "[true, false]";
  if (text == "False") return "[false, true]";
  if (text == "None") return "[none, '?']";
  const bool quoted = text.size() > 2 && text.front() == '\'';
  if (quoted) return fmt::format("[{}, '?']", text);
  const bool number =
      text.find_first_not_of("+-.0123456789e") == std::string::npos;
  return number ? fmt::format("[{}, '?']", text) : "['?']";
}

class Draft {
 public:
  Draft(const ApiManifest& manifest, const Found& found)
      : manifest_(manifest), found_(found) {
    const ApiSymbol& symbol = *found.symbol;
    if (symbol.parameters) {
      take_function(*symbol.parameters);
    } else {
      take_class(symbol);
    }
  }

  std::string text() const {
    std::string out = fmt::format(
        "# Drafted from {} {}. Every '?' is a gap: the file is refused until "
        "it is\n# filled. docs/conform.md shows every key.\n",
        manifest_.package, manifest_.version);
    out += fmt::format("module: {}\nsummary: '?'\napi:\n",
                       snake_case(found_.name));
    for (const std::string& path : paths()) out += "  - " + path + "\n";
    out += "seed: 1\nparameters:\n";
    out += "  tokens: {small: [0, 1, {edges: [32, 128]}], real: [2048]}\n";
    for (const ApiParameter& parameter : parameters_)
      out += fmt::format("  {}: {}\n", parameter.name, values_of(parameter));
    out +=
        "  dtype: [float32, bfloat16, float16]\n"
        "  values: {small: [normal, near_zero, wide, special], "
        "real: [normal]}\n"
        "  strided: {small: [false, true], real: [false]}\n";
    if (!left_out_.empty()) out += "  # Left out: " + left_out_ + ".\n";
    out += "constraints:\n  - '?'\ninputs:\n";
    for (const std::string& input : inputs_)
      out += fmt::format(
          "  {}: {{shape: ['?'], dtype: dtype, values: values, "
          "strided: strided}}\n",
          input);
    for (const std::string& weight : weights_)
      out += fmt::format(
          "  {}: {{shape: ['?'], dtype: dtype, values: {{kind: "
          "normal, scale: 0.1}}}}\n",
          weight);
    out +=
        "  d_out: {shape: ['?'], dtype: dtype, values: {kind: normal, "
        "scale: 0.1}}\noutputs:\n"
        "  out: {shape: ['?'], dtype: dtype, class: '?'}\n";
    for (const std::string& input : inputs_)
      out += fmt::format("  grad.{}: {{dtype: dtype, class: '?'}}\n", input);
    for (const std::string& weight : weights_)
      out += fmt::format("  grad.{}: {{dtype: dtype, class: '?'}}\n", weight);
    out += fmt::format("contract: [defaults{}]\nstandard: assay\n",
                       weights_.empty() ? "" : ", state_dict");
    out += "invalid:\n  '?': {}\n";
    return out;
  }

 private:
  std::vector<std::string> paths() const {
    std::vector<std::string> all = found_.symbol->paths;
    if (!std::count(all.begin(), all.end(), found_.name))
      all.insert(all.begin(), found_.name);
    return all;
  }

  void leave_out(const std::string& name) {
    left_out_ += (left_out_.empty() ? "" : ", ") + name;
  }

  void take_parameter(const ApiParameter& parameter) {
    const std::string& name = parameter.name;
    if (fits(kLeftOut, name) || parameter.kind.rfind("var-", 0) == 0) {
      leave_out(name);
    } else if (name == "dtype" || name.ends_with("_dtype")) {
      leave_out(name + " (dtype)");
    } else {
      parameters_.push_back(parameter);
    }
  }

  void take_function(const ApiParameters& parameters) {
    for (const ApiParameter& parameter : parameters) {
      if (!parameter.fallback && fits(kTensors, parameter.name)) {
        inputs_.push_back(parameter.name);
      } else {
        take_parameter(parameter);
      }
    }
  }

  void take_class(const ApiSymbol& symbol) {
    const auto method = [&symbol](const char* name) -> ApiParameters {
      const auto found = symbol.methods.find(name);
      if (found == symbol.methods.end() || !found->second.parameters) return {};
      return *found->second.parameters;
    };
    ApiParameters constructor = method("__init__");
    if (constructor.empty() && symbol.fields) constructor = *symbol.fields;
    if (constructor.empty())
      throw Error(Code::kUsage,
                  fmt::format("{} is a {} without a signature: nothing to "
                              "draft from",
                              found_.name, symbol.kind));
    for (const ApiParameter& parameter : constructor) take_parameter(parameter);
    for (const ApiParameter& argument : method("forward")) {
      if (!argument.fallback && !fits(kLeftOut, argument.name)) {
        inputs_.push_back(argument.name);
      } else {
        leave_out("forward's " + argument.name);
      }
    }
    if (inputs_.empty()) inputs_.emplace_back("x");
    if (symbol.state_dict)
      for (const std::string& name : *symbol.state_dict)
        if (name.find_first_of("{}*") == std::string::npos)
          weights_.push_back(name);
  }

  const ApiManifest& manifest_;
  const Found found_;
  ApiParameters parameters_;
  std::vector<std::string> inputs_, weights_;
  std::string left_out_;
};

}  // namespace

std::string draft_spec(const ApiManifest& manifest, const std::string& api) {
  return Draft(manifest, find_symbol(manifest, api)).text();
}

}  // namespace assay::conform
