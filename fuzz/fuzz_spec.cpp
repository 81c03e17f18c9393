// Fuzzes the reader of specs; what it lets through is evaluated for the first
// value of every parameter.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "assay/base/error.h"
#include "assay/conform/spec.h"

namespace {

using assay::conform::Expression;
using assay::conform::Parameters;
using assay::conform::Spec;

void evaluate(const Expression& expression, const Parameters& parameters) {
  try {
    expression.evaluate(parameters);
  } catch (const assay::Error&) {
  }
}

void evaluate_all(const Spec& spec) {
  Parameters first;
  for (const auto& parameter : spec.parameters) {
    if (parameter.small.empty() || parameter.real.empty()) std::abort();
    first[parameter.name] = parameter.small.front();
  }
  for (const Expression& constraint : spec.constraints)
    evaluate(constraint, first);
  for (const auto& input : spec.inputs) {
    for (const Expression& size : input.shape) evaluate(size, first);
    evaluate(input.dtype, first);
    evaluate(input.values.kind, first);
    for (const auto& [name, option] : input.values.options)
      evaluate(option, first);
    if (input.when) evaluate(*input.when, first);
    if (input.strided) evaluate(*input.strided, first);
  }
  if (spec.outputs.empty() || spec.standard.empty()) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  try {
    evaluate_all(assay::conform::parse_spec(text, "fuzz.yaml"));
  } catch (const assay::Error& error) {
    if (std::string(error.what()).find('\n') != std::string::npos) std::abort();
  }
  return 0;
}
