#include "assay/precheck/random/arguments.h"

#include <charconv>

#include "assay/base/text.h"
#include "assay/numerics/element.h"

namespace assay::precheck {
namespace {

using conform::Value;
using Names = std::initializer_list<const char*>;

// The text of a value in the words of traces; nullopt for containers.
std::optional<std::string> text_of(const Value& value) {
  if (value.is_text()) return value.text();
  if (value.is_bool()) return value.boolean() ? "True" : "False";
  if (const Value* inner = value.find("value")) return text_of(*inner);
  return std::nullopt;
}

std::optional<double> number_of(const Value& value) {
  if (value.is_number()) return value.number();
  if (const Value* inner = value.find("value"))
    if (inner->is_number()) return inner->number();
  const std::optional<std::string> text = text_of(value);
  if (!text) return std::nullopt;
  if (*text == "True") return 1;
  if (*text == "False") return 0;
  double number = 0;
  const char* end = text->data() + text->size();
  const auto parsed = std::from_chars(text->data(), end, number);
  if (parsed.ec != std::errc() || parsed.ptr != end) return std::nullopt;
  return number;
}

bool is_none(const Value& value) {
  return value.is_null() || text_of(value) == "None";
}

// The elements of `tensor` as broadcasting repeats them; nullopt where the
// shapes do not go together.
std::optional<std::vector<double>> broadcast(const Tensor& tensor,
                                             const Shape& shape) {
  const Shape& from = tensor.shape();
  if (from.size() > shape.size()) return std::nullopt;
  const std::size_t skipped = shape.size() - from.size();
  Shape strides(shape.size(), 0);
  const Shape own = contiguous_strides(from);
  for (std::size_t i = 0; i < from.size(); ++i) {
    if (from[i] != 1 && from[i] != shape[skipped + i]) return std::nullopt;
    strides[skipped + i] = from[i] == 1 ? 0 : own[i];
  }
  const std::vector<double> values = elements(tensor);
  if (from == shape) return values;
  const std::int64_t count = checked_numel(shape).value_or(0);
  std::vector<double> out;
  out.reserve(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t rest = i, at = 0;
    for (std::size_t d = shape.size(); d-- > 0; rest /= shape[d])
      at += rest % shape[d] * strides[d];
    out.push_back(values[static_cast<std::size_t>(at)]);
  }
  return out;
}

// The operator's name as it is spelled: "uniform_".
std::string_view word_of(std::string_view api) {
  const std::vector<std::string_view> words = split(api, '.');
  const bool aten = words.size() > 1 && iequals(words[0], "aten");
  return aten ? words[1] : words.back();
}

}  // namespace

bool is_in_place(std::string_view api) { return word_of(api).ends_with('_'); }

std::string random_name(std::string_view api) {
  std::string_view name = word_of(api);
  while (name.starts_with('_')) name.remove_prefix(1);
  while (name.ends_with('_')) name.remove_suffix(1);
  return std::string(name);
}

const Value* RandomArguments::find(int place, Names names) const {
  if (!call_.arguments) return nullptr;
  const auto given = [&](const std::string& key) -> const Value* {
    const auto found = call_.arguments->find(key);
    if (found == call_.arguments->end() || is_none(found->second))
      return nullptr;
    return &found->second;
  };
  for (const char* name : names)
    if (const Value* value = given(name)) return value;
  return place < 0 ? nullptr : given(std::to_string(place));
}

std::optional<double> RandomArguments::number(
    int place, Names names, std::optional<double> absent) const {
  const Value* value = find(place, names);
  return value ? number_of(*value) : absent;
}

std::optional<bool> RandomArguments::flag(int place, Names names,
                                          std::optional<bool> absent) const {
  const Value* value = find(place, names);
  if (!value) return absent;
  const std::optional<double> number = number_of(*value);
  if (!number) return std::nullopt;
  return *number != 0;
}

const Tensor* RandomArguments::tensor(int place, Names names) const {
  const Value* value = find(place, names);
  const Value* name = value ? value->find("tensor") : nullptr;
  if (!name || !name->is_text() || !call_.inputs) return nullptr;
  const auto found = call_.inputs->find(name->text());
  return found == call_.inputs->end() ? nullptr : &found->second;
}

std::optional<Parameter> RandomArguments::parameter(
    int place, Names names, std::optional<double> absent,
    const Shape& shape) const {
  Parameter parameter;
  const Tensor* given = tensor(place, names);
  if (!given) {
    const std::optional<double> value = number(place, names, absent);
    if (!value) return std::nullopt;
    parameter.value = *value;
    return parameter;
  }
  if (is_complex(given->dtype())) return std::nullopt;
  if (given->numel() == 1) {
    parameter.value = elements(*given)[0];
    return parameter;
  }
  std::optional<std::vector<double>> each = broadcast(*given, shape);
  if (!each) return std::nullopt;
  parameter.each = std::move(*each);
  return parameter;
}

std::string RandomArguments::word(int place, Names names,
                                  std::string_view absent) const {
  const Value* value = find(place, names);
  return value ? text_of(*value).value_or("") : std::string(absent);
}

std::vector<double> elements(const Tensor& tensor) {
  const Tensor row_major = contiguous(tensor);
  const std::int64_t parts = is_complex(tensor.dtype()) ? 2 : 1;
  std::vector<double> values(static_cast<std::size_t>(tensor.numel() * parts));
  for (std::size_t i = 0; parts == 2 && i < values.size(); ++i)
    values[i] = load_as_double(tensor.dtype(), row_major.view.data,
                               static_cast<std::int64_t>(i));
  if (parts == 1)
    load_as_doubles(tensor.dtype(), row_major.view.data, 0, tensor.numel(),
                    values.data());
  return values;
}

}  // namespace assay::precheck
