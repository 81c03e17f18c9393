#include "assay/conform/api/manifest.h"

#include "assay/base/error.h"
#include "assay/conform/report/run_fields.h"

namespace assay::conform {
namespace {

constexpr std::int64_t kSchema = 1;

// Names of the members of a member; none where it is absent.
std::vector<std::string> keys(const RunFields& fields, const char* name) {
  std::vector<std::string> all;
  if (!fields.find(name)) return all;
  fields.member(name);  // throws unless it is an object
  for (const auto& [key, value] : fields.find(name)->object()) {
    all.push_back(key);
  }
  return all;
}

std::optional<ApiParameters> read_parameters(const RunFields& fields,
                                             const char* name) {
  if (!fields.find(name)) return {};
  ApiParameters parameters;
  fields.each(name, [&](const RunFields& item) {
    ApiParameter parameter{
        item.text("name"), item.text("kind"), {}, item.text_or("env", "")};
    if (item.find("default")) parameter.fallback = item.text("default");
    parameters.push_back(std::move(parameter));
  });
  return parameters;
}

ApiSymbol read_symbol(const RunFields& fields) {
  ApiSymbol symbol;
  symbol.kind = fields.text("kind");
  symbol.paths = fields.texts("paths");
  if (symbol.paths.empty()) fields.wrong("paths", "empty, expected a path");
  symbol.parameters = read_parameters(fields, "parameters");
  symbol.fields = read_parameters(fields, "fields");
  for (const std::string& name : keys(fields, "methods")) {
    const RunFields method = fields.member("methods").member(name.c_str());
    symbol.methods[name] = {method.text("kind"),
                            read_parameters(method, "parameters")};
  }
  for (const std::string& name : keys(fields, "values")) {
    symbol.values[name] = fields.member("values").text(name.c_str());
  }
  if (fields.find("state_dict")) symbol.state_dict = fields.texts("state_dict");
  symbol.state_dict_is_open = fields.flag_or("state_dict_is_open", false);
  symbol.extra_state = fields.flag_or("extra_state", false);
  return symbol;
}

}  // namespace

std::vector<ApiProblem> parse_problems(const Value& document,
                                       std::string_view origin) {
  std::vector<ApiProblem> problems;
  const RunFields top(document, std::string(origin));
  top.each("problems", [&](const RunFields& item) {
    problems.push_back({item.text("file"), item.text("reason"),
                        static_cast<int>(item.integer_or("line", 0))});
  });
  return problems;
}

ApiManifest parse_api_manifest(const Value& document, std::string_view origin) {
  const RunFields top(document, std::string(origin));
  top.integer("assay_api_manifest", kSchema, kSchema);
  ApiManifest manifest;
  manifest.package = top.text("package");
  manifest.version = top.text("version");
  manifest.revision = top.text_or("revision", "");
  manifest.how = top.text_or("how", "");
  manifest.problems = parse_problems(document, origin);
  const RunFields symbols = top.member("symbols");
  for (const std::string& name : keys(top, "symbols")) {
    manifest.symbols[name] = read_symbol(symbols.member(name.c_str()));
  }
  return manifest;
}

void merge(ApiManifest& into, const ApiManifest& other) {
  for (const auto& [name, symbol] : other.symbols) {
    const auto [place, added] = into.symbols.emplace(name, symbol);
    if (added || place->second.kind == "module") continue;
    // A companion's name alone gives way to what the companion declares.
    if (place->second.kind != "external" && symbol.kind != "external") {
      throw Error(Code::kUsage, "packages " + into.package + " and " +
                                    other.package + " both define " + name);
    }
    std::vector<std::string> paths = place->second.paths;
    paths.insert(paths.end(), symbol.paths.begin(), symbol.paths.end());
    if (symbol.kind != "external") place->second = symbol;
    place->second.paths = std::move(paths);
  }
  into.package += ", " + other.package;
  into.problems.insert(into.problems.end(), other.problems.begin(),
                       other.problems.end());
}

}  // namespace assay::conform
