#include "tests/oracle/oracle.h"

#include <fnmatch.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "assay/base/error.h"
#include "assay/formats/tensor_source.h"
#include "assay/numerics/element.h"
#include "tests/oracle/expect.h"

namespace assay::oracle {

using nlohmann::json;

struct Case::Impl {
  std::string file;
  json entry;
  std::map<std::string, Tensor, std::less<>> arrays;
};

namespace {

std::vector<std::pair<std::string, Handler>>& handlers() {
  static std::vector<std::pair<std::string, Handler>> all;
  return all;
}

Handler find_handler(std::string_view name) {
  Handler found = nullptr;
  std::size_t length = 0;
  for (const auto& [prefix, handler] : handlers()) {
    if (name.substr(0, prefix.size()) != prefix || prefix.size() < length)
      continue;
    found = handler;
    length = prefix.size();
  }
  return found;
}

[[noreturn]] void bad(const Case::Impl& c, std::string_view what,
                      std::string_view name) {
  throw Error(Code::kUsage, c.file + ": no " + std::string(what) + " \"" +
                                std::string(name) + "\" of that type");
}

const json& parameter(const Case::Impl& c, std::string_view name) {
  const auto found = c.entry.at("params").find(std::string(name));
  if (found == c.entry.at("params").end()) bad(c, "parameter", name);
  return *found;
}

std::shared_ptr<Case::Impl> load_case(const std::filesystem::path& folder,
                                      const json& entry) {
  auto c = std::make_shared<Case::Impl>();
  c->file = entry.at("file").get<std::string>();
  if (c->file.find('/') != std::string::npos) {
    throw Error(Code::kRefused,
                c->file + ": expected a file of the folder, not a path");
  }
  c->entry = entry;
  const auto source = open_tensors(folder / c->file);
  for (std::size_t i = 0; i < source->tensors().size(); ++i)
    c->arrays[source->tensors()[i].name] = contiguous(source->load(i));
  return c;
}

// "y_bias_gelu_f64" is judged against "y_absdot_f64".
const Tensor* absdot_of(const Case::Impl& c, std::string name) {
  while (!name.empty()) {
    const auto found = c.arrays.find(name + "_absdot_f64");
    if (found != c.arrays.end()) return &found->second;
    const auto cut = name.rfind('_');
    name = cut == std::string::npos ? "" : name.substr(0, cut);
  }
  return nullptr;
}

std::string judge(const Case::Impl& c, const Answers& answers,
                  const std::string& name, const Expectation& e) {
  const auto stored = c.arrays.find(name);
  if (stored == c.arrays.end()) return "not in the file";
  const auto ours = answers.given().find(name);
  if (ours == answers.given().end()) return "not computed";
  const Tensor* other = nullptr;
  if (e.kind == Expectation::Kind::kAbsDot) {
    other = absdot_of(c, name);
    if (other == nullptr) return "no absdot array";
  } else if (e.kind == Expectation::Kind::kRounding) {
    const auto wide = answers.given().find(name.substr(0, name.rfind('_')));
    if (wide == answers.given().end()) return "its wider array not computed";
    other = &wide->second;
  }
  return compare(e, contiguous(ours->second), stored->second, other);
}

Outcome run_case(const std::filesystem::path& folder, const json& entry) {
  Outcome outcome;
  outcome.file = entry.at("file").get<std::string>();
  try {
    const auto c = load_case(folder, entry);
    const Handler handler = find_handler(outcome.file);
    if (handler == nullptr) {
      outcome.failures.push_back("no handler for this file");
      return outcome;
    }
    Answers answers;
    handler(Case(c), answers);
    for (const auto& [name, facts] : entry.at("arrays").items()) {
      const auto stored = c->arrays.find(name);
      const Expectation e = parse_expectation(
          facts.at("expect").dump(),
          stored == c->arrays.end() ? DType::kF32 : stored->second.dtype());
      if (e.kind == Expectation::Kind::kSkip) continue;
      ++outcome.arrays;
      const std::string failure = judge(*c, answers, name, e);
      if (!failure.empty()) outcome.failures.push_back(name + ": " + failure);
    }
    if (outcome.arrays == 0) outcome.failures.push_back("nothing to compare");
  } catch (const std::exception& error) {
    outcome.failures.push_back(error.what());
  }
  return outcome;
}

}  // namespace

Registration::Registration(std::string_view prefix, Handler handler) {
  handlers().emplace_back(prefix, handler);
}

std::string Case::name() const {
  return impl_->file.substr(0, impl_->file.rfind('.'));
}
std::string Case::area() const {
  return impl_->entry.at("area").get<std::string>();
}

bool Case::has(std::string_view name) const {
  const json& params = impl_->entry.at("params");
  const auto found = params.find(std::string(name));
  return found != params.end() && !found->is_null();
}
double Case::number(std::string_view name) const {
  const json& value = parameter(*impl_, name);
  if (!value.is_number()) bad(*impl_, "number", name);
  return value.get<double>();
}
bool Case::flag(std::string_view name) const {
  const json& value = parameter(*impl_, name);
  if (!value.is_boolean()) bad(*impl_, "flag", name);
  return value.get<bool>();
}
std::string Case::text(std::string_view name) const {
  const json& value = parameter(*impl_, name);
  if (!value.is_string()) bad(*impl_, "text", name);
  return value.get<std::string>();
}
std::vector<double> Case::numbers(std::string_view name) const {
  const json& value = parameter(*impl_, name);
  if (!value.is_array()) bad(*impl_, "list", name);
  return value.get<std::vector<double>>();
}

bool Case::has_array(std::string_view name) const {
  return impl_->arrays.find(name) != impl_->arrays.end();
}
std::vector<std::string> Case::arrays() const {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : impl_->arrays) names.push_back(name);
  return names;
}
Tensor Case::array(std::string_view name) const {
  const auto found = impl_->arrays.find(name);
  if (found == impl_->arrays.end()) bad(*impl_, "array", name);
  return found->second;
}
Tensor Case::as(std::string_view name, DType dtype) const {
  Tensor tensor = array(name);
  if (dtype == DType::kE2M1 && tensor.dtype() == DType::kU8)
    tensor.view.shape.back() *= 2;
  else if (traits(dtype).bits != traits(tensor.dtype()).bits)
    bad(*impl_, traits(dtype).name, name);
  tensor.view.dtype = dtype;
  return tensor;
}
Tensor Case::input(std::string_view name) const {
  const Tensor tensor = array(name);
  if (tensor.dtype() != DType::kU16) return tensor;
  const bool half = has("input") &&
                    text("input").find("16") != std::string::npos &&
                    text("input").find("bf16") == std::string::npos;
  return as(name, half ? DType::kF16 : DType::kBF16);
}
std::vector<double> Case::values(std::string_view name) const {
  const Tensor tensor = array(name);
  std::vector<double> out(static_cast<std::size_t>(tensor.numel()));
  load_as_doubles(tensor.dtype(), tensor.view.data, 0, tensor.numel(),
                  out.data());
  return out;
}

void Answers::give(std::string_view array, Tensor ours) {
  given_.insert_or_assign(std::string(array), std::move(ours));
}

std::vector<Outcome> run_folder(const std::filesystem::path& folder,
                                std::string_view only) {
  const auto path = folder / "INDEX.json";
  std::ifstream in(path);
  if (!in) throw Error(Code::kUnreadable, path.string() + ": cannot be read");
  const json index = json::parse(in, nullptr, false);
  if (!index.is_object() || !index.contains("files") ||
      !index["files"].is_array()) {
    throw Error(Code::kRefused,
                path.string() + ": expected an object with a list \"files\"");
  }
  const std::string glob(only);
  std::vector<Outcome> outcomes;
  for (const json& entry : index["files"]) {
    const auto name = entry.at("file").get<std::string>();
    const std::string stem = name.substr(0, name.rfind('.'));
    if (fnmatch(glob.c_str(), stem.c_str(), 0) == 0)
      outcomes.push_back(run_case(folder, entry));
  }
  return outcomes;
}

}  // namespace assay::oracle
