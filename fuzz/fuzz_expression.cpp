// Fuzzes the expressions of specs: whatever parses has a value or an Error, the
// same one again, and reads only parameters that it names.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "assay/base/error.h"
#include "assay/conform/expression.h"

namespace {

using assay::conform::Expression;
using assay::conform::List;
using assay::conform::Parameters;

std::string outcome(const Expression& expression,
                    const Parameters& parameters) {
  try {
    return to_json(expression.evaluate(parameters));
  } catch (const assay::Error& error) {
    return error.what();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const Parameters all = {{"a", 7},
                          {"b", -3},
                          {"c", 0.5},
                          {"d", true},
                          {"e", "mxfp8"},
                          {"f", List{1, 2.5, "x"}},
                          {"g", INT64_MIN}};
  try {
    const Expression expression = Expression::parse(text, "fuzz");
    Parameters named;
    for (const std::string& name : expression.names()) {
      const auto found = all.find(name);
      if (found != all.end()) named.insert(*found);
    }
    const std::string first = outcome(expression, all);
    if (first != outcome(expression, named)) std::abort();
    if (first.find('\n') != std::string::npos) std::abort();
  } catch (const assay::Error&) {
  }
  return 0;
}
