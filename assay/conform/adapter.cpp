#include "assay/conform/adapter.h"

#include <fmt/format.h>

#include "assay/base/error.h"
#include "assay/base/text.h"

namespace assay::conform {
namespace {

const Value& required(const AdapterCall& call, std::string_view name) {
  const auto found = call.parameters.find(std::string(name));
  if (found != call.parameters.end()) return found->second;
  throw Error(Code::kUsage, fmt::format("{}: parameter {} is not given",
                                        call.module, printable(name)));
}

[[noreturn]] void wrong(const AdapterCall& call, std::string_view name,
                        std::string_view wanted) {
  throw Error(Code::kUsage,
              fmt::format("{}: parameter {}: {}, expected {}", call.module,
                          printable(name),
                          printable(to_json(required(call, name))), wanted));
}

}  // namespace

std::int64_t AdapterCall::integer(std::string_view name) const {
  const Value& value = required(*this, name);
  if (!value.is_integer()) wrong(*this, name, "an integer");
  return value.integer();
}

double AdapterCall::number(std::string_view name) const {
  const Value& value = required(*this, name);
  if (!value.is_number()) wrong(*this, name, "a number");
  return value.number();
}

bool AdapterCall::flag(std::string_view name) const {
  const Value& value = required(*this, name);
  if (!value.is_bool()) wrong(*this, name, "true or false");
  return value.boolean();
}

const std::string& AdapterCall::text(std::string_view name) const {
  const Value& value = required(*this, name);
  if (!value.is_text()) wrong(*this, name, "a word");
  return value.text();
}

DType AdapterCall::dtype(std::string_view name) const {
  const std::optional<DType> found = parse_dtype(text(name));
  if (!found) wrong(*this, name, "a dtype");
  return *found;
}

bool AdapterCall::has(std::string_view name) const {
  return parameters.count(std::string(name)) > 0;
}

const Tensor& AdapterCall::input(const std::string& name) const {
  if (const Tensor* found = find_input(name)) return *found;
  throw Error(Code::kUsage, fmt::format("{}: input {} is not given", module,
                                        printable(name)));
}

const Tensor* AdapterCall::find_input(const std::string& name) const {
  const auto found = inputs.find(name);
  return found == inputs.end() ? nullptr : &found->second;
}

std::optional<te::Recipe> recipe_of(const AdapterCall& call) {
  const std::string& name = call.text("recipe");
  if (name == "none") return std::nullopt;
  if (name == "delayed") {
    te::recipe::DelayedScaling delayed;
    delayed.amax_history_len = 4;
    return delayed;
  }
  if (name == "current") return te::recipe::Float8CurrentScaling{};
  if (name == "block") return te::recipe::Float8BlockScaling{};
  if (name == "mxfp8") return te::recipe::MXFP8BlockScaling{};
  if (name == "nvfp4") {
    te::recipe::NVFP4BlockScaling nvfp4;
    nvfp4.disable_stochastic_rounding = true;
    return nvfp4;
  }
  wrong(call, "recipe", "none, delayed, current, block, mxfp8 or nvfp4");
}

}  // namespace assay::conform
