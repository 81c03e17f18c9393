// Draws the inputs of a case.
#include <fmt/format.h>

#include <optional>

#include "assay/base/error.h"
#include "assay/base/hash.h"
#include "assay/base/text.h"
#include "assay/conform/cases.h"
#include "assay/conform/values.h"

namespace assay::conform {
namespace {

// More than any input of the real tier; a slip in a shape must not swap.
constexpr std::int64_t kMaxBytes = std::int64_t{4} << 30;

std::uint64_t key_of(const Spec& spec, const Case& c, const Input& input) {
  const Value text = List{static_cast<std::int64_t>(spec.seed),
                          static_cast<std::int64_t>(c.seed), input.name};
  return hash128(to_json(text)).low;
}

[[noreturn]] void fail(const std::string& where, const std::string& what) {
  throw Error(Code::kUsage, where + ": " + what);
}

std::string where_of(const Spec& spec, const Case& c, const Input& input) {
  return fmt::format("{}: {}: input {}", spec.path, c.id, input.name);
}

bool is_present(const Input& input, const Case& c) {
  return !input.when || input.when->holds(c.parameters);
}

DType dtype_of(const Input& input, const Case& c, const std::string& where) {
  const Value value = input.dtype.evaluate(c.parameters);
  const std::optional<DType> found =
      value.is_text() ? parse_dtype(value.text()) : std::nullopt;
  if (!found)
    fail(where, fmt::format("dtype {}, expected one such as 'bfloat16'",
                            printable(to_json(value))));
  return *found;
}

Shape shape_of(const Input& input, const Case& c, const std::string& where) {
  Shape shape;
  for (const Expression& expression : input.shape) {
    const Value size = expression.evaluate(c.parameters);
    if (!size.is_integer() || size.integer() < 0)
      fail(where,
           fmt::format("dimension {} is {}, expected a size",
                       printable(expression.text()), printable(to_json(size))));
    shape.push_back(size.integer());
  }
  return shape;
}

InputFacts facts_of(const Input& input, const Case& c,
                    const std::string& where) {
  InputFacts facts;
  facts.dtype = dtype_of(input, c, where);
  facts.shape = shape_of(input, c, where);
  const std::optional<std::int64_t> count = checked_numel(facts.shape);
  const std::optional<std::int64_t> bytes =
      count ? storage_bytes(facts.dtype, *count) : std::nullopt;
  if (!bytes || *bytes > kMaxBytes)
    fail(where, fmt::format("shape {} of {} is more than {}",
                            assay::to_string(facts.shape),
                            traits(facts.dtype).name, human_bytes(kMaxBytes)));
  facts.bytes = *bytes;
  return facts;
}

Tensor draw_input(const Spec& spec, const Case& c, const Input& input) {
  Draw draw;
  draw.where = where_of(spec, c, input);
  const InputFacts facts = facts_of(input, c, draw.where);
  draw.dtype = facts.dtype;
  draw.shape = facts.shape;
  const Value kind = input.values.kind.evaluate(c.parameters);
  const ValueKind* found =
      kind.is_text() ? find_value_kind(kind.text()) : nullptr;
  if (!found)
    draw.fail(fmt::format("no kind of values {}", printable(to_json(kind))));
  const bool fits = !found->floats || !is_exact(draw.dtype);
  // What must be refused for its dtype is refused whatever its values.
  if (!fits && !c.invalid)
    draw.fail(fmt::format("values '{}' need a float dtype, found {}",
                          found->name, traits(draw.dtype).name));
  for (const auto& [name, expression] : input.values.options)
    draw.options[name] = expression.evaluate(c.parameters);

  Tensor tensor = Tensor::zeros(draw.dtype, draw.shape);
  draw.numel = tensor.numel();
  draw.data = tensor.mutable_data();
  draw.key = key_of(spec, c, input);
  if (draw.numel > 0 && fits) found->draw(draw);
  return tensor;
}

}  // namespace

std::map<std::string, InputFacts> input_facts(const Spec& spec, const Case& c) {
  std::map<std::string, InputFacts> facts;
  for (const Input& input : spec.inputs)
    if (is_present(input, c))
      facts.emplace(input.name, facts_of(input, c, where_of(spec, c, input)));
  return facts;
}

TensorMap make_inputs(const Spec& spec, const Case& c) {
  TensorMap inputs;
  for (const Input& input : spec.inputs) {
    if (!is_present(input, c)) continue;
    inputs.emplace(input.name, draw_input(spec, c, input));
  }
  return inputs;
}

std::vector<std::string> strided_inputs(const Spec& spec, const Case& c) {
  std::vector<std::string> names;
  for (const Input& input : spec.inputs) {
    if (is_present(input, c) && input.strided &&
        input.strided->holds(c.parameters))
      names.push_back(input.name);
  }
  return names;
}

}  // namespace assay::conform
