#include "assay/core/value_text.h"

#include <charconv>
#include <cmath>

#include "assay/base/text.h"

namespace assay {

std::string value_text(DType dtype, double value) {
  const auto narrow = static_cast<float>(value);
  const bool fits = is_float(component(dtype)) &&
                    traits(component(dtype)).bits <= 32 &&
                    static_cast<double>(narrow) == value;
  if (!fits || !std::isfinite(value)) return format_double(value);
  char buffer[32];
  const auto [end, error] =
      std::to_chars(buffer, buffer + sizeof buffer, narrow);
  return std::string(buffer, end);
}

}  // namespace assay
