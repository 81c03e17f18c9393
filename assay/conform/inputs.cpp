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

DType dtype_of(const Input& input, const Case& c, const Draw& draw) {
  const Value value = input.dtype.evaluate(c.parameters);
  const std::optional<DType> found =
      value.is_text() ? parse_dtype(value.text()) : std::nullopt;
  if (!found)
    draw.fail(fmt::format("dtype {}, expected one such as 'bfloat16'",
                          printable(to_json(value))));
  return *found;
}

Shape shape_of(const Input& input, const Case& c, const Draw& draw) {
  Shape shape;
  for (const Expression& expression : input.shape) {
    const Value size = expression.evaluate(c.parameters);
    if (!size.is_integer() || size.integer() < 0)
      draw.fail(fmt::format("dimension {} is {}, expected a size",
                            printable(expression.text()),
                            printable(to_json(size))));
    shape.push_back(size.integer());
  }
  return shape;
}

Tensor draw_input(const Spec& spec, const Case& c, const Input& input) {
  Draw draw;
  draw.where = fmt::format("{}: {}: input {}", spec.path, c.id, input.name);
  draw.dtype = dtype_of(input, c, draw);
  draw.shape = shape_of(input, c, draw);
  const std::optional<std::int64_t> count = checked_numel(draw.shape);
  const std::optional<std::int64_t> bytes =
      count ? storage_bytes(draw.dtype, *count) : std::nullopt;
  if (!bytes || *bytes > kMaxBytes)
    draw.fail(fmt::format("shape {} of {} is more than {}",
                          assay::to_string(draw.shape), traits(draw.dtype).name,
                          human_bytes(kMaxBytes)));
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
  draw.numel = *count;
  draw.data = tensor.mutable_data();
  draw.key = key_of(spec, c, input);
  if (draw.numel > 0 && fits) found->draw(draw);
  return tensor;
}

}  // namespace

TensorMap make_inputs(const Spec& spec, const Case& c) {
  TensorMap inputs;
  for (const Input& input : spec.inputs) {
    if (input.when && !input.when->holds(c.parameters)) continue;
    inputs.emplace(input.name, draw_input(spec, c, input));
  }
  return inputs;
}

std::vector<std::string> strided_inputs(const Spec& spec, const Case& c) {
  std::vector<std::string> names;
  for (const Input& input : spec.inputs) {
    const bool present = !input.when || input.when->holds(c.parameters);
    if (present && input.strided && input.strided->holds(c.parameters))
      names.push_back(input.name);
  }
  return names;
}

}  // namespace assay::conform
