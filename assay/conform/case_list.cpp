#include "assay/conform/case_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "assay/base/atomic_file.h"
#include "assay/base/error.h"
#include "assay/base/text.h"
#include "assay/conform/case_json.h"
#include "assay/conform/tensor_file.h"

namespace assay::conform {
namespace {

std::string display(const Value& value) {
  return printable(value.is_text() ? value.text() : to_json(value));
}

std::string display(const Case& c, const std::string& parameter) {
  const auto found = c.parameters.find(parameter);
  return found == c.parameters.end() ? "" : display(found->second);
}

// Nullopt where an invalid case has no sizes; other cases' errors are thrown.
std::optional<std::map<std::string, InputFacts>> facts_of(const Spec& spec,
                                                          const Case& c) {
  try {
    return input_facts(spec, c);
  } catch (const Error&) {
    if (!c.invalid) throw;
    return std::nullopt;
  }
}

std::int64_t total_bytes(const std::map<std::string, InputFacts>& facts) {
  std::int64_t bytes = 0;
  for (const auto& [name, input] : facts) bytes += input.bytes;
  return bytes;
}

using Rows = std::vector<std::vector<std::string>>;

// Columns as wide as their widest cell.
std::string table(const Rows& rows) {
  std::vector<std::size_t> widths(rows[0].size(), 0);
  for (const auto& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i)
      widths[i] = std::max(widths[i], row[i].size());
  std::string text;
  for (const auto& row : rows) {
    std::string line = " ";
    for (std::size_t i = 0; i < row.size(); ++i)
      line += fmt::format(" {:<{}} ", row[i], widths[i]);
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

Value shape_json(const Shape& shape) {
  List sizes;
  for (const std::int64_t size : shape) sizes.emplace_back(size);
  return sizes;
}

Object case_object(const Spec& spec, const Case& c) {
  Object made = case_to_json(c);
  const auto facts = facts_of(spec, c);
  if (!facts) return made;
  Object inputs;
  for (const auto& [name, input] : *facts)
    inputs[name] = Object{{"dtype", traits(input.dtype).name},
                          {"shape", shape_json(input.shape)},
                          {"bytes", input.bytes}};
  made["inputs"] = std::move(inputs);
  List strided;
  for (const std::string& name : strided_inputs(spec, c))
    strided.emplace_back(name);
  made["strided"] = std::move(strided);
  return made;
}

}  // namespace

std::string cases_text(const Spec& spec, const std::vector<Case>& cases) {
  std::string shared;
  std::vector<std::string> varying;
  for (const Parameter& parameter : spec.parameters) {
    const auto same = [&](const Case& c) {
      return display(c, parameter.name) == display(cases[0], parameter.name);
    };
    if (!std::all_of(cases.begin(), cases.end(), same)) {
      varying.push_back(parameter.name);
    } else {
      shared += fmt::format("{}{} {}", shared.empty() ? "" : ", ",
                            parameter.name, display(cases[0], parameter.name));
    }
  }
  Rows rows = {{"case"}};
  rows[0].insert(rows[0].end(), varying.begin(), varying.end());
  rows[0].emplace_back("inputs");
  std::int64_t bytes = 0;
  for (const Case& c : cases) {
    std::vector<std::string> row = {c.id};
    for (const std::string& name : varying) row.push_back(display(c, name));
    const auto facts = facts_of(spec, c);
    row.push_back(facts ? human_bytes(total_bytes(*facts)) : "-");
    if (facts) bytes += total_bytes(*facts);
    rows.push_back(std::move(row));
  }
  std::string text =
      fmt::format("{}: {} {} {}, {} of inputs{}{}\n", spec.module, cases.size(),
                  to_string(cases[0].tier),
                  cases.size() == 1 ? "case" : "cases", human_bytes(bytes),
                  spec.summary.empty() ? "" : ": ", printable(spec.summary));
  if (!shared.empty()) text += fmt::format("  everywhere: {}\n", shared);
  return text + table(rows);
}

Value cases_json(const Spec& spec, const std::vector<Case>& cases) {
  List list;
  for (const Case& c : cases) list.emplace_back(case_object(spec, c));
  return Object{{"module", spec.module},
                {"summary", spec.summary},
                {"spec", spec.path},
                {"tier", std::string(to_string(cases[0].tier))},
                {"cases", std::move(list)}};
}

void write_case(const Spec& spec, const Case& c,
                const std::filesystem::path& folder) {
  const std::filesystem::path module = folder / c.module;
  std::error_code error;
  std::filesystem::create_directories(module, error);
  if (error)
    throw Error(Code::kUnreadable,
                fmt::format("{}: {}", module.string(), error.message()));
  // An invalid case may have no inputs that could be drawn.
  if (facts_of(spec, c)) {
    const TensorMap inputs = make_inputs(spec, c);
    if (!inputs.empty())
      write_tensors(inputs, module / (c.id + ".safetensors"));
  }
  AtomicFile file(module / (c.id + ".json"));
  file.write(to_json(case_object(spec, c)) + "\n");
  file.commit();
}

}  // namespace assay::conform
